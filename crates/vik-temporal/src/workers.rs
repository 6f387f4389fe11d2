//! The table of workers: each announces itself when it starts and once a minute, and hubs read it.

use std::time::Duration;

use temporalio_client::errors::{WorkflowQueryError, WorkflowStartError};
use temporalio_client::tonic::Code;
use temporalio_client::{Client, WorkflowQueryOptions, WorkflowStartOptions};
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::{HasWorkflowDefinition, QueryDefinition};
use tokio::time::{sleep, timeout};
use vik_core::worker::WorkerName;

use crate::names::Queue;
use crate::rpc::{Backoff, REQUEST_TIMEOUT, TASK_TIMEOUT, forget_last_hub, history_page, is_temporary, once};

mod announcement;
mod presence;
mod table;
mod workflow;

pub use announcement::{Announcement, WorkerInstance};
pub use presence::PresenceTracker;
#[cfg(test)]
pub(crate) use presence::tests;
pub use table::{InvalidAnnouncement, Row, Table};
pub(crate) use workflow::WorkersWorkflow;

/// The time between two announcements of a worker.
pub const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(60);

/// A worker that has not announced itself for this time is lost, and another one can have its name.
pub const ANNOUNCE_TIMEOUT: Duration = Duration::from_secs(150);

/// How long a hub may take to answer who has the name of a worker that starts. Without a hub, there
/// are no attempts.
const NAME_TIMEOUT: Duration = Duration::from_secs(1);

/// How often a worker that starts tries to get its name.
const NAME_INTERVAL: Duration = Duration::from_secs(2);

/// The table of the workers of a queue.
#[derive(Clone, Debug)]
pub struct Workers {
    client: Client,
    queue: Queue,
}

