//! Takes the requests to a worker or a hub, beside all else that it takes.

use std::sync::Arc;
use std::time::Duration;

use temporalio_client::Client;
use temporalio_sdk::WorkerOptions;
use tokio::runtime::Handle;

use super::activities::{RequestActivities, Responder};
use crate::poller::{Poller, PollerError, slots};

/// How many requests a process answers at the same time. Further ones wait, and are not taken if they
/// wait for too long.
const MAX_REQUESTS: usize = 64;

/// How long requests may take when the process stops. After that, they are lost.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts to take the requests of a task queue. They are answered on the present runtime.
///
/// They have a task queue of their own: the server does not separate the activities of one, so that a
/// request would wait for the slot of an attempt.
pub(crate) fn take_requests(
    client: Client,
    task_queue: String,
    responder: Arc<dyn Responder>,
) -> Result<Poller, PollerError> {
    let options = WorkerOptions::new(task_queue)
        .graceful_shutdown_period(STOP_TIMEOUT)
        .tuner(slots(1, MAX_REQUESTS))
        .register_activities(RequestActivities::new(responder, Handle::current()))
        .build();
    Poller::start(client, options)
}
