//! The hand-over of a success: outputs and `after_run` are repeated without another attempt.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{IssueMachine, Observation, ParkReason, Phase, PullNo, Run, RunEvent, WaitReason, since};
use crate::attempt::{HandOverFailure, Start};
use crate::backoff;
use crate::ids::AttemptId;
use crate::outcome::Outcome;
use crate::time::Now;
use crate::workflow::{HandOverRetry, Stage, Workflow};

/// Finished work that is not handed over yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandOver {
    /// The start of the attempt that did the work.
    pub start: Start,
    /// The tries so far, with that of the attempt.
    pub tries: u32,
    /// When the first try failed.
    pub since: Timestamp,
    /// Why the last try failed.
    pub failure: HandOverFailure,
}

impl HandOver {
    /// Returns the hand-over that an attempt left to its run: only a success has work to hand over.
    pub(super) fn left_by(start: &Start, result: &crate::attempt::AttemptResult, now: Now) -> Option<Self> {
        let failure = *result.hand_over_failure.clone()?;
        (result.outcome == Outcome::Succeeded).then(|| Self {
            // The agent has taken them, or they wait in the machine.
            start: Start {
                messages: Vec::new(),
                ..start.clone()
            },
            tries: 1,
            since: now.wall,
            failure,
        })
    }

    /// Returns the wait from the last try to the next one; `None` if a person decides.
    fn wait(&self, retry: &HandOverRetry, now: Now) -> Option<Duration> {
        if self.failure.needs_person || self.tries >= retry.max_tries {
            return None;
        }
        let wait = backoff::doubled(retry.initial_backoff.0, self.tries, retry.max_backoff.0);
        let wait = backoff::jittered(wait, self.start.attempt_id).max(self.failure.wait);
        (since(self.since, now).saturating_add(wait) <= retry.max_time.0).then_some(wait)
    }
}

impl Run {
    /// Returns whether the work of the last attempt is being handed over, or will be without a
    /// person.
    pub fn is_handing_over(&self) -> bool {
        matches!(
            self.phase,
            Phase::HandingOver { .. }
                | Phase::BackingOff {
                    why: WaitReason::HandOver,
                    ..
                }
        )
    }

    /// Returns whether a try of the hand-over is running.
    pub fn has_hand_over_running(&self) -> bool {
        matches!(self.phase, Phase::HandingOver { .. })
    }

    /// Returns whether an agent works, or a try of the hand-over is running.
    pub fn is_busy(&self) -> bool {
        self.active().is_some() || self.has_hand_over_running()
    }

    /// Returns the attempt whose agent works, or whose work is being handed over.
    pub(super) fn occupant(&self) -> Option<&Start> {
        self.active().or_else(|| {
            let hand_over = self.hand_over.as_ref().filter(|_| self.is_handing_over())?;
            Some(&hand_over.start)
        })
    }

    /// Returns whether a person can make it start again.
    pub(super) fn can_be_retried(&self) -> bool {
        self.park_reason().is_some() || (self.is_handing_over() && !self.has_hand_over_running())
    }

    /// Grants all tries of the hand-over again, or drops it if another attempt is to do the work.
    /// Returns whether there is a hand-over.
    pub(super) fn renew_hand_over(&mut self, agent: bool, now: Now) -> bool {
        if agent {
            self.hand_over = None;
        }
        if let Some(hand_over) = &mut self.hand_over {
            (hand_over.tries, hand_over.since) = (0, now.wall);
        }
        self.hand_over.is_some()
    }

    /// Decides what follows a failed try when the issue was seen again and is still in the state of
    /// the stage; `None` if nothing is left to hand over.
    pub(super) fn settle_hand_over(&mut self, ended: Now, stage: &Stage, now: Now) -> Option<HandOverNext> {
        let hand_over = self.hand_over.as_ref()?;
        let Some(wait) = hand_over.wait(&stage.hand_over, now) else {
            return Some(HandOverNext::Park);
        };
        let event = RunEvent::HandOverFailed {
            run: self.id,
            stage: self.stage.clone(),
            tries: hand_over.tries,
            wait,
            failure: hand_over.failure.clone(),
        };
        self.phase = Phase::BackingOff {
            since: ended.wall,
            wait,
            until: ended.mono.plus(wait),
            why: WaitReason::HandOver,
        };
        Some(HandOverNext::Wait(event))
    }
}

/// What follows a failed try.
pub(super) enum HandOverNext {
    Wait(RunEvent),
    Park,
}

