//! Attempts on workers: one workflow for each, with one activity on the task queue of the worker.
//!
//! Inputs, commands, updates and results are texts, which this crate does not read. The hub starts an
//! attempt by [`Attempts::start`] and has an [`AttemptClient`]; the worker runs it by an
//! [`AttemptRunner`].

use std::time::Duration;

use temporalio_client::errors::{WorkflowGetResultError, WorkflowInteractionError, WorkflowStartError};
use temporalio_client::{Client, WorkflowGetResultOptions, WorkflowIdReusePolicy, WorkflowStartOptions};
use temporalio_common::data_converters::PayloadConversionError;
use vik_core::worker::WorkerName;

use crate::names::Queue;
use crate::request::{Recipient, RequestError, Requests};
use crate::rpc::{Backoff, cancel_workflow, is_running, is_temporary, last_heartbeat, start_once};

mod activities;
mod outcome;
mod registry;
mod worker;
mod workflow;

pub use outcome::{AttemptEnd, AttemptOutcome, Loss};
use registry::Command;
pub use registry::{AttemptContext, LeaseState};
pub use worker::{AttemptRunner, WorkerHost};
pub(crate) use workflow::{AttemptStart, AttemptWorkflow};

/// How long a worker may take for a command. After that, it is sent again.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the attempts of a queue.
#[derive(Clone, Debug)]
pub struct Attempts {
    client: Client,
    queue: Queue,
}

/// An attempt that is to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptRequest {
    pub issue: String,
    pub attempt: String,
    pub worker: WorkerName,
    /// After this time without a heartbeat, the attempt is lost. The worker ends it at three quarters
    /// of it.
    pub heartbeat_timeout: Duration,
    /// What the worker needs to start.
    pub input: String,
}

/// A started attempt, as the hub has it.
#[derive(Clone, Debug)]
pub struct AttemptClient {
    client: Client,
    requests: Requests,
    worker: WorkerName,
    workflow_id: String,
}

/// An attempt cannot be started, or not be reached.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    #[error("the attempt was started before")]
    AlreadyStarted,
    #[error("there is no such attempt, or it has ended")]
    NotFound,
    #[error("the attempt was ended on the server: {0}")]
    Ended(String),
    #[error("a command cannot be sent: {0}")]
    Command(String),
    #[error("an attempt cannot be sent: {0}")]
    Payload(#[from] PayloadConversionError),
    #[error("the server refuses a request for an attempt: {0}")]
    Server(String),
}

impl Attempts {
    pub fn new(client: Client, queue: Queue) -> Self {
        Self { client, queue }
    }

    /// Starts an attempt, once for its issue and attempt. While the server does not answer, the
    /// request is repeated.
    ///
    /// # Errors
    ///
    /// Returns [`AttemptError::AlreadyStarted`] if it was started before, even if it has ended, and
    /// [`AttemptError::Payload`] if the input is too large.
    pub async fn start(&self, request: &AttemptRequest) -> Result<AttemptClient, AttemptError> {
        self.start_as(request, WorkflowIdReusePolicy::RejectDuplicate)
            .await
    }

    /// Starts an attempt that may be repeated after its end. While the server does not answer, the
    /// request is repeated.
    ///
    /// # Errors
    ///
    /// Returns [`AttemptError::AlreadyStarted`] if it runs, and [`AttemptError::Payload`] if the input
    /// is too large.
    pub async fn start_again(&self, request: &AttemptRequest) -> Result<AttemptClient, AttemptError> {
        self.start_as(request, WorkflowIdReusePolicy::AllowDuplicate)
            .await
    }

    async fn start_as(
        &self,
        request: &AttemptRequest,
        reuse: WorkflowIdReusePolicy,
    ) -> Result<AttemptClient, AttemptError> {
        let workflow_id = self.queue.attempt(&request.issue, &request.attempt);
        let timeout_ms = u64::try_from(request.heartbeat_timeout.as_millis()).unwrap_or(u64::MAX);
        let start = AttemptStart {
            task_queue: self.queue.worker(&request.worker),
            heartbeat_timeout_ms: timeout_ms,
            input: request.input.clone(),
        };
        let options = WorkflowStartOptions::new(self.queue.hubs(), workflow_id).build();
        match start_once(&self.client, || AttemptWorkflow::run, start, reuse, options).await {
            Ok(()) => Ok(self.get(request)),
            Err(WorkflowStartError::AlreadyStarted { .. }) => Err(AttemptError::AlreadyStarted),
            Err(WorkflowStartError::PayloadConversion(error)) => Err(error.into()),
            Err(error) => Err(AttemptError::Server(error.to_string())),
        }
    }

