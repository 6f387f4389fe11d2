//! The decisions and events that the scheduler records.

use super::Effect;
use super::{DecisionSubject, Scheduler};
use crate::attempt::{Start, StopReason};
use crate::changes::{Decision, RunOver, StartedAttempt};
use crate::decision_kind::DecisionKind;
use crate::ids::{AttemptId, IssueId, StageName};
use crate::machine::{Observation, ParkReason, RunEvent};
use crate::plural::count;
use crate::time::Now;

impl Scheduler {
    pub(super) fn decide<'a>(
        &mut self,
        now: Now,
        kind: DecisionKind,
        about: impl Into<DecisionSubject<'a>>,
        detail: impl Into<String>,
    ) {
        let about = about.into();
        self.changes.decisions.push(Decision {
            at: now.wall,
            issue: about.issue.cloned(),
            stage: about.stage.cloned(),
            run: about.run,
            attempt_id: about.attempt_id,
            kind,
            detail: detail.into(),
        });
    }

    pub(super) fn record(&mut self, issue: &IssueId, observed: Observation, now: Now) {
        if observed.changed {
            self.changed.insert(issue.clone());
        }
        for event in observed.events {
            self.record_event(issue, event, now);
        }
    }

    pub(super) fn record_event(&mut self, issue: &IssueId, event: RunEvent, now: Now) {
        let (run, stage) = event.about();
        let (kind, detail) = match &event {
            RunEvent::Ended {
                not_handed_over: Some(failure),
                ..
            } => (
                DecisionKind::RunEnded,
                format!(
                    "the issue left the stage's state; the work was not handed over completely: {failure}"
                ),
            ),
            RunEvent::HandOverFailed {
                tries, wait, failure, ..
            } => (
                DecisionKind::HandOverFailed,
                format!(
                    "the work is done, but its hand-over failed {}; next try in {}: {failure}",
                    count(*tries, "time"),
                    crate::duration::Span(*wait)
                ),
            ),
            RunEvent::HandedOver { tries, .. } => {
                (DecisionKind::HandedOver, format!("handed over by try {tries}"))
            }
            RunEvent::Ended { succeeded: true, .. } => (
                DecisionKind::RunEnded,
                match self.is_in_follow_up(issue, stage) {
                    true => "the work is done; it waits for comments and checks".to_owned(),
                    false => "the issue left the stage's state".to_owned(),
                },
            ),
            RunEvent::Ended { .. } => (
                DecisionKind::RunEnded,
                "the issue left the stage's state; the last attempt had not succeeded".to_owned(),
            ),
            RunEvent::Continues {
                turn,
                max,
                is_verified,
                ..
            } => (
                DecisionKind::Turn,
                format!(
                    "{}; turn {turn} of {max} continues the conversation",
                    if *is_verified {
                        "the agent has ended its turn, but the issue is still in the state of the stage"
                    } else {
                        "`verify` failed"
                    }
                ),
            ),
            RunEvent::BackingOff {
                attempts,
                wait,
                why,
                is_requested,
                ..
            } => (
                match why {
                    crate::machine::WaitReason::Backoff | crate::machine::WaitReason::HandOver => {
                        DecisionKind::BackingOff
                    }
                    crate::machine::WaitReason::Quota => DecisionKind::Quota,
                },
                format!(
                    "{}{} used; next attempt in {}",
                    if *is_requested {
                        "`before_run` asked to be tried again later; "
                    } else {
                        ""
                    },
                    count(*attempts, "attempt"),
                    crate::duration::Span(*wait)
                ),
            ),
            RunEvent::Awaiting { request, .. } => (DecisionKind::AwaitingApproval, request.message()),
            RunEvent::Answered {
                request, answer, by, ..
            } => (DecisionKind::Answered, request.answered(answer, by)),
            RunEvent::Asked { question, .. } => (DecisionKind::Asked, question.message()),
            RunEvent::QuestionAnswered { answer, .. } => (
                DecisionKind::QuestionAnswered,
                format!("{} answered: {}", answer.by, answer.answer),
            ),
            RunEvent::Parked { reason, .. } => {
                // Of other reasons, the end of the attempt is a decision.
                let machine = self.machines.get(issue);
                let hand_over = machine.and_then(|machine| machine.run(stage)?.hand_over.as_ref());
                let failure = hand_over.filter(|_| *reason == ParkReason::HandOver);
                let failure =
                    failure.map_or_else(String::new, |hand_over| format!(" ({})", hand_over.failure));
                (
                    DecisionKind::Parked,
                    format!("{}{failure}; freed by {}", reason.as_str(), reason.freed_by()),
                )
            }
            RunEvent::Freed { by, .. } => (DecisionKind::Freed, by.as_str().to_owned()),
            RunEvent::Closed { .. } => (
                DecisionKind::Closed,
                "the issue was closed and is no longer parked".to_owned(),
            ),
            RunEvent::Unparked { hands_over, .. } => (
                DecisionKind::Unparked,
                match hands_over {
                    true => "the hand-over is tried again".to_owned(),
                    false => "more attempts are allowed now".to_owned(),
                },
            ),
        };
        let about = DecisionSubject {
            issue: Some(issue),
            stage: Some(stage),
            run: Some(run),
            attempt_id: None,
        };
        self.decide(now, kind, about, detail);
        let succeeded = match &event {
            RunEvent::Ended { succeeded, .. } | RunEvent::Closed { succeeded, .. } => Some(*succeeded),
            RunEvent::Freed { .. } => Some(false),
            _ => None,
        };
        if let Some(succeeded) = succeeded {
            self.changes.runs_over.push(RunOver {
                run,
                issue: issue.clone(),
                succeeded,
                at: now.wall,
            });
        }
        self.effects.push(Effect::RunEvent(issue.clone(), event));
    }

    /// Returns whether an issue is in a state in which a stage waits for comments and checks.
    fn is_in_follow_up(&self, issue: &IssueId, stage: &StageName) -> bool {
        let state = self.machines.get(issue).map(|machine| &machine.issue().state);
        let stage = self.workflow.stage(stage);
        state.is_some_and(|state| stage.is_some_and(|stage| stage.when.is_follow_up(state)))
    }

    pub(super) fn record_start(&mut self, start: &Start, why: String, now: Now) {
        self.changed.insert(start.issue.id.clone());
        self.changes.started.push(StartedAttempt {
            attempt_id: start.attempt_id,
            run: start.run,
            issue: start.issue.id.clone(),
            stage: start.stage.name.clone(),
            agent: start.stage.agent.clone(),
            attempt: start.attempt,
            resumed_from: start.resume.as_ref().map(|resume| resume.attempt_id),
            at: now.wall,
        });
        self.decide(now, DecisionKind::Started, start, why);
    }

    /// Stops an attempt, once.
    pub(super) fn stop(&mut self, issue: &IssueId, attempt_id: AttemptId, why: StopReason, now: Now) -> bool {
        let Some(machine) = self.machines.get_mut(issue) else {
            return false;
        };
        let is_first = machine.stop(attempt_id, why.clone());
        // A cancellation by a person is stored even if the attempt was already being stopped.
        if is_first || why == StopReason::Cancelled {
            self.changed.insert(issue.clone());
        }
        if is_first {
            let about = DecisionSubject {
                attempt_id: Some(attempt_id),
                ..DecisionSubject::from(issue)
            };
            self.decide(now, DecisionKind::Stopped, about, why.to_string());
            self.effects.push(Effect::Stop { attempt_id, why });
        }
        is_first
    }
}
