//! The shared log: all decisions in one order, which only the hub that leads can extend.
//!
//! The log is a chain of workflows, its *segments*. An entry is a text, which is what the ledger
//! stores of one decision. A hub [takes a term](Log::take_term), [reads](Follower::next_before) what
//! was written before, and [appends](Appender::append); from then on, the log refuses everything
//! with an older term. Other hubs [follow](Log::follow).

use futures::StreamExt;
use temporalio_client::errors::{WorkflowQueryError, WorkflowStartError, WorkflowUpdateError};
use temporalio_client::tonic::Code;
use temporalio_client::{
    Client, WorkflowExecuteUpdateOptions, WorkflowFetchHistoryOptions, WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy, WorkflowQueryOptions, WorkflowStartOptions,
};
use temporalio_common::data_converters::PayloadConversionError;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use uuid::Uuid;

use crate::names::Queue;
use crate::rpc::{
    Backoff, REQUEST_TIMEOUT, TASK_TIMEOUT, decode, failure_message, forget_last_hub, is_temporary, once,
};

mod appender;
mod follower;
mod pieces;
mod reader;
mod segment;
mod workflows;

pub use appender::{AppendError, Appended, Appender};
pub use follower::Follower;
pub use pieces::MAX_APPEND_BYTES;
pub use reader::{Cursor, Entry, ReadError};
pub use segment::Limits;
pub use workflows::Index;
pub(crate) use workflows::{IndexStart, IndexWorkflow, SegmentWorkflow};

use segment::Refusal;

/// The log of a queue.
#[derive(Clone, Debug)]
pub struct Log {
    client: Client,
    queue: Queue,
}

/// The right to extend the log, until another hub takes a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    pub term: u64,
    /// The segment in which the log continues.
    pub segment: u64,
    /// The number of pieces that were written before. Nothing is added to them with an older term.
    pub position: u64,
    /// The size of the log, in bytes.
    pub bytes: u64,
}

/// The log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the log was closed: its workflow `{0}` no longer runs")]
    Closed(String),
    #[error("cannot read the log: {0}")]
    Payload(#[from] PayloadConversionError),
    #[error("the server refuses a request for the log: {0}")]
    Server(String),
}

impl Log {
    /// Opens the log of a queue, and starts one if there is none. The limits are those of a new log;
    /// one that exists keeps its own.
    ///
    /// # Errors
    ///
    /// Returns an error if the log was closed, or if the server refuses the request. While the
    /// server does not answer, the request is repeated.
    pub async fn open(client: Client, queue: Queue, limits: Limits) -> Result<Self, LogError> {
        let mut backoff = Backoff::default();
        loop {
            let options = WorkflowStartOptions::new(queue.hubs(), queue.log())
                .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
                .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
                .task_timeout(TASK_TIMEOUT)
                .rpc_options(once(REQUEST_TIMEOUT))
                .build();
            let started = client
                .start_workflow(IndexWorkflow::run, IndexStart::New(limits), options)
                .await;
            match started {
                Ok(_) => break,
                Err(WorkflowStartError::AlreadyStarted { .. }) => {
                    return Err(LogError::Closed(queue.log()));
                }
                Err(WorkflowStartError::Rpc(status)) if is_temporary(status.code()) => {
                    backoff.pause().await;
                }
                Err(error) => return Err(LogError::Server(error.to_string())),
            }
        }
        let log = Self { client, queue };
        log.check_key().await?;
        Ok(log)
    }

