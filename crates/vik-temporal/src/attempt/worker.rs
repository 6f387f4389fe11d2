//! A worker: it takes the attempts, commands and requests of its task queues.

use std::sync::Arc;

use futures::future::BoxFuture;
use temporalio_client::Client;
use temporalio_sdk::WorkerOptions;
use tokio::runtime::Handle;
use vik_core::worker::WorkerName;

use super::activities::AttemptActivities;
use super::outcome::AttemptEnd;
use super::registry::{AttemptContext, Registry};
use crate::names::Queue;
use crate::poller::{Poller, PollerError, slots};
use crate::request::{Responder, take_requests};

/// How many attempts a worker runs at the same time, whatever its hubs ask for. Further ones are not
/// taken.
const MAX_ATTEMPTS: usize = 100;

/// Runs attempts on this machine.
pub trait AttemptRunner: Send + Sync + 'static {
    /// Runs an attempt to its end. If its lease is lost, it must end by itself, with all processes.
    fn run(&self, attempt: AttemptContext) -> BoxFuture<'static, AttemptEnd>;
}

/// Takes attempts, commands and requests until it is stopped.
#[derive(Debug)]
pub struct WorkerHost {
    attempts: Poller,
    /// A command must not wait for a request that takes long.
    commands: Poller,
    requests: Poller,
}

impl WorkerHost {
    /// Starts to take the attempts, commands and requests of the worker `name`. They run on the
    /// present runtime, and none of them waits for one of another kind.
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
        let registry = Registry::default();
        let commands = queue.worker_commands(name);
        let commands = take_requests(client.clone(), commands, Arc::new(registry.clone()))?;
        let options = WorkerOptions::new(queue.worker(name))
            .tuner(slots(1, MAX_ATTEMPTS))
            .register_activities(AttemptActivities::new(runner, registry, Handle::current()))
            .build();
        let attempts = Poller::start(client.clone(), options)?;
        let requests = take_requests(client, queue.worker_requests(name), responder)?;
        Ok(Self {
            attempts,
            commands,
            requests,
        })
    }

    /// Resolves when the worker no longer takes one of them, without a request to stop.
    ///
    /// # Errors
    ///
    /// Returns the reason.
    pub async fn ended(&mut self) -> Result<(), PollerError> {
        tokio::select! {
            result = self.attempts.ended() => result,
            result = self.commands.ended() => result,
            result = self.requests.ended() => result,
        }
    }

    /// Takes no more attempts, waits for those that run, and then takes no more commands and requests.
    /// Requests that take longer than three seconds are lost.
    ///
    /// # Errors
    ///
    /// Returns the reason if the worker had ended with an error.
    pub async fn stop(self) -> Result<(), PollerError> {
        let attempts = self.attempts.stop().await;
        let (commands, requests) = tokio::join!(self.commands.stop(), self.requests.stop());
        attempts.and(commands).and(requests)
    }
}