    /// Returns an attempt that was started before.
    pub fn get(&self, request: &AttemptRequest) -> AttemptClient {
        AttemptClient {
            client: self.client.clone(),
            requests: Requests::new(self.client.clone(), self.queue.clone()),
            worker: request.worker.clone(),
            workflow_id: self.queue.attempt(&request.issue, &request.attempt),
        }
    }
}

impl AttemptClient {
    /// Sends a command, and waits until the attempt has it. Commands arrive in the order in which one
    /// hub sends them. One whose answer is lost is repeated, and may arrive twice.
    ///
    /// # Errors
    ///
    /// Returns an error if the attempt has ended, or if the command is too large.
    pub async fn send(&self, text: String) -> Result<(), AttemptError> {
        let command = Command {
            attempt: self.workflow_id.clone(),
            text,
        };
        let body =
            serde_json::to_string(&command).map_err(|error| AttemptError::Server(error.to_string()))?;
        let to = Recipient::Attempts(self.worker.clone());
        let mut backoff = Backoff::default();
        loop {
            match self.requests.send(&to, body.clone(), COMMAND_TIMEOUT).await {
                Ok(_) => return Ok(()),
                Err(RequestError::InvalidBody(reason)) => return Err(AttemptError::Command(reason)),
                // The attempt has not started yet, the worker does not respond, or the answer is lost.
                Err(error) => tracing::debug!(%error, "a command is not delivered yet"),
            }
            if !self.is_running().await? {
                return Err(AttemptError::NotFound);
            }
            backoff.pause().await;
        }
    }

    /// Requests the end of the attempt. The worker sees it with its next heartbeat, and the outcome
    /// follows when the attempt has ended there.
    ///
    /// # Errors
    ///
    /// Returns an error if the attempt has ended.
    pub async fn cancel(&self) -> Result<(), AttemptError> {
        let cancelled = cancel_workflow(&self.client, &self.workflow_id).await;
        cancelled.map_err(interaction_error)
    }

    /// Returns the latest updates that the worker has sent with a heartbeat, or `None` before the
    /// first one and after the end.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such attempt, or if the server does not answer.
    pub async fn updates(&self) -> Result<Option<String>, AttemptError> {
        let heartbeat = last_heartbeat(&self.client, &self.workflow_id, activities::ATTEMPT).await;
        let heartbeat = heartbeat.map_err(interaction_error)?;
        Ok(heartbeat.map(|heartbeat| heartbeat.details))
    }

    /// Returns whether the attempt has not ended. While the server does not answer, it waits.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such attempt.
    pub async fn is_running(&self) -> Result<bool, AttemptError> {
        let running = is_running(&self.client, &self.workflow_id).await;
        running.map_err(interaction_error)
    }

    /// Waits for the end of the attempt. While the server does not answer, it waits.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such attempt, or if its workflow was ended from outside.
    pub async fn outcome(&self) -> Result<AttemptOutcome, AttemptError> {
        let handle = self
            .client
            .get_workflow_handle::<AttemptWorkflow>(&self.workflow_id);
        let mut backoff = Backoff::default();
        loop {
            match handle.get_result(WorkflowGetResultOptions::default()).await {
                Ok(outcome) => return Ok(outcome),
                Err(WorkflowGetResultError::NotFound(_)) => return Err(AttemptError::NotFound),
                Err(WorkflowGetResultError::PayloadConversion(error)) => return Err(error.into()),
                Err(WorkflowGetResultError::Rpc(status)) if is_temporary(status.code()) => {
                    backoff.pause().await;
                }
                Err(error) if error.is_workflow_outcome() => {
                    return Err(AttemptError::Ended(error.to_string()));
                }
                Err(error) => return Err(AttemptError::Server(error.to_string())),
            }
        }
    }
}

fn interaction_error(error: WorkflowInteractionError) -> AttemptError {
    match error {
        WorkflowInteractionError::NotFound(_) => AttemptError::NotFound,
        WorkflowInteractionError::PayloadConversion(error) => error.into(),
        error => AttemptError::Server(error.to_string()),
    }
}
