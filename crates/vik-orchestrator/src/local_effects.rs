//! Carries out the effects of the loop on this machine.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use vik_base::report::{Failure, chain};
use vik_core::ids::IssueId;
use vik_core::issue::{Pull, Wanted};
use vik_core::scheduler::{Expired, LookupResult};
use vik_core::time::{Mono, Now};
use vik_core::workflow::Workflow;
use vik_session::host::Host;
use vik_session::secrets;
use vik_workflow::LoadedWorkflow;

use crate::effects::{Effects, ExpiredRemoval, ExpiryScan, PullDigest, PullOutput, Task, WorkspaceEffects};
use crate::expired::{self, ExpiryTimes, History};
use crate::intake::{self, PullError};
use crate::{Observer, Progress, pressure, service_state};

/// The maximum number of concurrent lookups.
const MAX_LOOKUPS: usize = 8;

/// Carries out effects with tasks, processes under shims, and files.
pub struct LocalEffects {
    host: Arc<Host>,
    history: Arc<dyn History>,
    workflow: Arc<Workflow>,
    workspaces: Box<dyn WorkspaceEffects>,
    /// Receives the progress events.
    observer: Box<dyn Observer>,
    epoch: Instant,
    digest_key: RandomState,
    lookups: CancellationToken,
    lookup_slots: Arc<Semaphore>,
}

impl LocalEffects {
    /// Creates the effects. `workspaces` carries out those that need a workspace, on this machine
    /// or on others.
    pub fn new(
        host: Arc<Host>,
        history: Arc<dyn History>,
        loaded: &LoadedWorkflow,
        workspaces: Box<dyn WorkspaceEffects>,
        observer: Box<dyn Observer>,
    ) -> Self {
        Self {
            host,
            history,
            workflow: Arc::clone(&loaded.workflow),
            workspaces,
            observer,
            epoch: Instant::now(),
            digest_key: RandomState::new(),
            lookups: CancellationToken::new(),
            lookup_slots: Arc::new(Semaphore::new(MAX_LOOKUPS)),
        }
    }
}

impl Effects for LocalEffects {
    fn workspaces(&mut self) -> &mut dyn WorkspaceEffects {
        &mut *self.workspaces
    }

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

    fn find_expired(&mut self, listed: HashSet<IssueId>) -> Task<ExpiryScan> {
        let (host, workflow) = (Arc::clone(&self.host), Arc::clone(&self.workflow));
        let now = self.now().wall;
        let inventory = self.workspaces.take_inventory(ExpiryTimes::of(&workflow, now));
        let scan = tokio::spawn(async move {
            let inventory = inventory.await;
            let find = move || expired::find(&host.layout, &workflow, inventory, &listed, now);
            tokio::task::spawn_blocking(find).await
        });
        Box::pin(async {
            scan.await.flatten().unwrap_or_else(|bug| ExpiryScan {
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
        if *expired != Expired::History {
            return self.workspaces.remove_expired_files(expired, before);
        }
        let (history, stop) = (Arc::clone(&self.history), self.lookups.clone());
        let task = tokio::spawn(async move { expired::delete_history(&history, before, &stop).await });
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(format!("bug in Vik: {bug}"))) })
    }

    fn cancel_lookups(&mut self) {
        self.lookups.cancel();
    }

    fn pressure(&mut self, is_held: bool) -> Option<String> {
        let layout = &self.host.layout;
        let folders = [layout.service_dir(), layout.root().to_owned()];
        pressure::pressure(&self.workflow.pressure, &folders, is_held)
    }

    fn adopt_workflow(&mut self, loaded: &LoadedWorkflow) -> Result<(), Failure> {
        self.workspaces.adopt_workflow(loaded)?;
        // The secrets must be known before the new workflow starts anything.
        secrets::protect_secrets(&self.host.environment, &loaded.workflow);
        self.workflow = Arc::clone(&loaded.workflow);
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
