//! The workspace of an issue that a person has taken over: its state when they began, and what they
//! changed.

use std::io;
use std::os::fd::AsFd;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_base::failpoint;
use vik_core::ids::{AttemptId, IssueId, StageName};
use vik_core::machine::TakenOver;
use vik_proc::{Census, ProcessId};
use vik_store::{History, PastAttempt, StoreError};
use vik_workspace::changes::{Base, Bounds, GitDirs, Snapshot, Store};
use vik_workspace::{Layout, WorkspaceError, fs as private};

use crate::provenance::record::masked;
use crate::provenance::{Record, Trace};

/// The state of a workspace when a person began to work in it.
#[derive(Debug, Serialize, Deserialize)]
struct TakenOverBase {
    /// The session of the person.
    session: AttemptId,
    /// The end of the trace, in bytes: the record of the session can only be after it.
    trace_end: u64,
    #[serde(flatten)]
    base: Base,
}

/// Why the changes of a person cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("a process still works in the workspace: close the session of `vik takeover` first")]
    InUse,
    #[error("the workspace cannot be read")]
    Workspace(#[from] WorkspaceError),
    #[error("the attempts of the issue cannot be read")]
    Attempts(#[from] StoreError),
    #[error("the changes in the workspace cannot be recorded")]
    Changes(#[from] io::Error),
}

/// Returns the latest attempt of an issue, or of one of its stages.
///
/// # Errors
/// If the attempts cannot be read.
pub fn latest_attempt(
    layout: &Layout,
    issue: &IssueId,
    stage: Option<&StageName>,
) -> Result<Option<PastAttempt>, StoreError> {
    let history = History::of_issue(&layout.issue_sessions_dir(issue))?;
    let is_meant = |attempt: &PastAttempt| stage.is_none_or(|stage| attempt.record.stage == *stage);
    Ok(history.attempts.into_iter().rfind(is_meant))
}

/// Records the state of the workspace before a person works in it, unless the session has it
/// already. The caller holds the lock of the workspace. Blocks.
///
/// # Errors
/// If the workspace cannot be read, or the state cannot be written.
pub fn record_base(layout: &Layout, issue: &IssueId, hold: &TakenOver) -> Result<(), RecordError> {
    let file = layout.taken_over_base(issue);
    let Some(folder) = vik_workspace::open(layout, issue)? else {
        return Ok(());
    };
    if read_base(layout, issue, hold).is_some() {
        return Ok(());
    }
    let store = Store::new(&layout.contents_dir());
    let earlier = last_snapshot(layout, issue);
    let base = Base::take(
        &store,
        folder.as_fd(),
        folder.path(),
        earlier.as_ref(),
        Bounds::default(),
    )?;
    let state = TakenOverBase {
        session: hold.session,
        trace_end: Trace::new(&layout.trace_dir()).end()?,
        base,
    };
    let text = serde_json::to_vec(&state).map_err(io::Error::from)?;
    private::create_private_dir_all(&layout.taken_over_dir())?;
    private::write_atomic(&file, &text)?;
    failpoint::reach("taken_over");
    Ok(())
}

/// Appends what the person changed to the trace, once, and returns the paths of the changed files,
/// with secrets masked. Blocks.
///
/// # Errors
/// If a process works in the workspace, or something cannot be read or written.
pub fn record_changes(
    layout: &Layout,
    issue: &IssueId,
    hold: &TakenOver,
) -> Result<Vec<String>, RecordError> {
    let Some(_lock) = vik_workspace::lock(layout, issue)? else {
        return Err(RecordError::InUse);
    };
    let Some(folder) = vik_workspace::open(layout, issue)? else {
        return Ok(Vec::new());
    };
    // Without a session that Vik opened, the state after the last agent is the one before.
    let after_last_agent = || {
        let snapshot = last_snapshot(layout, issue)?;
        let head = GitDirs::of(folder.path()).and_then(|git| git.head());
        Some((Base { head, snapshot }, 0))
    };
    let base = read_base(layout, issue, hold).map(|state| (state.base, state.trace_end));
    let Some((base, trace_end)) = base.or_else(after_last_agent) else {
        return Ok(Vec::new());
    };
    let store = Store::new(&layout.contents_dir());
    let (changes, now) = base.changes(&store, folder.as_fd(), folder.path(), Bounds::default())?;
    let attempt = latest_attempt(layout, issue, hold.stage.as_ref())?;
    if let Some(attempt) = attempt.filter(|_| !changes.files.is_empty() || !changes.unseen.is_empty()) {
        let record = Record::of_person(&attempt.record, hold, &changes, &store, Timestamp::now());
        Trace::new(&layout.trace_dir()).append(&record, trace_end)?;
        failpoint::reach("person_traced");
    }
    let last = layout.last_snapshot(issue);
    private::create_parent(&last)?;
    let text = serde_json::to_vec(&now).map_err(io::Error::from)?;
    private::write_atomic(&last, &text)?;
    let paths = changes.files.iter();
    Ok(paths
        .map(|change| masked(&change.path).text().into_owned())
        .collect())
}

/// Returns the shims of the sessions that people have open. What runs below them may be an agent.
pub fn session_shims(layout: &Layout) -> Vec<ProcessId> {
    let Ok(entries) = private::list_folder(&layout.taken_over_dir()) else {
        return Vec::new();
    };
    let boot_id = vik_proc::identity::boot_id();
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "census"))
        .filter_map(|path| Census::read(&path))
        .filter(|census| census.boot_id == boot_id)
        .filter_map(|census| census.shim)
        .filter(|shim| shim.is_alive())
        .collect()
}

fn read_base(layout: &Layout, issue: &IssueId, hold: &TakenOver) -> Option<TakenOverBase> {
    let state: TakenOverBase = private::read_json(&layout.taken_over_base(issue)).ok()?;
    (state.session == hold.session).then_some(state)
}

fn last_snapshot(layout: &Layout, issue: &IssueId) -> Option<Snapshot> {
    private::read_json(&layout.last_snapshot(issue)).ok()
}
