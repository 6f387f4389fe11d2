//! How an attempt ends.

use serde::{Deserialize, Serialize};
use temporalio_common::error::IncomingError;
use temporalio_sdk::{ActivityExecutionError, TimeoutType};

/// How an attempt ended on its worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// It came to its end, with this result: a success, a failure, or a stop.
    Finished(String),
    /// The worker is drained or upgraded, and has ended it.
    Drained,
    /// The lease passed, and the worker has ended it.
    LeasePassed,
}

/// How an attempt ended for the hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// It came to its end on the worker, with this result.
    Finished(String),
    /// The worker was lost, and with it the attempt.
    Lost {
        reason: Loss,
        /// The latest updates that the server has, if the worker had sent any.
        updates: Option<String>,
    },
    /// The worker did not take it in time. It was not started.
    NotTaken,
    /// It was cancelled before the worker took it.
    Cancelled,
    /// The program of the worker failed, not the attempt.
    Failed(String),
}

/// Why an attempt was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// There was no heartbeat within the timeout: the worker has ended, is frozen, or is cut off.
    NoHeartbeat,
    /// The worker has ended it, since it could not renew the lease in time.
    LeasePassed,
    /// The worker is drained or upgraded, and has ended it.
    Drained,
}

impl AttemptOutcome {
    /// Returns the outcome of the activity.
    pub(super) fn of(result: Result<AttemptEnd, ActivityExecutionError>) -> Self {
        let error = match result {
            Ok(AttemptEnd::Finished(result)) => return Self::Finished(result),
            Ok(AttemptEnd::Drained) => return Self::lost(Loss::Drained, None),
            Ok(AttemptEnd::LeasePassed) => return Self::lost(Loss::LeasePassed, None),
            Err(ActivityExecutionError::Cancelled(_)) => return Self::Cancelled,
            Err(error) => error,
        };
        match error.reason() {
            Some(IncomingError::Timeout(timeout)) => match timeout.timeout_type() {
                TimeoutType::ScheduleToStart => Self::NotTaken,
                TimeoutType::Heartbeat => {
                    let updates = timeout.last_heartbeat_details().ok().flatten();
                    Self::lost(Loss::NoHeartbeat, updates)
                }
                kind => Self::Failed(format!("timeout: {kind:?}")),
            },
            Some(reason) => Self::Failed(reason.to_string()),
            None => Self::Failed(error.to_string()),
        }
    }

    fn lost(reason: Loss, updates: Option<String>) -> Self {
        Self::Lost { reason, updates }
    }
}
