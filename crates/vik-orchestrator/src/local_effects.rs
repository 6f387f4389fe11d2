//! Carries out the effects of the loop on this machine.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use vik_base::report::{Failure, chain};
use vik_core::attempt::Start;
use vik_core::ids::IssueId;
use vik_core::issue::{Issue, Pull, Wanted};
use vik_core::machine::TakenOver;
use vik_core::scheduler::{Expired, LookupResult, RemovalCause};
use vik_core::time::{Mono, Now};
use vik_core::workflow::{RemoveWorkspace, Workflow};
use vik_proc::Graces;
use vik_session::attempt::{self, Attempt, AttemptHandle, AttemptLink};
use vik_session::host::Host;
use vik_session::removal::{self, Unsaved};
use vik_session::{sandbox, secrets, taken_over};
use vik_store::Ledger;
use vik_workflow::{LoadedWorkflow, Prompts};

use crate::effects::{Effects, ExpiredRemoval, ExpiryScan, PullDigest, PullOutput, Removal, Task};
use crate::intake::{self, PullError};
use crate::{Observer, OpenFiles, Progress, expired, pressure, service_state};

/// The maximum number of concurrent lookups.
const MAX_LOOKUPS: usize = 8;

/// The maximum number of concurrent removals of workspaces.
const MAX_REMOVALS: usize = 4;

/// The maximum number of concurrent repeats of hand-overs: a tracker that is back gets no burst.
const MAX_HAND_OVERS: usize = 4;

/// Carries out effects with tasks, processes under shims, and files.
pub struct LocalEffects {
    host: Arc<Host>,
    ledger: Arc<Ledger>,
    workflow: Arc<Workflow>,
    prompts: Arc<Prompts>,
    /// Receives the progress events.
    observer: Box<dyn Observer>,
    /// How long agents live without a daemon if the workflow does not set it.
    default_grace: Duration,
    epoch: Instant,
    digest_key: RandomState,
    lookups: CancellationToken,
    lookup_slots: Arc<Semaphore>,
    removals: CancellationToken,
    removal_slots: Arc<Semaphore>,
    /// One permit for each session that may have files open.
    session_permits: Arc<Semaphore>,
    hand_over_slots: Arc<Semaphore>,
}

impl LocalEffects {
    pub fn new(
        host: Arc<Host>,
        ledger: Arc<Ledger>,
        loaded: &LoadedWorkflow,
        observer: Box<dyn Observer>,
        default_grace: Duration,
        open_files: OpenFiles,
    ) -> Self {
        let max_sessions = usize::try_from(open_files.max_sessions()).unwrap_or(usize::MAX);
        Self {
            host,
            ledger,
            workflow: Arc::clone(&loaded.workflow),
            prompts: Arc::clone(&loaded.prompts),
            observer,
            default_grace,
            epoch: Instant::now(),
            digest_key: RandomState::new(),
            lookups: CancellationToken::new(),
            lookup_slots: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            removals: CancellationToken::new(),
            removal_slots: Arc::new(Semaphore::new(MAX_REMOVALS)),
            hand_over_slots: Arc::new(Semaphore::new(MAX_HAND_OVERS)),
            session_permits: Arc::new(Semaphore::new(max_sessions.min(Semaphore::MAX_PERMITS))),
        }
    }
}

impl LocalEffects {
    fn attempt(&self, start: Arc<Start>) -> (AttemptHandle, Attempt) {
        let (handle, AttemptLink { commands, updates }) = AttemptHandle::new();
        let attempt = Attempt {
            host: Arc::clone(&self.host),
            workflow: Arc::clone(&self.workflow),
            prompts: Arc::clone(&self.prompts),
            start,
            commands,
            updates,
            orphan_grace: self.orphan_grace(),
        };
        (handle, attempt)
    }
}

impl Effects for LocalEffects {
    fn now(&self) -> Now {
        Now {
            wall: vik_base::clock::now(),
            mono: Mono(self.epoch.elapsed()),
        }
    }

    fn sleep(&self, wait: Duration) -> Task<()> {
        Box::pin(tokio::time::sleep(wait))
    }

