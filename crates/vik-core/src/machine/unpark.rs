//! Frees parked stages.

use super::{IssueMachine, ParkReason, Run, RunEvent};
use crate::ids::StageName;
use crate::limits::LimitScope;
use crate::time::Now;
use crate::workflow::{IssuePolicy, Workflow};

impl IssueMachine {
    /// Frees the parked stages, or the given one of them. Allows at least this many more attempts;
    /// `None` for as many as a run of the stage has.
    pub fn unpark(
        &mut self,
        stage: Option<&StageName>,
        attempts: Option<u32>,
        workflow: &Workflow,
        now: Now,
    ) -> Vec<RunEvent> {
        let policy = &workflow.issue;
        let mut events = Vec::new();
        let is_asked = |run: &&mut Run| stage.is_none_or(|stage| run.stage == *stage);
        let parked = self.runs.iter_mut().filter(|run| run.park_reason().is_some());
        for run in parked.filter(is_asked) {
            let most = workflow.stage(&run.stage).map(|stage| stage.retry.max_attempts);
            let more = attempts.or(most).unwrap_or(1).max(1);
            let wanted = run.attempts.saturating_add(more);
            let extra = wanted.saturating_sub(most.unwrap_or(1));
            run.extra_attempts = run.extra_attempts.max(extra);
            let wanted = self.life.attempts.saturating_add(more);
            let extra = wanted.saturating_sub(policy.max_attempts);
            self.life.extra_attempts = self.life.extra_attempts.max(extra);
            events.push(run.release(now));
        }
        if !events.is_empty() {
            self.lost_in_a_row = 0;
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
        let by_limit = |run: &&mut Run| run.park_reason() == Some(ParkReason::IssueLimit);
        if self.life.used_up(policy).is_some() {
            return Vec::new();
        }
        let parked = self.runs.iter_mut().filter(by_limit);
        parked.map(|run| run.release(now)).collect()
    }
}