impl IssueMachine {
    /// Returns whether a try of a hand-over is running.
    pub fn has_hand_over_running(&self) -> bool {
        self.runs.iter().any(Run::has_hand_over_running)
    }

    /// Returns the first stage whose hand-over is due. A try needs the workspace for itself.
    pub fn due_hand_over<'w>(&self, workflow: &'w Workflow, now: Now) -> Option<&'w Stage> {
        if self.cannot_start() || workflow.is_terminal(&self.issue.state) {
            return None;
        }
        let is_due = |run: &&Run| {
            matches!(
                run.phase,
                Phase::BackingOff {
                    why: WaitReason::HandOver,
                    until,
                    ..
                } if until <= now.mono
            )
        };
        self.runs.iter().filter(is_due).find_map(|run| {
            let stage = workflow.stage(&run.stage)?;
            let mut busy = self
                .runs
                .iter()
                .filter(|other| other.is_busy())
                .filter_map(Run::occupant);
            // The attempt holds the lock that its stage had at its start.
            let is_parallel = run.occupant().is_some_and(|own| own.stage.parallel);
            let is_free = !busy.any(|start| !(is_parallel || start.stage.parallel));
            (self.issue.is_taken_by(&stage.when) && is_free).then_some(stage)
        })
    }

    /// Begins the next try of a hand-over, with the scripts of the current workflow. Returns its
    /// attempt and the number of the try; `None` if all tries are used up.
    pub fn start_hand_over(&mut self, stage: &Stage, now: Now) -> Option<(Start, u32)> {
        let run = self.runs.iter_mut().find(|run| run.stage == stage.name)?;
        let used_up = |hand_over: &HandOver| hand_over.tries >= stage.hand_over.max_tries;
        let hand_over = run.hand_over.as_mut().filter(|hand_over| !used_up(hand_over))?;
        hand_over.tries = hand_over.tries.saturating_add(1);
        let scripts = &mut hand_over.start.stage;
        scripts.after_run.clone_from(&stage.after_run);
        scripts.outputs.clone_from(&stage.outputs);
        scripts.hook_secrets.clone_from(&stage.hook_secrets);
        scripts.hook_timeout = stage.hook_timeout;
        scripts.hooks_in_sandbox = stage.hooks_in_sandbox;
        run.phase = Phase::HandingOver {
            since: now.wall,
            is_cancelled: false,
        };
        Some((hand_over.start.clone(), hand_over.tries))
    }

    /// Notes that a person cancelled the hand-overs that are running. Returns their attempts.
    pub fn cancel_hand_overs(&mut self) -> Vec<AttemptId> {
        let mut cancelled = Vec::new();
        for run in &mut self.runs {
            if let (Phase::HandingOver { is_cancelled, .. }, Some(hand_over)) =
                (&mut run.phase, &run.hand_over)
                && !std::mem::replace(is_cancelled, true)
            {
                cancelled.push(hand_over.start.attempt_id);
            }
        }
        cancelled
    }

    /// Handles the end of a try. Returns `None` for one that is not running, which changes nothing.
    pub fn on_hand_over_ended(
        &mut self,
        attempt_id: AttemptId,
        result: Result<(), HandOverFailure>,
        after: PullNo,
        now: Now,
    ) -> Option<Observation> {
        let run = self.runs.iter_mut().find(|run| {
            let of = run.hand_over.as_ref().map(|hand_over| hand_over.start.attempt_id);
            run.has_hand_over_running() && of == Some(attempt_id)
        })?;
        let hand_over = run.hand_over.as_mut()?;
        let (tries, state) = (
            hand_over.tries,
            hand_over.start.stage.when.first_state().to_owned(),
        );
        let is_cancelled = matches!(
            run.phase,
            Phase::HandingOver {
                is_cancelled: true,
                ..
            }
        );
        run.phase = Phase::Settling { after, ended: now };
        let mut events = Vec::new();
        match result {
            Ok(()) => {
                run.hand_over = None;
                events.push(RunEvent::HandedOver {
                    run: run.id,
                    stage: run.stage.clone(),
                    tries,
                });
            }
            Err(failure) => hand_over.failure = failure,
        }
        if is_cancelled {
            let fingerprint = self.issue.fingerprint_in(&state);
            events.push(run.park(ParkReason::Cancelled, fingerprint, Some(after), None, now));
        }
        Some(Observation {
            events,
            changed: true,
        })
    }
}
