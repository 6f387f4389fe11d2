//! What `runs`, `show`, `logs` and `prune` read: the attempts that left files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use vik_api::{AttemptView, Response, RunState, RunView, Status, Verb};
use vik_core::ids::{IssueId, RunId, SessionId};
use vik_store::ledger::{Reader, StoredAttempt};
use vik_store::{History, PastAttempt};

use super::client;
use crate::daemon::{Instance, ledger_failure};
use crate::report::{Failure, chain};
use crate::workflow_file::{WorkflowFile, absolute};
use crate::workspace::Layout;

/// The home of a workflow: where its daemon says, else where the workflow file says.
///
/// # Errors
/// When neither can be read.
pub fn root(workflow: &Path) -> Result<PathBuf, Failure> {
    let path = absolute(workflow);
    if let Some(info) = Instance::of(&path)?.read() {
        return Ok(info.root);
    }
    let loaded = WorkflowFile::valid(&path, |_| {})?;
    let layout = Layout::resolve(&loaded.path, &loaded.workflow.workspace_root).map_err(|error| {
        Failure::failed("home", "cannot tell where this workflow keeps its files", &error)
    })?;
    Ok(layout.root().to_owned())
}

/// All attempts of a workflow, oldest first.
///
/// # Errors
/// When they cannot be read.
pub fn read(root: &Path) -> Result<History, Failure> {
    let history = History::read(&root.join("sessions"))
        .map_err(|error| Failure::failed("history", "cannot read the sessions", &error))?;
    for path in &history.unreadable {
        super::warn(&format!("warning: {} cannot be read\n", path.display()));
    }
    Ok(history)
}

/// The censuses of a home: of attempts whose processes are not proven to be gone.
pub fn censuses(root: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    };
    list(&root.join("sessions"))
        .iter()
        .flat_map(|issue| list(issue))
        .filter(|path| path.extension().is_some_and(|extension| extension == "census"))
        .collect()
}

/// What the daemon says, where one runs.
pub fn status(workflow: &Path) -> Option<Status> {
    let (instance, info) = client::find(workflow).ok()?;
    match client::request(&instance, &info, Verb::Status) {
        Ok(Some(Response::Status(status))) => Some(*status),
        _ => None,
    }
}

/// What the ledger says of attempts and runs.
#[derive(Debug, Default)]
pub struct Books {
    attempts: HashMap<SessionId, StoredAttempt>,
    /// Where runs stand.
    phases: HashMap<RunId, String>,
}

impl Books {
    /// Reads the ledger of a home, as far as there is one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(ledger: Option<&Reader>, issue: Option<&IssueId>) -> Result<Self, Failure> {
        let Some(ledger) = ledger else {
            return Ok(Self::default());
        };
        let fail = |error| ledger_failure(&error);
        let attempts = ledger.attempts(issue, u32::MAX).map_err(fail)?;
        let runs = ledger.runs(issue, u32::MAX).map_err(fail)?;
        Ok(Self {
            attempts: attempts
                .into_iter()
                .map(|attempt| (attempt.started.session, attempt))
                .collect(),
            phases: runs.into_iter().map(|run| (run.id, run.phase)).collect(),
        })
    }
}

/// The ledger of a home; `None` where there is none yet, or where it cannot be read, which is said.
pub fn ledger(root: &Path) -> Option<Reader> {
    Reader::open(&root.join("service")).unwrap_or_else(|error| {
        super::warn(&format!("warning: {}\n", chain(&error)));
        None
    })
}

/// The runs that attempts belong to, oldest first: of one issue, or of all.
///
/// # Errors
/// When the ledger cannot be read.
pub fn runs(root: &Path, status: Option<&Status>, issue: Option<&IssueId>) -> Result<Vec<RunView>, Failure> {
    runs_with(root, ledger(root).as_ref(), status, issue)
}

/// [`runs`], where the ledger is open already.
///
/// # Errors
/// When the ledger cannot be read.
pub fn runs_with(
    root: &Path,
    ledger: Option<&Reader>,
    status: Option<&Status>,
    issue: Option<&IssueId>,
) -> Result<Vec<RunView>, Failure> {
    let mut past = read(root)?;
    past.attempts
        .retain(|attempt| issue.is_none_or(|issue| attempt.record.issue_id == *issue));
    let books = Books::read(ledger, issue)?;
    Ok(join(&past, &books, status))
}

