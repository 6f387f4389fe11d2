//! Reads the readable parts of a damaged database.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use rusqlite::{Connection, Row};
use serde_json::json;
use vik_core::changes::{Decision, RunOver};
use vik_core::ids::{AttemptId, IssueId};
use vik_core::issue::Issue;
use vik_core::limits::Charges;
use vik_core::machine::{IssueMachine, LifetimeUsage, ParkReason};
use vik_core::time::{Mono, Now};

use crate::ledger::read::{self, StoredAttempt, StoredParked};
use crate::ledger::sql::{read_name, read_run, read_spend, read_time, read_variant};
use crate::ledger::{LogId, commits, copy, retention, write};

#[derive(Default)]
pub(super) struct Salvaged {
    /// The shared log of which the ledger is a copy.
    pub(super) log: Option<LogId>,
    pub(super) commits: u64,
    pub(super) machines: BTreeMap<IssueId, IssueMachine>,
    pub(super) attempts: BTreeMap<AttemptId, StoredAttempt>,
    pub(super) runs_over: Vec<RunOver>,
    pub(super) days: BTreeMap<Date, Charges>,
    pub(super) paused: bool,
    /// The time before which attempts may be missing because of their age.
    pub(super) history_before: Option<Timestamp>,
    pub(super) decisions: Vec<Decision>,
}

/// Reads the readable parts of these files, which may be missing or have any content.
pub(super) fn read<'a>(files: impl Iterator<Item = &'a Path>) -> Salvaged {
    let mut all: Vec<_> = files.filter_map(read_database).collect();
    // Entries of a shared log are not mixed with decisions that no log has.
    if all
        .iter()
        .any(|salvaged| salvaged.log.is_none() && salvaged.commits > 0)
    {
        all.retain(|salvaged| salvaged.log.is_none());
    }
    all.sort_by_key(|salvaged| std::cmp::Reverse(salvaged.commits));
    let newest_first = all.into_iter().reduce(|mut newer, older| {
        newer.join(older);
        newer
    });
    newest_first.unwrap_or_default()
}

impl Salvaged {
    /// Fills gaps from an older database, and keeps the larger value of each counter.
    fn join(&mut self, older: Self) {
        for (issue, machine) in older.machines {
            match self.machines.get_mut(&issue) {
                Some(newer) => newer.raise_usage(machine.life()),
                None => {
                    self.machines.insert(issue, machine);
                }
            }
        }
        for (session, attempt) in older.attempts {
            self.attempts.entry(session).or_insert(attempt);
        }
        for (day, spend) in older.days {
            raise_day(&mut self.days, day, spend);
        }
        self.history_before = self.history_before.max(older.history_before);
        if self.decisions.is_empty() {
            self.decisions = older.decisions;
        }
        self.runs_over.extend(older.runs_over);
    }
}

/// Raises a day's counters to the given values if they are larger.
pub(super) fn raise_day(days: &mut BTreeMap<Date, Charges>, day: Date, charges: Charges) {
    let known = days.entry(day).or_default();
    *known = known.max(charges);
}

fn read_database(path: &Path) -> Option<Salvaged> {
    let db = read::connect_to_read(path).ok()?;
    let attempts = rows(
        &db,
        &format!("SELECT * FROM ({}) ORDER BY session", read::ATTEMPTS),
        |attempt: &StoredAttempt| attempt.started.attempt_id,
        read::attempt,
    );
    Some(Salvaged {
        log: copy::log(&db).unwrap_or_default(),
        commits: commits(&db).unwrap_or(0),
        machines: machines(&db),
        attempts: attempts
            .into_iter()
            .map(|attempt| (attempt.started.attempt_id, attempt))
            .collect(),
        runs_over: rows(
            &db,
            "SELECT id, issue, succeeded, over_at FROM runs
             WHERE over_at IS NOT NULL AND succeeded IS NOT NULL ORDER BY id",
            |over: &RunOver| over.run,
            |row| {
                Ok(RunOver {
                    run: read_run(row, 0)?,
                    issue: read_name(row, 1)?,
                    succeeded: row.get(2)?,
                    at: read_time(row, 3)?,
                })
            },
        ),
        days: days(&db),
        paused: read::is_paused(&db).unwrap_or(false),
        history_before: retention::history_before(&db).unwrap_or_default(),
        decisions: decisions(&db),
    })
}

