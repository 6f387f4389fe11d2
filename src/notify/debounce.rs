//! Gathers what happens within a short time, so that it is told together.
//!
//! Pure: whoever asks says what time it is. The time begins with the first fact and is not drawn out by later ones, so
//! that a steady stream is told too.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fact::Fact;

/// So many facts are listed in one notification; more are counted.
pub(super) const LISTED: usize = 100;

/// Facts that wait to be told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Debounce {
    facts: Vec<Fact>,
    more: u64,
    lost: u64,
    /// When the first of them came, on the clock of this process.
    #[serde(skip)]
    since: Option<Duration>,
}

/// Facts that are told together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Batch {
    pub(super) facts: Vec<Fact>,
    /// How many came beside those.
    pub(super) more: u64,
    /// How many are lost.
    pub(super) lost: u64,
}

impl Debounce {
    /// A fact came. A newer one about the same stage of an issue takes the place of the older one.
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

    /// So many facts could not be delivered. That is told with the next one: by itself it would find no way either.
    pub(super) fn miss(&mut self, count: u64) {
        self.lost += count;
    }

    /// So many facts are lost. That is told with the next one, or by itself.
    pub(super) fn lose(&mut self, count: u64, now: Duration) {
        if count > 0 {
            self.lost += count;
            self.since.get_or_insert(now);
        }
    }

    /// After a restart: what is left over begins to wait anew.
    pub(super) fn wake(&mut self, now: Duration) {
        if !self.facts.is_empty() {
            self.since.get_or_insert(now);
        }
    }

    /// When what is here is to be told.
    pub(super) fn due(&self, window: Duration) -> Option<Duration> {
        Some(self.since?.saturating_add(window))
    }

    /// What is to be told by now.
    pub(super) fn take(&mut self, window: Duration, now: Duration) -> Option<Batch> {
        self.due(window).filter(|due| *due <= now)?;
        let Self {
            facts, more, lost, ..
        } = std::mem::take(self);
        Some(Batch { facts, more, lost })
    }

    /// How many facts are here.
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
    fn a_newer_fact_about_the_same_takes_the_place_of_the_older_one() {
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
        let told: Vec<_> = batch.facts.iter().map(|fact| &*fact.reason).collect();
        assert_eq!(told, ["auth", "lost"]);
        assert_eq!(batch.facts[0].events, [NotifyEvent::Failed, NotifyEvent::Parked]);
        assert_eq!(debounce, Debounce::default());
    }

    #[test]
    fn without_a_time_each_is_told_at_once() {
        let mut debounce = Debounce::default();
        debounce.push(fact(1, "lost"), secs(5));
        assert!(debounce.take(Duration::ZERO, secs(5)).is_some());
        assert!(debounce.take(Duration::ZERO, secs(5)).is_none());
    }

    #[test]
    fn what_is_lost_is_told_by_itself() {
        let mut debounce = Debounce::default();
        debounce.lose(0, secs(0));
        assert_eq!(debounce.due(secs(1)), None);
        debounce.lose(3, secs(0));
        assert_eq!(debounce.take(secs(1), secs(1)).unwrap().lost, 3);
    }

    proptest! {
        /// Nothing is lost or told twice, nothing waits longer than the time, and no two notifications come within it.
        #[test]
        fn each_fact_is_told_once_and_in_time(
            steps in prop::collection::vec((0u64..20, 0u32..300), 0..400),
            window in 1u64..60,
        ) {
            let window = secs(window);
            let (mut debounce, mut now, mut came) = (Debounce::default(), secs(0), Vec::new());
            let (mut told, mut last, mut sum) = (0_u64, None, 0_u64);
            let mut waiting: Vec<(u32, Duration)> = Vec::new();
            for (wait, issue) in steps {
                // Whoever drives it wakes when something is due.
                let next = now + secs(wait);
                while let Some(due) = debounce.due(window).filter(|due| *due <= next) {
                    let batch = debounce.take(window, due).unwrap();
                    prop_assert!(batch.facts.len() <= LISTED);
                    let many = batch.facts.len() as u64 + batch.more;
                    let mut distinct: Vec<_> = waiting.iter().map(|(issue, _)| *issue).collect();
                    distinct.sort_unstable();
                    distinct.dedup();
                    prop_assert!(many >= distinct.len() as u64);
                    prop_assert!(waiting.iter().all(|(_, since)| due - *since <= window));
                    prop_assert!(last.is_none_or(|last: Duration| due >= last + window));
                    sum += waiting.len() as u64;
                    waiting.clear();
                    told += 1;
                    last = Some(due);
                }
                now = next;
                debounce.push(fact(issue, "lost"), now);
                waiting.push((issue, now));
                came.push(issue);
            }
            if let Some(due) = debounce.due(window) {
                prop_assert!(debounce.take(window, due).is_some());
                sum += waiting.len() as u64;
                told += 1;
            }
            prop_assert_eq!(sum, came.len() as u64);
            prop_assert!(told <= sum);
            prop_assert_eq!(debounce.len(), 0);
        }
    }
}
