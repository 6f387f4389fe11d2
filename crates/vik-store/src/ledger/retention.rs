//! The retention of decisions and of ended attempts. Counters of issues and days stay forever, and
//! so does everything that is claimed, running or parked.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, params};
use vik_core::ids::IssueId;

use super::sql::time;
use super::{read, write};

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
             SELECT id, at, row_number() OVER (PARTITION BY issue ORDER BY id DESC) AS place FROM decisions
             -- Most issues have few decisions, which the index alone shows.
             WHERE issue IS NULL OR issue IN (SELECT issue FROM decisions GROUP BY issue HAVING count(*) > ?2))
           WHERE place > ?1 OR (place > ?2 AND at < ?3))",
        params![MAX_PER_ISSUE, KEPT_PER_ISSUE, time(oldest)],
    )?;
    db.execute(
        "DELETE FROM decisions WHERE id <= (SELECT id FROM decisions ORDER BY id DESC LIMIT 1 OFFSET ?1)",
        [MAX_DECISIONS],
    )?;
    Ok(())
}

/// The key in `meta` of the time before which attempts may be missing because of their age.
const HISTORY_BEFORE: &str = "history_before";

/// Returns the time before which attempts may be missing because of their age.
pub(super) fn history_before(db: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    Ok(read::meta(db, HISTORY_BEFORE)?.and_then(|text| text.parse().ok()))
}

/// Stores the time before which attempts may be missing. It never goes back.
pub(super) fn put_history_before(db: &Connection, before: Timestamp) -> rusqlite::Result<()> {
    let before = history_before(db)?.map_or(before, |known| known.max(before));
    write::put_meta(db, HISTORY_BEFORE, &before.to_string())
}

/// Selects the attempts that ended before `?1` and whose run is over, oldest first. An attempt that
/// was charged with an estimate stays, because estimates are summed up from the attempts.
///
/// `?2` is the first session id of that time: ids begin with the time of the start, so this reads
/// only what is old.
const OLD_ATTEMPTS: &str = "
  SELECT session FROM attempts
  WHERE session < ?2 AND ended_at < ?1
    AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = attempts.run AND phase <> 'over')
    AND NOT EXISTS (SELECT 1 FROM usage WHERE usage.session = attempts.session AND source = 'estimate')
  ORDER BY session";

/// Returns whether [`delete_history`] would delete anything.
pub(super) fn has_old_history(db: &Connection, before: Timestamp) -> rusqlite::Result<bool> {
    db.prepare_cached(&format!("{OLD_ATTEMPTS} LIMIT 1"))?
        .exists(params![time(before), first_session_of(before)])
}

/// Deletes up to `limit` attempts that ended before this time, the runs that have no other attempt,
/// and their outputs. Returns the number of attempts. The caller owns the transaction.
pub(super) fn delete_history(db: &Connection, before: Timestamp, limit: u32) -> rusqlite::Result<u64> {
    put_history_before(db, before)?;
    let old: Vec<String> = db
        .prepare_cached(&format!("{OLD_ATTEMPTS} LIMIT ?3"))?
        .query_map(params![time(before), first_session_of(before), limit], |row| {
            row.get(0)
        })?
        .collect::<Result<_, _>>()?;
    for session in &old {
        let run: String = db
            .prepare_cached("SELECT run FROM attempts WHERE session = ?1")?
            .query_row([session], |row| row.get(0))?;
        for table in ["usage", "sessions", "attempts"] {
            db.prepare_cached(&format!("DELETE FROM {table} WHERE session = ?1"))?
                .execute([session])?;
        }
        db.prepare_cached(
            "DELETE FROM runs WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM attempts WHERE run = ?1)",
        )?
        .execute([run])?;
    }
    db.prepare_cached(
        "DELETE FROM outputs WHERE at < ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.id = outputs.run)",
    )?
    .execute([time(before)])?;
    Ok(old.len() as u64)
}

/// Returns the smallest id of an attempt that started at this time.
fn first_session_of(time: Timestamp) -> String {
    let millis = u64::try_from(time.as_millisecond()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &[0; 10])
        .into_uuid()
        .to_string()
}
