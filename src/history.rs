//! What was done before: the ledger, the records of attempts and what the daemon says, joined.

use std::collections::HashMap;

use vik_api::{AttemptView, OutputView, RunState, RunView, SpendView, Status};
use vik_core::ids::{AttemptId, IssueId, RunId};
use vik_core::limits::estimated;
use vik_core::outcome::CostSource;
use vik_store::ledger::{LedgerError, Reader, StoredAttempt, StoredRun};
use vik_store::{AttemptFiles, History, PastAttempt, StoreError};

use crate::report;
use crate::workspace::Layout;

/// What the ledger says of attempts and runs.
#[derive(Debug, Default)]
pub struct Books {
    attempts: HashMap<AttemptId, StoredAttempt>,
    /// Where runs stand.
    phases: HashMap<RunId, String>,
}

impl Books {
    /// Reads what a ledger says of one issue, or of all.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(ledger: &Reader, issue: Option<&IssueId>) -> Result<Self, LedgerError> {
        Ok(Self::of(
            ledger.attempts(issue, u32::MAX)?,
            ledger.runs(issue, u32::MAX)?,
        ))
    }

    fn of(attempts: Vec<StoredAttempt>, runs: Vec<StoredRun>) -> Self {
        let attempts = attempts.into_iter();
        Self {
            attempts: attempts
                .map(|attempt| (attempt.started.attempt_id, attempt))
                .collect(),
            phases: runs.into_iter().map(|run| (run.id, run.phase)).collect(),
        }
    }
}

/// The latest runs of all issues, the latest first, and whether there are more than `most`.
///
/// # Errors
/// When the ledger cannot be read.
pub fn latest(
    layout: &Layout,
    ledger: &Reader,
    status: Option<&Status>,
    most: u32,
) -> Result<(Vec<RunView>, bool), LedgerError> {
    let mut runs = ledger.runs(None, most.saturating_add(1))?;
    let more = runs.len() > most as usize;
    runs.truncate(most as usize);
    let mut stored = Vec::new();
    for run in &runs {
        stored.extend(ledger.attempts_of_run(run.id)?);
    }
    let past: Vec<_> = stored
        .iter()
        .filter_map(|attempt| PastAttempt::read(files(layout, attempt)))
        .collect();
    let ids: Vec<_> = runs.iter().map(|run| run.id.to_string()).collect();
    let mut views = join(&past, &Books::of(stored, runs), status);
    views.sort_by_key(|view| ids.iter().position(|id| *id == view.run_id));
    Ok((views, more))
}

/// The runs of one issue, oldest first.
///
/// # Errors
/// When they cannot be read.
pub fn of_issue(
    layout: &Layout,
    ledger: Option<&Reader>,
    status: Option<&Status>,
    issue: &IssueId,
) -> Result<Vec<RunView>, HistoryError> {
    let past = History::of_issue(&layout.issue_sessions_dir(issue))?;
    let books = match ledger {
        Some(ledger) => Books::read(ledger, Some(issue))?,
        None => Books::default(),
    };
    Ok(join(&past.attempts, &books, status))
}

/// One attempt, and how it went; `None` where the ledger does not know it, or its files are gone.
///
/// # Errors
/// When the ledger cannot be read.
pub fn attempt(
    layout: &Layout,
    ledger: &Reader,
    status: Option<&Status>,
    session: AttemptId,
) -> Result<Option<(PastAttempt, AttemptView)>, LedgerError> {
    let Some(stored) = ledger.attempt(session)? else {
        return Ok(None);
    };
    let Some(past) = PastAttempt::read(files(layout, &stored)) else {
        return Ok(None);
    };
    let books = Books::of(vec![stored], Vec::new());
    let view = view(&past, &books, status);
    Ok(Some((past, view)))
}

