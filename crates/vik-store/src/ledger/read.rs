//! Queries of the ledger, for the daemon at its start and for people at any time.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::Date;
use rusqlite::{Connection, OpenFlags, Row, params};
use vik_core::changes::{Decision, EndedAttempt, StartedAttempt, Stored};
use vik_core::decision_kind::DecisionKind;
use vik_core::ids::{AttemptId, IssueId, RunId, StageName};
use vik_core::limits::Charges;
use vik_core::machine::IssueMachine;
use vik_core::outputs::OutputNote;

use super::files::Files;
use super::sql::{
    optional, read_attempt_id, read_day, read_json, read_name, read_run, read_spend, read_time, read_variant,
};
use super::{LedgerError, copy, retention, schema, write};

/// The limit on the number of days in a result.
const MAX_DAYS: u32 = 400;

/// A read-only connection to the ledger, which works beside a daemon or without one.
#[derive(Debug)]
pub struct Reader {
    pub(super) db: Connection,
    path: PathBuf,
    /// The schema version, which may be an earlier one until a daemon opens the ledger.
    schema: i64,
}

/// An attempt as the ledger stores it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAttempt {
    pub started: StartedAttempt,
    /// The end of the attempt and its charge; `None` while it is claimed.
    pub ended: Option<EndedAttempt>,
}

/// A parked run as the ledger stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredParked {
    pub run: RunId,
    pub issue: IssueId,
    pub stage: StageName,
    /// The reason, by its name in JSON.
    pub reason: String,
    pub since: Timestamp,
}

impl Reader {
    /// Opens the ledger in a service folder. Returns `None` if there is none yet.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read or is of a later version.
    pub fn open(service_dir: &Path) -> Result<Option<Self>, LedgerError> {
        let path = Files::new(service_dir).db();
        match path.metadata() {
            Ok(found) if found.len() == 0 => return Err(LedgerError::empty(path)),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(LedgerError::of_io(&path, source)),
        }
        let db = connect_to_read(&path)?;
        let schema = schema::version(&db, &path)?;
        Ok(Some(Self { db, path, schema }))
    }

