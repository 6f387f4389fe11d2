//! Carries out on workers what needs a workspace.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};
use vik_base::report::Failure;
use vik_core::attempt::{AttemptResult, HandOverFailure, LogReference, Start};
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::limits::Spend;
use vik_core::machine::TakenOver;
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::outputs::OutputNote;
use vik_core::scheduler::{Expired, RemovalCause};
use vik_core::worker::{WorkerLoss, WorkerName};
use vik_core::workflow::Workflow;
use vik_orchestrator::{ExpiredRemoval, ExpiryTimes, Inventory, Removal, Task, WorkspaceEffects};
use vik_session::attempt::{
    AttemptHandle, Finish, RemoteCommand, RemoteCommands, RemoteLink, RemoteUpdates, UpdateSnapshot,
    WorkerEnd, WorkerFinish,
};
use vik_session::host::Host;
use vik_workflow::LoadedWorkflow;

use crate::attempt::{AttemptClient, AttemptError, AttemptOutcome, AttemptRequest, Attempts, Loss};
use crate::lease::update_interval;
use crate::outputs::{Admission, OutputService};
use crate::remote_folders::RemoteFolders;
use crate::worker_list::WorkerList;
use crate::workers::WorkerInstance;

/// What a worker needs to carry out an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AttemptInput {
    pub(crate) work: Work,
    pub(crate) start: Arc<Start>,
    /// The digest of the workflow file by which the hub decided.
    pub(crate) workflow_digest: String,
    /// The book of outputs of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) outputs: Vec<OutputNote>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// All stages of the attempt.
    Run,
    /// Only its hand-over, again.
    HandOver,
}

/// Starts attempts on workers.
#[derive(Debug)]
pub struct RemoteWorkspaces {
    attempts: Attempts,
    host: Arc<Host>,
    workflow: Arc<Workflow>,
    workflow_digest: String,
    heartbeat_timeout: Duration,
    workers: WorkerList,
    outputs: OutputService,
    folders: RemoteFolders,
}

impl RemoteWorkspaces {
    /// Creates the effects of a hub. An attempt without a heartbeat for `heartbeat_timeout` is lost.
    pub(crate) fn new(
        attempts: Attempts,
        host: Arc<Host>,
        loaded: &LoadedWorkflow,
        heartbeat_timeout: Duration,
        (workers, folders): (WorkerList, RemoteFolders),
        outputs: OutputService,
    ) -> Self {
        Self {
            folders,
            attempts,
            host,
            workflow: Arc::clone(&loaded.workflow),
            workflow_digest: loaded.digest(),
            heartbeat_timeout,
            workers,
            outputs,
        }
    }

    fn spawn(&self, start: Arc<Start>, work: Work) -> AttemptHandle {
        let (handle, link) = AttemptHandle::remote();
        let estimate = self.workflow.agents.get(&start.stage.agent);
        let attempt = RemoteAttempt {
            attempts: self.attempts.clone(),
            log: self.attempt_log(&start),
            estimate: estimate.map_or_else(Spend::default, |profile| profile.estimate),
            heartbeat_timeout: self.heartbeat_timeout,
            workers: self.workers.clone(),
            outputs: self.outputs.clone(),
            _admission: self.outputs.admit(Arc::clone(&start), Arc::clone(&self.workflow)),
            input: AttemptInput {
                work,
                start,
                workflow_digest: self.workflow_digest.clone(),
                outputs: Vec::new(),
            },
        };
        tokio::spawn(attempt.run(link));
        handle
    }
}

impl WorkspaceEffects for RemoteWorkspaces {
    fn start(&mut self, start: Arc<Start>) -> AttemptHandle {
        self.spawn(start, Work::Run)
    }

    fn hand_over(&mut self, start: Arc<Start>) -> AttemptHandle {
        self.spawn(start, Work::HandOver)
    }

    fn attempt_log(&self, start: &Start) -> PathBuf {
        self.host.attempt_files(start).log()
    }

    fn orphan_grace(&self) -> Duration {
        // Attempts do not depend on a hub.
        Duration::MAX
    }

    fn record_changes(&mut self, issue: &IssueId, hold: &TakenOver) -> Task<Result<Vec<String>, String>> {
        let task = tokio::spawn(self.folders.clone().record_changes(issue.clone(), hold.clone()));
        Box::pin(async { task.await.unwrap_or_else(|error| Err(bug(&error))) })
    }

    fn remove_workspace(&mut self, issue: Box<Issue>, cause: RemovalCause) -> Task<Removal> {
        let (digest, limit) = (self.workflow_digest.clone(), self.workflow.issue.hook_timeout.0);
        let task = tokio::spawn(self.folders.clone().remove_workspace(issue, cause, digest, limit));
        Box::pin(async { task.await.unwrap_or_else(|error| Removal::Kept(bug(&error))) })
    }