    /// Checks that the payloads of the log can be read, before a step of a workflow fails for it.
    async fn check_key(&self) -> Result<(), LogError> {
        let handle = self.client.get_workflow_handle::<IndexWorkflow>(self.queue.log());
        let mut history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
        let first = history.next().await.transpose();
        let first = first.map_err(|error| LogError::Server(error.to_string()))?;
        let attributes = first.and_then(|event| event.attributes);
        if let Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) = attributes {
            decode::<IndexStart>(&self.client, started.input.unwrap_or_default().payloads).await?;
        }
        Ok(())
    }

    /// Returns where the log starts for a reader that has nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the log was removed, or if the server refuses the request.
    pub async fn index(&self) -> Result<Index, LogError> {
        let handle = self.client.get_workflow_handle::<IndexWorkflow>(self.queue.log());
        let mut backoff = Backoff::default();
        loop {
            let options = WorkflowQueryOptions::builder()
                .rpc_options(once(REQUEST_TIMEOUT))
                .build();
            match handle.query(IndexWorkflow::index, (), options).await {
                Ok(index) => return Ok(index),
                Err(WorkflowQueryError::NotFound(_)) => {
                    return Err(LogError::Closed(self.queue.log()));
                }
                Err(WorkflowQueryError::Rpc(status)) if is_temporary_query(status.code()) => {
                    backoff.pause().await;
                }
                Err(error) => return Err(LogError::Server(error.to_string())),
            }
        }
    }

    /// Returns a reader that continues after the cursor, or at the start of the log.
    ///
    /// # Errors
    ///
    /// As [`index`](Self::index).
    pub async fn follow(&self, cursor: Option<Cursor>) -> Result<Follower, LogError> {
        let first = match cursor {
            Some(_) => 0,
            None => self.index().await?.first,
        };
        Ok(Follower::new(self.clone(), cursor, first))
    }

    /// Takes the next term. The search for the end of the log starts at `segment`.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses the request. While it does not answer, the request is
    /// repeated, and it takes one term only.
    pub async fn take_term(&self, segment: u64) -> Result<Tenure, LogError> {
        let update_id = Uuid::new_v4().to_string();
        let mut backoff = Backoff::default();
        let mut segment = segment.max(1);
        loop {
            // The hub that made its last step was the leader, which may be dead.
            forget_last_hub(&self.client, self.queue.segment(segment)).await;
            let options = WorkflowExecuteUpdateOptions::builder()
                .update_id(update_id.clone())
                .rpc_options(once(REQUEST_TIMEOUT))
                .build();
            let taken = self
                .client
                .get_workflow_handle::<SegmentWorkflow>(self.queue.segment(segment))
                .execute_update(SegmentWorkflow::take_term, (), options)
                .await;
            match taken {
                Ok(taken) => {
                    return Ok(Tenure {
                        term: taken.term,
                        segment: segment + u64::from(taken.sealed),
                        position: taken.position,
                        bytes: taken.bytes,
                    });
                }
                // It is not started yet, or it was removed.
                Err(WorkflowUpdateError::NotFound(_)) => {
                    segment = segment.max(self.index().await?.first);
                }
                Err(WorkflowUpdateError::Rpc(status)) if is_temporary(status.code()) => {}
                Err(WorkflowUpdateError::Failed(failure)) => {
                    let message = failure_message(&self.client, &failure).await;
                    match serde_json::from_str(&message) {
                        Ok(Refusal::Sealed) => {
                            segment += 1;
                            continue;
                        }
                        _ => return Err(LogError::Server(message)),
                    }
                }
                Err(error) => return Err(LogError::Server(error.to_string())),
            }
            backoff.pause().await;
        }
    }

    /// Starts to extend the log. Call it once for a term.
    pub fn appender(&self, tenure: &Tenure) -> Appender {
        Appender::start(self.client.clone(), self.queue.clone(), tenure)
    }

    /// Removes all segments before `index.first`. The full state must have been appended since that
    /// segment was started by [`Appender::seal`].
    ///
    /// # Errors
    ///
    /// Returns an error if the log starts later already, or if the server refuses the request.
    pub async fn compacted(&self, index: Index) -> Result<(), LogError> {
        let handle = self.client.get_workflow_handle::<IndexWorkflow>(self.queue.log());
        let mut backoff = Backoff::default();
        loop {
            let options = WorkflowExecuteUpdateOptions::builder()
                .update_id(format!("compacted-{}", index.first))
                .rpc_options(once(REQUEST_TIMEOUT))
                .build();
            let compacted = handle
                .execute_update(IndexWorkflow::compacted, index, options)
                .await;
            match compacted {
                Ok(_) => return Ok(()),
                Err(WorkflowUpdateError::NotFound(_)) => {
                    return Err(LogError::Closed(self.queue.log()));
                }
                Err(WorkflowUpdateError::Rpc(status)) if is_temporary(status.code()) => {
                    backoff.pause().await;
                }
                Err(WorkflowUpdateError::Failed(failure)) => {
                    return Err(LogError::Server(failure_message(&self.client, &failure).await));
                }
                Err(error) => return Err(LogError::Server(error.to_string())),
            }
        }
    }
}

/// A query before the first step of a workflow, or while no hub polls, fails with a precondition.
fn is_temporary_query(code: Code) -> bool {
    is_temporary(code) || code == Code::FailedPrecondition
}
