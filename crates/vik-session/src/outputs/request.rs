//! What an attempt on a worker asks the hub for.

use std::fmt;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::outputs::OutputNote;

use super::AppliedOutputs;

/// The request of an attempt to carry out its outputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputRequest {
    /// A repeated request has the same id.
    pub id: Uuid,
    pub issue: IssueId,
    pub attempt_id: AttemptId,
    /// What the agent asked for, as in its file.
    pub lines: String,
    /// The commit at which the run began, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<String>,
}

/// The answer of a hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputResponse {
    Applied(AppliedOutputs),
    /// It does not lead, or leads no longer. Another hub may.
    NotLeading,
    /// It knows of no such attempt that runs.
    UnknownAttempt,
}

/// The hub that leads, as an attempt on a worker sees it.
pub trait OutputHub: fmt::Debug + Send + Sync {
    /// Returns the book of the run, as it was when the attempt started.
    fn notes(&self) -> &[OutputNote];

    /// Sends a request to the hub that leads. The error is the reason why there is no response.
    fn send(
        &self,
        request: &OutputRequest,
    ) -> Pin<Box<dyn Future<Output = Result<OutputResponse, String>> + Send + '_>>;
}
