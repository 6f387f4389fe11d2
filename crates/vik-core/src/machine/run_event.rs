//! Events of runs.

use std::time::Duration;

use super::{ParkReason, WaitReason};
use crate::approval::{Answer, Request};
use crate::attempt::HandOverFailure;
use crate::ids::{RunId, StageName};
use crate::question::{AnsweredQuestion, PendingQuestion};

/// An event of a run, for logs, `explain` and the closing summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEvent {
    Ended {
        run: RunId,
        stage: StageName,
        /// Whether its last attempt succeeded.
        succeeded: bool,
        /// Why the work of that attempt was not handed over.
        not_handed_over: Option<HandOverFailure>,
    },
    /// The work is done, and its hand-over will be tried again.
    HandOverFailed {
        run: RunId,
        stage: StageName,
        /// The tries so far.
        tries: u32,
        /// The wait between the last try and the next one.
        wait: Duration,
        failure: HandOverFailure,
    },
    /// A try that followed a failed one has handed the work over.
    HandedOver {
        run: RunId,
        stage: StageName,
        /// The number of tries.
        tries: u32,
    },
    /// Another attempt will follow.
    BackingOff {
        run: RunId,
        stage: StageName,
        /// The attempts used so far.
        attempts: u32,
        wait: Duration,
        why: WaitReason,
        /// Whether `before_run` asked to be tried again later.
        is_requested: bool,
    },
    /// The issue kept its state after a turn, and the conversation continues with another one.
    Continues {
        run: RunId,
        stage: StageName,
        /// The number of the next turn.
        turn: u32,
        /// The number of turns allowed (`turns.max`).
        max: u32,
        /// Whether the turn that ended passed `verify`.
        is_verified: bool,
    },
    /// The run waits for an approval.
    Awaiting {
        run: RunId,
        stage: StageName,
        request: Box<Request>,
    },
    /// The approval request was answered.
    Answered {
        run: RunId,
        stage: StageName,
        request: Box<Request>,
        answer: Answer,
        by: String,
    },
    /// An agent asked a question.
    Asked {
        run: RunId,
        stage: StageName,
        question: Box<PendingQuestion>,
    },
    /// The question of an agent was answered.
    QuestionAnswered {
        run: RunId,
        stage: StageName,
        answer: Box<AnsweredQuestion>,
    },
    Parked {
        run: RunId,
        stage: StageName,
        reason: ParkReason,
    },
    /// Another run may start.
    Freed {
        /// The run that was parked.
        run: RunId,
        stage: StageName,
        by: FreedBy,
    },
    /// The issue was closed, which ends the parked run.
    Closed {
        /// The run that was parked.
        run: RunId,
        stage: StageName,
        /// Whether its last attempt succeeded.
        succeeded: bool,
        /// Why the work of that attempt was not handed over.
        not_handed_over: Option<HandOverFailure>,
    },
    /// A person allowed more attempts or tries, so the run continues.
    Unparked {
        /// The run that was parked.
        run: RunId,
        stage: StageName,
        /// Whether its finished work is handed over, instead of being done again.
        hands_over: bool,
    },
}

/// What freed a parked stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreedBy {
    /// The state, the title or the description of the issue changed.
    Change,
    /// There is a new comment by a trusted author.
    Comment,
}

impl FreedBy {
    /// Returns the reason as a sentence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Change => "the issue changed",
            Self::Comment => "there is a new comment",
        }
    }
}

impl RunEvent {
    /// Returns the run and its stage.
    pub fn about(&self) -> (RunId, &StageName) {
        match self {
            Self::Ended { run, stage, .. }
            | Self::HandOverFailed { run, stage, .. }
            | Self::HandedOver { run, stage, .. }
            | Self::BackingOff { run, stage, .. }
            | Self::Continues { run, stage, .. }
            | Self::Awaiting { run, stage, .. }
            | Self::Answered { run, stage, .. }
            | Self::Asked { run, stage, .. }
            | Self::QuestionAnswered { run, stage, .. }
            | Self::Parked { run, stage, .. }
            | Self::Closed { run, stage, .. }
            | Self::Freed { run, stage, .. }
            | Self::Unparked { run, stage, .. } => (*run, stage),
        }
    }
}