    fn pull(&mut self) -> Task<Result<PullOutput, PullError>> {
        let (host, workflow) = (Arc::clone(&self.host), Arc::clone(&self.workflow));
        let (cancel, key) = (self.lookups.clone(), self.digest_key.clone());
        let task = tokio::spawn(async move {
            let stderr = host.layout.service_dir().join("pull.stderr.log");
            let text = intake::run_pull_command(&host, &workflow, &stderr, cancel.cancelled()).await?;
            let digest = PullDigest(key.hash_one(&*text));
            Ok(PullOutput { text, digest })
        });
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(PullError::bug(&bug))) })
    }

    fn read_pull(&mut self, output: PullOutput, wanted: Wanted) -> Task<Result<Pull, PullError>> {
        let task = tokio::spawn(intake::read(output.text, Some(wanted)));
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(PullError::bug(&bug))) })
    }

    fn look_up(&mut self, issue: &IssueId) -> Task<Result<LookupResult, String>> {
        let (host, workflow) = (Arc::clone(&self.host), Arc::clone(&self.workflow));
        let (cancel, slots) = (self.lookups.clone(), Arc::clone(&self.lookup_slots));
        let issue = issue.clone();
        let task = tokio::spawn(async move {
            let Some(show) = &workflow.show else {
                // The workflow was edited in the meantime.
                return Ok(LookupResult::Unknown);
            };
            let _permit = slots.acquire_owned().await;
            let lookup = intake::show(&host, &workflow, show, &issue, cancel.cancelled());
            lookup.await.map_err(|error| chain(&error))
        });
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(format!("bug in Vik: {bug}"))) })
    }

    fn move_issue(&mut self, issue: &IssueId, from: &str, to: &str) -> Task<Result<(), String>> {
        let (host, workflow) = (Arc::clone(&self.host), Arc::clone(&self.workflow));
        let (cancel, slots) = (self.lookups.clone(), Arc::clone(&self.lookup_slots));
        let (issue, from, to) = (issue.clone(), from.to_owned(), to.to_owned());
        let task = tokio::spawn(async move {
            let _permit = slots.acquire_owned().await;
            intake::move_issue(&host, &workflow, &issue, (&from, &to), cancel.cancelled()).await
        });
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(format!("bug in Vik: {bug}"))) })
    }

    fn record_changes(&mut self, issue: &IssueId, hold: &TakenOver) -> Task<Result<Vec<String>, String>> {
        let (host, issue, hold) = (Arc::clone(&self.host), issue.clone(), hold.clone());
        let task = tokio::task::spawn_blocking(move || {
            taken_over::record_changes(&host.layout, &issue, &hold).map_err(|error| chain(&error))
        });
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(format!("bug in Vik: {bug}"))) })
    }

    fn start(&mut self, start: Arc<Start>) -> AttemptHandle {
        let (handle, attempt) = self.attempt(start);
        attempt::spawn(attempt, Arc::clone(&self.session_permits));
        handle
    }

    fn hand_over(&mut self, start: Arc<Start>) -> AttemptHandle {
        let (handle, attempt) = self.attempt(start);
        attempt::spawn_hand_over(attempt, Arc::clone(&self.hand_over_slots));
        handle
    }

    fn remove_workspace(&mut self, issue: Box<Issue>, cause: RemovalCause) -> Task<Removal> {
        let (host, workflow) = (Arc::clone(&self.host), Arc::clone(&self.workflow));
        let (kill, slots) = (self.removals.clone(), Arc::clone(&self.removal_slots));
        let unsaved = match (workflow.issue.remove_workspace, cause) {
            (RemoveWorkspace::Never, _) => {
                // The workflow was edited in the meantime.
                return Box::pin(async { Removal::Kept("`issue.remove_workspace` is `never`".to_owned()) });
            }
            (RemoveWorkspace::Always, RemovalCause::Finished) => Unsaved::Remove,
            (RemoveWorkspace::Clean, _) | (_, RemovalCause::Unlisted) => Unsaved::Keep,
        };
        let task = tokio::spawn(async move {
            let _permit = slots.acquire_owned().await;
            // A shim that is just ending still holds the lock.
            let how = (unsaved, Graces::default().total());
            removal::remove(&host, &workflow, &issue, how, kill.cancelled()).await
        });
        Box::pin(async {
            match task.await {
                Ok(Ok(removal)) => removal,
                Ok(Err(error)) => Removal::Kept(chain(&error)),
                Err(bug) => Removal::Kept(format!("bug in Vik: {bug}")),
            }
        })
    }

    fn find_expired(&mut self, listed: HashSet<IssueId>) -> Task<ExpiryScan> {
        let (host, workflow) = (Arc::clone(&self.host), Arc::clone(&self.workflow));
        let now = self.now().wall;
        let scan = tokio::task::spawn_blocking(move || expired::find(&host.layout, &workflow, &listed, now));
        Box::pin(async {
            scan.await.unwrap_or_else(|bug| ExpiryScan {
                problems: vec![format!("bug in Vik: {bug}")],
                ..ExpiryScan::default()
            })
        })
    }

    fn remove_expired(
        &mut self,
        expired: &Expired,
        before: Timestamp,
    ) -> Task<Result<ExpiredRemoval, String>> {
        let (host, ledger) = (Arc::clone(&self.host), Arc::clone(&self.ledger));
        let (expired, stop) = (expired.clone(), self.lookups.clone());
        let task =
            tokio::spawn(async move { expired::remove(&host, &ledger, &expired, before, &stop).await });
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(format!("bug in Vik: {bug}"))) })
    }

    fn cancel_lookups(&mut self) {
        self.lookups.cancel();
    }

    fn kill_removals(&mut self) {
        self.removals.cancel();
    }

    fn pressure(&mut self, is_held: bool) -> Option<String> {
        let layout = &self.host.layout;
        let folders = [layout.service_dir(), layout.root().to_owned()];
        pressure::pressure(&self.workflow.pressure, &folders, is_held)
    }

    fn orphan_grace(&self) -> Duration {
        let grace = self.workflow.orphan_grace;
        grace.map_or(self.default_grace, |grace| grace.0)
    }

    fn attempt_log(&self, start: &Start) -> PathBuf {
        self.host.attempt_files(start).log()
    }

    fn adopt_workflow(&mut self, loaded: &LoadedWorkflow) -> Result<(), Failure> {
        sandbox::check(&loaded.workflow)?;
        // The secrets must be known before the new workflow starts anything.
        secrets::protect_secrets(&self.host.environment, &loaded.workflow);
        self.workflow = Arc::clone(&loaded.workflow);
        self.prompts = Arc::clone(&loaded.prompts);
        Ok(())
    }

    fn publish(&mut self, progress: &Progress<'_>) {
        self.observer.on_progress(progress);
    }

    fn record_state(&mut self, state: &str, error: Option<&str>) {
        if let Err(error) = service_state::enter(&self.host.layout.state_file(), state, error) {
            tracing::error!(%error, "cannot write state.json");
        }
    }
}