    /// Returns the state from which a daemon starts.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn stored(&self) -> Result<Stored, LedgerError> {
        stored(&self.db, &self.path, self.schema)
    }

    /// Returns the machines of these issues, as far as there are any.
    ///
    /// # Errors
    /// Returns an error if one cannot be read.
    pub fn recall(&self, issues: &[IssueId]) -> Result<Vec<IssueMachine>, LedgerError> {
        recall(&self.db, &self.path, issues)
    }

    /// Returns whether this is the ledger of a hub, whose attempts run on workers.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn is_copy(&self) -> Result<bool, LedgerError> {
        let log = copy::log(&self.db).map_err(|error| LedgerError::of(&self.path, error))?;
        Ok(log.is_some())
    }

    /// Returns the issues, also those not in use, that have a workspace on a worker.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn issues_on_workers(&self) -> Result<Vec<IssueId>, LedgerError> {
        let sql = "SELECT id FROM issues WHERE machine ->> '$.worker' IS NOT NULL ORDER BY id";
        self.list(sql, [], |row| read_name(row, 0))
    }

    /// Returns the latest decisions, newest first: those of one issue and those about all issues,
    /// or all decisions.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn decisions(&self, issue: Option<&IssueId>, limit: u32) -> Result<Vec<Decision>, LedgerError> {
        let Some(issue) = issue else {
            return self.list(
                &format!("{DECISIONS} ORDER BY id DESC LIMIT ?1"),
                [limit],
                decision,
            );
        };
        // Two parts, so that each is read in the order of the index and ends at the limit.
        self.list(
            &format!(
                "SELECT * FROM (
                   SELECT * FROM ({DECISIONS} WHERE issue = ?1 ORDER BY id DESC LIMIT ?2)
                   UNION ALL SELECT * FROM ({DECISIONS} WHERE issue IS NULL ORDER BY id DESC LIMIT ?2))
                 ORDER BY id DESC LIMIT ?2"
            ),
            params![issue.as_str(), limit],
            decision,
        )
    }

    /// Returns the decision that blocks an issue (`blocked`, `cycle`); `None` if the issue is not
    /// blocked.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn last_block(&self, issue: &IssueId) -> Result<Option<Decision>, LedgerError> {
        let found = self.list(
            &format!("{DECISIONS} WHERE issue = ?1 AND kind IN (?2, ?3, ?4) ORDER BY id DESC LIMIT 1"),
            params![
                issue.as_str(),
                DecisionKind::Blocked.as_str(),
                DecisionKind::Cycle.as_str(),
                DecisionKind::Unblocked.as_str()
            ],
            decision,
        )?;
        Ok(found
            .into_iter()
            .find(|decision| decision.kind != DecisionKind::Unblocked))
    }

    /// Returns the latest attempts of one issue or of all issues, newest first.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn attempts(&self, issue: Option<&IssueId>, limit: u32) -> Result<Vec<StoredAttempt>, LedgerError> {
        let latest = "ORDER BY started_at DESC, session DESC LIMIT";
        match issue {
            None => self.list(&format!("{ATTEMPTS} {latest} ?1"), [limit], attempt),
            Some(issue) => self.list(
                &format!("{ATTEMPTS} WHERE issue = ?1 {latest} ?2"),
                params![issue.as_str(), limit],
                attempt,
            ),
        }
    }

    /// Returns the attempts of one run in the order in which they started.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn attempts_of_run(&self, run: RunId) -> Result<Vec<StoredAttempt>, LedgerError> {
        self.list(
            &format!("{ATTEMPTS} WHERE run = ?1 ORDER BY attempts.rowid"),
            [run.to_string()],
            attempt,
        )
    }

    /// Returns an attempt by its id.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn attempt(&self, session: AttemptId) -> Result<Option<StoredAttempt>, LedgerError> {
        let found = self.list(
            &format!("{ATTEMPTS} WHERE session = ?1"),
            [session.to_string()],
            attempt,
        )?;
        Ok(found.into_iter().next())
    }

    /// Returns the attempts that were started and have not ended, oldest first.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn claims(&self) -> Result<Vec<StartedAttempt>, LedgerError> {
        self.list(
            &format!("{ATTEMPTS} WHERE session IN (SELECT session FROM claims) ORDER BY started_at, session"),
            [],
            started,
        )
    }

    /// Returns the parked runs, longest parked first.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn parked(&self) -> Result<Vec<StoredParked>, LedgerError> {
        self.list(&format!("{PARKED} ORDER BY since, run"), [], parked)
    }

    /// Returns the last note of each output in the book of a run, in the order of the first notes.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn output_notes(&self, run: RunId) -> Result<Vec<OutputNote>, LedgerError> {
        let notes = self.list_outputs("run = ?1", [run.to_string()])?;
        Ok(notes.into_iter().map(|(_, note)| note).collect())
    }

    /// Returns the notes of all runs that are not over, as changes have them.
    ///
    /// # Errors
    /// Returns an error if they cannot be read.
    pub fn open_outputs(&self) -> Result<Vec<(RunId, OutputNote)>, LedgerError> {
        self.list_outputs("run IN (SELECT id FROM runs WHERE phase <> 'over')", [])
    }

    fn list_outputs(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<(RunId, OutputNote)>, LedgerError> {
        if self.schema < schema::WITH_OUTPUTS {
            return Ok(Vec::new());
        }
        self.list(
            &format!(
                "SELECT run, session, at, key, kind, summary, progress, is_keyed, detail FROM outputs
                 WHERE {condition} ORDER BY id"
            ),
            params,
            output,
        )
    }

    /// Returns whether [`Ledger::delete_history`](super::Ledger::delete_history) or
    /// [`LedgerCopy::delete_history`](super::LedgerCopy::delete_history) would delete anything.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn has_old_history(&self, before: Timestamp) -> Result<bool, LedgerError> {
        let has_attempts = retention::has_old_history(&self.db, before);
        Ok(has_attempts.map_err(|error| self.error(error))?
            || !copy::set_aside_before(&self.path, before).is_empty())
    }

    /// Returns the sums of the latest days, newest last.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn days(&self) -> Result<Vec<(Date, Charges)>, LedgerError> {
        days(&self.db, self.schema).map_err(|error| self.error(error))
    }

    /// Returns whether everything is paused.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn is_paused(&self) -> Result<bool, LedgerError> {
        is_paused(&self.db).map_err(|error| self.error(error))
    }

    pub(super) fn list<T>(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, LedgerError> {
        let mut list = Vec::new();
        self.each(sql, params, |row| {
            list.push(read(row)?);
            Ok(())
        })?;
        Ok(list)
    }

    /// Calls `visit` for each row of a query.
    pub(super) fn each(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), LedgerError> {
        let each = || -> rusqlite::Result<()> {
            let mut statement = self.db.prepare_cached(sql)?;
            let mut rows = statement.query(params)?;
            while let Some(row) = rows.next()? {
                visit(row)?;
            }
            Ok(())
        };
        each().map_err(|error| self.error(error))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn error(&self, error: rusqlite::Error) -> LedgerError {
        LedgerError::of(&self.path, error)
    }
}

/// Opens a read-only connection.
pub(super) fn connect_to_read(path: &Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let fail = |error| LedgerError::of(path, error);
    let db = Connection::open_with_flags(path, flags).map_err(fail)?;
    super::configure(&db).map_err(fail)?;
    Ok(db)
}

pub(super) const ATTEMPTS: &str =
    "SELECT session, run, issue, stage, agent, attempt, started_at, resumed_from,
  ended_at, report, tokens, usd_micro, source
  FROM attempts LEFT JOIN sessions USING (session) LEFT JOIN usage USING (session)";

fn started(row: &Row<'_>) -> rusqlite::Result<StartedAttempt> {
    Ok(StartedAttempt {
        attempt_id: read_attempt_id(row, 0)?,
        run: read_run(row, 1)?,
        issue: read_name(row, 2)?,
        stage: read_name(row, 3)?,
        agent: read_name(row, 4)?,
        attempt: row.get(5)?,
        at: read_time(row, 6)?,
        resumed_from: optional(row, 7, read_attempt_id)?,
    })
}

/// Reads one row of [`ATTEMPTS`].
pub(super) fn attempt(row: &Row<'_>) -> rusqlite::Result<StoredAttempt> {
    let started = started(row)?;
    let ended = match optional(row, 8, read_time)? {
        None => None,
        Some(at) => Some(EndedAttempt {
            attempt_id: started.attempt_id,
            at,
            report: read_json(row, 9)?,
            charged: read_spend(row, 10)?,
            source: read_variant(row, 12)?,
        }),
    };
    Ok(StoredAttempt { started, ended })
}

pub(super) const PARKED: &str = "SELECT run, issue, stage, reason, since FROM parked";

fn output(row: &Row<'_>) -> rusqlite::Result<(RunId, OutputNote)> {
    let note = OutputNote {
        attempt_id: read_attempt_id(row, 1)?,
        at: read_time(row, 2)?,
        key: read_variant(row, 3)?,
        kind: read_variant(row, 4)?,
        summary: row.get(5)?,
        progress: read_variant(row, 6)?,
        is_keyed: row.get(7)?,
        detail: row.get(8)?,
    };
    Ok((read_run(row, 0)?, note))
}

pub(super) fn parked(row: &Row<'_>) -> rusqlite::Result<StoredParked> {
    Ok(StoredParked {
        run: read_run(row, 0)?,
        issue: read_name(row, 1)?,
        stage: read_name(row, 2)?,
        reason: row.get(3)?,
        since: read_time(row, 4)?,
    })
}

pub(super) const DECISIONS: &str = "SELECT at, issue, stage, run, session, kind, detail, id FROM decisions";

/// Reads one row of [`DECISIONS`].
pub(super) fn decision(row: &Row<'_>) -> rusqlite::Result<Decision> {
    Ok(Decision {
        at: read_time(row, 0)?,
        issue: optional(row, 1, read_name)?,
        stage: optional(row, 2, read_name)?,
        run: optional(row, 3, read_run)?,
        attempt_id: optional(row, 4, read_attempt_id)?,
        kind: row.get::<_, String>(5)?.into(),
        detail: row.get(6)?,
    })
}

/// Reads the state from which a daemon starts. Data that cannot be read is an error, because a
/// missing machine would drop a limit.
pub(super) fn stored(db: &Connection, path: &Path, schema: i64) -> Result<Stored, LedgerError> {
    let fail = |error| LedgerError::of(path, error);
    let in_use = if schema < SUMS_SINCE {
        ""
    } else {
        "WHERE in_use = 1"
    };
    Ok(Stored {
        machines: machines(db, path, &format!("{MACHINES} {in_use} ORDER BY id"), [])?,
        days: days(db, schema).map_err(fail)?,
        paused: is_paused(db).map_err(fail)?,
    })
}

/// Reads the machines of these issues, as far as there are any.
pub(super) fn recall(
    db: &Connection,
    path: &Path,
    issues: &[IssueId],
) -> Result<Vec<IssueMachine>, LedgerError> {
    let mut found = Vec::new();
    for issue in issues {
        found.extend(machines(
            db,
            path,
            &format!("{MACHINES} WHERE id = ?1"),
            [issue.as_str()],
        )?);
    }
    Ok(found)
}

/// Reads all machines, to check that they can be read.
pub(super) fn check_machines(db: &Connection, path: &Path) -> Result<(), LedgerError> {
    let mut statement = db
        .prepare(MACHINES)
        .map_err(|error| LedgerError::of(path, error))?;
    let mut rows = statement
        .query([])
        .map_err(|error| LedgerError::of(path, error))?;
    while let Some(row) = rows.next().map_err(|error| LedgerError::of(path, error))? {
        machine(row, path)?;
    }
    Ok(())
}

pub(super) const MACHINES: &str = "SELECT id, machine_version, machine FROM issues";

fn machines(
    db: &Connection,
    path: &Path,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<IssueMachine>, LedgerError> {
    let fail = |error| LedgerError::of(path, error);
    let mut statement = db.prepare_cached(sql).map_err(fail)?;
    let mut rows = statement.query(params).map_err(fail)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(fail)? {
        found.push(machine(row, path)?);
    }
    Ok(found)
}

/// Reads one row of [`MACHINES`].
pub(super) fn machine(row: &Row<'_>, path: &Path) -> Result<IssueMachine, LedgerError> {
    let fail = |error| LedgerError::of(path, error);
    let version: i64 = row.get(1).map_err(fail)?;
    if version > write::MACHINE_VERSION {
        return Err(LedgerError::Newer {
            path: path.to_owned(),
            found: version,
            known: write::MACHINE_VERSION,
        });
    }
    let text = row.get_ref(2).and_then(|text| Ok(text.as_str()?)).map_err(fail)?;
    serde_json::from_str(text).map_err(|source| LedgerError::IssueMachine {
        path: path.to_owned(),
        issue: read_name(row, 0).unwrap_or_else(|_| "?".into()),
        source,
    })
}

/// The estimated part of an attempt's charge, as tokens and money: the part that its agent did not
/// report. See [`estimated`](vik_core::limits::estimated). If the charge is 0, the report is not
/// parsed.
pub(super) const ESTIMATED: &str = "
  CASE WHEN source = 'estimate' AND tokens > 0 AND COALESCE(report ->> '$.spend.tokens', 0) = 0 THEN tokens ELSE 0 END,
  CASE WHEN source = 'estimate' AND usd_micro > 0 AND COALESCE(report ->> '$.spend.usd', 0) = 0 THEN usd_micro ELSE 0 END";

fn days(db: &Connection, schema: i64) -> rusqlite::Result<Vec<(Date, Charges)>> {
    let days = if schema < SUMS_SINCE { OLD_DAYS } else { DAYS };
    db.prepare_cached(&format!(
        "SELECT * FROM ({days} ORDER BY day DESC LIMIT ?1) ORDER BY day"
    ))?
    .query_map([MAX_DAYS], day)?
    .collect()
}

/// The schema since which `issues` has `in_use` and `days` has estimates.
const SUMS_SINCE: i64 = 4;

pub(super) const OLD_DAYS: &str = "SELECT day, tokens, usd_micro, 0, 0 FROM days";
pub(super) const DAYS: &str =
    "SELECT day, tokens, usd_micro, estimated_tokens, estimated_usd_micro FROM days";

/// Reads one row of [`DAYS`].
pub(super) fn day(row: &Row<'_>) -> rusqlite::Result<(Date, Charges)> {
    let charges = Charges {
        total: read_spend(row, 1)?,
        estimated: read_spend(row, 3)?,
    };
    Ok((read_day(row, 0)?, charges))
}

pub(super) fn is_paused(db: &Connection) -> rusqlite::Result<bool> {
    Ok(meta(db, "paused")?.is_some_and(|value| value == "1"))
}

/// Returns a value of the table `meta`, which holds values of the whole ledger.
pub(super) fn meta(db: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    use rusqlite::OptionalExtension;
    db.prepare_cached("SELECT value FROM meta WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()
}
