//! Whether the scheduler has work left.

use std::time::Duration;

use super::Scheduler;
use crate::ids::IssueId;
use crate::machine::{IssueMachine, Phase, PullNo, Run};
use crate::time::{Mono, Now};

/// What the scheduler needs in order to proceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiescence {
    Running,
    /// An attempt ended, or no pull has succeeded yet: a pull is needed.
    NeedsPull,
    /// The next attempt starts at this time.
    At(Mono),
    /// Nothing starts without intervention.
    Idle,
}

impl Scheduler {
    /// Returns what the scheduler waits for. Back-offs of issues that no pull returns do not count.
    pub fn quiescence(&self, now: Now) -> Quiescence {
        if self.spending.running().next().is_some()
            || !self.lookups.is_empty()
            || self.workspaces.is_removing()
            || self.has_hand_over_running()
        {
            return Quiescence::Running;
        }
        let settles = |(id, run): (&IssueId, &Run)| match run.phase {
            Phase::Settling { .. } => true,
            _ => run.is_unseen() && self.machines[id].is_present(),
        };
        if self.pulls_started == PullNo::default() || self.runs().any(settles) {
            return Quiescence::NeedsPull;
        }
        if self.draining || self.paused {
            return Quiescence::Idle;
        }
        let ordered = || self.order.iter().filter_map(|id| self.machines.get(id));
        let slots = self.slots();
        // Nothing runs, so a stage without a worker waits for an announcement.
        let is_startable = |machine: &IssueMachine| {
            let stage = self.due(machine, now);
            stage.is_some_and(|stage| self.place(machine, stage, &slots).is_ok())
        };
        if ordered().any(is_startable) {
            return match (self.day_hold(now), &self.pressure) {
                (Some((_, turn)), _) => Quiescence::At(now.mono_at(turn)),
                // Pressure ends by itself.
                (None, Some(_)) => Quiescence::NeedsPull,
                (None, None) => Quiescence::At(now.mono),
            };
        }
        if self.lookups.has_retryable_failure() {
            return Quiescence::NeedsPull;
        }
        let backoffs = ordered()
            .filter(|machine| !machine.is_unproven() && self.issue_start_hold(machine).is_none())
            .flat_map(|machine| machine.runs().iter().map(move |run| (machine, run)))
            .filter(|(machine, run)| self.filter.allows(&machine.issue().id, &run.stage))
            .filter_map(|(_, run)| match run.phase {
                Phase::BackingOff { until, .. } if until > now.mono => Some(until),
                // The time limit may have passed since the last input: the default answer is due.
                Phase::Awaiting { until, .. } => Some(until),
                Phase::Asking { until, .. } => until,
                _ => None,
            });
        backoffs.min().map_or(Quiescence::Idle, Quiescence::At)
    }

    /// Returns the time until a decision is due without new input.
    pub fn next_wakeup(&self, now: Now) -> Option<Duration> {
        self.wake.map(|wake| now.mono.until(wake))
    }

    pub(super) fn set_wake(&mut self, now: Now) {
        let is_taken_over = |id: &IssueId| self.machines[id].taken_over().is_some();
        let runs = self.runs().filter_map(|(id, run)| match run.phase {
            Phase::BackingOff { until, .. } => Some(until).filter(|then| *then > now.mono),
            // What expired while no daemon ran still needs its default answer.
            Phase::Awaiting { until, .. } if !is_taken_over(id) => Some(until),
            Phase::Asking { until, .. } if !is_taken_over(id) => until,
            _ => None,
        });
        let grace = self.workflow.issue.terminal_grace.0;
        let graces = self.done_since.values().map(|since| since.plus(grace));
        let day = self.day_hold(now).map(|(_, turn)| now.mono_at(turn));
        self.wake = graces
            .chain(self.lookups.deadlines())
            .chain(self.ended_turns.deadlines())
            .chain(day)
            .filter(|then| *then > now.mono)
            .chain(runs)
            .min();
    }
}
