//! The activity of a worker: it runs attempts.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use temporalio_client::NamespacedClient;
use temporalio_macros::activities;
use temporalio_sdk::ApplicationFailure;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use vik_base::failpoint;

use super::outcome::AttemptEnd;
use super::registry::{AttemptContext, LeaseState, Registry};
use super::worker::AttemptRunner;
use crate::lease::{HeartbeatResult, Heartbeats};
use crate::rpc::check_result;

/// The type of the activity that runs an attempt.
pub(super) const ATTEMPT: &str = "vik_attempt";

/// The activities on the task queue for attempts.
pub struct AttemptActivities {
    runner: Arc<dyn AttemptRunner>,
    registry: Registry,
    /// Attempts run there, and not on the thread that polls.
    runtime: Handle,
}

impl AttemptActivities {
    pub(super) fn new(runner: Arc<dyn AttemptRunner>, registry: Registry, runtime: Handle) -> Self {
        Self {
            runner,
            registry,
            runtime,
        }
    }
}

#[activities]
impl AttemptActivities {
    /// Runs an attempt, as long as its lease is renewed.
    #[activity(name = "vik_attempt")]
    pub async fn attempt(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: String,
    ) -> Result<AttemptEnd, ActivityError> {
        let heartbeats = Heartbeats::new(ctx.clone());
        // Nothing starts without a lease: the server may have given up on this worker.
        let HeartbeatResult::Confirmed {
            until,
            cancel_requested,
        } = heartbeats.send("").await
        else {
            return Ok(AttemptEnd::LeasePassed);
        };
        failpoint::reach("attempt_taken");
        let info = ctx.info();
        let id = info.workflow_id.clone().unwrap_or_default();
        let (_registered, commands) = self.registry.register(id.clone());
        let (lease_sender, lease) = watch::channel(LeaseState {
            until,
            cancel_requested,
            is_lost: false,
        });
        let (updates, latest) = watch::channel(String::new());
        let context = AttemptContext {
            id,
            input,
            commands,
            lease,
            updates,
        };
        let running = self.runtime.spawn(self.runner.run(context));
        let end = keep_alive(&heartbeats, running, &lease_sender, latest).await?;
        failpoint::reach("attempt_ended");
        let client = ctx.client();
        let checked = check_result(client.data_converter(), &end).await;
        checked.map(|()| end).map_err(failed)
    }
}

/// Renews the lease until the attempt has ended. Once the lease is lost, it stays lost.
async fn keep_alive(
    heartbeats: &Heartbeats,
    mut running: JoinHandle<AttemptEnd>,
    lease: &watch::Sender<LeaseState>,
    mut updates: watch::Receiver<String>,
) -> Result<AttemptEnd, ActivityError> {
    loop {
        let LeaseState { until, is_lost, .. } = *lease.borrow();
        let due = async {
            if is_lost {
                pending::<()>().await;
            }
            let pause = heartbeats.interval().min(until.remaining());
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = next_update(&mut updates, heartbeats.update_interval()) => {}
            }
        };
        tokio::select! {
            end = &mut running => return ended(end),
            () = due => {}
        }
        let renewed = if until.has_passed() {
            None
        } else {
            let details = updates.borrow_and_update().clone();
            let sent = tokio::time::timeout(until.remaining(), heartbeats.send(&details));
            tokio::select! {
                end = &mut running => return ended(end),
                result = sent => result.ok(),
            }
        };
        lease.send_modify(|state| match renewed {
            Some(HeartbeatResult::Confirmed {
                until,
                cancel_requested,
            }) => {
                state.until = until;
                state.cancel_requested |= cancel_requested;
            }
            Some(HeartbeatResult::Unanswered) => {}
            Some(HeartbeatResult::NotHeld) | None => state.is_lost = true,
        });
    }
}

/// Resolves a while after there is a new update, so that many of them need one heartbeat.
async fn next_update(updates: &mut watch::Receiver<String>, pause: Duration) {
    if updates.changed().await.is_err() {
        // The attempt sends no more, and is about to end.
        pending::<()>().await;
    }
    tokio::time::sleep(pause).await;
}

fn ended(end: Result<AttemptEnd, tokio::task::JoinError>) -> Result<AttemptEnd, ActivityError> {
    // The message of a panic may contain data, and is in the log of the worker.
    end.map_err(|_| failed("the attempt panicked".to_owned()))
}

fn failed(reason: String) -> ActivityError {
    ActivityError::application(ApplicationFailure::non_retryable(reason))
}
