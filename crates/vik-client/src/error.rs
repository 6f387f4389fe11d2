//! Errors of requests.

use std::io;

use vik_api::Problem;

/// The code of a problem about a path that the API does not have.
const UNKNOWN_PATH: &str = "not_found";

/// Why a request to the daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is invalid.
    #[error("invalid API address `{url}`: {why}")]
    Address { url: String, why: &'static str },
    /// No process listens at the address.
    #[error("cannot connect to {target}")]
    Connect { target: String, source: io::Error },
    /// The connection broke before the end of the response.
    #[error("lost the connection to {target}")]
    Broken { target: String, source: hyper::Error },
    /// There was no response in time.
    #[error("no answer from {target} within {seconds} s")]
    TimedOut { target: String, seconds: u64 },
    /// The response is longer than any response of the API.
    #[error("the answer from {target} is too long")]
    TooLong { target: String },
    /// The daemon refused the request.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// An error response that is not a problem document: another service listens there.
    #[error("{target} answered with HTTP status {status}")]
    Status { target: String, status: u16 },
    /// The response has an unknown format.
    #[error("cannot parse the answer from {target}")]
    Decode {
        target: String,
        source: serde_json::Error,
    },
}

impl ClientError {
    /// Returns whether the daemon could not be reached at all, so that a retry may help.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. } | Self::Broken { .. } | Self::TimedOut { .. }
        )
    }

    /// Returns whether the daemon does not have the path of the request: it is of an older version.
    pub fn is_unknown_path(&self) -> bool {
        matches!(self, Self::Refused(problem) if problem.status == 404 && problem.code == UNKNOWN_PATH)
    }

    /// Returns what to do about the error.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => problem.hint.as_deref(),
            Self::Connect { .. } => Some("check that the daemon is running: `vik status`"),
            Self::Status {
                status: 401 | 403, ..
            } => Some("check that the token belongs to this daemon"),
            Self::Decode { .. } => Some("check that `vik` and the daemon have the same version"),
            _ => None,
        }
    }

    /// Returns the error and its causes on one line.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