    fn take_inventory(&mut self, before: ExpiryTimes) -> Task<Inventory> {
        let task = tokio::spawn(self.folders.clone().take_inventory(before));
        Box::pin(async {
            task.await.unwrap_or_else(|error| Inventory {
                problems: vec![bug(&error)],
                ..Inventory::default()
            })
        })
    }

    fn remove_expired_files(
        &mut self,
        expired: &Expired,
        before: Timestamp,
    ) -> Task<Result<ExpiredRemoval, String>> {
        let task = tokio::spawn(self.folders.clone().remove_expired(expired.clone(), before));
        Box::pin(async { task.await.unwrap_or_else(|error| Err(bug(&error))) })
    }

    fn kill_removals(&mut self) {
        self.folders.cancel_removals();
    }

    fn adopt_workflow(&mut self, loaded: &LoadedWorkflow) -> Result<(), Failure> {
        self.workflow = Arc::clone(&loaded.workflow);
        self.workflow_digest = loaded.digest();
        self.workers.set_workflow_digest(self.workflow_digest.clone());
        Ok(())
    }
}

fn bug(error: &tokio::task::JoinError) -> String {
    format!("bug in Vik: {error}")
}

/// An attempt on a worker, as the hub carries it.
struct RemoteAttempt {
    attempts: Attempts,
    input: AttemptInput,
    log: PathBuf,
    /// What it is charged if nothing is known of it.
    estimate: Spend,
    heartbeat_timeout: Duration,
    workers: WorkerList,
    outputs: OutputService,
    /// Its outputs are carried out until its end.
    _admission: Admission,
}

impl RemoteAttempt {
    /// Starts it, unless another hub has, and passes commands and updates on until its end.
    async fn run(mut self, link: RemoteLink) {
        let RemoteLink {
            mut commands,
            mut updates,
        } = link;
        let Some(worker) = self.input.start.worker.clone() else {
            let reason = "bug in Vik: the attempt has no worker".to_owned();
            return self.fail(updates, reason);
        };
        if self.input.start.stage.outputs.is_some() {
            match self.outputs.notes(self.input.start.run).await {
                Ok(notes) => self.input.outputs = notes,
                Err(error) => {
                    return self.fail(updates, format!("cannot read the book of outputs: {error}"));
                }
            }
        }
        let started = tokio::select! {
            started = self.start(&worker) => started,
            () = commands.detached() => return,
        };
        let client = match started {
            Ok(client) => client,
            Err(error) => return self.fail(updates, error.to_string()),
        };
        let process = self.workers.holder(&worker);
        let pause = update_interval(self.heartbeat_timeout);
        let outcome = tokio::select! {
            outcome = client.outcome() => outcome,
            // The next hub goes on with it.
            () = forward_commands(&client, commands) => return,
            () = read_updates(&client, &mut updates, pause) => return,
        };
        match outcome {
            Ok(outcome) => self.finish(&worker, process.as_ref(), updates, outcome),
            Err(AttemptError::Ended(_) | AttemptError::NotFound) => {
                self.lose(&worker, WorkerLoss::Lost, updates);
            }
            Err(error) => self.fail(updates, error.to_string()),
        }
    }

    async fn start(&self, worker: &WorkerName) -> Result<AttemptClient, AttemptError> {
        let start = &self.input.start;
        let attempt = match self.input.work {
            Work::Run => start.attempt_id.to_string(),
            Work::HandOver => format!("{}.hand_over", start.attempt_id),
        };
        let input =
            serde_json::to_string(&self.input).map_err(|error| AttemptError::Server(error.to_string()))?;
        let request = AttemptRequest {
            issue: start.issue.id.as_str().to_owned(),
            attempt,
            worker: worker.clone(),
            heartbeat_timeout: self.heartbeat_timeout,
            input,
        };
        let existing = self.attempts.get(&request);
        let started = match self.input.work {
            Work::Run => self.attempts.start(&request).await,
            Work::HandOver if is_left(&existing).await? => return Ok(existing),
            Work::HandOver => {
                self.workers
                    .wait_until_ready(worker, self.heartbeat_timeout)
                    .await;
                self.attempts.start_again(&request).await
            }
        };
        match started {
            Err(AttemptError::AlreadyStarted) => Ok(existing),
            started => started,
        }
    }

