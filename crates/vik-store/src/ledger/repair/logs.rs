//! Reads the files of the attempts: their records, and the last lines of their logs.

use std::path::Path;

use vik_core::attempt::{AttemptResult, Start};
use vik_core::changes::{EndedAttempt, StartedAttempt};
use vik_core::limits::Spend;

use crate::journal::{Journal, Step};
use crate::ledger::LedgerError;
use crate::{AttemptRecord, History, PastAttempt, StoreError};

/// An attempt found on disk.
pub(super) struct Found {
    pub(super) started: StartedAttempt,
    /// The start of the attempt, and the estimate that is charged if it reports no usage. Records
    /// of the first version lack both.
    pub(super) start: Option<(Start, Spend)>,
    /// The end of the attempt, if its log has one.
    pub(super) ended: Option<EndedAttempt>,
}

/// Reads all attempts of a sessions folder. Records that cannot be read are skipped.
pub(super) fn read(sessions_dir: &Path) -> Result<Vec<Found>, LedgerError> {
    let history = History::read(sessions_dir).map_err(|error| match error {
        StoreError::Read { path, source } | StoreError::Write { path, source } => {
            LedgerError::of_io(&path, source)
        }
    })?;
    Ok(history.attempts.into_iter().map(found).collect())
}

fn found(past: PastAttempt) -> Found {
    let PastAttempt {
        record,
        ended,
        ended_at,
        files,
    } = past;
    let estimate = record
        .kept
        .as_ref()
        .map_or_else(Spend::default, |kept| kept.profile.estimate);
    let ended = ended.zip(ended_at).map(|(ended, at)| {
        let report = result_in_journal(&files.journal()).unwrap_or(ended.result);
        let (charged, source) = report.charge(report.spend, estimate);
        EndedAttempt {
            attempt_id: record.session_id,
            at,
            report,
            charged,
            source,
        }
    });
    Found {
        started: started(&record),
        start: record.kept.map(|kept| (kept.start, estimate)),
        ended,
    }
}

fn started(record: &AttemptRecord) -> StartedAttempt {
    let resume = record.kept.as_ref().and_then(|kept| kept.start.resume.as_ref());
    StartedAttempt {
        attempt_id: record.session_id,
        run: record.run_id,
        issue: record.issue_id.clone(),
        stage: record.stage.clone(),
        agent: record.agent.clone(),
        attempt: record.attempt,
        resumed_from: resume.map(|resume| resume.attempt_id),
        at: record.started_at,
    }
}

/// Returns the result that the journal of an attempt recorded.
fn result_in_journal(path: &Path) -> Option<AttemptResult> {
    if !path.exists() {
        return None;
    }
    let journal = Journal::open(path).ok()?;
    journal.steps().iter().rev().find_map(|step| match step {
        Step::Over { report, .. } => Some((**report).clone()),
        _ => None,
    })
}
