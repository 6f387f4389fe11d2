//! A worker: it takes the attempts that a hub starts on its task queue.

use std::sync::Arc;

use futures::future::BoxFuture;
use temporalio_client::Client;
use temporalio_sdk::WorkerOptions;
use tokio::runtime::Handle;

use super::activities::AttemptActivities;
use super::outcome::AttemptEnd;
use super::registry::AttemptContext;
use crate::names::Queue;
use crate::poller::{Poller, PollerError};

/// Runs attempts on this machine.
pub trait AttemptRunner: Send + Sync + 'static {
    /// Runs an attempt to its end. If its lease is lost, it must end by itself, with all processes.
    fn run(&self, attempt: AttemptContext) -> BoxFuture<'static, AttemptEnd>;
}

/// Takes attempts until it is stopped.
#[derive(Debug)]
pub struct WorkerHost {
    poller: Poller,
}

impl WorkerHost {
    /// Starts to take the attempts of the worker `name`. They run on the present runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if the task queue cannot be polled.
    pub fn start(
        client: Client,
        queue: &Queue,
        name: &str,
        runner: Arc<dyn AttemptRunner>,
    ) -> Result<Self, PollerError> {
        let activities = AttemptActivities::new(runner, Handle::current());
        let options = WorkerOptions::new(queue.worker(name))
            .register_activities(activities)
            .build();
        let poller = Poller::start(client, options)?;
        Ok(Self { poller })
    }

    /// Resolves when the worker no longer takes attempts, without a request to stop.
    ///
    /// # Errors
    ///
    /// Returns the reason.
    pub async fn ended(&mut self) -> Result<(), PollerError> {
        self.poller.ended().await
    }

    /// Takes no more attempts, and waits for those that run. While it waits, they are not reachable
    /// for commands.
    ///
    /// # Errors
    ///
    /// Returns the reason if the worker had ended with an error.
    pub async fn stop(self) -> Result<(), PollerError> {
        self.poller.stop().await
    }
}
