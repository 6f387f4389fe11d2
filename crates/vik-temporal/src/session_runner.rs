//! Runs the attempts of a worker on this machine.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until};
use vik_core::attempt::{LogFile, LogReference, StopReason};
use vik_core::outcome::Outcome;
use vik_core::worker::WorkerName;
use vik_proc::{Lease, LeaseSender};
use vik_session::attempt::{
    self, Attempt, AttemptHandle, AttemptLink, CommandSnapshot, StopLevel, UpdateSnapshot, WorkerEnd,
    WorkerFinish, WorkerHandle, WorkerUpdate,
};
use vik_session::host::Host;

use vik_workspace::fs as private;

use crate::attempt::{AttemptContext, AttemptEnd, AttemptRunner, LeaseState};
use crate::outputs::RemoteHub;
use crate::remote_workspaces::{AttemptInput, Work};
use crate::request::Requests;
use crate::worker_workflow::WorkflowReceiver;

/// The shortest time between two updates: facts change with each event of an agent.
const MIN_UPDATE_PAUSE: Duration = Duration::from_millis(100);

/// Runs attempts in workspaces of this machine, by its own copy of the workflow.
#[derive(Debug)]
pub struct SessionRunner {
    host: Arc<Host>,
    workflow: WorkflowReceiver,
    /// One permit for each session that may have files open.
    session_permits: Arc<Semaphore>,
    /// The requests to the hub that leads.
    requests: Requests,
    /// How urgently the worker stops.
    stop_level: watch::Receiver<StopLevel>,
    /// Notified when an attempt has lost its lease.
    lease_lost: Arc<Notify>,
}

impl SessionRunner {
    /// Creates the runner. It runs at most `max_sessions` attempts at the same time, whatever hubs
    /// ask for. When `stop_level` rises, it ends them, and they are lost for the hub.
    pub(crate) fn new(
        host: Arc<Host>,
        workflow: WorkflowReceiver,
        max_sessions: usize,
        requests: Requests,
        stop_level: watch::Receiver<StopLevel>,
    ) -> Self {
        Self {
            host,
            workflow,
            session_permits: Arc::new(Semaphore::new(max_sessions)),
            requests,
            stop_level,
            lease_lost: Arc::default(),
        }
    }

    /// Returns what is notified when an attempt has lost its lease: hubs may take the worker for lost.
    pub(crate) fn lease_lost(&self) -> Arc<Notify> {
        Arc::clone(&self.lease_lost)
    }

    /// Starts the attempt under a lease.
    ///
    /// # Errors
    ///
    /// Returns the reason why this worker does not run it.
    fn start(&self, input: &str, lease: Lease) -> Result<(WorkerHandle, Option<WorkerName>), String> {
        let input: AttemptInput =
            serde_json::from_str(input).map_err(|error| format!("the attempt cannot be read: {error}"))?;
        let workflow = Arc::clone(&self.workflow.borrow());
        if input.workflow_digest != workflow.digest {
            return Err("its workflow file is not that of the hub".to_owned());
        }
        let worker = input.start.worker.clone();
        let (handle, AttemptLink { commands, updates }) = AttemptHandle::new();
        let attempt = Attempt {
            host: Arc::clone(&self.host),
            workflow: Arc::clone(&workflow.loaded.workflow),
            prompts: Arc::clone(&workflow.loaded.prompts),
            start: input.start,
            commands,
            updates,
            // Without the worker, nobody renews the lease.
            orphan_grace: Duration::ZERO,
            lease: Some(lease),
            hub: Some(Arc::new(RemoteHub {
                requests: self.requests.clone(),
                notes: input.outputs,
            })),
        };
        let permits = Arc::clone(&self.session_permits);
        match input.work {
            Work::Run => attempt::spawn(attempt, permits),
            Work::HandOver => attempt::spawn_hand_over(attempt, permits),
        }
        Ok((handle.into_worker(), worker))
    }
}

impl AttemptRunner for SessionRunner {
    fn run(&self, context: AttemptContext) -> BoxFuture<'static, AttemptEnd> {
        let (sender, lease) = Lease::new(context.lease.borrow().until);
        match self.start(&context.input, lease.clone()) {
            Ok((attempt, worker)) => {
                let running = RunningAttempt {
                    attempt,
                    worker,
                    context,
                    lease,
                    sender,
                };
                let (ended, lease_lost) = (running.run(self.stop_level.clone()), self.lease_lost());
                let notify = move |end: &AttemptEnd| {
                    if matches!(end, AttemptEnd::LeasePassed) {
                        lease_lost.notify_one();
                    }
                };
                ended.inspect(notify).boxed()
            }
            Err(why) => {
                tracing::error!(attempt = context.id, why, "an attempt is not started");
                let finish = WorkerFinish {
                    updates: UpdateSnapshot::default(),
                    end: WorkerEnd::Left { why: Some(why) },
                };
                futures::future::ready(finished(&finish)).boxed()
            }
        }
    }
}

