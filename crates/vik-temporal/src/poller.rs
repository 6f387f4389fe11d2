//! A thread that takes workflow tasks or activities from one task queue.

use std::fmt::Display;
use std::thread;

use temporalio_client::Client;
use temporalio_sdk::runtime::RuntimeOptions;
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder, WorkerTuner};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// Polls a task queue until it is stopped.
#[derive(Debug)]
pub struct Poller {
    stop: Option<oneshot::Sender<()>>,
    ended: Option<oneshot::Receiver<Result<(), PollerError>>>,
}

/// A task queue cannot be polled, or no longer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot take work from the task queue `{queue}`: {reason}")]
pub struct PollerError {
    queue: String,
    reason: String,
}

impl Poller {
    /// Starts to poll. The tasks of a worker of the SDK cannot move between threads, so it has its
    /// own.
    ///
    /// # Errors
    ///
    /// Returns an error if there can be no thread.
    pub fn start(client: Client, options: WorkerOptions) -> Result<Self, PollerError> {
        let queue = options.task_queue.clone();
        let error = |reason: String| PollerError {
            queue: queue.clone(),
            reason,
        };
        let (stop, stopped) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|cause| error(cause.to_string()))?;
        let name = queue.clone();
        thread::Builder::new()
            .name("vik-temporal".to_owned())
            .spawn(move || {
                let run = run(client, options, stopped);
                let result = runtime.block_on(LocalSet::new().run_until(run));
                let result = result.map_err(|reason| PollerError { queue: name, reason });
                if let Err(error) = &result {
                    tracing::error!(%error, "polling ended");
                }
                let _ = ended.send(result);
            })
            .map_err(|cause| error(cause.to_string()))?;
        Ok(Self {
            stop: Some(stop),
            ended: Some(end),
        })
    }

    /// Resolves when polling has ended without a request to stop.
    ///
    /// # Errors
    ///
    /// Returns the reason.
    pub async fn ended(&mut self) -> Result<(), PollerError> {
        let Some(ended) = self.ended.as_mut() else {
            return std::future::pending().await;
        };
        let result = ended.await.unwrap_or(Ok(()));
        self.ended = None;
        result
    }

    /// Takes no more tasks, and waits for those that run.
    ///
    /// # Errors
    ///
    /// Returns the reason if polling had ended with an error that [`ended`](Self::ended) has not
    /// returned.
    pub async fn stop(mut self) -> Result<(), PollerError> {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        match self.ended.take() {
            Some(ended) => ended.await.unwrap_or(Ok(())),
            None => Ok(()),
        }
    }
}

/// Returns the maximum numbers of steps of workflows and of activities at the same time.
pub(crate) fn slots(steps: usize, activities: usize) -> WorkerTuner {
    let steps = FixedSizeSlotSupplier::new(steps);
    TunerHolder::builder()
        .workflow_task_slot_supplier(steps)
        .activity_task_slot_supplier(FixedSizeSlotSupplier::new(activities))
        .local_activity_task_slot_supplier(steps)
        .nexus_task_slot_supplier(steps)
        .build()
        .into()
}

async fn run(client: Client, options: WorkerOptions, stopped: oneshot::Receiver<()>) -> Result<(), String> {
    let runtime_options = RuntimeOptions::builder()
        .heartbeat_interval(None)
        .disable_environment_info(true)
        .build()
        .map_err(reason)?;
    let runtime = Runtime::from_current_tokio(runtime_options).map_err(reason)?;
    let mut worker = Worker::new(&runtime, client, options).map_err(reason)?;
    let shut_down = worker.shutdown_handle();
    tokio::task::spawn_local(async move {
        // A dropped `Poller` stops, too.
        let _ = stopped.await;
        shut_down();
    });
    worker.run().await.map_err(reason)
}

fn reason(error: impl Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn poller_that_has_ended_can_be_stopped() {
        let error = PollerError {
            queue: "q".to_owned(),
            reason: "r".to_owned(),
        };
        let (sender, ended) = oneshot::channel();
        let mut poller = Poller {
            stop: None,
            ended: Some(ended),
        };
        sender.send(Err(error.clone())).unwrap();
        assert_eq!(poller.ended().await, Err(error));
        assert_eq!(poller.stop().await, Ok(()));
    }
}