fn join(history: &History, books: &Books, status: Option<&Status>) -> Vec<RunView> {
    let mut runs: Vec<RunView> = Vec::new();
    let mut places: HashMap<RunId, usize> = HashMap::new();
    for attempt in &history.attempts {
        let record = &attempt.record;
        let at = *places.entry(record.run_id).or_insert_with(|| {
            runs.push(RunView {
                run_id: record.run_id.to_string(),
                issue_id: record.issue_id.clone(),
                issue_title: String::new(),
                stage: record.stage.clone(),
                state: RunState::Ended,
                outcome: None,
                attempts: Vec::new(),
            });
            runs.len() - 1
        });
        runs[at].issue_title.clone_from(&record.issue_title);
        runs[at].attempts.push(view(attempt, books, status));
    }
    for run in &mut runs {
        run.outcome = run.attempts.last().and_then(|attempt| attempt.outcome);
        run.state = match status {
            Some(status) => state(run, status),
            None => stored_state(run, books),
        };
    }
    runs
}

fn view(attempt: &PastAttempt, books: &Books, status: Option<&Status>) -> AttemptView {
    let (record, ended) = (&attempt.record, attempt.ended.as_ref());
    let id = record.session_id.to_string();
    let live = status.and_then(|status| status.sessions.iter().find(|session| session.session_id == id));
    let stored = books.attempts.get(&record.session_id);
    let booked = stored.and_then(|stored| stored.ended.as_ref());
    // An attempt without an end that no daemon knows was cut off: its daemon died. While its shim lives it can be taken up.
    let lost = ended.is_none() && live.is_none() && !has_shim(attempt);
    AttemptView {
        attempt: record.attempt,
        session_id: id,
        outcome: ended
            .map(|ended| ended.outcome)
            .or(lost.then_some(vik_core::outcome::Outcome::Lost)),
        failure_class: ended.and_then(|ended| ended.failure_class),
        reason: ended.and_then(|ended| ended.reason.clone()),
        exit_code: ended.and_then(|ended| ended.exit_code),
        started_at: record.started_at,
        ended_at: attempt.ended_at,
        duration_ms: ended.map(|ended| ended.duration_ms),
        usage: ended
            .map(|ended| ended.usage)
            .or(live.map(|live| live.usage))
            .unwrap_or_default(),
        cost_usd: ended.and_then(|ended| ended.cost_usd),
        cost_source: ended.map(|ended| ended.cost_source).unwrap_or_default(),
        charged: booked.map(|booked| booked.charged.into()),
        resumed_from: stored
            // One that could not go on began anew.
            .filter(|_| !booked.is_some_and(|booked| booked.report.resume_failed))
            .and_then(|stored| stored.started.resumed_from)
            .map(|session| session.to_string()),
        proof: ended
            .and_then(|ended| ended.proof.clone())
            .or_else(|| booked.and_then(|booked| booked.report.proof.clone())),
        hooks_run_twice: vik_store::begun_again(&attempt.files.journal()),
        log: attempt.files.log(),
    }
}

fn has_shim(attempt: &PastAttempt) -> bool {
    let census = vik_proc::Census::read(&attempt.files.census());
    census.is_some_and(|census| {
        census.boot_id == vik_proc::identity::boot_id() && census.shim.is_some_and(|shim| shim.is_alive())
    })
}

/// Where a run stands when no daemon runs: what rests or waits does so still.
fn stored_state(run: &RunView, books: &Books) -> RunState {
    let phase = books
        .phases
        .iter()
        .find(|(id, _)| id.to_string() == run.run_id)
        .map(|(_, phase)| phase.as_str());
    match phase {
        Some("parked") => RunState::Parked,
        Some("active" | "settling" | "backing_off") => RunState::Waiting,
        _ => RunState::Ended,
    }
}

fn state(run: &RunView, status: &Status) -> RunState {
    let is_last = |session: &vik_api::SessionView| {
        run.attempts
            .last()
            .is_some_and(|attempt| attempt.session_id == session.session_id)
    };
    if status.sessions.iter().any(is_last) {
        return RunState::Running;
    }
    let same = |issue: &IssueId, stage: &vik_core::ids::StageName, id: &str| {
        *issue == run.issue_id && *stage == run.stage && id == run.run_id
    };
    if status
        .parked
        .iter()
        .any(|parked| same(&parked.issue_id, &parked.stage, &parked.run_id))
    {
        RunState::Parked
    } else if status
        .waiting
        .iter()
        .any(|w| same(&w.issue_id, &w.stage, w.run_id.as_deref().unwrap_or("")))
    {
        RunState::Waiting
    } else {
        RunState::Ended
    }
}
