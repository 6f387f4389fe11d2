//! What a hub runs for its queue: the workflows, and the activity of the hub that leads.

use std::time::Duration;

use temporalio_client::Client;
use temporalio_sdk::WorkerOptions;
use temporalio_sdk::error::WorkflowRegistrationError;

use crate::log::{IndexWorkflow, SegmentWorkflow};
use crate::names::Queue;
use crate::poller::{Poller, PollerError};

/// How long a step of a workflow waits for the hub that made the last one. After that, any hub may
/// make it.
const STICKY_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts to take work for hubs.
///
/// # Errors
///
/// Returns an error if the task queue cannot be polled.
pub fn start_hub(client: Client, queue: &Queue) -> Result<Poller, HubError> {
    let options = WorkerOptions::new(queue.hubs())
        .sticky_queue_schedule_to_start_timeout(STICKY_TIMEOUT)
        .register_workflow::<IndexWorkflow>()?
        .register_workflow::<SegmentWorkflow>()?
        .build();
    Ok(Poller::start(client, options)?)
}

/// A hub cannot take work.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("a workflow is registered twice: {0}")]
    Registration(#[from] WorkflowRegistrationError),
    #[error(transparent)]
    Poller(#[from] PollerError),
}
