//! Finds and removes files and records that are older than the workflow keeps them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use vik_base::report::chain;
use vik_core::ids::IssueId;
use vik_core::scheduler::Expired;
use vik_core::workflow::Workflow;
use vik_session::host::Host;
use vik_session::provenance::Trace;
use vik_store::Ledger;
use vik_store::ledger::{LedgerCopy, LedgerError, Reader};
use vik_workspace::{Layout, Removed, WorkspaceError, fs as private};

use crate::effects::{ExpiredRemoval, ExpiryScan, Task};

/// The number of attempts that one transaction deletes from the ledger, one transaction a second:
/// commits of decisions wait for a few milliseconds at most.
const HISTORY_BATCH: u32 = 200;

/// The number of transactions after which other removals are due.
const HISTORY_BATCHES: u32 = 10;

/// Since when the issues that have a workspace have been absent from pulls.
type Unlisted = BTreeMap<IssueId, Timestamp>;

/// Has the attempts that ended.
pub trait History: Send + Sync {
    /// Deletes up to `limit` attempts that ended before this time; see [`Ledger::delete_history`].
    fn delete(self: Arc<Self>, before: Timestamp, limit: u32) -> Task<Result<u64, LedgerError>>;
}

impl History for Ledger {
    fn delete(self: Arc<Self>, before: Timestamp, limit: u32) -> Task<Result<u64, LedgerError>> {
        Box::pin(async move { self.delete_history(before, limit).await })
    }
}

impl History for LedgerCopy {
    fn delete(self: Arc<Self>, before: Timestamp, limit: u32) -> Task<Result<u64, LedgerError>> {
        Box::pin(async move { self.delete_history(before, limit).await })
    }
}

/// What a machine has in its folders for issues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The issues that have a workspace.
    pub workspaces: BTreeSet<IssueId>,
    /// What was last used before the times of the search.
    pub expired: BTreeSet<Expired>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// The times before which files are old; `None` if they are kept for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiryTimes {
    pub scratch: Option<Timestamp>,
    pub sessions: Option<Timestamp>,
    pub trace: Option<Timestamp>,
}

impl ExpiryTimes {
    pub(crate) fn of(workflow: &Workflow, now: Timestamp) -> Self {
        let retention = &workflow.retention;
        Self {
            scratch: retention.scratch.limit(now),
            sessions: retention.sessions.limit(now),
            trace: retention.trace.limit(now),
        }
    }
}

impl Inventory {
    /// Searches the folders of this machine. Blocks.
    pub fn of(layout: &Layout, before: ExpiryTimes) -> Self {
        let mut inventory = Self::default();
        let mut note = |data: &str, error: &dyn std::error::Error| {
            inventory.problems.push(format!("{data}: {}", chain(error)));
        };
        match vik_workspace::list(layout) {
            Ok(workspaces) => inventory.workspaces = workspaces.into_iter().collect(),
            Err(error) => note("workspaces", &error),
        }
        if let Some(before) = before.scratch {
            match vik_workspace::old_scratches(layout, before.into()) {
                Ok(old) => inventory.expired.extend(old.into_iter().map(Expired::Scratch)),
                Err(error) => note("scratch folders", &error),
            }
        }
        if let Some(before) = before.sessions {
            match vik_workspace::old_sessions(layout, before.into()) {
                Ok(old) => inventory.expired.extend(old.into_iter().map(Expired::Sessions)),
                Err(error) => note("sessions", &error),
            }
        }
        if let Some(before) = before.trace {
            match Trace::new(&layout.trace_dir()).has_expired(before) {
                Ok(true) => drop(inventory.expired.insert(Expired::Trace)),
                Ok(false) => {}
                Err(error) => note("trace", &error),
            }
        }
        inventory
    }
}

/// Completes a search for data that is too old by what this machine knows of its age. Blocks.
pub(crate) fn find(
    layout: &Layout,
    workflow: &Workflow,
    inventory: Inventory,
    listed: &HashSet<IssueId>,
    now: Timestamp,
) -> ExpiryScan {
    let mut scan = ExpiryScan {
        workspaces: inventory.workspaces,
        problems: inventory.problems,
        ..ExpiryScan::default()
    };
    let mut note = |data: &str, error: &dyn std::error::Error| {
        scan.problems.push(format!("{data}: {}", chain(error)));
    };
    match update_unlisted(layout, &scan.workspaces, listed, now) {
        Ok(unlisted) => scan.unlisted = unlisted,
        Err(error) => note("unlisted issues", &error),
    }
    if let Some(before) = workflow.keep_unlisted().limit(now) {
        let old = scan.unlisted.iter().filter(|(_, since)| **since <= before);
        scan.expired
            .extend(old.map(|(issue, _)| Expired::Workspace(issue.clone())));
    }
    scan.expired.extend(inventory.expired);
    if let Some(before) = workflow.retention.ledger.limit(now) {
        let reader = Reader::open(&layout.service_dir());
        match reader.and_then(|reader| reader.map_or(Ok(false), |reader| reader.has_old_history(before))) {
            Ok(true) => scan.expired.push(Expired::History),
            Ok(false) => {}
            Err(error) => note("ledger", &error),
        }
    }
    scan
}

