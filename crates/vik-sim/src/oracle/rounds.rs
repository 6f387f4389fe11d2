//! Checks the rounds of issues: what brings one back to a stage, and how often.

use std::collections::BTreeSet;

use vik_core::attempt::{AttemptResult, Start};
use vik_core::ids::StageName;
use vik_core::issue::ActivityKey;
use vik_core::machine::RunEvent;
use vik_core::workflow::{ResumePolicy, Stage};

use super::{Held, Oracle, ensure, number};
use crate::tracker::Item;

/// What an issue has that an agent may not know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Unknown {
    /// Whether there is a comment by a trusted author.
    comment: bool,
    /// Whether a check failed.
    check: bool,
}

fn has_rounds(stage: &Stage) -> bool {
    stage.resume == ResumePolicy::Issue || !stage.when.follow_up.is_empty()
}

impl Oracle {
    /// Returns what is unknown to the agents of a stage; `None` if none of them has read a prompt.
    fn unknown(&self, issue: usize, stage: &StageName, item: &Item) -> Option<Unknown> {
        let seen = self.books.seen.get(&(issue, stage.clone()))?;
        let parsed = item.parsed()?;
        let activity = parsed.activity();
        let is_trusted = |author: &str| {
            let trust = self.policy.trust.as_ref();
            trust.is_none_or(|trust| trust.authors.iter().any(|known| known == author))
        };
        let comments = item.comments.iter().zip(&activity.comments);
        let comment = comments.into_iter().any(|((_, author), comment)| {
            *author != crate::tracker::VIK && is_trusted(author) && !seen.contains(&comment.key)
        });
        let check = item.check.is_some_and(|(_, state)| state == "failed")
            && activity.checks.iter().all(|check| !seen.contains(&check.key));
        Some(Unknown { comment, check })
    }

    /// Returns whether a stage waits for comments and checks, and none is new.
    pub(super) fn has_nothing_new(&self, stage: &StageName, item: &Item) -> bool {
        let is_follow_up = self.policy.stage(stage).is_some_and(|stage| {
            let mut states = stage.when.follow_up.iter();
            states.any(|state| *state == item.state)
        });
        let unknown = self.unknown(item.issue, stage, item);
        is_follow_up && unknown.is_none_or(|unknown| unknown == Unknown::default())
    }

    /// Checks the start of the first attempt of a run: a round needs a reason, and is one of those
    /// that are left.
    pub(super) fn round_starts(&mut self, start: &Start) -> Held {
        let issue = number(&start.issue.id);
        let key = (issue, start.stage.name.clone());
        let is_first = self.last_facts(start.run).is_none();
        let Some(item) = self.known[issue].item.clone().filter(|_| is_first) else {
            return Ok(());
        };
        let unknown = self.unknown(issue, &start.stage.name, &item);
        // The reason can be gone when a person has approved or allowed the start.
        let waited = self.waited_for_people.contains(&start.run);
        let is_follow_up = start
            .stage
            .when
            .follow_up
            .iter()
            .any(|state| *state == item.state);
        ensure(
            !is_follow_up
                || waited
                || unknown
                    .as_ref()
                    .is_some_and(|unknown| *unknown != Unknown::default()),
            "a round needs a comment by a trusted author or a failed check that is new",
            || format!("issue {issue}, stage {}: {unknown:?}", start.stage.name),
        )?;
        if has_rounds(&start.stage) && self.books.seen.contains_key(&key) {
            let allowed = self.policy.issue.max_rounds;
            let life = &mut self.books.lives[issue];
            let allowed = allowed.saturating_add(life.extra_rounds);
            ensure(life.rounds < allowed, "5: rounds in the life of an issue", || {
                format!("issue {issue}: {} of {allowed} rounds", life.rounds)
            })?;
            life.rounds += 1;
        }
        Ok(())
    }

    /// Records what an agent has read.
    pub(super) fn activity_read(&mut self, start: &Start, report: &AttemptResult) {
        if report.has_read_prompt() {
            let key = (number(&start.issue.id), start.stage.name.clone());
            let seen: &mut BTreeSet<ActivityKey> = self.books.seen.entry(key).or_default();
            seen.extend(start.issue.activity().keys());
        }
    }

    /// Records runs that waited for a person before their first attempt.
    pub(super) fn waits_for_people(&mut self, event: &RunEvent) {
        if let RunEvent::Awaiting { run, .. } | RunEvent::Unparked { run, .. } = event {
            self.waited_for_people.insert(*run);
        }
    }

    /// Applies a snapshot: what is new lets stages with rounds start again, and so does a return from
    /// a state in which they wait for it.
    pub(super) fn activity_observed(&mut self, issue: usize, item: &Item) {
        let stages: Vec<_> = self
            .policy
            .issue
            .stages
            .iter()
            .filter(|stage| has_rounds(stage))
            .cloned()
            .collect();
        for stage in stages {
            let key = (issue, stage.name.clone());
            let waits_in = |state: &str| stage.when.follow_up.iter().any(|waits| waits == state);
            let before = self.known[issue].item.as_ref();
            let returns = before.is_some_and(|item| waits_in(item.state)) && !waits_in(item.state);
            let unknown = self.unknown(issue, &stage.name, item).unwrap_or_default();
            if let Some((_, may_change)) = self.last_run.get_mut(&key) {
                *may_change |= returns || (waits_in(item.state) && unknown != Unknown::default());
            }
            if let Some(parked) = self.books.parked.get_mut(&key) {
                parked.freed |= unknown.comment && parked.reason.is_freed_by_a_comment();
            }
        }
    }
}
