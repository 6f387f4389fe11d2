//! Carries out on this machine what needs a workspace.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use vik_base::report::{Failure, chain};
use vik_core::attempt::Start;
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::machine::TakenOver;
use vik_core::scheduler::{Expired, RemovalCause};
use vik_core::workflow::{RemoveWorkspace, Workflow};
use vik_proc::Graces;
use vik_session::attempt::{self, Attempt, AttemptHandle, AttemptLink};
use vik_session::host::Host;
use vik_session::removal::{self, Unsaved};
use vik_session::{sandbox, taken_over};
use vik_workflow::{LoadedWorkflow, Prompts};

use crate::OpenFiles;
use crate::effects::{ExpiredRemoval, Removal, Task, WorkspaceEffects};
use crate::expired::{ExpiryTimes, Inventory, remove_expired_files};

/// The maximum number of concurrent removals of workspaces.
const MAX_REMOVALS: usize = 4;

/// The maximum number of concurrent repeats of hand-overs: a tracker that is back gets no burst.
const MAX_HAND_OVERS: usize = 4;

/// Carries out what needs a workspace with tasks, processes under shims, and files.
pub struct LocalWorkspaces {
    host: Arc<Host>,
    workflow: Arc<Workflow>,
    prompts: Arc<Prompts>,
    /// How long agents live without a daemon if the workflow does not set it.
    default_grace: Duration,
    removals: CancellationToken,
    removal_slots: Arc<Semaphore>,
    /// One permit for each session that may have files open.
    session_permits: Arc<Semaphore>,
    hand_over_slots: Arc<Semaphore>,
}

impl LocalWorkspaces {
    pub fn new(
        host: Arc<Host>,
        loaded: &LoadedWorkflow,
        default_grace: Duration,
        open_files: OpenFiles,
    ) -> Self {
        let max_sessions = usize::try_from(open_files.max_sessions()).unwrap_or(usize::MAX);
        Self {
            host,
            workflow: Arc::clone(&loaded.workflow),
            prompts: Arc::clone(&loaded.prompts),
            default_grace,
            removals: CancellationToken::new(),
            removal_slots: Arc::new(Semaphore::new(MAX_REMOVALS)),
            session_permits: Arc::new(Semaphore::new(max_sessions.min(Semaphore::MAX_PERMITS))),
            hand_over_slots: Arc::new(Semaphore::new(MAX_HAND_OVERS)),
        }
    }

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
            lease: None,
            hub: None,
        };
        (handle, attempt)
    }
}

impl WorkspaceEffects for LocalWorkspaces {
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

    fn attempt_log(&self, start: &Start) -> PathBuf {
        self.host.attempt_files(start).log()
    }

    fn orphan_grace(&self) -> Duration {
        let grace = self.workflow.orphan_grace;
        grace.map_or(self.default_grace, |grace| grace.0)
    }

    fn record_changes(&mut self, issue: &IssueId, hold: &TakenOver) -> Task<Result<Vec<String>, String>> {
        let (host, issue, hold) = (Arc::clone(&self.host), issue.clone(), hold.clone());
        let task = tokio::task::spawn_blocking(move || {
            taken_over::record_changes(&host.layout, &issue, &hold).map_err(|error| chain(&error))
        });
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(format!("bug in Vik: {bug}"))) })
    }

    fn remove_workspace(&mut self, issue: Box<Issue>, cause: RemovalCause) -> Task<Removal> {
        let (host, workflow) = (Arc::clone(&self.host), Arc::clone(&self.workflow));
        let (kill, slots) = (self.removals.clone(), Arc::clone(&self.removal_slots));
        let task = tokio::spawn(async move {
            let _permit = slots.acquire_owned().await;
            remove_workspace(&host, &workflow, &issue, cause, kill.cancelled()).await
        });
        Box::pin(async {
            let bug = |bug| Removal::Kept(format!("bug in Vik: {bug}"));
            task.await.unwrap_or_else(bug)
        })
    }

    fn take_inventory(&mut self, before: ExpiryTimes) -> Task<Inventory> {
        let host = Arc::clone(&self.host);
        let task = tokio::task::spawn_blocking(move || Inventory::of(&host.layout, before));
        Box::pin(async {
            task.await.unwrap_or_else(|bug| Inventory {
                problems: vec![format!("bug in Vik: {bug}")],
                ..Inventory::default()
            })
        })
    }

    fn remove_expired_files(
        &mut self,
        expired: &Expired,
        before: Timestamp,
    ) -> Task<Result<ExpiredRemoval, String>> {
        let (host, expired) = (Arc::clone(&self.host), expired.clone());
        let task = tokio::spawn(async move { remove_expired_files(&host, &expired, before).await });
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(format!("bug in Vik: {bug}"))) })
    }

    fn kill_removals(&mut self) {
        self.removals.cancel();
    }

    fn adopt_workflow(&mut self, loaded: &LoadedWorkflow) -> Result<(), Failure> {
        sandbox::check(&loaded.workflow)?;
        self.workflow = Arc::clone(&loaded.workflow);
        self.prompts = Arc::clone(&loaded.prompts);
        Ok(())
    }
}

/// Removes the workspace of an issue from this machine, if the workflow allows it. `cancel` ends its
/// hook.
pub async fn remove_workspace(
    host: &Arc<Host>,
    workflow: &Workflow,
    issue: &Issue,
    cause: RemovalCause,
    cancel: impl Future<Output = ()>,
) -> Removal {
    let unsaved = match (workflow.issue.remove_workspace, cause) {
        // The workflow was edited in the meantime.
        (RemoveWorkspace::Never, _) => {
            return Removal::Kept("`issue.remove_workspace` is `never`".to_owned());
        }
        (RemoveWorkspace::Always, RemovalCause::Finished) => Unsaved::Remove,
        (RemoveWorkspace::Clean, _) | (_, RemovalCause::Unlisted) => Unsaved::Keep,
    };
    // A shim that is just ending still holds the lock.
    let how = (unsaved, Graces::default().total());
    let removal = removal::remove(host, workflow, issue, how, cancel).await;
    removal.unwrap_or_else(|error| Removal::Kept(chain(&error)))
}
