//! The control socket: one request line, one response line.

use serde::{Deserialize, Serialize};

use crate::{ErrorBody, Status};

/// The version of the protocol.
pub const PROTOCOL: u32 = 1;

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// [`PROTOCOL`].
    pub v: u32,
    /// What is asked.
    #[serde(flatten)]
    pub verb: Verb,
}

/// What can be asked of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Verb {
    /// What it does now.
    Status,
    /// Pull now.
    Refresh,
    /// Stop gracefully; the response comes at once, the end of the daemon is seen by its lock.
    Stop,
}

/// One response.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The answer to `status`.
    Status(Box<Status>),
    /// It will be done.
    Accepted,
    /// It was refused.
    Error(ErrorBody),
}