/// Updates the file that contains since when issues have been unlisted, and returns it. If the file
/// is lost, the time starts again.
fn update_unlisted(
    layout: &Layout,
    workspaces: &BTreeSet<IssueId>,
    listed: &HashSet<IssueId>,
    now: Timestamp,
) -> std::io::Result<Unlisted> {
    let path = layout.unlisted_file();
    let known = private::read(&path).ok();
    let known: Option<Unlisted> = known.and_then(|text| serde_json::from_slice(&text).ok());
    let since = |issue: &IssueId| known.as_ref().and_then(|known| known.get(issue)).copied();
    let absent = workspaces.iter().filter(|issue| !listed.contains(*issue));
    let unlisted: Unlisted = absent
        // A time in the future is that of a clock that was wrong.
        .map(|issue| {
            (
                issue.clone(),
                since(issue).filter(|since| *since <= now).unwrap_or(now),
            )
        })
        .collect();
    if known.as_ref() != Some(&unlisted) {
        private::write_json_atomic(&path, &unlisted)?;
    }
    Ok(unlisted)
}

/// Removes files that were last used before a time, as decided. Repeating it does no harm.
///
/// # Errors
/// Returns the reason why they are kept.
pub async fn remove_expired_files(
    host: &Arc<Host>,
    expired: &Expired,
    before: Timestamp,
) -> Result<ExpiredRemoval, String> {
    match expired {
        // Workspaces are removed by `vik_session::removal`, and the history is in the ledger.
        Expired::Workspace(_) | Expired::History => Ok(ExpiredRemoval::default()),
        Expired::Scratch(issue) => {
            let remove = |layout: &Layout, issue: &IssueId, before| {
                let is_old = vik_workspace::is_old_scratch(layout, issue, before);
                is_old.then(|| vik_workspace::remove_beside(&layout.scratch_dir(issue)))
            };
            remove_files(host, issue, before.into(), remove).await
        }
        Expired::Sessions(issue) => {
            let remove = |layout: &Layout, issue: &IssueId, before| {
                let is_old = vik_workspace::are_old_sessions(layout, issue, before);
                is_old.then(|| vik_workspace::remove_beside(&layout.issue_sessions_dir(issue)))
            };
            remove_files(host, issue, before.into(), remove).await
        }
        Expired::Trace => {
            let trace = Trace::new(&host.layout.trace_dir());
            let trimmed = spawn_blocking(move || trace.trim(before)).await;
            let trimmed = trimmed
                .map_err(|bug| chain(&bug))?
                .map_err(|error| chain(&error))?;
            Ok(ExpiredRemoval {
                count: trimmed.records,
                bytes: trimmed.bytes,
                has_more: false,
            })
        }
    }
}

/// Removes files of an issue, if no process uses its workspace. `remove` checks their age again, now
/// that no attempt of the issue can start.
async fn remove_files(
    host: &Arc<Host>,
    issue: &IssueId,
    before: SystemTime,
    remove: fn(&Layout, &IssueId, SystemTime) -> Option<Result<Removed, WorkspaceError>>,
) -> Result<ExpiredRemoval, String> {
    let (host, issue) = (Arc::clone(host), issue.clone());
    let removal = spawn_blocking(move || {
        let Some(_locked) = vik_workspace::lock(&host.layout, &issue).map_err(|error| chain(&error))? else {
            return Err("a process still uses the workspace".to_owned());
        };
        let removed = remove(&host.layout, &issue, before).transpose();
        let removed = removed.map_err(|error| chain(&error))?.unwrap_or_default();
        Ok(ExpiredRemoval {
            count: removed.found.into(),
            bytes: removed.bytes,
            has_more: false,
        })
    });
    removal.await.unwrap_or_else(|bug| Err(chain(&bug)))
}

/// Deletes attempts that ended before a time from the ledger.
pub(crate) async fn delete_history(
    history: &Arc<dyn History>,
    before: Timestamp,
    stop: &CancellationToken,
) -> Result<ExpiredRemoval, String> {
    let mut removal = ExpiredRemoval::default();
    for _ in 0..HISTORY_BATCHES {
        let deleted = Arc::clone(history).delete(before, HISTORY_BATCH).await;
        let deleted = deleted.map_err(|error| chain(&error))?;
        removal.count += deleted;
        removal.has_more = deleted == u64::from(HISTORY_BATCH);
        let pause = tokio::time::sleep(Duration::from_secs(1));
        if !removal.has_more || stop.run_until_cancelled(pause).await.is_none() {
            break;
        }
    }
    Ok(removal)
}