/// The table of workers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkersError {
    #[error(transparent)]
    Invalid(#[from] InvalidAnnouncement),
    #[error("an announcement cannot be encoded: {0}")]
    Encoding(#[from] serde_json::Error),
    #[error("the server refuses a request for the table of workers: {0}")]
    Server(String),
}

impl Workers {
    pub fn new(client: Client, queue: Queue) -> Self {
        Self { client, queue }
    }

    /// Announces a worker. While the server does not answer, the announcement is repeated.
    ///
    /// # Errors
    ///
    /// Returns an error if the announcement is too large, if it is one of a lost worker, or if the
    /// server refuses it.
    pub async fn announce(&self, announcement: &Announcement) -> Result<(), WorkersError> {
        table::check(announcement)?;
        let announcement = serde_json::to_value(announcement)?;
        let mut backoff = Backoff::default();
        loop {
            let options = WorkflowStartOptions::new(self.queue.hubs(), self.queue.workers())
                .task_timeout(TASK_TIMEOUT)
                .rpc_options(once(REQUEST_TIMEOUT))
                .build();
            let announced = self
                .client
                .signal_with_start_workflow(
                    WorkersWorkflow::run,
                    Table::default(),
                    WorkersWorkflow::announce,
                    announcement.clone(),
                    options,
                )
                .await;
            match announced {
                Ok(_) => return Ok(()),
                Err(WorkflowStartError::Rpc(status)) if is_temporary(status.code()) => {
                    backoff.pause().await;
                }
                Err(error) => return Err(WorkersError::Server(error.to_string())),
            }
        }
    }

    /// Announces a worker now and once a minute, until the future is dropped.
    ///
    /// # Errors
    ///
    /// As [`announce`](Self::announce).
    pub async fn keep_announcing(&self, announcement: &Announcement) -> Result<(), WorkersError> {
        loop {
            self.announce(announcement).await?;
            sleep(ANNOUNCE_INTERVAL).await;
        }
    }

    /// Announces a worker that starts. Returns who has its name, if it is another one.
    ///
    /// One that had the name on this machine before a restart of it has ended: then it waits until the
    /// name is free. It may also run on the machine of which this one is a clone, and is there if it
    /// announces itself meanwhile. If no hub answers within a second, nothing is known yet.
    ///
    /// # Errors
    ///
    /// As [`announce`](Self::announce).
    pub async fn take_name(&self, first: &Announcement) -> Result<Option<WorkerInstance>, WorkersError> {
        let (name, instance) = (&first.worker.name, &first.instance);
        let mut known = None;
        loop {
            self.announce(first).await?;
            let Ok(row) = timeout(NAME_TIMEOUT, self.row(name)).await else {
                return Ok(None);
            };
            let row = row?;
            let Some((holder, count)) = row.and_then(|row| row.other_holder(instance)) else {
                return Ok(None);
            };
            if !holder.is_of_another_boot_of(instance) || known.is_some_and(|known| known != count) {
                return Ok(Some(holder));
            }
            if known.replace(count).is_none() {
                tracing::info!(
                    worker = %name,
                    "it ran before this machine was restarted: waiting until its name is free"
                );
            }
            sleep(NAME_INTERVAL).await;
        }
    }

    /// Resolves when another one has the name of a worker that has announced itself: it was frozen for
    /// long, or no hub ran when it started.
    ///
    /// # Errors
    ///
    /// As [`table`](Self::table).
    pub async fn name_taken(
        &self,
        name: &WorkerName,
        instance: &WorkerInstance,
    ) -> Result<WorkerInstance, WorkersError> {
        loop {
            let row = self.row(name).await?;
            if let Some((holder, _)) = row.and_then(|row| row.other_holder(instance)) {
                return Ok(holder);
            }
            sleep(ANNOUNCE_INTERVAL).await;
        }
    }

    /// Returns the table. It is empty before the first announcement.
    ///
    /// # Errors
    ///
    /// Returns an error if the server refuses the request. While it does not answer, the request is
    /// repeated.
    pub async fn table(&self) -> Result<Table, WorkersError> {
        let table = self.query(|| WorkersWorkflow::table, ()).await?;
        Ok(table.unwrap_or_default())
    }

    /// Returns the row of a worker, which is much smaller than a large table.
    ///
    /// # Errors
    ///
    /// As [`table`](Self::table).
    async fn row(&self, name: &WorkerName) -> Result<Option<Row>, WorkersError> {
        let row = self.query(|| WorkersWorkflow::row, name.clone()).await?;
        Ok(row.flatten())
    }

    /// Queries the workflow; `None` before the first announcement.
    async fn query<Q>(
        &self,
        query: impl Fn() -> Q,
        input: Q::Input,
    ) -> Result<Option<Q::Output>, WorkersError>
    where
        Q: QueryDefinition<Workflow = <WorkersWorkflow as HasWorkflowDefinition>::Run>,
        Q::Input: Clone + Send,
    {
        let handle = self
            .client
            .get_workflow_handle::<WorkersWorkflow>(self.queue.workers());
        let mut backoff = Backoff::default();
        loop {
            let options = WorkflowQueryOptions::builder()
                .rpc_options(once(REQUEST_TIMEOUT))
                .build();
            match handle.query(query(), input.clone(), options).await {
                Ok(answer) => return Ok(Some(answer)),
                Err(WorkflowQueryError::NotFound(_)) => return Ok(None),
                Err(WorkflowQueryError::Rpc(status))
                    if is_temporary(status.code()) || status.code() == Code::FailedPrecondition =>
                {
                    backoff.pause().await;
                }
                Err(error) => return Err(WorkersError::Server(error.to_string())),
            }
        }
    }

    /// Lets any hub answer for the table: the last one that did may be dead.
    pub(crate) async fn forget_last_hub(&self) {
        forget_last_hub(&self.client, self.queue.workers()).await;
    }

    /// Returns changes of the table, without a request that a hosted service charges for.
    pub fn changes(&self) -> TableChanges {
        TableChanges {
            workers: self.clone(),
            page: Vec::new(),
        }
    }
}

/// Observes the history of the table.
#[derive(Debug)]
pub struct TableChanges {
    workers: Workers,
    /// Where the next page of the history starts; empty at the start of a history.
    page: Vec<u8>,
}

impl TableChanges {
    /// Resolves when the table may have changed: at first at once, if there is one. Failures of the
    /// connection are no errors: it waits until the server is back.
    pub async fn next(&mut self) {
        let mut backoff = Backoff::default();
        loop {
            let Workers { client, queue } = &self.workers;
            match history_page(client, queue.workers(), self.page.clone()).await {
                Ok(page) => {
                    let events = page.history.unwrap_or_default().events;
                    // After its end, the workflow continues with a new history.
                    self.page = page.next_page_token;
                    if events.iter().any(may_change_the_table) {
                        return;
                    }
                }
                Err(status) => {
                    tracing::debug!(%status, "the history of the table of workers cannot be read");
                    // It may have been one of a history that the server no longer has.
                    self.page.clear();
                }
            }
            backoff.pause().await;
        }
    }
}

fn may_change_the_table(event: &HistoryEvent) -> bool {
    use Attributes::{WorkflowExecutionSignaledEventAttributes, WorkflowExecutionStartedEventAttributes};
    matches!(
        event.attributes,
        Some(WorkflowExecutionStartedEventAttributes(_) | WorkflowExecutionSignaledEventAttributes(_))
    )
}
