//! Frees parked stages.

use super::{IssueMachine, ParkReason, Run, RunEvent};
use crate::ids::StageName;
use crate::limits::LimitScope;
use crate::time::Now;
use crate::workflow::{IssuePolicy, Workflow};

impl IssueMachine {
    /// Frees the parked stages, or the given one of them. Allows at least this many more attempts;
    /// `None` for as many as a run of the stage has. Finished work is only handed over again, unless
    /// `agent` asks for another attempt; a hand-over that waits is tried at once.
    pub fn unpark(
        &mut self,
        stage: Option<&StageName>,
        attempts: Option<u32>,
        agent: bool,
        workflow: &Workflow,
        now: Now,
    ) -> Vec<RunEvent> {
        let policy = &workflow.issue;
        let mut events = Vec::new();
        let is_asked = |run: &&mut Run| stage.is_none_or(|stage| run.stage == *stage);
        let held = self.runs.iter_mut().filter(|run| run.can_be_retried());
        for run in held.filter(is_asked) {
            if run.renew_hand_over(agent, now) {
                events.push(run.release(now));
                continue;
            }
            let most = workflow.stage(&run.stage).map(|stage| stage.retry.max_attempts);
            let more = attempts.or(most).unwrap_or(1).max(1);
            let wanted = run.attempts.saturating_add(more);
            let extra = wanted.saturating_sub(most.unwrap_or(1));
            run.extra_attempts = run.extra_attempts.max(extra);
            let wanted = self.life.attempts.saturating_add(more);
            let extra = wanted.saturating_sub(policy.max_attempts);
            self.life.extra_attempts = self.life.extra_attempts.max(extra);
            if self.life.rounds_used_up(policy).is_some() {
                self.life.extra_rounds = self.life.rounds;
            }
            events.push(run.release(now));
        }
        if !events.is_empty() {
            self.lost_in_a_row = 0;
            self.workers_lost_in_a_row = 0;
            if self
                .life
                .limit(policy)
                .reached(LimitScope::Issue, self.life.spend)
                .is_some()
            {
                self.life.forgiven = self.life.spend;
            }
        }
        events
    }

    /// Frees the stages that were parked by limits of the issue which have been raised.
    pub fn free_raised(&mut self, policy: &IssuePolicy, now: Now) -> Vec<RunEvent> {
        if self.life.used_up(policy).is_some() {
            return Vec::new();
        }
        let is_over = self.life.rounds_used_up(policy).is_some();
        // Without an attempt in this run, the limit on rounds may be the reason.
        let by_limit = |run: &&mut Run| {
            run.park_reason() == Some(ParkReason::IssueLimit) && !(is_over && run.last.is_none())
        };
        let parked = self.runs.iter_mut().filter(by_limit);
        parked.map(|run| run.release(now)).collect()
    }
}
