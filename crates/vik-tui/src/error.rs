//! What can go wrong.

use std::io;

use vik_api::Problem;

/// Why the dashboard could not be shown, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// Input or output is a file or a pipe.
    #[error("the dashboard needs a terminal, and {0} is none")]
    NotATerminal(&'static str),
    /// `TERM=dumb`: the terminal cannot place text.
    #[error("this terminal cannot show a dashboard: TERM is `dumb`")]
    DumbTerminal,
    /// The terminal refused what it was told.
    #[error("cannot {operation} the terminal")]
    Terminal {
        /// What was tried, as `read from`.
        operation: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The daemon did not answer the first request.
    #[error("cannot ask the daemon what it does")]
    Daemon(#[source] ClientError),
}

/// Why a request to the daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none that can be asked.
    #[error("`{url}` is not an address of the API: {why}")]
    Address {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nobody listens there.
    #[error("cannot connect to {target}")]
    Connect {
        /// Where.
        target: String,
        /// Why not.
        source: io::Error,
    },
    /// The connection broke before the whole answer came.
    #[error("the connection to {target} broke")]
    Broken {
        /// Where.
        target: String,
        /// How.
        source: hyper::Error,
    },
    /// No answer in time.
    #[error("{target} gave no answer in {seconds} s")]
    TimedOut {
        /// Where.
        target: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// The answer is longer than anything the API sends.
    #[error("the answer of {target} is too long")]
    TooLong {
        /// Where.
        target: String,
    },
    /// The daemon said no.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// An answer that is no problem document: something else listens there.
    #[error("{target} answered with HTTP status {status}")]
    Status {
        /// Where.
        target: String,
        /// The status.
        status: u16,
    },
    /// The answer is not what this program knows.
    #[error("cannot read the answer of {target}")]
    Decode {
        /// Where.
        target: String,
        /// Why not.
        source: serde_json::Error,
    },
}

impl ClientError {
    /// Whether the daemon could not be reached at all, so that asking again may help.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. } | Self::Broken { .. } | Self::TimedOut { .. }
        )
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => problem.hint.as_deref(),
            Self::Connect { .. } => Some("is the daemon running? `vik status` tells"),
            Self::Status {
                status: 401 | 403, ..
            } => Some("is the token the one of this daemon?"),
            Self::Decode { .. } => Some("are `vik` and the daemon of the same version?"),
            _ => None,
        }
    }

    /// The error and its causes on one line.
    pub(crate) fn with_causes(&self) -> String {
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