/// Returns the readable rows, from both ends of the table up to the damage.
fn rows<T, K: Eq + Hash>(
    db: &Connection,
    sql: &str,
    key: impl Fn(&T) -> K,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Vec<T> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for order in ["ASC", "DESC"] {
        let Ok(mut statement) = db.prepare(&format!("{sql} {order}")) else {
            continue;
        };
        let Ok(mut rows) = statement.query([]) else {
            continue;
        };
        while let Ok(Some(row)) = rows.next() {
            if let Ok(value) = read(row)
                && seen.insert(key(&value))
            {
                found.push(value);
            }
        }
    }
    found
}

fn days(db: &Connection) -> BTreeMap<Date, Charges> {
    [read::DAYS, read::OLD_DAYS]
        .into_iter()
        .flat_map(|sql| {
            rows(
                db,
                &format!("SELECT * FROM ({sql}) ORDER BY day"),
                |(day, _)| *day,
                read::day,
            )
        })
        .fold(BTreeMap::new(), |mut days, (day, charges)| {
            raise_day(&mut days, day, charges);
            days
        })
}

fn decisions(db: &Connection) -> Vec<Decision> {
    let mut numbered = rows(
        db,
        &format!("{} ORDER BY id", read::DECISIONS),
        |(id, _): &(i64, Decision)| *id,
        |row| Ok((row.get(7)?, read::decision(row)?)),
    );
    numbered.sort_by_key(|(id, _)| *id);
    numbered.into_iter().map(|(_, decision)| decision).collect()
}

fn machines(db: &Connection) -> BTreeMap<IssueId, IssueMachine> {
    let issues = rows(
        db,
        "SELECT id, title, state, paused, attempts, extra_attempts, tokens, usd_micro, machine_version, machine
         FROM issues ORDER BY id",
        |kept: &IssueRow| kept.id.clone(),
        IssueRow::read,
    );
    let parked = rows(
        db,
        &format!("{} ORDER BY run", read::PARKED),
        |(parked, _): &(StoredParked, ParkReason)| parked.run,
        |row| Ok((read::parked(row)?, read_variant(row, 3)?)),
    );
    issues
        .into_iter()
        .filter_map(|kept| {
            let id = kept.id.clone();
            Some((id, kept.machine(&parked)?))
        })
        .collect()
}

/// A row of `issues`.
struct IssueRow {
    id: IssueId,
    title: String,
    state: String,
    paused: bool,
    life: LifetimeUsage,
    /// The complete machine, if it can be read.
    machine: Option<IssueMachine>,
}

impl IssueRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let version: i64 = row.get(8)?;
        let text = row.get_ref(9)?.as_str().ok();
        Ok(Self {
            id: read_name(row, 0)?,
            title: row.get(1)?,
            state: row.get(2)?,
            paused: row.get(3)?,
            life: LifetimeUsage {
                attempts: row.get(4)?,
                extra_attempts: row.get(5)?,
                spend: read_spend(row, 6)?,
                ..LifetimeUsage::default()
            },
            machine: text
                .filter(|_| version == write::MACHINE_VERSION)
                .and_then(|text| serde_json::from_str(text).ok()),
        })
    }

    /// Returns the machine; if it cannot be read, builds one from the other columns.
    fn machine(self, parked: &[(StoredParked, ParkReason)]) -> Option<IssueMachine> {
        if let Some(mut machine) = self.machine {
            machine.raise_usage(&self.life);
            return Some(machine);
        }
        let mut machine = IssueMachine::new(issue(&self.id, &self.title, &self.state)?, self.life);
        machine.pause(self.paused);
        for (parked, reason) in parked.iter().filter(|(parked, _)| parked.issue == self.id) {
            let since = Now {
                wall: parked.since,
                mono: Mono(Duration::ZERO),
            };
            let stage = (&parked.stage, self.state.as_str());
            machine.park(stage, parked.run, *reason, None, since);
        }
        Some(machine)
    }
}

/// Creates an issue from the little that is known; the next pull supplies the other fields.
pub(super) fn issue(id: &IssueId, title: &str, state: &str) -> Option<Issue> {
    Issue::parse(&json!({"id": id, "title": title, "state": state}).to_string()).ok()
}
