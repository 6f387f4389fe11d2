//! Checks what parks a run, and what frees it.

use vik_core::ids::{RunId, StageName};
use vik_core::limits::LimitScope;
use vik_core::machine::{ParkReason, RunEvent};
use vik_core::scheduler::RetryRequest;

use super::{Held, Oracle, ensure, number};

impl Oracle {
    /// Checks that a parked run does nothing before it is freed.
    pub(super) fn parks(&mut self, event: &RunEvent) -> Held {
        let (run, stage) = event.about();
        match event {
            RunEvent::Parked { reason, .. } => {
                self.parked_runs.insert(run);
                if *reason == ParkReason::Hook {
                    self.parks_for_hook(run, stage)?;
                }
            }
            RunEvent::Freed { .. }
            | RunEvent::Unparked { .. }
            | RunEvent::Ended { .. }
            | RunEvent::Closed { .. } => {
                self.parked_runs.remove(&run);
            }
            RunEvent::BackingOff { .. }
            | RunEvent::Continues { .. }
            | RunEvent::HandOverFailed { .. }
            | RunEvent::HandedOver { .. }
            | RunEvent::Awaiting { .. }
            | RunEvent::Asked { .. }
            | RunEvent::QuestionAnswered { .. }
            | RunEvent::Answered { .. } => {
                ensure(
                    !self.parked_runs.contains(&run),
                    "parked stages stay parked",
                    || format!("run {run} of stage {stage}: {event:?}"),
                )?;
            }
        }
        Ok(())
    }

    /// Checks that a failed `before_run` was tried again until the attempts were used up.
    fn parks_for_hook(&self, run: RunId, stage: &StageName) -> Held {
        let report = self.last_facts(run).and_then(|facts| facts.report.as_ref());
        let is_retried = report.is_some_and(|report| report.before_run.is_some());
        let (counted, extra) = self.books.runs.get(&run).copied().unwrap_or_default();
        let most = self.policy.stage(stage).map(|stage| stage.retry.max_attempts);
        ensure(
            !is_retried || most.is_none_or(|most| counted >= most.saturating_add(extra)),
            "a failed `before_run` parks the stage only after its attempts",
            || format!("run {run} of stage {stage} is parked after {counted} attempts"),
        )
    }

    pub(super) fn may_change(&mut self, issue: usize) {
        for ((of, _), (_, may_change)) in &mut self.last_run {
            *may_change |= *of == issue;
        }
    }

    /// Checks that an unpark allows the requested number of attempts.
    pub(super) fn unparks(&mut self, request: &RetryRequest) {
        let issue = number(&request.issue);
        self.may_change(issue);
        let policy = &self.policy;
        let life = &mut self.books.lives[issue];
        let (mut any, mut any_agent) = (false, false);
        let freed = |(of, stage): &(usize, StageName)| {
            *of == issue && request.stage.as_ref().is_none_or(|only| only == stage)
        };
        let parked = self.books.parked.iter().filter(|(key, _)| freed(key));
        let parked: Vec<_> = parked
            .map(|((_, stage), parked)| (stage.clone(), parked.run))
            .collect();
        let is_parked = |run: &RunId| parked.iter().any(|(_, parked)| parked == run);
        let waiting = self.books.hand_overs.iter().filter(|(run, waiting)| {
            waiting.waits && !is_parked(run) && freed(&(waiting.issue, waiting.stage.clone()))
        });
        let waiting: Vec<_> = waiting
            .map(|(run, waiting)| (waiting.stage.clone(), *run))
            .collect();
        for (stage, run) in parked.iter().chain(&waiting) {
            any = true;
            // Handing over again needs no attempt.
            if !request.agent && self.books.hand_overs.contains_key(run) {
                continue;
            }
            any_agent = true;
            let most = policy.stage(stage).map(|stage| stage.retry.max_attempts);
            let more = request.attempts.or(most).unwrap_or(1).max(1);
            let (counted, extra) = self.books.runs.entry(*run).or_default();
            *extra = (*extra).max((*counted + more).saturating_sub(most.unwrap_or(1)));
            life.extra = life
                .extra
                .max((life.attempts + more).saturating_sub(policy.issue.max_attempts));
        }
        if any {
            self.books.workers_lost.remove(&issue);
        }
        let limit = policy.issue.limit.above(life.forgiven);
        if any_agent && life.rounds >= policy.issue.max_rounds.saturating_add(life.extra_rounds) {
            life.extra_rounds = life.rounds;
        }
        if any && limit.reached(LimitScope::Issue, life.spend).is_some() {
            life.forgiven = life.spend;
        }
    }
}