/// An attempt on this worker, and its connection to the hub.
struct RunningAttempt {
    attempt: WorkerHandle,
    context: AttemptContext,
    worker: Option<WorkerName>,
    lease: Lease,
    sender: LeaseSender,
}

impl RunningAttempt {
    /// Passes commands and updates between the attempt and its hub until its end.
    async fn run(mut self, mut stop_level: watch::Receiver<StopLevel>) -> AttemptEnd {
        let mut next_update = Instant::now();
        let mut level = StopLevel::Run;
        let mut finish = loop {
            let update = async {
                sleep_until(next_update).await;
                self.attempt.next().await
            };
            tokio::select! {
                update = update => match update {
                    WorkerUpdate::Changed(updates) => {
                        next_update = Instant::now() + MIN_UPDATE_PAUSE;
                        self.send(&updates);
                    }
                    WorkerUpdate::Finished(finish) => break finish,
                },
                Ok(risen) = stop_level.wait_for(|risen| *risen > level) => {
                    level = *risen;
                    self.attempt.commands.stop_with_daemon(level);
                }
                Some(text) = self.context.commands.recv() => self.apply(&text),
                Ok(()) = self.context.lease.changed() => self.renew(),
            }
        };
        if let (WorkerEnd::Ended(end), Some(worker)) = (&mut finish.end, self.worker.take()) {
            end.ended.result.log = Some(Box::new(log_reference(worker, &end.log).await));
        }
        self.end(&finish, level)
    }

    fn send(&self, updates: &UpdateSnapshot) {
        match serde_json::to_string(updates) {
            Ok(text) => drop(self.context.updates.send_replace(text)),
            Err(error) => tracing::error!(%error, "updates of an attempt cannot be sent"),
        }
    }

    fn apply(&self, text: &str) {
        match serde_json::from_str::<CommandSnapshot>(text) {
            Ok(commands) => self.attempt.commands.apply(commands),
            Err(error) => tracing::error!(%error, "a command for an attempt cannot be read"),
        }
    }

    fn renew(&mut self) {
        let LeaseState {
            until,
            cancel_requested,
            is_lost,
        } = *self.context.lease.borrow_and_update();
        if is_lost {
            self.sender.end();
        } else {
            self.sender.renew(until);
        }
        if cancel_requested {
            self.attempt.commands.stop(StopReason::Cancelled);
        }
    }

    /// Returns the end for the hub. What ended after the lease was lost has no result: another worker
    /// may have started the attempt again.
    fn end(&self, finish: &WorkerFinish, level: StopLevel) -> AttemptEnd {
        match &finish.end {
            _ if self.lease.is_lost() => AttemptEnd::LeasePassed,
            WorkerEnd::Ended(end) if level > StopLevel::Run && self.is_stopped_by_worker(end) => {
                AttemptEnd::Drained
            }
            _ => finished(finish),
        }
    }

    /// Returns whether the attempt was stopped only because its worker stops.
    fn is_stopped_by_worker(&self, end: &attempt::AttemptEnd) -> bool {
        end.ended.result.outcome == Outcome::Cancelled && !self.attempt.commands.is_stopped()
    }
}

/// Returns where the log of an ended attempt is. Without its file, only the worker is known.
async fn log_reference(worker: WorkerName, log: &Path) -> LogReference {
    let log = log.to_owned();
    let read = tokio::task::spawn_blocking(move || read_log(log)).await;
    let file = match read {
        Ok(Ok(file)) => Some(file),
        Ok(Err(error)) => {
            tracing::error!(%error, "the log of an ended attempt cannot be read");
            None
        }
        Err(_) => None,
    };
    LogReference { worker, file }
}

/// Reads a log for its size and its digest. Blocks.
fn read_log(path: PathBuf) -> std::io::Result<LogFile> {
    let mut file = private::open(&path)?;
    let mut digest = Sha256::new();
    let mut part = vec![0; 64 * 1024];
    let mut bytes = 0;
    loop {
        let count = file.read(&mut part)?;
        if count == 0 {
            break;
        }
        digest.update(&part[..count]);
        bytes += count as u64;
    }
    let sha256 = digest.finalize().iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    Ok(LogFile { path, bytes, sha256 })
}

fn finished(finish: &WorkerFinish) -> AttemptEnd {
    // Text of any kind can be written as JSON.
    AttemptEnd::Finished(serde_json::to_string(finish).unwrap_or_default())
}
