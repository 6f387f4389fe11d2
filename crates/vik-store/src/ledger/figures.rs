//! Queries for sums over many attempts. Their rows are visited one by one, so that memory does not
//! hold all of them.

use indexmap::IndexMap;
use jiff::Timestamp;
use rusqlite::{Row, params};
use vik_core::ids::{IssueId, RunId};
use vik_core::limits::Spend;
use vik_core::outcome::{FailureClass, Outcome};

use super::LedgerError;
use super::read::{ESTIMATED, Reader};
use super::sql::{optional, read_run, read_spend, read_text, read_time, read_variant, time};

/// The figures of one attempt, whose text is borrowed from its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredFigures<'a> {
    pub run: RunId,
    pub issue: &'a str,
    pub stage: &'a str,
    pub agent: &'a str,
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

/// Numbers of issues that had an attempt in a time span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IssueCounts {
    pub all: u64,
    /// Those that had no open or parked run at the end of the time span and whose last run succeeded.
    pub succeeded: u64,
}

/// The number of runs that are read one after another in the time of one search for the runs of an
/// issue.
const RUNS_PER_SEARCH: u64 = 4;

impl Reader {
    /// Calls `visit` for each attempt that was started in a time span (its end excluded), and
    /// returns the numbers of their issues.
    ///
    /// # Errors
    /// Returns an error if the attempts or the runs of their issues cannot be read.
    pub fn visit_figures(
        &self,
        since: Timestamp,
        until: Timestamp,
        mut visit: impl FnMut(&StoredFigures<'_>),
    ) -> Result<IssueCounts, LedgerError> {
        let fail = |error| self.error(error);
        // All queries see the same state, and none of them locks the database again.
        let transaction = self.db.unchecked_transaction().map_err(fail)?;
        // In the order of their first attempts, which is about that of their runs.
        let mut issues = IndexMap::new();
        self.each(
            &format!(
                "SELECT run, issue, stage, agent, started_at, ended_at, outcome, failure_class,
               COALESCE(tokens, 0), COALESCE(usd_micro, 0), {ESTIMATED}
             FROM attempts LEFT JOIN usage USING (session)
             WHERE started_at >= ?1 AND started_at < ?2"
            ),
            params![time(since), time(until)],
            |row| {
                let attempt = figures(row)?;
                if !issues.contains_key(attempt.issue) {
                    issues.insert(attempt.issue.into(), IssueEnd::NoRun);
                }
                visit(&attempt);
                Ok(())
            },
        )?;
        self.read_ends(&mut issues, until)?;
        transaction.commit().map_err(fail)?;
        let succeeded = issues.values().filter(|end| end.has_succeeded()).count();
        Ok(IssueCounts {
            all: issues.len() as u64,
            succeeded: succeeded as u64,
        })
    }

    /// Reads the ends of the issues from all their runs.
    fn read_ends(
        &self,
        issues: &mut IndexMap<IssueId, IssueEnd>,
        until: Timestamp,
    ) -> Result<(), LedgerError> {
        let last: Vec<Option<i64>> = self.list("SELECT max(rowid) FROM runs", [], |row| row.get(0))?;
        let runs: u64 = last.into_iter().flatten().map(i64::unsigned_abs).sum();
        if runs <= issues.len() as u64 * RUNS_PER_SEARCH {
            return self.each("SELECT rowid, over_at, succeeded, issue FROM runs", [], |row| {
                if let Some(end) = issues.get_mut(read_text(row, 3)?) {
                    end.add(row, until)?;
                }
                Ok(())
            });
        }
        let of_issue = "SELECT rowid, over_at, succeeded FROM runs WHERE issue = ?1";
        for (issue, end) in issues {
            self.each(of_issue, [issue.as_str()], |row| end.add(row, until))?;
        }
        Ok(())
    }
}

/// Whether all runs of an issue were over at the end of a time span, and how the last one ended.
#[derive(Clone, Copy, Debug)]
enum IssueEnd {
    NoRun,
    Open,
    Over { last: (Timestamp, i64), succeeded: bool },
}

impl IssueEnd {
    /// Adds a run from its columns `rowid`, `over_at` and `succeeded`. Of runs that ended at the
    /// same time, the one that was stored last counts.
    fn add(&mut self, run: &Row<'_>, until: Timestamp) -> rusqlite::Result<()> {
        let over_at = optional(run, 1, read_time)?.filter(|at| *at < until);
        let Some(over_at) = over_at else {
            *self = Self::Open;
            return Ok(());
        };
        let this = (over_at, run.get(0)?);
        match *self {
            Self::Open => {}
            Self::Over { last, .. } if this < last => {}
            Self::NoRun | Self::Over { .. } => {
                *self = Self::Over {
                    last: this,
                    succeeded: run.get::<_, Option<bool>>(2)? == Some(true),
                };
            }
        }
        Ok(())
    }

    fn has_succeeded(self) -> bool {
        matches!(self, Self::Over { succeeded: true, .. })
    }
}

fn figures<'a>(row: &'a Row<'_>) -> rusqlite::Result<StoredFigures<'a>> {
    let ended = match optional(row, 5, read_time)? {
        None => None,
        Some(at) => Some(EndedFigures {
            at,
            outcome: read_variant(row, 6)?,
            failure_class: optional(row, 7, read_variant)?,
            charged: read_spend(row, 8)?,
            estimated: read_spend(row, 10)?,
        }),
    };
    Ok(StoredFigures {
        run: read_run(row, 0)?,
        issue: read_text(row, 1)?,
        stage: read_text(row, 2)?,
        agent: read_text(row, 3)?,
        started_at: read_time(row, 4)?,
        ended,
    })
}
