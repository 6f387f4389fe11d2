//! How a request fails, and the exit codes for it.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use vik_base::report::{one_line, tail_lines};
use vik_core::retry_later::requested_wait;

use super::request::Request;

/// Why a request was not carried out. Each variant is one exit code of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It failed, and would fail again.
    #[error("{0}")]
    Failed(String),
    /// The tracker does not support the verb, or an argument is invalid.
    #[error("{0}")]
    Usage(String),
    /// There is no such issue or pull request.
    #[error("{0}")]
    NotFound(String),
    /// The tracker cannot answer now: it is down, or limits the rate of requests.
    #[error("{reason}")]
    Later {
        reason: String,
        /// How long to wait at least before the next try; zero if unknown.
        wait: Duration,
    },
}

impl CallError {
    /// Returns the error of a verb that a tracker does not support.
    pub(crate) fn unsupported(request: &Request) -> Self {
        Self::Usage(format!("this tracker does not support `{}`", request.verb()))
    }

    /// Returns the exit code: 1, 2, 66 (`EX_NOINPUT` of `sysexits.h`) or 75 (`EX_TEMPFAIL`).
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::NotFound(_) => 66,
            Self::Later { .. } => 75,
        }
    }
}

/// Returns the JSON that a tracker program printed, or the error that it reported. A program
/// without an exit code was killed. `verb` names the request in errors.
///
/// # Errors
/// When the exit code is not 0, or the output is not JSON.
pub fn read_answer(verb: &str, code: Option<i32>, stdout: &[u8], stderr: &str) -> Result<Value, CallError> {
    let reported = || {
        let detail = one_line(&tail_lines(stderr, 5), 500);
        let outcome = code.map_or_else(
            || "was killed".to_owned(),
            |code| format!("failed with exit code {code}"),
        );
        if detail.is_empty() {
            format!("`{verb}` {outcome}")
        } else {
            format!("`{verb}` {outcome}: {detail}")
        }
    };
    match (code, requested_wait(code, stderr)) {
        (Some(0), _) => {
            let stdout = stdout.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stdout);
            serde_json::from_slice(stdout)
                .map_err(|error| CallError::Failed(format!("`{verb}` did not print JSON: {error}")))
        }
        (Some(66), _) => Err(CallError::NotFound(reported())),
        (Some(2), _) => Err(CallError::Usage(reported())),
        (_, Some(wait)) => Err(CallError::Later {
            reason: reported(),
            wait,
        }),
        _ => Err(CallError::Failed(reported())),
    }
}

/// Returns a message as JSON.
pub(crate) fn answer(message: impl Serialize) -> Result<Value, CallError> {
    serde_json::to_value(message).map_err(|error| CallError::Failed(error.to_string()))
}
