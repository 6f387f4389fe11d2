//! Repeats the hand-over of finished work.

use std::sync::Arc;

use super::{Effect, Hold, Scheduler};
use crate::attempt::HandOverFailure;
use crate::decision_kind::DecisionKind;
use crate::ids::{AttemptId, IssueId};
use crate::machine::{IssueMachine, ParkReason, Phase, PullNo, Run};
use crate::time::Now;
use crate::workflow::{Stage, Workflow};

impl Scheduler {
    /// Starts the tries that are due.
    pub(super) fn start_due_hand_overs(&mut self, now: Now) {
        if !self.has_pulled {
            return;
        }
        let waits = self.runs().filter(|(_, run)| run.is_handing_over());
        let mut issues: Vec<_> = waits.map(|(issue, _)| issue.clone()).collect();
        issues.sort();
        issues.dedup();
        let workflow = Arc::clone(&self.workflow);
        for id in issues {
            while let Some(stage) = self.due_hand_over(&id, &workflow, now) {
                if !self.start_hand_over(&id, stage, now) {
                    break;
                }
            }
        }
    }

    fn due_hand_over<'w>(&self, id: &IssueId, workflow: &'w Workflow, now: Now) -> Option<&'w Stage> {
        let machine = self.machines.get(id)?;
        let stage = machine.due_hand_over(workflow, now)?;
        (self.filter.allows(id, &stage.name) && self.try_hold(machine).is_none()).then_some(stage)
    }

    /// Returns the hold of a stage whose work is handed over, or will be.
    pub(super) fn hand_over_hold(&self, machine: &IssueMachine, stage: &Stage, now: Now) -> Option<Hold> {
        let run = machine.run(&stage.name)?;
        let hand_over = run.hand_over.as_ref().filter(|_| run.is_handing_over())?;
        let until = match run.phase {
            Phase::BackingOff { until, .. } => Some(until),
            _ => None,
        };
        let is_due = until.is_some_and(|until| until <= now.mono);
        let held = is_due.then(|| self.try_hold(machine)).flatten();
        Some(held.unwrap_or_else(|| Hold::HandOver {
            until: until.map(|until| now.wall_at(until)),
            tries: hand_over.tries,
            max_tries: stage.hand_over.max_tries,
            failure: hand_over.failure.to_string(),
        }))
    }

    /// Returns the hold on tries that are due. They cost nothing, so neither slots nor limits hold
    /// them.
    fn try_hold(&self, machine: &IssueMachine) -> Option<Hold> {
        let id = &machine.issue().id;
        if self.draining {
            Some(Hold::Draining)
        } else if let Some(hold) = super::dispatch::taken_over(machine) {
            Some(hold)
        } else if self.paused || machine.is_paused() {
            Some(Hold::Paused { all: self.paused })
        } else if self.workspaces.is_removing_of(id) {
            Some(Hold::Removing)
        } else {
            self.lookups.is_starting(id).then_some(Hold::LookupPending)
        }
    }

    fn start_hand_over(&mut self, id: &IssueId, stage: &Stage, now: Now) -> bool {
        let Some(machine) = self.machines.get_mut(id) else {
            return false;
        };
        let Some((start, tries)) = machine.start_hand_over(stage, now) else {
            // Interrupted tries have used up their number.
            let (run, state) = (self.ids.run(now), stage.when.first_state());
            let event = machine.park((&stage.name, state), run, ParkReason::HandOver, None, now);
            self.changed.insert(id.clone());
            self.record_event(id, event, now);
            return true;
        };
        self.changed.insert(id.clone());
        let detail = format!("try {tries} of {}", stage.hand_over.max_tries);
        self.decide(now, DecisionKind::HandingOver, &start, detail);
        self.effects.push(Effect::HandOver(Box::new(start)));
        true
    }

    pub(super) fn on_hand_over_ended(
        &mut self,
        issue: &IssueId,
        attempt_id: AttemptId,
        result: Result<(), HandOverFailure>,
        now: Now,
    ) {
        let after = PullNo(self.pulls_started.0 + 1);
        let Some(machine) = self.machines.get_mut(issue) else {
            return;
        };
        let Some(observed) = machine.on_hand_over_ended(attempt_id, result, after, now) else {
            return;
        };
        self.record(issue, observed, now);
        self.effects.push(Effect::Pull);
        self.reconcile(issue, now);
    }

    /// Cancels the tries of an issue that are running. Returns their number.
    pub(super) fn cancel_hand_overs(&mut self, issue: &IssueId) -> usize {
        let machine = self.machines.get_mut(issue);
        let attempts = machine.map(IssueMachine::cancel_hand_overs).unwrap_or_default();
        let count = attempts.len();
        self.effects
            .extend(attempts.into_iter().map(|attempt_id| Effect::Stop {
                attempt_id,
                why: crate::attempt::StopReason::Cancelled,
            }));
        count
    }

    /// Returns whether a try of any hand-over is running.
    pub(super) fn has_hand_over_running(&self) -> bool {
        self.runs().any(|(_, run): (_, &Run)| run.has_hand_over_running())
    }
}
