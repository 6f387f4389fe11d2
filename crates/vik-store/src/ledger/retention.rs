//! The retention of decisions, which are deleted after a while. Counters stay forever.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, params};
use vik_core::ids::IssueId;

use super::sql::time;

/// The limits on the stored decisions of one issue, and of all issues together.
pub(super) const MAX_PER_ISSUE: u32 = 1000;
pub(super) const MAX_DECISIONS: u32 = 100_000;

/// The age at which decisions are deleted, except the last few of an issue, which explain its
/// current state.
const MAX_AGE: SignedDuration = SignedDuration::from_hours(30 * 24);
const KEPT_PER_ISSUE: u32 = 20;

/// The numbers of new decisions, of one issue and of all issues together, after which old ones are
/// checked again.
const SLACK_PER_ISSUE: usize = 100;
const SLACK: usize = 5_000;

/// The numbers of decisions written since old ones were last deleted.
#[derive(Debug, Default)]
pub(super) struct NewDecisions {
    of_issue: HashMap<Option<IssueId>, usize>,
    all: usize,
}

impl NewDecisions {
    /// Counts a new decision.
    pub(super) fn note(&mut self, issue: Option<&IssueId>) {
        *self.of_issue.entry(issue.cloned()).or_default() += 1;
        self.all += 1;
    }

    /// Deletes old decisions of the issues that had many new ones, and occasionally those of all
    /// issues.
    pub(super) fn trim(&mut self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        if self.all >= SLACK {
            trim_all(db, now)?;
            *self = Self::default();
        }
        for (issue, fresh) in &mut self.of_issue {
            if *fresh >= SLACK_PER_ISSUE {
                trim_issue(db, issue.as_ref())?;
                *fresh = 0;
            }
        }
        Ok(())
    }
}

fn trim_issue(db: &Connection, issue: Option<&IssueId>) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM decisions WHERE issue IS ?1 AND id <= (
           SELECT id FROM decisions WHERE issue IS ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![issue.map(IssueId::as_str), MAX_PER_ISSUE])?;
    Ok(())
}

/// Deletes all decisions that are too old or too many.
pub(super) fn trim_all(db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let oldest = now.saturating_sub(MAX_AGE).unwrap_or(Timestamp::MIN);
    db.execute(
        "DELETE FROM decisions WHERE id IN (
           SELECT id FROM (
             SELECT id, at, row_number() OVER (PARTITION BY issue ORDER BY id DESC) AS place FROM decisions)
           WHERE place > ?1 OR (place > ?2 AND at < ?3))",
        params![MAX_PER_ISSUE, KEPT_PER_ISSUE, time(oldest)],
    )?;
    db.execute(
        "DELETE FROM decisions WHERE id <= (SELECT id FROM decisions ORDER BY id DESC LIMIT 1 OFFSET ?1)",
        [MAX_DECISIONS],
    )?;
    Ok(())
}
