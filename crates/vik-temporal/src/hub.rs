//! What a hub runs for its queue: the workflows, and the activity of the hub that leads.

use std::sync::Arc;
use std::time::Duration;

use temporalio_client::errors::WorkflowStartError;
use temporalio_client::{Client, WorkflowIdConflictPolicy, WorkflowStartOptions};
use temporalio_sdk::WorkerOptions;
use temporalio_sdk::error::WorkflowRegistrationError;
use temporalio_sdk::workflow_replayer::{WorkflowReplayError, WorkflowReplayer, WorkflowReplayerOptions};
use tokio::sync::watch;

use crate::attempt::AttemptWorkflow;
use crate::codec::Codec;
use crate::connect::data_converter;
use crate::lead::{LeadActivities, LeadWorkflow, Leadership, Standing};
use crate::log::{IndexWorkflow, SegmentWorkflow};
use crate::names::{HubId, Queue};
use crate::poller::{Poller, PollerError, slots};
use crate::request::{RequestWorkflow, Responder, take_requests};
use crate::rpc::{Backoff, REQUEST_TIMEOUT, TASK_TIMEOUT, is_temporary, once};
use crate::workers::WorkersWorkflow;

/// How long a step of a workflow waits for the hub that made the last one. After that, any hub may
/// make it.
const STICKY_TIMEOUT: Duration = Duration::from_secs(1);

/// How many steps of workflows a hub makes at the same time.
const MAX_STEPS: usize = 100;

/// With one place for activities, a hub that leads does not ask for another one. If it is frozen, the
/// server would give it the lead again.
const MAX_LEADS: usize = 1;

/// A hub: it makes the steps of all workflows of the queue, answers requests, and may lead.
#[derive(Debug)]
pub struct Hub {
    pub id: HubId,
    pub leadership: Leadership,
    poller: Poller,
    requests: Poller,
}

/// A hub cannot take work.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("cannot use the workflows of vik: {0}")]
    Registration(#[from] WorkflowRegistrationError),
    #[error(transparent)]
    Poller(#[from] PollerError),
    #[error("cannot start the workflow `{id}`: {reason}")]
    Start { id: String, reason: String },
}

impl Hub {
    /// Starts to take work, and starts the workflow of the queue that does not end. Open the
    /// [log](crate::log::Log::open) before: it checks that this hub has the key for payloads.
    ///
    /// `lead_timeout` is [the time](crate::lead::lead_timeout) without a heartbeat after which a hub leads
    /// no longer. Requests to this hub are answered on the present runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the task queue cannot be polled, or if the server refuses to start a
    /// workflow.
    pub async fn start(
        client: Client,
        queue: &Queue,
        lead_timeout: Duration,
        responder: Arc<dyn Responder>,
    ) -> Result<Self, HubError> {
        let id = HubId::random();
        let (standing, receiver) = watch::channel(Standing::Following);
        let options = WorkerOptions::new(queue.hubs())
            .sticky_queue_schedule_to_start_timeout(STICKY_TIMEOUT)
            // When the hub stops, the activity that leads ends at once.
            .graceful_shutdown_period(Duration::ZERO)
            .tuner(slots(MAX_STEPS, MAX_LEADS))
            .register_activities(LeadActivities::new(id, lead_timeout, standing))
            .register_workflow::<IndexWorkflow>()?
            .register_workflow::<SegmentWorkflow>()?
            .register_workflow::<LeadWorkflow>()?
            .register_workflow::<WorkersWorkflow>()?
            .register_workflow::<AttemptWorkflow>()?
            .register_workflow::<RequestWorkflow>()?
            .build();
        let poller = Poller::start(client.clone(), options)?;
        let requests = take_requests(client.clone(), queue.hub_requests(id), responder)?;
        start_lead_workflow(&client, queue).await?;
        Ok(Self {
            id,
            leadership: Leadership::new(receiver),
            poller,
            requests,
        })
    }

    /// Resolves when the hub no longer takes work, without a request to stop.
    ///
    /// # Errors
    ///
    /// Returns the reason.
    pub async fn ended(&mut self) -> Result<(), PollerError> {
        tokio::select! {
            result = self.poller.ended() => result,
            result = self.requests.ended() => result,
        }
    }

    /// Takes no more work, and leads no longer. Requests that take longer than three seconds are lost.
    ///
    /// # Errors
    ///
    /// Returns the reason if the hub had ended with an error.
    pub async fn stop(self) -> Result<(), PollerError> {
        let (result, requests) = tokio::join!(self.poller.stop(), self.requests.stop());
        result.and(requests)
    }
}

/// Returns a replayer of all workflows. It finds out whether this version can continue a history that
/// another one has recorded.
///
/// # Errors
///
/// Returns an error if the workflows cannot be used.
pub fn replayer(codec: Codec) -> Result<WorkflowReplayer, ReplayerError> {
    let options = WorkflowReplayerOptions::new()
        .register_workflow::<IndexWorkflow>()?
        .register_workflow::<SegmentWorkflow>()?
        .register_workflow::<LeadWorkflow>()?
        .register_workflow::<WorkersWorkflow>()?
        .register_workflow::<AttemptWorkflow>()?
        .register_workflow::<RequestWorkflow>()?
        .data_converter(data_converter(codec))
        .build();
    Ok(WorkflowReplayer::new(options)?)
}

/// Histories cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayerError {
    #[error("cannot use the workflows of vik: {0}")]
    Registration(#[from] WorkflowRegistrationError),
    #[error(transparent)]
    Replay(#[from] WorkflowReplayError),
}

/// Starts the workflow that keeps one hub leading, unless it is running.
async fn start_lead_workflow(client: &Client, queue: &Queue) -> Result<(), HubError> {
    let id = queue.hub();
    let mut backoff = Backoff::default();
    loop {
        let options = WorkflowStartOptions::new(queue.hubs(), &id)
            .id_conflict_policy(WorkflowIdConflictPolicy::UseExisting)
            .task_timeout(TASK_TIMEOUT)
            .rpc_options(once(REQUEST_TIMEOUT))
            .build();
        match client.start_workflow(LeadWorkflow::run, (), options).await {
            Ok(_) => return Ok(()),
            Err(WorkflowStartError::Rpc(status)) if is_temporary(status.code()) => {
                backoff.pause().await;
            }
            Err(error) => {
                return Err(HubError::Start {
                    id,
                    reason: error.to_string(),
                });
            }
        }
    }
}
