//! Reads the attempts that left files, for `runs`, `show`, `logs` and `prune`.

use std::path::{Path, PathBuf};

use vik_api::{RunView, Status};
use vik_base::report::{ErrorCode, Failure, chain};
use vik_control::history::{StoredHistory, join};
use vik_core::ids::IssueId;
use vik_daemon::Instance;
use vik_session::host::WORKER_ROOT;
use vik_store::ledger::Reader;
use vik_store::{History, PastAttempt};
use vik_workflow::{WorkflowFile, absolute};
use vik_workspace::Layout;

use super::client;

/// Returns the home of a workflow: from the worker whose hook this is, from its running daemon, or else
/// from the workflow file.
///
/// # Errors
/// If neither can be read.
pub fn root(workflow: &Path) -> Result<PathBuf, Failure> {
    if let Some(root) = std::env::var_os(WORKER_ROOT).filter(|root| !root.is_empty()) {
        return Ok(root.into());
    }
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

/// Returns the runs of an issue, oldest first.
///
/// # Errors
/// If the sessions or the ledger cannot be read.
pub fn runs(
    layout: &Layout,
    ledger: Option<&Reader>,
    status: Option<&Status>,
    issue: &IssueId,
) -> Result<Vec<RunView>, Failure> {
    let stored = ledger.map(|ledger| StoredHistory::of_issue(ledger, issue));
    let stored = stored.transpose()?;
    let attempts = attempts(layout, Some(issue))?;
    Ok(join(layout, &attempts, &stored.unwrap_or_default(), status))
}
