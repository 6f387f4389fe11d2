//! Queries for sums over many attempts, without the attempts' reports.

use jiff::Timestamp;
use rusqlite::{Row, params};
use vik_core::ids::{AgentName, IssueId, RunId, StageName};
use vik_core::limits::Spend;
use vik_core::outcome::{FailureClass, Outcome};

use super::LedgerError;
use super::read::{ESTIMATED, RUNS, Reader, StoredRun, run};
use super::sql::{
    read_name, read_optional_time, read_optional_variant, read_run, read_spend, read_time, read_variant, time,
};

/// The figures of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFigures {
    pub run: RunId,
    pub issue: IssueId,
    pub stage: StageName,
    pub agent: AgentName,
    /// The time of the decision to start it.
    pub started_at: Timestamp,
    /// The end of the attempt; `None` while it is claimed.
    pub ended: Option<EndedFigures>,
}

/// The figures of an attempt's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedFigures {
    pub at: Timestamp,
    pub outcome: Outcome,
    /// The failure class, if the attempt failed.
    pub failure_class: Option<FailureClass>,
    pub charged: Spend,
    /// The estimated part of the charge.
    pub estimated: Spend,
}

impl Reader {
    /// Returns the attempts that were started in a time span (its end excluded), oldest first and
    /// without their reports.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn figures(&self, since: Timestamp, until: Timestamp) -> Result<Vec<StoredFigures>, LedgerError> {
        self.list(
            &format!(
                "SELECT run, issue, stage, agent, started_at, ended_at, outcome, failure_class,
               COALESCE(tokens, 0), COALESCE(usd_micro, 0), {ESTIMATED}
             FROM attempts LEFT JOIN usage USING (session)
             WHERE started_at >= ?1 AND started_at < ?2 ORDER BY started_at, session"
            ),
            params![time(since), time(until)],
            figures,
        )
    }

    /// Returns all runs of the issues that had an attempt in a time span (its end excluded).
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn runs_of_span(&self, since: Timestamp, until: Timestamp) -> Result<Vec<StoredRun>, LedgerError> {
        self.list(
            &format!(
                "{RUNS} WHERE issue IN (SELECT issue FROM attempts WHERE started_at >= ?1 AND started_at < ?2)
                 ORDER BY id"
            ),
            params![time(since), time(until)],
            run,
        )
    }
}

fn figures(row: &Row<'_>) -> rusqlite::Result<StoredFigures> {
    let ended = match read_optional_time(row, 5)? {
        None => None,
        Some(at) => Some(EndedFigures {
            at,
            outcome: read_variant(row, 6)?,
            failure_class: read_optional_variant(row, 7)?,
            charged: read_spend(row, 8)?,
            estimated: read_spend(row, 10)?,
        }),
    };
    Ok(StoredFigures {
        run: read_run(row, 0)?,
        issue: read_name(row, 1)?,
        stage: read_name(row, 2)?,
        agent: read_name(row, 3)?,
        started_at: read_time(row, 4)?,
        ended,
    })
}
