//! A worker: it takes the attempts and requests of its task queues.

use std::sync::Arc;

use futures::future::BoxFuture;
use temporalio_client::Client;
use temporalio_sdk::WorkerOptions;
use tokio::runtime::Handle;
use vik_core::worker::WorkerName;

use super::activities::AttemptActivities;
use super::outcome::AttemptEnd;
use super::registry::AttemptContext;
use crate::names::Queue;
use crate::poller::{Poller, PollerError};
use crate::request::{Responder, take_requests};

/// Runs attempts on this machine.
pub trait AttemptRunner: Send + Sync + 'static {
    /// Runs an attempt to its end. If its lease is lost, it must end by itself, with all processes.
    fn run(&self, attempt: AttemptContext) -> BoxFuture<'static, AttemptEnd>;
}

/// Takes attempts and requests until it is stopped.
#[derive(Debug)]
pub struct WorkerHost {
    attempts: Poller,
    requests: Poller,
}

impl WorkerHost {
    /// Starts to take the attempts and requests of the worker `name`. They run on the present runtime,
    /// and none of them waits for one of the other kind.
    ///
    /// # Errors
    ///
    /// Returns an error if a task queue cannot be polled.
    pub fn start(
        client: Client,
        queue: &Queue,
        name: &WorkerName,
        runner: Arc<dyn AttemptRunner>,
        responder: Arc<dyn Responder>,
    ) -> Result<Self, PollerError> {
        let activities = AttemptActivities::new(runner, Handle::current());
        let options = WorkerOptions::new(queue.worker(name))
            .register_activities(activities)
            .build();
        let attempts = Poller::start(client.clone(), options)?;
        let requests = take_requests(client, queue.worker_requests(name), responder)?;
        Ok(Self { attempts, requests })
    }

    /// Resolves when the worker no longer takes attempts or requests, without a request to stop.
    ///
    /// # Errors
    ///
    /// Returns the reason.
    pub async fn ended(&mut self) -> Result<(), PollerError> {
        tokio::select! {
            result = self.attempts.ended() => result,
            result = self.requests.ended() => result,
        }
    }

    /// Takes no more attempts, waits for those that run, and then takes no more requests. While it
    /// waits, attempts are not reachable for commands. Requests that take longer than three seconds
    /// are lost.
    ///
    /// # Errors
    ///
    /// Returns the reason if the worker had ended with an error.
    pub async fn stop(self) -> Result<(), PollerError> {
        let attempts = self.attempts.stop().await;
        attempts.and(self.requests.stop().await)
    }
}
