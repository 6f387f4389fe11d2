//! Decisions are told for a while; counters are kept for ever.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, params};
use vik_core::ids::IssueId;

use super::sql::time;

/// At most so many decisions of one issue, and of all issues together, are kept.
pub(super) const MOST_OF_AN_ISSUE: u32 = 1000;
pub(super) const MOST: u32 = 100_000;

/// Older ones go, but for the last few of an issue: they say why it stands where it stands.
const MOST_AGE: SignedDuration = SignedDuration::from_hours(30 * 24);
const KEPT_OF_AN_ISSUE: u32 = 20;

/// So many decisions of an issue are written before its old ones are looked at again; and of all issues together.
const SLACK_OF_AN_ISSUE: usize = 100;
const SLACK: usize = 5_000;

/// How many decisions were written since old ones were last taken away.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    of_issue: HashMap<Option<IssueId>, usize>,
    all: usize,
}

impl Fresh {
    /// One more was written.
    pub(super) fn note(&mut self, issue: Option<&IssueId>) {
        *self.of_issue.entry(issue.cloned()).or_default() += 1;
        self.all += 1;
    }

    /// Takes away old decisions of the issues that had many new ones, and now and then those of all.
    pub(super) fn trim(&mut self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        if self.all >= SLACK {
            trim_all(db, now)?;
            *self = Self::default();
        }
        for (issue, fresh) in &mut self.of_issue {
            if *fresh >= SLACK_OF_AN_ISSUE {
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
    .execute(params![issue.map(IssueId::as_str), MOST_OF_AN_ISSUE])?;
    Ok(())
}

/// Takes away all decisions that are too old or too many.
pub(super) fn trim_all(db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    let oldest = now.saturating_sub(MOST_AGE).unwrap_or(Timestamp::MIN);
    db.execute(
        "DELETE FROM decisions WHERE id IN (
           SELECT id FROM (
             SELECT id, at, row_number() OVER (PARTITION BY issue ORDER BY id DESC) AS place FROM decisions)
           WHERE place > ?1 OR (place > ?2 AND at < ?3))",
        params![MOST_OF_AN_ISSUE, KEPT_OF_AN_ISSUE, time(oldest)],
    )?;
    db.execute(
        "DELETE FROM decisions WHERE id <= (SELECT id FROM decisions ORDER BY id DESC LIMIT 1 OFFSET ?1)",
        [MOST],
    )?;
    Ok(())
}
