//! One run: the pursuit of one stage during one stay of the issue in its state.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::hand_over::{HandOver, HandOverNext};
use super::retry::{self, RetryDecision, RetryInput};
use super::uncounted::InARow;
use super::{LifetimeUsage, ParkReason, PullNo, RunEvent};
use crate::approval::{Answer, Request};
use crate::attempt::{AttemptResult, HandOverFailure, Resume, Start, StopReason};
use crate::ids::{AgentName, AttemptId, RunId, StageName};
use crate::issue::{Fingerprint, Issue};
use crate::limits::{LimitHit, Spend};
use crate::outcome::Outcome;
use crate::question::{AnsweredQuestion, PendingQuestion};
use crate::time::{Mono, Now};
use crate::turn::GrantedTurn;
use crate::workflow::{IssuePolicy, Stage};

/// The pursuit of one stage during one stay of the issue in its state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: RunId,
    pub stage: StageName,
    /// The attempts that count against `max_attempts`.
    pub attempts: u32,
    /// Attempts a person allowed beyond `max_attempts`.
    #[serde(default)]
    pub extra_attempts: u32,
    /// The turns of the conversation that have ended; 0 in a stage without `turns`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turns: u32,
    /// The number of turns that the conversation of the last attempt could have.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_turns: u32,
    /// Consecutive attempts whose `before_run` asked to be tried again later.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub later_in_a_row: u32,
    /// Consecutive attempts that ended with a question.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub asked_in_a_row: u32,
    /// The answers to questions of its agents, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<AnsweredQuestion>,
    /// Whether any attempt changed a commit or a file.
    pub changed: bool,
    /// The result of the last attempt.
    pub last: Option<AttemptResult>,
    #[serde(default, rename = "last_session")]
    pub last_attempt: Option<AttemptId>,
    /// Why Vik stopped the last attempt.
    #[serde(default)]
    pub last_stopped: Option<StopReason>,
    /// The conversation that the next attempt may resume, if it uses the same agent.
    #[serde(default)]
    pub conversation: Option<(AgentName, Resume)>,
    /// The conversation of an attempt that came to its end. Only a person's message continues it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<(AgentName, Resume)>,
    /// The work of the last attempt, while it is not handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<Box<HandOver>>,
    /// The approval of the next start (`approve.before`).
    #[serde(default)]
    pub approved: Option<Approved>,
    pub phase: Phase,
}

/// A person's approval of a start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approved {
    /// The approved text of the issue: another text needs another approval.
    pub text: Fingerprint,
    /// The person's message to the agent.
    pub message: Option<String>,
}

/// The phase of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// An attempt is active: it is reserved before anything is done for it.
    Active {
        #[serde(rename = "session")]
        attempt_id: AttemptId,
        since: Timestamp,
        /// The complete start, so that another daemon can recover the attempt.
        start: Box<Start>,
        /// The charge if the attempt ends without reporting its usage.
        estimate: Spend,
        /// Why the attempt is being stopped.
        stopping: Option<StopReason>,
        /// The last turn that was granted to its process, beyond the one it was started for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        granted: Option<GrantedTurn>,
        /// The approval request of the attempt.
        #[serde(default)]
        awaiting: Option<Box<Request>>,
        /// The answer to that request, until the attempt confirms it.
        #[serde(default)]
        answered: Option<Box<Answered>>,
    },
    /// The start waits for an approval.
    Awaiting {
        request: Box<Request>,
        /// The text of the issue to be approved.
        text: Fingerprint,
        /// When the default answer applies.
        until: Mono,
    },
    /// The last attempt ended with this question.
    Asking {
        question: Box<PendingQuestion>,
        /// When the default answer is given, if there is one.
        until: Option<Mono>,
    },
    /// An attempt ended; a pull with this number or a later one must return the issue.
    Settling {
        /// The first pull that counts.
        after: PullNo,
        /// When the attempt ended.
        ended: Now,
    },
    /// A try to hand over the work of the last attempt is running; no agent is.
    HandingOver {
        since: Timestamp,
        /// Whether a person cancelled it: the running command may end, and then the stage is parked.
        is_cancelled: bool,
    },
    /// The next attempt, or the next try of the hand-over, waits for its back-off.
    BackingOff {
        since: Timestamp,
        wait: Duration,
        until: Mono,
        why: WaitReason,
    },
    /// The stage does not start again until the issue changes or a person unparks it.
    Parked {
        since: Timestamp,
        reason: ParkReason,
        /// The reason as a sentence.
        detail: String,
        /// The issue as it was; a different fingerprint frees the stage.
        fingerprint: Fingerprint,
        /// Set while the last attempt's own changes to the issue are unseen: the first pull from
        /// this number on shows them, and the fingerprint is updated then.
        unseen_until: Option<PullNo>,
    },
}

