//! The folders of issues on workers, as the hub that leads removes and reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vik_base::report::chain;
use vik_control::http::{RemoteSessions, SessionPart, SessionRequest};
use vik_core::ids::IssueId;
use vik_core::issue::Issue;
use vik_core::machine::TakenOver;
use vik_core::scheduler::{Expired, RemovalCause};
use vik_core::worker::{Presence, WorkerName, Workers};
use vik_orchestrator::{ExpiredRemoval, ExpiryTimes, Inventory, Removal, Task};
use vik_store::ledger::Reader;

use crate::peer::{Peers, WorkerRequest};

/// How long a worker may take to read files.
const READ_LIMIT: Duration = Duration::from_secs(7);

/// How long a worker may take to compare files.
const DIFF_LIMIT: Duration = Duration::from_secs(30);

/// How long a worker may take to search or remove files.
const FILES_LIMIT: Duration = Duration::from_secs(120);

/// How long the removal of a workspace may take, beside its hook.
const REMOVAL_LIMIT: Duration = Duration::from_secs(300);

/// The folders of issues on all workers.
#[derive(Clone, Debug)]
pub(crate) struct RemoteFolders {
    peers: Peers,
    workers: watch::Receiver<Workers>,
    /// The folder of the ledger of this hub, which has the worker of each workspace.
    service_dir: PathBuf,
    /// What each worker listed last. A worker that does not respond keeps its list.
    inventories: Arc<Mutex<BTreeMap<WorkerName, Inventory>>>,
    /// Ends the wait for removals.
    removals: CancellationToken,
}

impl RemoteFolders {
    pub(crate) fn new(peers: Peers, workers: watch::Receiver<Workers>, service_dir: PathBuf) -> Self {
        Self {
            peers,
            workers,
            service_dir,
            inventories: Arc::default(),
            removals: CancellationToken::new(),
        }
    }

    /// Removes the workspace of an issue from each worker that has one.
    pub(crate) async fn remove_workspace(
        self,
        issue: Box<Issue>,
        cause: RemovalCause,
        workflow_digest: String,
        hook_timeout: Duration,
    ) -> Removal {
        let owners = match self.owners(&issue.id).await {
            Ok(owners) => owners,
            Err(reason) => return Removal::Kept(reason),
        };
        let request = WorkerRequest::RemoveWorkspace {
            issue,
            cause,
            workflow_digest,
        };
        let mut removal = Removal::Absent;
        for worker in owners {
            let asked = self.peers.ask(&worker, &request, REMOVAL_LIMIT + hook_timeout);
            let Some(answer) = self.removals.run_until_cancelled(asked).await else {
                return Removal::Kept(format!("the hub stopped while the worker `{worker}` removed it"));
            };
            removal = match (answer, removal) {
                (Ok(Removal::Kept(reason)), _) => {
                    return Removal::Kept(format!("on the worker `{worker}`: {reason}"));
                }
                (Err(reason), _) => return Removal::Kept(reason),
                (Ok(Removal::Removed { bytes }), Removal::Removed { bytes: others }) => Removal::Removed {
                    bytes: bytes.saturating_add(others),
                },
                (Ok(Removal::Absent), removal) | (Ok(removal), _) => removal,
            };
            if let WorkerRequest::RemoveWorkspace { issue, .. } = &request
                && let Some(inventory) = self.inventories().get_mut(&worker)
            {
                inventory.workspaces.remove(&issue.id);
            }
        }
        removal
    }

    /// Stops to wait for removals, now and later.
    pub(crate) fn cancel_removals(&self) {
        self.removals.cancel();
    }

    /// Records what a person changed in the workspace of an issue.
    pub(crate) async fn record_changes(self, issue: IssueId, hold: TakenOver) -> Result<Vec<String>, String> {
        // Without a workspace, nobody changed anything.
        let Some(worker) = self.owner(issue.clone()).await? else {
            return Ok(Vec::new());
        };
        let request = WorkerRequest::RecordChanges { issue, hold };
        self.peers.ask(&worker, &request, FILES_LIMIT).await
    }

