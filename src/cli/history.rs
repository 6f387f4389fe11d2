//! Reads the attempts that left files, for `runs`, `show`, `logs` and `prune`.

use std::path::{Path, PathBuf};

use vik_api::{RunView, Status};
use vik_base::report::{ErrorCode, Failure, chain, ledger_failure};
use vik_control::history::{StoredHistory, join, latest};
use vik_core::ids::IssueId;
use vik_daemon::Instance;
use vik_store::ledger::Reader;
use vik_store::{History, StoreError};
use vik_workflow::{WorkflowFile, absolute};
use vik_workspace::{Layout, fs as private};

use super::client;

/// Returns the home of a workflow: from its running daemon, or else from the workflow file.
///
/// # Errors
/// If neither can be read.
pub fn root(workflow: &Path) -> Result<PathBuf, Failure> {
    let path = absolute(workflow);
    if let Some(info) = Instance::of(&path)?.read() {
        return Ok(info.root);
    }
    let loaded = WorkflowFile::valid(&path, |_| {})?;
    let layout = Layout::resolve(&loaded.path, &loaded.workflow.workspace_root).map_err(|error| {
        Failure::failed(
            ErrorCode::Home,
            "cannot determine the home of this workflow",
            &error,
        )
    })?;
    Ok(layout.root().to_owned())
}

/// Returns all attempts of a workflow, oldest first.
///
/// # Errors
/// If the sessions cannot be read.
pub fn read(root: &Path) -> Result<History, Failure> {
    checked(History::read(&root.join("sessions")))
}

/// Warns of attempts that cannot be read.
fn checked(history: Result<History, StoreError>) -> Result<History, Failure> {
    let history =
        history.map_err(|error| Failure::failed(ErrorCode::History, "cannot read the sessions", &error))?;
    for path in &history.unreadable {
        super::warn(&format!("warning: cannot read {}\n", path.display()));
    }
    Ok(history)
}

/// Returns the paths of the censuses in a home: those of attempts whose processes are not proven to
/// have ended.
pub fn censuses(root: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        private::list_folder(folder)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    };
    list(&root.join("sessions"))
        .iter()
        .flat_map(|issue| list(issue))
        .filter(|path| path.extension().is_some_and(|extension| extension == "census"))
        .collect()
}

/// Returns the status of the daemon, if one runs.
pub fn status(workflow: &Path) -> Option<Status> {
    let (instance, info) = client::find(workflow).ok()?;
    client::status(&instance, &info).ok()?
}

/// Opens the ledger of a home. Returns `None` if there is none yet, or with a warning if it cannot
/// be read.
pub fn ledger(root: &Path) -> Option<Reader> {
    Reader::open(&root.join("service")).unwrap_or_else(|error| {
        super::warn(&format!("warning: {}\n", chain(&error)));
        None
    })
}

/// The runs to return.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'a> {
    All,
    /// The latest ones, at most this many.
    Latest(u32),
    Issue(&'a IssueId),
}

/// Returns runs of a workflow, oldest first, and whether earlier ones are left out.
///
/// # Errors
/// If the sessions or the ledger cannot be read.
pub fn runs(
    workflow: &Path,
    ledger: Option<&Reader>,
    status: Option<&Status>,
    selection: Selection<'_>,
) -> Result<(Vec<RunView>, bool), Failure> {
    let root = root(workflow)?;
    let layout = Layout::at(&absolute(workflow), &root);
    let (past, issue) = match (selection, ledger) {
        (Selection::Latest(max), Some(ledger)) => {
            let (mut runs, more) =
                latest(&layout, ledger, status, max).map_err(|error| ledger_failure(&error))?;
            runs.reverse();
            return Ok((runs, more));
        }
        (Selection::Issue(issue), _) => {
            let history = History::of_issue(&layout.issue_sessions_dir(issue));
            (checked(history)?, Some(issue))
        }
        (Selection::All | Selection::Latest(_), _) => (read(&root)?, None),
    };
    let books = match ledger {
        Some(ledger) => StoredHistory::read(ledger, issue).map_err(|error| ledger_failure(&error))?,
        None => StoredHistory::default(),
    };
    Ok((join(&past.attempts, &books, status), false))
}
