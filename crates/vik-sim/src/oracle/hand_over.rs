//! Checks that finished work is handed over without another attempt, and not twice at once.

use vik_core::attempt::{AttemptResult, HandOverFailure, Start};
use vik_core::ids::{AttemptId, RunId};
use vik_core::machine::RunEvent;
use vik_core::outcome::Outcome;
use vik_core::time::Now;

use super::books::Unfinished;
use super::{Held, Oracle, ensure, number};

const ONE_TRY: &str = "a hand-over has one try at a time, with the workspace for itself";

impl Oracle {
    /// Records what an attempt left to hand over.
    pub(super) fn leaves_work(&mut self, run: RunId, attempt_id: AttemptId, report: &AttemptResult) {
        self.books.hand_overs.remove(&run);
        let facts = self.facts.get(&attempt_id);
        if report.outcome != Outcome::Succeeded || report.hand_over_failure.is_none() {
            return;
        }
        if let Some(facts) = facts {
            self.books.hand_overs.insert(run, Unfinished::of(&facts.start));
        }
    }

    /// Checks that an agent does no work that is done.
    pub(super) fn is_not_done(&self, start: &Start) -> Held {
        let done = self.books.hand_overs.get(&start.run);
        ensure(
            done.is_none(),
            "no agent runs for work that is done and only has to be handed over",
            || format!("{} starts, but {done:?}", start.attempt_id),
        )?;
        let issue = number(&start.issue.id);
        let mut beside = self.books.hand_overs.values().filter(|other| {
            other.issue == issue && other.is_running && !(other.parallel || start.stage.parallel)
        });
        ensure(beside.next().is_none(), ONE_TRY, || {
            format!("{} starts beside a try", start.attempt_id)
        })
    }

    /// Checks that a try may begin.
    pub(super) fn hands_over(&mut self, start: &Start, now: Now) -> Held {
        let issue = number(&start.issue.id);
        let about = || format!("issue {issue}, stage {}", start.stage.name);
        self.no_person_holds(issue, start)?;
        let mut active = self.books.active.values();
        let mut tries = self.books.hand_overs.iter();
        let beside = |parallel| !(parallel || start.stage.parallel);
        let is_busy = active.any(|active| active.issue == issue && beside(active.parallel))
            || tries.any(|(run, other)| {
                *run != start.run && other.issue == issue && other.is_running && beside(other.parallel)
            });
        ensure(!is_busy, ONE_TRY, about)?;
        let known = &self.known[issue];
        let state = known.item.as_ref().map(|item| item.state);
        let stage = self.policy.stage(&start.stage.name);
        ensure(
            stage.is_some_and(|stage| {
                state.is_some_and(|state| stage.when.has_state(state))
                    && stage.after_run == start.stage.after_run
            }),
            "work is handed over in the state of its stage, by the present workflow",
            about,
        )?;
        let key = (issue, start.stage.name.clone());
        let seen = self.ended.get(&key).is_none_or(|(at, _)| known.at > *at);
        ensure(
            seen,
            "an issue is pulled again after a try before the next one begins",
            about,
        )?;
        let early = self.due.get(&start.run).is_some_and(|due| now.mono < *due);
        ensure(!early, "a try waits for its back-off", about)?;
        let max_tries = stage.map_or(0, |stage| stage.hand_over.max_tries);
        let Some(unfinished) = self.books.hand_overs.get_mut(&start.run) else {
            return ensure(false, "only unfinished work is handed over", about);
        };
        ensure(
            unfinished.attempt_id == start.attempt_id && !unfinished.is_running,
            ONE_TRY,
            about,
        )?;
        unfinished.tries += 1;
        unfinished.is_running = true;
        ensure(
            unfinished.tries <= max_tries,
            "a hand-over is tried as often as the workflow allows",
            || format!("{unfinished:?}, but {max_tries} are allowed"),
        )
    }

    /// Checks a try that is carried out.
    pub(super) fn starts_try(&mut self, start: &Start) -> Held {
        let unfinished = self.books.hand_overs.get_mut(&start.run);
        let starts =
            unfinished.is_some_and(|unfinished| !std::mem::replace(&mut unfinished.has_started, true));
        ensure(starts, ONE_TRY, || {
            format!("the hand-over of {}", start.attempt_id)
        })
    }

    /// Records the end of a try.
    pub(super) fn try_ended(
        &mut self,
        attempt_id: AttemptId,
        result: &Result<(), HandOverFailure>,
        now: Now,
    ) {
        let mut all = self.books.hand_overs.iter_mut();
        let Some((run, unfinished)) = all.find(|(_, one)| one.attempt_id == attempt_id && one.is_running)
        else {
            return;
        };
        unfinished.is_running = false;
        unfinished.has_started = false;
        let (run, issue) = (*run, unfinished.issue);
        if let Some(facts) = self.facts.get(&attempt_id) {
            let key = (issue, facts.start.stage.name.clone());
            self.ended.insert(key, (self.seq, now.mono));
        }
        if result.is_ok() {
            self.books.hand_overs.remove(&run);
        }
    }

    /// Applies what a run event means for its hand-over.
    pub(super) fn hand_over_event(&mut self, event: &RunEvent) {
        let (run, _) = event.about();
        match event {
            RunEvent::Ended { .. }
            | RunEvent::Closed { .. }
            | RunEvent::Freed { .. }
            | RunEvent::Unparked {
                hands_over: false, ..
            } => drop(self.books.hand_overs.remove(&run)),
            RunEvent::Unparked { hands_over: true, .. } => {
                if let Some(unfinished) = self.books.hand_overs.get_mut(&run) {
                    unfinished.tries = 0;
                }
            }
            _ => {}
        }
    }

    /// Returns whether a try uses the workspace of an issue.
    pub(super) fn is_handing_over(&self, issue: usize) -> bool {
        let mut all = self.books.hand_overs.values();
        all.any(|unfinished| unfinished.issue == issue && unfinished.is_running)
    }
}
