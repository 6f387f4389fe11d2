//! The tracker protocol, version 1.
//!
//! A tracker is one program. A [`Request`] is one run of it: a command line and, if it has a text,
//! JSON on standard input. The program prints JSON and ends with the exit code of a [`CallError`],
//! or with 0. [`Protocol`] is implemented by the trackers that are built in and by
//! [`ProgramTracker`], which runs another program, so that the same code uses and tests all of
//! them. docs/reference/tracker-protocol.md is the reference for authors.

mod error;
mod files;
mod messages;
mod program;
mod request;

#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use error::answer;
pub use error::{CallError, read_answer};
pub use files::FilesTracker;
pub use messages::{
    Capabilities, Changed, Checks, Comment, Created, CreatedIssue, IssueDraft, MessageBody, Moved,
    OpenedPullRequest, PullRequestDraft, PullRequestState, PullRequestView, Review, States, json_schema,
};
pub use program::ProgramTracker;
pub use request::{Request, check_argument, check_key};

/// The version of the protocol that this Vik uses.
pub const VERSION: u32 = 1;

/// A tracker that answers requests.
pub trait Protocol {
    /// Carries out a request, and returns the JSON that its verb prints.
    ///
    /// # Errors
    /// When the request is invalid, names no issue, or cannot be carried out.
    fn call(&self, request: &Request) -> Result<Value, CallError>;

    /// Returns a warning about the requests so far, for people.
    fn warning(&self) -> Option<&str> {
        None
    }
}

/// Carries out a request, and returns its answer as a type of this module.
///
/// # Errors
/// When the tracker fails, or its answer is of another type.
pub fn call<T: DeserializeOwned>(tracker: &dyn Protocol, request: &Request) -> Result<T, CallError> {
    let answer = tracker.call(request)?;
    serde_json::from_value(answer)
        .map_err(|error| CallError::Failed(format!("the answer to `{}` is invalid: {error}", request.name())))
}