    /// Reports how it ended. `process` is the one that had the name of the worker.
    fn finish(
        self,
        worker: &WorkerName,
        process: Option<&WorkerInstance>,
        mut updates: RemoteUpdates,
        outcome: AttemptOutcome,
    ) {
        match outcome {
            AttemptOutcome::Finished(text) => match serde_json::from_str(&text) {
                Ok(WorkerFinish { updates: last, end }) => {
                    updates.apply(last);
                    match end {
                        WorkerEnd::Ended(end) => updates.finish(Finish::Ended(end)),
                        WorkerEnd::HandedOver(result) => updates.finish(Finish::HandedOver(result)),
                        WorkerEnd::Left { why } => {
                            tracing::warn!(%worker, why, "a worker left an attempt without an end");
                            self.lose(worker, WorkerLoss::Lost, updates);
                        }
                    }
                }
                Err(error) => self.fail(updates, format!("the end of the attempt cannot be read: {error}")),
            },
            AttemptOutcome::Lost {
                reason,
                updates: last,
            } => {
                apply(&mut updates, last.as_deref());
                let loss = match reason {
                    Loss::NoHeartbeat | Loss::LeasePassed => WorkerLoss::Lost,
                    Loss::Drained => WorkerLoss::Drained,
                };
                // The table may not have it yet, and the attempt would start there again.
                if reason != Loss::LeasePassed {
                    self.workers.mark_silent(worker, process);
                }
                self.lose(worker, loss, updates);
            }
            AttemptOutcome::NotTaken => {
                self.workers.mark_silent(worker, process);
                self.lose(worker, WorkerLoss::Lost, updates);
            }
            AttemptOutcome::Cancelled => {
                let reason = "it was cancelled on the Temporal server".to_owned();
                self.end(
                    updates,
                    AttemptResult {
                        reason: Some(reason),
                        ..AttemptResult::new(Outcome::Cancelled)
                    },
                );
            }
            AttemptOutcome::Failed(reason) => self.fail(updates, reason),
        }
    }

    fn lose(self, worker: &WorkerName, loss: WorkerLoss, updates: RemoteUpdates) {
        self.end(updates, AttemptResult::lost_with(worker, loss));
    }

    /// Reports a fault of Vik, or of the server.
    fn fail(self, updates: RemoteUpdates, reason: String) {
        self.end(
            updates,
            AttemptResult {
                failure_class: Some(FailureClass::Internal),
                reason: Some(reason),
                ..AttemptResult::new(Outcome::Failed)
            },
        );
    }

    fn end(self, updates: RemoteUpdates, mut result: AttemptResult) {
        let worker = self.input.start.worker.clone();
        result.log = worker.map(|worker| Box::new(LogReference { worker, file: None }));
        match self.input.work {
            Work::Run => updates.finish_without_worker(result, self.estimate, self.log),
            Work::HandOver => updates.finish(Finish::HandedOver(Err(HandOverFailure {
                step: "hand_over".to_owned(),
                reason: result.reason.unwrap_or_default(),
                wait: Duration::ZERO,
                needs_person: false,
            }))),
        }
    }
}

/// Returns whether a hub that has ended left a try of a hand-over that runs, or whose success is in
/// no log.
async fn is_left(last: &AttemptClient) -> Result<bool, AttemptError> {
    match last.is_running().await {
        Ok(true) => return Ok(true),
        Ok(false) => {}
        Err(AttemptError::NotFound) => return Ok(false),
        Err(error) => return Err(error),
    }
    let end = match last.outcome().await {
        Ok(AttemptOutcome::Finished(text)) => serde_json::from_str(&text).ok(),
        _ => None,
    };
    Ok(end.is_some_and(|finish: WorkerFinish| finish.end == WorkerEnd::HandedOver(Ok(()))))
}

/// Sends commands to the worker. Returns when this hub leaves the attempt to the next one.
async fn forward_commands(client: &AttemptClient, mut commands: RemoteCommands) {
    while let RemoteCommand::Send(snapshot) = commands.next().await {
        let sent = match serde_json::to_string(&snapshot) {
            Ok(text) => client.send(text).await,
            Err(error) => Err(AttemptError::Server(error.to_string())),
        };
        match sent {
            // Its outcome follows.
            Ok(()) | Err(AttemptError::NotFound) => {}
            Err(error) => tracing::error!(%error, "a command for an attempt is not sent"),
        }
    }
}

/// Reads the updates of the worker after each pause, for ever.
async fn read_updates(client: &AttemptClient, updates: &mut RemoteUpdates, pause: Duration) {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match client.updates().await {
            Ok(latest) => apply(updates, latest.as_deref()),
            Err(error) => tracing::debug!(%error, "the updates of an attempt cannot be read"),
        }
    }
}

fn apply(updates: &mut RemoteUpdates, text: Option<&str>) {
    // Before the first update, heartbeats are empty.
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return;
    };
    match serde_json::from_str::<UpdateSnapshot>(text) {
        Ok(snapshot) => updates.apply(snapshot),
        Err(error) => tracing::error!(%error, "the updates of an attempt cannot be read"),
    }
}
