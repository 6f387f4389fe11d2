//! What machines of a queue ask of each other, as one typed protocol on top of [requests](crate::request).
//!
//! Whoever may write to the namespace may send these requests, as with attempts. A recipient does
//! nothing that its own workflow file does not say, and finds files by ids alone.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vik_control::http::SessionRequest;
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::machine::TakenOver;
use vik_core::scheduler::{Expired, RemovalCause};
use vik_core::worker::WorkerName;
use vik_orchestrator::ExpiryTimes;

use crate::request::{Recipient, RequestError, Requests};

mod worker;

pub(crate) use worker::WorkerResponder;

/// A request from a hub to a worker. The type of each answer is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerRequest {
    /// Remove the workspace of an issue: [`Removal`](vik_orchestrator::Removal).
    RemoveWorkspace {
        issue: Box<Issue>,
        cause: RemovalCause,
        /// The digest of the workflow file by which the hub decided.
        workflow_digest: String,
    },
    /// Record what a person changed in a workspace: the paths, `Vec<String>`.
    RecordChanges { issue: IssueId, hold: TakenOver },
    /// List workspaces and old files: [`Inventory`](vik_orchestrator::Inventory).
    Inventory { before: ExpiryTimes },
    /// Remove old files, as decided: [`ExpiredRemoval`](vik_orchestrator::ExpiredRemoval).
    RemoveExpired { expired: Expired, before: Timestamp },
    /// Read the files of an attempt: the answer of the API, as JSON.
    ReadSession(SessionRequest),
    /// Take no more attempts, and end when those that run have ended: nothing.
    Drain,
}

/// Carries requests to workers.
pub(crate) trait WorkerRequests: Debug + Send + Sync {
    /// Sends a request, and waits for its answer, as [`Requests::send`] does.
    fn send(
        &self,
        worker: WorkerName,
        body: String,
        limit: Duration,
    ) -> BoxFuture<'static, Result<String, RequestError>>;
}

impl WorkerRequests for Requests {
    fn send(
        &self,
        worker: WorkerName,
        body: String,
        limit: Duration,
    ) -> BoxFuture<'static, Result<String, RequestError>> {
        let requests = self.clone();
        async move { requests.send(&Recipient::Worker(worker), body, limit).await }.boxed()
    }
}

/// Sends the requests of a hub to workers.
#[derive(Clone, Debug)]
pub(crate) struct Peers(Arc<dyn WorkerRequests>);

impl Peers {
    pub(crate) fn new(requests: impl WorkerRequests + 'static) -> Self {
        Self(Arc::new(requests))
    }

    /// Sends a request, which is carried out at most once, and waits for its answer.
    ///
    /// # Errors
    ///
    /// Returns a message for people, which names the worker.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        worker: &WorkerName,
        request: &WorkerRequest,
        limit: Duration,
    ) -> Result<T, String> {
        let text = self.ask_for_text(worker, request, limit).await?;
        serde_json::from_str(&text)
            .map_err(|error| format!("the answer of the worker `{worker}` cannot be read: {error}"))
    }

    /// As [`ask`](Self::ask), for the text of the answer.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask).
    pub(crate) async fn ask_for_text(
        &self,
        worker: &WorkerName,
        request: &WorkerRequest,
        limit: Duration,
    ) -> Result<String, String> {
        let body = serde_json::to_string(request).map_err(|error| error.to_string())?;
        let answer = self.0.send(worker.clone(), body, limit).await;
        answer.map_err(|error| match error {
            RequestError::NotTaken => format!("the worker `{worker}` does not respond"),
            error => format!("the worker `{worker}`: {error}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn request_has_the_spelling_that_other_versions_read() {
        let requests = [
            (
                WorkerRequest::Inventory {
                    before: ExpiryTimes::default(),
                },
                json!({"inventory": {"before": {"scratch": null, "sessions": null, "trace": null}}}),
            ),
            (
                WorkerRequest::RemoveExpired {
                    expired: Expired::Sessions("7".into()),
                    before: Timestamp::UNIX_EPOCH,
                },
                json!({"remove_expired": {"expired": {"sessions": "7"}, "before": "1970-01-01T00:00:00Z"}}),
            ),
        ];
        for (request, spelling) in requests {
            assert_eq!(serde_json::to_value(&request).unwrap(), spelling);
            assert_eq!(
                serde_json::from_value::<WorkerRequest>(spelling).unwrap(),
                request
            );
        }
    }
}
