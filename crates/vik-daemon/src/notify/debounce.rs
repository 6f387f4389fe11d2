//! Collects facts for a short time, so that they are sent together.
//!
//! Pure: the caller passes the time. The time starts with the first fact, and later facts do not
//! extend it, so that a steady stream is sent too.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fact::Fact;

/// The maximum number of facts in one notification; further facts are only counted.
pub(super) const LISTED: usize = 100;

/// The facts that wait to be sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Debounce {
    facts: Vec<Fact>,
    more: u64,
    lost: u64,
    /// When the first fact arrived, on the clock of this process.
    #[serde(skip)]
    since: Option<Duration>,
}

/// Facts that are sent together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Batch {
    pub(super) facts: Vec<Fact>,
    /// The number of further facts.
    pub(super) more: u64,
    /// The number of lost facts.
    pub(super) lost: u64,
}

impl Debounce {
    /// Adds a fact. It replaces an older fact about the same stage of an issue.
    pub(super) fn push(&mut self, mut fact: Fact, now: Duration) {
        self.since.get_or_insert(now);
        if let Some(old) = self.facts.iter_mut().find(|old| fact.replaces(old)) {
            let older = old.events.iter().filter(|event| !fact.events.contains(event));
            let older: Vec<_> = older.copied().collect();
            fact.events.extend(older);
            *old = fact;
        } else if self.facts.len() < LISTED {
            self.facts.push(fact);
        } else {
            self.more += 1;
        }
    }

    /// Records facts that could not be delivered. The next notification reports them; a
    /// notification of its own would fail in the same way.
    pub(super) fn miss(&mut self, count: u64) {
        self.lost += count;
    }

    /// Records lost facts. The next notification reports them, or one of its own.
    pub(super) fn lose(&mut self, count: u64, now: Duration) {
        if count > 0 {
            self.lost += count;
            self.since.get_or_insert(now);
        }
    }

    /// Restarts the time of the remaining facts after a restart of the daemon.
    pub(super) fn wake(&mut self, now: Duration) {
        if !self.facts.is_empty() {
            self.since.get_or_insert(now);
        }
    }

    /// Returns when the facts are due.
    pub(super) fn due(&self, window: Duration) -> Option<Duration> {
        Some(self.since?.saturating_add(window))
    }

    /// Takes the facts if they are due.
    pub(super) fn take(&mut self, window: Duration, now: Duration) -> Option<Batch> {
        self.due(window).filter(|due| *due <= now)?;
        let Self {
            facts, more, lost, ..
        } = std::mem::take(self);
        Some(Batch { facts, more, lost })
    }

    /// Returns the number of facts.
    pub(super) fn len(&self) -> usize {
        self.facts.len() + usize::try_from(self.more).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vik_core::workflow::NotifyEvent;

    use super::super::fact::About;
    use super::*;

    fn fact(issue: u32, reason: &str) -> Fact {
        Fact {
            about: Some(About {
                issue: issue.to_string().as_str().into(),
                title: String::new(),
                stage: "work".into(),
                run: String::new(),
            }),
            events: vec![NotifyEvent::Parked],
            ..Fact::trouble(jiff::Timestamp::UNIX_EPOCH, reason, "")
        }
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn newer_fact_replaces_an_older_one_about_the_same_issue() {
        let mut debounce = Debounce::default();
        debounce.push(fact(1, "lost"), secs(0));
        debounce.push(fact(2, "lost"), secs(1));
        debounce.push(
            Fact {
                events: vec![NotifyEvent::Failed],
                ..fact(1, "auth")
            },
            secs(2),
        );
        assert_eq!(debounce.take(secs(30), secs(29)), None);
        let batch = debounce.take(secs(30), secs(30)).unwrap();
        let reasons: Vec<_> = batch.facts.iter().map(|fact| &*fact.reason).collect();
        assert_eq!(reasons, ["auth", "lost"]);
        assert_eq!(batch.facts[0].events, [NotifyEvent::Failed, NotifyEvent::Parked]);
        assert_eq!(debounce, Debounce::default());
    }

    #[test]
    fn zero_window_sends_facts_immediately() {
        let mut debounce = Debounce::default();
        debounce.push(fact(1, "lost"), secs(5));
        assert!(debounce.take(Duration::ZERO, secs(5)).is_some());
        assert!(debounce.take(Duration::ZERO, secs(5)).is_none());
    }

    #[test]
    fn lost_count_alone_makes_a_notification() {
        let mut debounce = Debounce::default();
        debounce.lose(0, secs(0));
        assert_eq!(debounce.due(secs(1)), None);
        debounce.lose(3, secs(0));
        assert_eq!(debounce.take(secs(1), secs(1)).unwrap().lost, 3);
    }

    proptest! {
        /// Each fact is sent once and within the time, and no two notifications are sent within it.
        #[test]
        fn facts_are_sent_once_and_within_the_window(
            steps in prop::collection::vec((0u64..20, 0u32..300), 0..400),
            window in 1u64..60,
        ) {
            let window = secs(window);
            let (mut debounce, mut now, mut pushed) = (Debounce::default(), secs(0), Vec::new());
            let (mut batches, mut last, mut sum) = (0_u64, None, 0_u64);
            let mut waiting: Vec<(u32, Duration)> = Vec::new();
            for (wait, issue) in steps {
                // The dispatcher wakes when something is due.
                let next = now + secs(wait);
                while let Some(due) = debounce.due(window).filter(|due| *due <= next) {
                    let batch = debounce.take(window, due).unwrap();
                    prop_assert!(batch.facts.len() <= LISTED);
                    let count = batch.facts.len() as u64 + batch.more;
                    let mut distinct: Vec<_> = waiting.iter().map(|(issue, _)| *issue).collect();
                    distinct.sort_unstable();
                    distinct.dedup();
                    prop_assert!(count >= distinct.len() as u64);
                    prop_assert!(waiting.iter().all(|(_, since)| due - *since <= window));
                    prop_assert!(last.is_none_or(|last: Duration| due >= last + window));
                    sum += waiting.len() as u64;
                    waiting.clear();
                    batches += 1;
                    last = Some(due);
                }
                now = next;
                debounce.push(fact(issue, "lost"), now);
                waiting.push((issue, now));
                pushed.push(issue);
            }
            if let Some(due) = debounce.due(window) {
                prop_assert!(debounce.take(window, due).is_some());
                sum += waiting.len() as u64;
                batches += 1;
            }
            prop_assert_eq!(sum, pushed.len() as u64);
            prop_assert!(batches <= sum);
            prop_assert_eq!(debounce.len(), 0);
        }
    }
}