/// Where the files of an attempt are.
pub fn files(layout: &Layout, attempt: &StoredAttempt) -> AttemptFiles {
    let started = &attempt.started;
    AttemptFiles::new(
        &layout.issue_sessions_dir(&started.issue),
        &started.stage,
        started.attempt_id,
    )
}

/// Why the past cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The files cannot be read.
    #[error(transparent)]
    Files(#[from] StoreError),
}

/// The runs that attempts belong to, in the order in which they come.
pub fn join(attempts: &[PastAttempt], books: &Books, status: Option<&Status>) -> Vec<RunView> {
    let mut runs: Vec<RunView> = Vec::new();
    let mut places: HashMap<RunId, usize> = HashMap::new();
    for attempt in attempts {
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
    // An attempt without an end that no daemon knows was cut off: its daemon died. While its shim lives, or its result waits
    // for a person, it can be taken up.
    let lost = ended.is_none()
        && booked.is_none()
        && live.is_none()
        && !has_shim(attempt)
        && !vik_store::result_waits(&attempt.files.journal());
    AttemptView {
        attempt: record.attempt,
        session_id: id,
        outcome: ended
            .map(|ended| ended.outcome)
            // A full disk can keep the end out of the log.
            .or(booked.map(|booked| booked.report.outcome))
            .or(lost.then_some(vik_core::outcome::Outcome::Lost)),
        failure_class: ended.map_or_else(
            || booked.and_then(|booked| booked.report.failure_class),
            |ended| ended.failure_class,
        ),
        reason: ended.map_or_else(
            || booked.and_then(|booked| booked.report.reason.clone()),
            |ended| ended.reason.clone(),
        ),
        exit_code: ended.map_or_else(
            || booked.and_then(|booked| booked.report.exit_code),
            |ended| ended.exit_code,
        ),
        started_at: record.started_at,
        ended_at: attempt.ended_at.or(booked.map(|booked| booked.at)),
        duration_ms: ended.map(|ended| ended.duration_ms),
        usage: ended
            .map(|ended| ended.usage)
            .or(booked.map(|booked| booked.report.usage))
            .or(live.map(|live| live.usage))
            .unwrap_or_default(),
        cost_usd: ended.map_or_else(
            || {
                let booked = booked.filter(|booked| booked.source != CostSource::None);
                booked.map(|booked| booked.charged.usd.usd())
            },
            |ended| ended.cost_usd,
        ),
        cost_source: ended
            .map(|ended| ended.cost_source)
            .or(booked.map(|booked| booked.source))
            .unwrap_or_default(),
        charged: booked.map(|booked| {
            let estimated = estimated(booked.report.spend, booked.charged, booked.source);
            SpendView::of(booked.charged, estimated)
        }),
        resumed_from: stored
            // One that could not go on began anew.
            .filter(|_| !booked.is_some_and(|booked| booked.report.resume_failed))
            .and_then(|stored| stored.started.resumed_from)
            .map(|session| session.to_string()),
        proof: ended
            .and_then(|ended| ended.proof.clone())
            .or_else(|| booked.and_then(|booked| booked.report.proof.clone())),
        hooks_run_twice: vik_store::begun_again(&attempt.files.journal()),
        outputs: outputs(attempt),
        log: attempt.files.log(),
    }
}

/// What it asked for, in the order in which that was begun.
fn outputs(attempt: &PastAttempt) -> Vec<OutputView> {
    let record = &attempt.record;
    let mut views: Vec<OutputView> = Vec::new();
    for note in vik_store::output_notes(&attempt.files.output_book(record.run_id)) {
        if note.session != record.session_id {
            continue;
        }
        let view = OutputView {
            kind: note.output.kind().to_string(),
            progress: note.progress.as_str().to_owned(),
            key: note.key.to_string(),
            summary: report::one_line(note.output.summary(), 200),
            detail: note.detail,
        };
        match views.iter_mut().find(|known| known.key == view.key) {
            Some(known) => *known = view,
            None => views.push(view),
        }
    }
    views
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
