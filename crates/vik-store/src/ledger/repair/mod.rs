//! Checks a ledger for damage, and rebuilds a damaged one.

mod logs;
mod rebuild;
mod salvage;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use vik_core::ids::AttemptId;

use super::files::{self, Files, Lock};
use super::{
    COMMITS, LedgerError, LogId, check_integrity, commits, copy, create, read, retention, schema, write,
};

/// The condition of a ledger.
#[derive(Debug)]
pub enum Health {
    Missing,
    Good {
        schema: i64,
        /// The number of its commits.
        commits: u64,
        /// Its size in bytes.
        bytes: u64,
    },
    /// The ledger cannot be used in its condition.
    Bad(LedgerError),
}

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The new paths of the damaged files; empty if the ledger was intact and nothing was done.
    pub moved: Vec<PathBuf>,
    /// The number of issues in the new ledger.
    pub issues: usize,
    /// The number of attempts in the new ledger.
    pub attempts: usize,
    /// The attempts without an end, which the next daemon resumes.
    pub open: Vec<AttemptId>,
    /// The shared log of which the new ledger is a copy without any entry; a hub fills it from the
    /// log.
    pub log: Option<LogId>,
}

/// Checks a ledger as thoroughly as possible, also while a daemon uses it.
pub fn check(service_dir: &Path) -> Health {
    match examine(&Files::new(service_dir)) {
        Ok(None) => Health::Missing,
        Ok(Some(good)) => good,
        Err(error) => Health::Bad(error),
    }
}

fn examine(files: &Files) -> Result<Option<Health>, LedgerError> {
    let path = files.db();
    // This is read before the database, because a daemon may commit in the meantime.
    let expected = files::acknowledged(files);
    let bytes = match path.metadata() {
        Ok(found) => found.len(),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(LedgerError::of_io(&path, error));
        }
        Err(_) if expected == 0 && !files.wal().exists() => return Ok(None),
        Err(_) => {
            return Err(LedgerError::Behind {
                path,
                found: 0,
                expected,
            });
        }
    };
    if bytes == 0 {
        return Err(LedgerError::empty(path));
    }
    let db = read::connect_to_read(&path)?;
    let schema = schema::version(&db, &path)?;
    check_integrity(&db, &path, "integrity_check")?;
    read::stored(&db, &path, schema)?;
    read::check_machines(&db, &path)?;
    copy::log_and_position(&db, &path)?;
    let commits = commits(&db).map_err(|error| LedgerError::of(&path, error))?;
    if commits < expected {
        return Err(LedgerError::Behind {
            path,
            found: commits,
            expected,
        });
    }
    Ok(Some(Health::Good {
        schema,
        commits,
        bytes,
    }))
}

/// Rebuilds a damaged ledger from its readable parts, and from the records and logs of its
/// attempts. The damaged files are moved aside and never removed. An intact ledger stays unchanged;
/// a missing one is created if there are attempts that it must contain.
///
/// A copy of a shared log becomes an empty copy of that log. Its readable parts could lack entries,
/// and its log has all that decides.
///
/// # Errors
/// Returns an error if the ledger is in use, is of a later version, or cannot be written. In that
/// case the damaged files are where they were.
pub fn repair(service_dir: &Path, sessions_dir: &Path) -> Result<Repaired, LedgerError> {
    let files = Files::new(service_dir);
    let lock = Lock::acquire(&files)?;
    let is_missing = match examine(&files) {
        Ok(None) => true,
        Ok(Some(_)) => return Ok(Repaired::default()),
        Err(error) if error.is_damage() => false,
        Err(error) => return Err(error),
    };
    let found = logs::read(sessions_dir)?;
    if is_missing && found.is_empty() {
        return Ok(Repaired::default());
    }
    // Files that an earlier repair set aside contribute their data if that repair did not finish.
    let sources = [files.db()]
        .into_iter()
        .chain(set_aside_before(service_dir)?)
        .collect::<Vec<_>>();
    let salvaged = salvage::read(sources.iter().map(PathBuf::as_path));
    let commit = salvaged.commits.max(lock.acknowledged()) + 1;
    if let Some(log) = salvaged.log {
        create(&files, |db| {
            copy::put(db, &log, 0)?;
            write::put_meta(db, COMMITS, &commit.to_string())
        })?;
        return Ok(Repaired {
            moved: replace(&files)?,
            log: Some(log),
            ..Repaired::default()
        });
    }
    let history_before = salvaged.history_before;
    let changes = rebuild::rebuild(salvaged, found, Timestamp::now());
    create(&files, |db| {
        write::apply(db, &changes)?;
        write::put_meta(db, COMMITS, &commit.to_string())?;
        history_before.map_or(Ok(()), |before| retention::put_history_before(db, before))
    })?;
    let moved = replace(&files)?;
    lock.acknowledge(commit);
    let ended: HashSet<_> = changes.ended.iter().map(|ended| ended.attempt_id).collect();
    let sessions = changes.started.iter().map(|started| started.attempt_id);
    Ok(Repaired {
        moved,
        issues: changes.machines.len(),
        attempts: changes.started.len(),
        open: sessions.filter(|session| !ended.contains(session)).collect(),
        log: None,
    })
}

/// Returns the databases that earlier repairs set aside.
fn set_aside_before(service_dir: &Path) -> Result<Vec<PathBuf>, LedgerError> {
    let fail = |source| LedgerError::of_io(service_dir, source);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(service_dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(ASIDE) && !name.ends_with("-wal") && !name.ends_with("-shm") {
            found.push(path);
        }
    }
    Ok(found)
}

const ASIDE: &str = "vik.db.broken-";

/// Puts the new ledger in the place of the damaged files. Returns their new paths.
fn replace(files: &Files) -> Result<Vec<PathBuf>, LedgerError> {
    let moved = files.set_aside(ASIDE)?;
    files.finish_new()?;
    Ok(moved)
}
