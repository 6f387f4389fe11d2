//! Requests to one worker or one hub: a short workflow for each, with one activity on the task queue
//! of the recipient.
//!
//! Bodies and answers are texts, which this crate does not read. Each of them may have 1 MiB after the
//! [codec](crate::codec). A request is carried out at most once, and nothing repeats it: if its answer
//! is lost, the caller decides.
//!
//! A request that has ended leaves its closed workflow on the server, with body and answer as the
//! codec has encoded them, in 11 events. The server deletes it after the retention of the namespace,
//! so that a short one is enough for requests. Nothing reads it again.

use std::time::Duration;

use temporalio_client::errors::{WorkflowGetResultError, WorkflowInteractionError, WorkflowStartError};
use temporalio_client::{Client, WorkflowGetResultOptions, WorkflowIdReusePolicy, WorkflowStartOptions};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;
use vik_core::worker::WorkerName;

use crate::lead::leader;
use crate::names::{HubId, Queue};
use crate::rpc::{Backoff, TAKE_TIMEOUT, cancel_workflow, is_temporary, payload_reason, start_once};

mod activities;
mod error;
mod host;
mod workflow;

pub use activities::{NoRequests, ReceivedRequest, Responder};
pub use error::RequestError;
pub(crate) use host::take_requests;
pub(crate) use workflow::RequestWorkflow;

use error::Answer;
use workflow::RequestInput;

/// Limits outside of this are replaced by the nearest one inside: the server accepts no activity
/// without a time, and no time that it cannot represent.
const LIMITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(24 * 3600));

/// How long the hubs may take for the steps of a request, which includes that another hub replaces
/// one that is frozen.
const STEPS_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request waits for a server that does not answer, after all other times have passed.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// The process that answers a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    Worker(WorkerName),
    /// The attempts that a worker runs.
    Attempts(WorkerName),
    /// A hub, whether it leads or not.
    Hub(HubId),
}

/// Sends the requests of a process.
#[derive(Clone, Debug)]
pub struct Requests {
    client: Client,
    queue: Queue,
}

impl Requests {
    pub fn new(client: Client, queue: Queue) -> Self {
        Self { client, queue }
    }

    /// Returns the hub that leads; see [`leader`].
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not answer, or if its answer cannot be read.
    pub async fn leader(&self) -> Result<Option<HubId>, WorkflowInteractionError> {
        leader(&self.client, &self.queue).await
    }

    /// Sends a request, and waits for its answer: at most `limit` from when the recipient takes it,
    /// and at most 23 s for all else. If the future is dropped, the request is cancelled.
    ///
    /// `limit` is at least a second and at most a day; any other one is replaced by the nearest.
    ///
    /// # Errors
    ///
    /// See [`RequestError`] for which of them mean that nothing was carried out.
    pub async fn send(&self, to: &Recipient, body: String, limit: Duration) -> Result<String, RequestError> {
        self.start(to, body, limit).await?.answer().await
    }

    /// Starts a request as [`send`](Self::send) does, for a caller who may cancel it and wait for how
    /// it has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the body is too large, or if the server refuses the request or does not
    /// answer.
    pub async fn start(
        &self,
        to: &Recipient,
        body: String,
        limit: Duration,
    ) -> Result<PendingRequest, RequestError> {
        let limit = limit.clamp(LIMITS.0, LIMITS.1);
        // The server ends the workflow even if no hub makes its steps.
        let execution_timeout = TAKE_TIMEOUT + limit + STEPS_TIMEOUT;
        let input = RequestInput {
            task_queue: match to {
                Recipient::Worker(name) => self.queue.worker_requests(name),
                Recipient::Attempts(name) => self.queue.worker_commands(name),
                Recipient::Hub(id) => self.queue.hub_requests(*id),
            },
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            body,
        };
        let mut pending = PendingRequest {
            client: self.client.clone(),
            workflow_id: self.queue.request(Uuid::new_v4()),
            deadline: Instant::now() + execution_timeout + SERVER_TIMEOUT,
            runtime: Handle::current(),
            has_ended: false,
        };
        let options = WorkflowStartOptions::new(self.queue.hubs(), &pending.workflow_id)
            .execution_timeout(execution_timeout)
            .build();
        let reuse = WorkflowIdReusePolicy::RejectDuplicate;
        let started = start_once(&self.client, || RequestWorkflow::run, input, reuse, options);
        let error = match timeout_at(pending.deadline, started).await {
            Ok(Ok(())) => return Ok(pending),
            // It may have started.
            Err(_) => return Err(RequestError::TimedOut),
            Ok(Err(WorkflowStartError::PayloadConversion(error))) => {
                RequestError::InvalidBody(payload_reason(&error))
            }
            Ok(Err(error)) => RequestError::Server(error.to_string()),
        };
        pending.has_ended = true;
        Err(error)
    }
}