    /// Lists what all workers have.
    pub(crate) async fn take_inventory(self, before: ExpiryTimes) -> Inventory {
        let workers: Vec<_> = self.present().collect();
        let request = WorkerRequest::Inventory { before };
        let asked = workers
            .iter()
            .map(|worker| self.peers.ask::<Inventory>(worker, &request, FILES_LIMIT));
        let answers = join_all(asked).await;
        let mut all = Inventory::default();
        let mut inventories = self.inventories();
        for (worker, answer) in workers.into_iter().zip(answers) {
            match answer {
                Ok(inventory) => {
                    let problems = inventory.problems.iter();
                    all.problems
                        .extend(problems.map(|problem| format!("the worker `{worker}`: {problem}")));
                    inventories.insert(worker, inventory);
                }
                Err(reason) => all.problems.push(reason),
            }
        }
        for inventory in inventories.values() {
            all.workspaces.extend(inventory.workspaces.iter().cloned());
            all.expired.extend(inventory.expired.iter().cloned());
        }
        all
    }

    /// Removes old files from the workers that listed them.
    pub(crate) async fn remove_expired(
        self,
        expired: Expired,
        before: Timestamp,
    ) -> Result<ExpiredRemoval, String> {
        let has = |(worker, inventory): (&WorkerName, &Inventory)| {
            inventory.expired.contains(&expired).then(|| worker.clone())
        };
        let owners: Vec<_> = self.inventories().iter().filter_map(has).collect();
        let request = WorkerRequest::RemoveExpired {
            expired: expired.clone(),
            before,
        };
        let mut sum = ExpiredRemoval::default();
        for worker in owners {
            let removed: ExpiredRemoval = self.peers.ask(&worker, &request, FILES_LIMIT).await?;
            sum.count += removed.count;
            sum.bytes += removed.bytes;
            sum.has_more |= removed.has_more;
            if let Some(inventory) = self.inventories().get_mut(&worker)
                && !removed.has_more
            {
                inventory.expired.remove(&expired);
            }
        }
        Ok(sum)
    }

    /// Returns the workers that have a workspace of the issue, as far as is known.
    async fn owners(&self, issue: &IssueId) -> Result<BTreeSet<WorkerName>, String> {
        let last = self.owner(issue.clone()).await?;
        let inventories = self.inventories();
        let has = inventories
            .iter()
            .filter(|(_, inventory)| inventory.workspaces.contains(issue));
        Ok(has.map(|(worker, _)| worker.clone()).chain(last).collect())
    }

    /// Returns the worker that had the last attempt of the issue.
    async fn owner(&self, issue: IssueId) -> Result<Option<WorkerName>, String> {
        let folder = self.service_dir.clone();
        let recall = tokio::task::spawn_blocking(move || {
            let reader = Reader::open(&folder)?;
            reader.map_or(Ok(Vec::new()), |reader| reader.recall(&[issue]))
        });
        let machines = recall.await.map_err(|bug| format!("bug in Vik: {bug}"))?;
        let machines = machines.map_err(|error| chain(&error))?;
        Ok(machines.first().and_then(|machine| machine.worker().cloned()))
    }

    /// Returns the workers that may respond.
    fn present(&self) -> impl Iterator<Item = WorkerName> {
        let workers = self.workers.borrow();
        let present: Vec<_> = workers
            .iter()
            .filter(|(worker, _)| worker.presence != Presence::Lost)
            .map(|(worker, _)| worker.name.clone())
            .collect();
        present.into_iter()
    }

    fn inventories(&self) -> MutexGuard<'_, BTreeMap<WorkerName, Inventory>> {
        self.inventories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads sessions on workers.
#[derive(Clone, Debug)]
pub(crate) struct WorkerSessions {
    pub(crate) peers: Peers,
    /// Requests are sent from there: the API has a runtime of its own, which may end before them.
    pub(crate) runtime: tokio::runtime::Handle,
}

impl RemoteSessions for WorkerSessions {
    fn read(&self, worker: WorkerName, request: SessionRequest) -> Task<Result<String, String>> {
        let peers = self.peers.clone();
        let limit = match request.part {
            SessionPart::Diff => DIFF_LIMIT,
            SessionPart::Detail | SessionPart::Events(_) | SessionPart::Stderr { .. } => READ_LIMIT,
        };
        let task = self.runtime.spawn(async move {
            let request = WorkerRequest::ReadSession(request);
            peers.ask_for_text(&worker, &request, limit).await
        });
        Box::pin(async { task.await.unwrap_or_else(|bug| Err(format!("bug in Vik: {bug}"))) })
    }
}

#[cfg(test)]
mod tests;
