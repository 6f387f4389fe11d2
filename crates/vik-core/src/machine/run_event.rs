//! What happens to runs, for people.

use std::time::Duration;

use super::{ParkReason, WaitReason};
use crate::approval::{Answer, Request};
use crate::ids::{RunId, StageName};

/// What happened to a run; for logs, `explain` and the closing summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEvent {
    /// It is over.
    Ended {
        /// The run.
        run: RunId,
        /// Its stage.
        stage: StageName,
        /// Whether its last attempt succeeded.
        succeeded: bool,
    },
    /// It will be tried again.
    BackingOff {
        /// The run.
        run: RunId,
        /// Its stage.
        stage: StageName,
        /// Attempts used so far.
        attempts: u32,
        /// For how long.
        wait: Duration,
        /// For what.
        why: WaitReason,
    },
    /// It waits for a person.
    Awaiting {
        /// The run.
        run: RunId,
        /// Its stage.
        stage: StageName,
        /// What is asked.
        request: Box<Request>,
    },
    /// What it waited with was answered.
    Answered {
        /// The run.
        run: RunId,
        /// Its stage.
        stage: StageName,
        /// What was asked.
        request: Box<Request>,
        /// What was said.
        answer: Answer,
        /// By whom.
        by: String,
    },
    /// It will not be tried again.
    Parked {
        /// The run.
        run: RunId,
        /// Its stage.
        stage: StageName,
        /// Why.
        reason: ParkReason,
    },
    /// The issue was changed, so it may be tried again, in a new run.
    Freed {
        /// The run that was parked.
        run: RunId,
        /// Its stage.
        stage: StageName,
    },
    /// The issue was closed, so what was parked is over.
    Closed {
        /// The run that was parked.
        run: RunId,
        /// Its stage.
        stage: StageName,
        /// Whether its last attempt succeeded.
        succeeded: bool,
    },
    /// A person allowed more, so it goes on.
    Unparked {
        /// The run that was parked.
        run: RunId,
        /// Its stage.
        stage: StageName,
    },
}

impl RunEvent {
    /// The run it is about, and its stage.
    pub fn about(&self) -> (RunId, &StageName) {
        match self {
            Self::Ended { run, stage, .. }
            | Self::BackingOff { run, stage, .. }
            | Self::Awaiting { run, stage, .. }
            | Self::Answered { run, stage, .. }
            | Self::Parked { run, stage, .. }
            | Self::Closed { run, stage, .. }
            | Self::Freed { run, stage }
            | Self::Unparked { run, stage } => (*run, stage),
        }
    }
}