/// A request without an answer as yet. If it is dropped, the request is cancelled.
#[derive(Debug)]
pub struct PendingRequest {
    client: Client,
    workflow_id: String,
    deadline: Instant,
    runtime: Handle,
    has_ended: bool,
}

impl PendingRequest {
    /// Returns the id of its workflow, which the recipient has too.
    pub fn id(&self) -> &str {
        &self.workflow_id
    }

    /// Waits for the answer. A caller that stops to wait may continue later.
    ///
    /// # Errors
    ///
    /// As [`Requests::send`].
    pub async fn answer(&mut self) -> Result<String, RequestError> {
        let outcome = outcome(&self.client, &self.workflow_id);
        let Ok(outcome) = timeout_at(self.deadline, outcome).await else {
            return Err(RequestError::TimedOut);
        };
        self.has_ended = true;
        outcome
    }

    /// Requests the end of the request. The recipient sees it within two seconds. The answer that
    /// follows is [`RequestError::Cancelled`], or what the request had come to before that.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses the cancellation or does not answer.
    pub async fn cancel(&self) -> Result<(), RequestError> {
        let cancelled = cancel_workflow(&self.client, &self.workflow_id);
        match timeout_at(self.deadline, cancelled).await {
            // It has ended, and its answer can be read.
            Ok(Ok(()) | Err(WorkflowInteractionError::NotFound(_))) => Ok(()),
            Ok(Err(error)) => Err(RequestError::Server(error.to_string())),
            Err(_) => Err(RequestError::TimedOut),
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let client = self.client.clone();
        let workflow_id = std::mem::take(&mut self.workflow_id);
        let deadline = self.deadline.max(Instant::now() + SERVER_TIMEOUT);
        self.runtime.spawn(async move {
            let cancelled = timeout_at(deadline, cancel_workflow(&client, &workflow_id)).await;
            // Without it, the request ends at its limit.
            tracing::debug!(workflow_id, ?cancelled, "a request without a caller is cancelled");
        });
    }
}

/// Waits for the end of the workflow of a request. While the server does not answer, it waits.
async fn outcome(client: &Client, workflow_id: &str) -> Answer {
    let handle = client.get_workflow_handle::<RequestWorkflow>(workflow_id);
    let mut backoff = Backoff::default();
    loop {
        return match handle.get_result(WorkflowGetResultOptions::default()).await {
            Ok(answer) => answer,
            Err(WorkflowGetResultError::TimedOut) => Err(RequestError::TimedOut),
            // Without a step of its workflow, the server has only the cancellation.
            Err(WorkflowGetResultError::Cancelled { .. }) => Err(RequestError::Cancelled),
            Err(WorkflowGetResultError::PayloadConversion(error)) => {
                Err(RequestError::InvalidAnswer(payload_reason(&error)))
            }
            Err(WorkflowGetResultError::Rpc(status)) if is_temporary(status.code()) => {
                backoff.pause().await;
                continue;
            }
            Err(error) if error.is_workflow_outcome() => Err(RequestError::Failed(error.to_string())),
            Err(error) => Err(RequestError::Server(error.to_string())),
        };
    }
}