/// An answer that is to be delivered to an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The id of the answered request.
    pub request: String,
    pub answer: Answer,
    pub by: String,
}

/// What a run waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// The end of a back-off.
    #[default]
    Backoff,
    /// The provider's quota window.
    Quota,
    /// The end of a back-off, after which the work of the last attempt is handed over.
    HandOver,
}

impl Phase {
    /// A wait that is over.
    pub(super) fn due(now: Now, why: WaitReason) -> Self {
        Self::BackingOff {
            since: now.wall,
            wait: Duration::ZERO,
            until: now.mono,
            why,
        }
    }
}

impl Run {
    /// A run without attempts.
    pub(super) fn new(id: RunId, stage: StageName, now: Now) -> Self {
        Self {
            id,
            stage,
            attempts: 0,
            extra_attempts: 0,
            turns: 0,
            max_turns: 0,
            later_in_a_row: 0,
            asked_in_a_row: 0,
            answers: Vec::new(),
            changed: false,
            last: None,
            last_attempt: None,
            last_stopped: None,
            conversation: None,
            finished: None,
            hand_over: None,
            approved: None,
            phase: Phase::Settling {
                after: PullNo::default(),
                ended: now,
            },
        }
    }

    /// Returns whether the last attempt succeeded.
    pub fn last_succeeded(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|report| report.outcome == Outcome::Succeeded)
    }

    /// Returns the park reason for a run without attempts left.
    pub fn exhausted_reason(&self) -> ParkReason {
        self.last
            .as_ref()
            .map_or(ParkReason::AttemptsUsedUp, retry::exhausted_reason)
    }

    /// Returns whether the next attempt waits because `before_run` asked to be tried again later.
    pub fn waits_on_request(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|last| last.requested_wait().is_some())
    }

    /// Returns whether the last attempt was stopped by Vik or a person.
    pub fn last_cancelled(&self) -> bool {
        self.last
            .as_ref()
            .is_some_and(|report| report.outcome == Outcome::Cancelled)
    }

    /// Returns the number of attempts allowed in all.
    pub fn allowed(&self, stage: &Stage) -> u32 {
        stage.retry.max_attempts.saturating_add(self.extra_attempts)
    }

    /// Returns the active attempt.
    pub fn active(&self) -> Option<&Start> {
        match &self.phase {
            Phase::Active { start, .. } => Some(start),
            _ => None,
        }
    }

    /// Returns whether the last attempt ended and its changes to the issue are unseen.
    pub fn is_unseen(&self) -> bool {
        matches!(
            self.phase,
            Phase::Settling { .. }
                | Phase::Parked {
                    unseen_until: Some(_),
                    ..
                }
        )
    }

    /// Returns whether the last end is unproven: an agent may still be alive in the workspace, so
    /// nothing starts beside it.
    pub fn is_unproven(&self) -> bool {
        self.park_reason() == Some(ParkReason::UnprovenEnd)
    }

    /// Returns why the run is parked, if it is.
    pub fn park_reason(&self) -> Option<ParkReason> {
        match self.phase {
            Phase::Parked { reason, .. } => Some(reason),
            _ => None,
        }
    }

    /// Returns the pending approval request.
    pub fn request(&self) -> Option<&Request> {
        match &self.phase {
            Phase::Awaiting { request, .. } => Some(request),
            Phase::Active { awaiting, .. } => awaiting.as_deref(),
            _ => None,
        }
    }

    /// Returns whether closing the issue ends the run: the run is parked, and no agent of it can be
    /// alive.
    pub(super) fn is_over_when_closed(&self) -> bool {
        self.park_reason().is_some() && !self.is_unproven()
    }

    /// Returns the event for a parked run whose issue was closed.
    pub(super) fn closed_event(&self) -> RunEvent {
        // A change by the run's own last attempt is no decision of a person.
        if self.is_unseen() {
            return self.ended_event();
        }
        RunEvent::Closed {
            run: self.id,
            stage: self.stage.clone(),
            succeeded: self.last_succeeded(),
            not_handed_over: self.not_handed_over(),
        }
    }

    fn not_handed_over(&self) -> Option<HandOverFailure> {
        Some(self.hand_over.as_ref()?.failure.clone())
    }

    pub(super) fn ended_event(&self) -> RunEvent {
        RunEvent::Ended {
            run: self.id,
            stage: self.stage.clone(),
            succeeded: self.last_succeeded(),
            not_handed_over: self.not_handed_over(),
        }
    }

    /// Handles the end of the attempt that was started with `start`.
    pub(super) fn attempt_ended(
        &mut self,
        start: &Start,
        stopped: Option<StopReason>,
        report: AttemptResult,
        after: PullNo,
        now: Now,
    ) {
        let granted = self.granted_turn(start);
        self.changed |= report.changed == Some(true);
        let conversation = start
            .conversation(&report)
            .map(|resume| (start.stage.agent.clone(), resume));
        (self.conversation, self.finished) = match retry::is_resumable(&report) {
            true => (conversation, None),
            false => (None, conversation),
        };
        self.max_turns = start.stage.turns.map_or(0, |turns| turns.max.max(granted));
        self.turns = match granted {
            0 => 0,
            // The last turn that was granted need not have begun.
            granted if report.ended_turn() => match report.turn {
                turn if turn >= start.turn => turn,
                _ => granted,
            },
            // The turn was interrupted, and its conversation is resumed.
            granted if self.conversation.is_some() => granted - 1,
            _ => 0,
        };
        self.hand_over = HandOver::left_by(start, &report, now).map(Box::new);
        self.last = Some(report);
        self.last_attempt = Some(start.attempt_id);
        self.last_stopped = stopped;
        self.phase = Phase::Settling { after, ended: now };
    }

    /// Decides what follows when the issue was seen again after an attempt and is still in the
    /// state of the stage.
    pub(super) fn settle(
        &mut self,
        ended: Now,
        stage: &Stage,
        issue: &Issue,
        (life, in_a_row): (&LifetimeUsage, InARow),
        policy: &IssuePolicy,
        now: Now,
    ) -> RunEvent {
        match self.settle_hand_over(ended, stage, now) {
            Some(HandOverNext::Wait(event)) => return event,
            Some(HandOverNext::Park) => {
                let fingerprint = issue.fingerprint_in(stage.when.first_state());
                return self.park(ParkReason::HandOver, fingerprint, None, None, now);
            }
            None => {}
        }
        if self.continues(stage) && life.used_up(policy).is_none() && self.last_stopped.is_none() {
            return self.wait_for_turn(stage, now);
        }
        // Without a result nothing counts against it.
        let next = match (&self.last, self.last_attempt) {
            (Some(report), Some(attempt_id)) => RetryInput {
                report,
                attempt_id,
                stopped: self.last_stopped.as_ref(),
                attempts: self.attempts,
                allowed: self.allowed(stage),
                in_a_row,
                life_used_up: life.used_up(policy).is_some(),
                retry: &stage.retry,
            }
            .next(now),
            _ => RetryDecision::After(Duration::ZERO),
        };
        let (from, wait, why) = match next {
            RetryDecision::Ask => match self.ask(stage, now) {
                Some(event) => return event,
                None => (ended, Duration::ZERO, WaitReason::Backoff),
            },
            RetryDecision::Park(reason) => {
                let fingerprint = issue.fingerprint_in(stage.when.first_state());
                return self.park(reason, fingerprint, None, life.used_up(policy), now);
            }
            RetryDecision::After(wait) => (ended, wait, WaitReason::Backoff),
            RetryDecision::Quota(wait) => (now, wait, WaitReason::Quota),
        };
        self.phase = Phase::BackingOff {
            since: from.wall,
            wait,
            until: from.mono.plus(wait),
            why,
        };
        RunEvent::BackingOff {
            run: self.id,
            stage: self.stage.clone(),
            attempts: self.attempts,
            wait,
            why,
            is_requested: self.waits_on_request(),
        }
    }

    /// Lets the next turn of the conversation start at once.
    fn wait_for_turn(&mut self, stage: &Stage, now: Now) -> RunEvent {
        self.phase = Phase::due(now, WaitReason::Backoff);
        RunEvent::Continues {
            run: self.id,
            stage: self.stage.clone(),
            turn: self.turns + 1,
            max: stage.turns.map_or(self.turns, |turns| turns.max),
            is_verified: self.last_succeeded(),
        }
    }

    pub(super) fn park(
        &mut self,
        reason: ParkReason,
        fingerprint: Fingerprint,
        unseen_until: Option<PullNo>,
        used_up: Option<LimitHit>,
        now: Now,
    ) -> RunEvent {
        self.phase = Phase::Parked {
            since: now.wall,
            reason,
            detail: self.park_detail(reason, used_up),
            fingerprint,
            unseen_until,
        };
        RunEvent::Parked {
            run: self.id,
            stage: self.stage.clone(),
            reason,
        }
    }

    /// Frees the run, so that it may start again at once.
    pub(super) fn release(&mut self, now: Now) -> RunEvent {
        self.later_in_a_row = 0;
        self.asked_in_a_row = 0;
        self.phase = match self.phase {
            // The last attempt's changes to the issue must be seen first.
            Phase::Parked {
                unseen_until: Some(after),
                ..
            } => Phase::Settling { after, ended: now },
            _ if self.hand_over.is_some() => Phase::due(now, WaitReason::HandOver),
            _ => Phase::due(now, WaitReason::Backoff),
        };
        RunEvent::Unparked {
            run: self.id,
            stage: self.stage.clone(),
            hands_over: self.hand_over.is_some(),
        }
    }
}

pub(super) fn is_zero(number: &u32) -> bool {
    *number == 0
}
