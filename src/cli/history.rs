//! Reads the attempts that left files, for `runs`, `show`, `logs` and `prune`.

use std::path::{Path, PathBuf};

use vik_api::{RunView, Status};
use vik_base::report::{ErrorCode, Failure, chain, ledger_failure};
use vik_control::history::{StoredHistory, join, latest};
use vik_core::ids::IssueId;
use vik_daemon::Instance;
use vik_store::ledger::Reader;
use vik_store::{History, PastAttempt};
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

/// Returns the paths of a workflow's files.
///
/// # Errors
/// If the home of the workflow cannot be determined.
pub fn layout(workflow: &Path) -> Result<Layout, Failure> {
    Ok(Layout::at(&absolute(workflow), &root(workflow)?))
}

/// Returns the attempts of one issue or of all issues, oldest first.
///
/// # Errors
/// If the sessions cannot be read.
pub fn attempts(layout: &Layout, issue: Option<&IssueId>) -> Result<Vec<PastAttempt>, Failure> {
    let history = match issue {
        Some(issue) => History::of_issue(&layout.issue_sessions_dir(issue)),
        None => History::read(&layout.sessions_dir()),
    };
    let history =
        history.map_err(|error| Failure::failed(ErrorCode::History, "cannot read the sessions", &error))?;
    for path in &history.unreadable {
        super::warn(&format!("warning: cannot read {}\n", path.display()));
    }
    Ok(history.attempts)
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
    layout: &Layout,
    ledger: Option<&Reader>,
    status: Option<&Status>,
    selection: Selection<'_>,
) -> Result<(Vec<RunView>, bool), Failure> {
    let failure = |error| ledger_failure(&error);
    if let (Selection::Latest(max), Some(ledger)) = (selection, ledger) {
        let (mut runs, has_more) = latest(layout, ledger, status, max).map_err(failure)?;
        runs.reverse();
        return Ok((runs, has_more));
    }
    let issue = match selection {
        Selection::Issue(issue) => Some(issue),
        Selection::All | Selection::Latest(_) => None,
    };
    let stored = ledger.map(|ledger| StoredHistory::read(ledger, issue));
    let stored = stored.transpose().map_err(failure)?.unwrap_or_default();
    Ok((join(&attempts(layout, issue)?, &stored, status), false))
}
