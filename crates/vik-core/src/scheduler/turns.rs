//! Decides whether another turn follows in the process of an attempt.
//!
//! The rule is that of a further attempt: a pull that began after the end of the turn returns the
//! issue in the state of the stage, and nothing holds the issue. A turn that is refused here may
//! follow as an attempt of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Effect, Scheduler};
use crate::ids::{AttemptId, IssueId};
use crate::machine::PullNo;
use crate::time::{Mono, Now};
use crate::turn::EndedTurn;
use crate::workflow::Workflow;

/// How long an agent waits for a decision in addition to the time of two pulls: one that was
/// running when its turn ended, and the one that decides.
const EXTRA_WAIT: Duration = Duration::from_secs(5);

/// How long an attempt whose input ends is left alone if its turn has moved the issue.
const TIME_TO_EXIT: Duration = Duration::from_secs(30);

/// The turns that have ended and about which nothing is decided. They are not stored: an attempt
/// that is recovered reports its turn again.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedTurns {
    waiting: BTreeMap<AttemptId, Waiting>,
    /// The attempts that got no further turn, and until when they are left alone.
    exiting: BTreeMap<AttemptId, Mono>,
}

#[derive(Clone, Debug)]
struct Waiting {
    issue: IssueId,
    ended: EndedTurn,
    /// The first pull that shows the issue as the turn left it.
    after: PullNo,
    is_pulled: bool,
    /// Without such a pull, the turn is refused at this time.
    until: Mono,
}

impl EndedTurns {
    /// Marks the turns that a successful pull with this number decides about.
    pub(super) fn on_good_pull(&mut self, pull: PullNo) {
        for waiting in self.waiting.values_mut() {
            waiting.is_pulled |= waiting.after <= pull;
        }
    }

    /// Returns the times at which turns are refused for want of a pull, and at which attempts are no
    /// longer left alone.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Mono> {
        let waiting = self.waiting.values().map(|waiting| waiting.until);
        waiting.chain(self.exiting.values().copied())
    }

    /// Forgets an attempt that has ended.
    pub(super) fn forget(&mut self, attempt_id: AttemptId) {
        self.waiting.remove(&attempt_id);
        self.exiting.remove(&attempt_id);
    }

    /// Returns whether the agent of an attempt has come to the end of its turn and exits soon. What
    /// the turn has changed in the tracker is no reason to stop it.
    pub(super) fn is_over(&self, attempt_id: AttemptId) -> bool {
        self.waiting.contains_key(&attempt_id) || self.exiting.contains_key(&attempt_id)
    }
}

impl Scheduler {
    pub(super) fn on_turn_ended(
        &mut self,
        issue: IssueId,
        attempt_id: AttemptId,
        ended: EndedTurn,
        now: Now,
    ) {
        let machine = self.machines.get(&issue);
        let active = machine.and_then(|machine| Some((machine, machine.active(attempt_id)?.0)));
        let Some((machine, start)) = active else {
            return;
        };
        match machine.granted_turn(attempt_id) {
            // The attempt of an earlier daemon did not receive it.
            Some(granted) if ended.turn < granted.turn => {
                self.effects.push(Effect::GrantTurn { attempt_id, granted });
            }
            _ if ended.turn != machine.turn_number(start) => self.refuse_turn(attempt_id, ended, now),
            _ => {
                let waiting = Waiting {
                    issue,
                    ended,
                    after: PullNo(self.pulls_started.0 + 1),
                    is_pulled: false,
                    until: now.mono.plus(longest_wait(&self.workflow)),
                };
                self.ended_turns.waiting.insert(attempt_id, waiting);
                self.effects.push(Effect::Pull);
            }
        }
    }

    fn refuse_turn(&mut self, attempt_id: AttemptId, ended: EndedTurn, now: Now) {
        let turn = ended.turn;
        let until = now.mono.plus(TIME_TO_EXIT);
        self.ended_turns.exiting.insert(attempt_id, until);
        self.effects.push(Effect::RefuseTurn { attempt_id, turn });
    }

    /// Decides about the turns that have ended, as far as that is possible.
    pub(super) fn decide_turns(&mut self, now: Now) {
        let mut waiting = std::mem::take(&mut self.ended_turns.waiting);
        waiting.retain(|attempt_id, waiting| self.still_waits(*attempt_id, waiting, now));
        self.ended_turns.waiting = waiting;
        self.ended_turns.exiting.retain(|_, until| *until > now.mono);
    }

    /// Decides about one turn. Returns whether it still waits for a pull.
    fn still_waits(&mut self, attempt_id: AttemptId, waiting: &Waiting, now: Now) -> bool {
        let active = self.machines.get(&waiting.issue);
        let active = active.and_then(|machine| machine.active(attempt_id));
        // The end of a stopped attempt is decided about like any other.
        let Some((_, _, None)) = active else {
            return false;
        };
        let is_held = self.holds_turn(attempt_id, waiting, now);
        if !is_held && waiting.is_pulled {
            self.decide_turn(attempt_id, waiting, now);
            return false;
        }
        if is_held || waiting.until <= now.mono {
            self.refuse_turn(attempt_id, waiting.ended, now);
            return false;
        }
        true
    }

    /// Returns whether the issue is held, so that no attempt of it would start now.
    fn holds_turn(&self, attempt_id: AttemptId, waiting: &Waiting, now: Now) -> bool {
        if self.global_hold(now).is_some() {
            return true;
        }
        let machine = self.machines.get(&waiting.issue);
        let Some((machine, (start, ..))) =
            machine.and_then(|machine| Some((machine, machine.active(attempt_id)?)))
        else {
            return true;
        };
        let Some(stage) = self.workflow.stage(&start.stage.name) else {
            return true;
        };
        let run = machine.run(&stage.name);
        self.issue_start_hold(machine).is_some()
            || self.bad_intent(machine, stage).is_some()
            || machine.needs_approval(stage)
            || machine.is_unproven()
            || run.is_none_or(|run| run.attempts >= run.allowed(stage))
    }

    /// Decides about a turn after the pull that shows the issue as the turn left it.
    fn decide_turn(&mut self, attempt_id: AttemptId, waiting: &Waiting, now: Now) {
        let workflow = std::sync::Arc::clone(&self.workflow);
        let ended = waiting.ended;
        let mut is_sorted = true;
        let granted = self.machines.get_mut(&waiting.issue).and_then(|machine| {
            let was_under_way = machine.is_under_way();
            let start = machine.active(attempt_id)?.0.clone();
            let stage = workflow.stage(&start.stage.name)?;
            let is_left = machine.may_continue(&start, ended.turn, stage)
                && !workflow.is_terminal(&machine.issue().state)
                && machine.life_after_turn(&start).used_up(&workflow.issue).is_none();
            let granted = is_left.then(|| machine.grant_turn(attempt_id, ended, stage))?;
            is_sorted = was_under_way == machine.is_under_way();
            granted
        });
        // The next pull has to sort the issue before new ones, even if it returns the same issues.
        self.can_skip_unchanged_pull &= is_sorted;
        let Some((granted, event)) = granted else {
            return self.refuse_turn(attempt_id, ended, now);
        };
        self.changed.insert(waiting.issue.clone());
        self.record_event(&waiting.issue, event, now);
        self.effects.push(Effect::GrantTurn { attempt_id, granted });
    }
}

/// Returns how long an agent waits for the pull that decides.
fn longest_wait(workflow: &Workflow) -> Duration {
    workflow
        .pull
        .timeout
        .0
        .saturating_mul(2)
        .saturating_add(EXTRA_WAIT)
}
