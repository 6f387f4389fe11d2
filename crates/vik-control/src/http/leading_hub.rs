//! The hub that leads, as one that follows asks it.

use std::time::Duration;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use vik_api::{ApiView, Problem, Status};
use vik_base::report::ErrorCode;
use vik_core::scheduler::Actor;
use vik_orchestrator::Task;

/// A request as the hub that leads gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedRequest {
    pub(super) method: String,
    /// The path with its query.
    pub(super) path: String,
    pub(super) content_type: Option<String>,
    pub(super) body: String,
    /// Who asks, as the hub that follows has found out.
    pub(super) by: Actor,
    pub(super) follower: Follower,
}

impl ForwardedRequest {
    /// Returns whether it changes nothing, so that it can be repeated.
    pub fn is_read(&self) -> bool {
        matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

/// The hub that passes requests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follower {
    pub(super) host: String,
    /// The address of its API.
    #[serde(default)]
    pub(super) api: Option<ApiView>,
}

impl Follower {
    /// Makes a status one for those who asked this hub.
    pub(super) fn add_to(&self, status: &mut Status) {
        status.api.clone_from(&self.api);
        status.hub.get_or_insert_default().follower = Some(self.host.clone());
    }
}

/// The answer of the hub that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedResponse {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) body: String,
}

impl ForwardedResponse {
    /// Returns whether the hub has ended before it had an answer.
    pub fn is_stopping(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE.as_u16()
            && serde_json::from_str::<Problem>(&self.body)
                .is_ok_and(|problem| problem.code == ErrorCode::Stopping.as_str())
    }
}

/// A request that was passed on has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// It was not carried out.
    #[error("no hub leads that answers: {0}")]
    NoLeader(String),
    /// It may have been carried out.
    #[error("{leader} has not answered: {reason}")]
    Unknown {
        /// The hub that leads, as people know it.
        leader: String,
        reason: String,
    },
}

/// The hub that leads, whichever it is.
pub trait LeadingHub: std::fmt::Debug + Send + Sync {
    /// Asks it within this time. If another hub takes the lead meanwhile, that one is asked, unless a
    /// change could be carried out twice.
    fn ask(
        &self,
        request: ForwardedRequest,
        timeout: Duration,
    ) -> Task<Result<ForwardedResponse, ForwardError>>;
}
