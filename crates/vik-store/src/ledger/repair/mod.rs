//! Looking for damage, and rebuilding a ledger from what is left.

mod logs;
mod rebuild;
mod salvage;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};
use vik_core::changes::Changes;
use vik_core::ids::AttemptId;

use super::files::{self, Files, Lock};
use super::{COMMITS, LedgerError, commits, read, schema, sound, write};

/// How a ledger is.
#[derive(Debug)]
pub enum Health {
    /// There is none yet.
    Missing,
    /// It is whole.
    Good {
        /// Its schema.
        schema: i64,
        /// Its commits so far.
        commits: u64,
        /// How many bytes it takes.
        bytes: u64,
    },
    /// It cannot be used as it is.
    Bad(LedgerError),
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Where the damaged files are now; empty where the ledger was whole and nothing was done.
    pub moved: Vec<PathBuf>,
    /// Issues that the new ledger knows.
    pub issues: usize,
    /// Attempts that it knows.
    pub attempts: usize,
    /// Attempts that have no end yet: the next daemon takes them up.
    pub open: Vec<AttemptId>,
}

/// Looks at a ledger as closely as can be, also beside a daemon.
pub fn check(service_dir: &Path) -> Health {
    match examine(&Files::new(service_dir)) {
        Ok(None) => Health::Missing,
        Ok(Some(good)) => good,
        Err(error) => Health::Bad(error),
    }
}

fn examine(files: &Files) -> Result<Option<Health>, LedgerError> {
    let path = files.db();
    // Read before the database: a daemon may commit meanwhile.
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
    sound(&db, &path, "integrity_check")?;
    read::stored(&db, &path)?;
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

/// Rebuilds a damaged ledger from what can be read of it, and from the records and logs of its attempts. The damaged files
/// are moved aside, never removed. A ledger that is whole stays as it is; one that is missing is made where there are
/// attempts that it should know.
///
/// # Errors
/// When it is in use, of a later version, or cannot be written. The damaged files are where they were then.
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
    // What an earlier repair set aside helps where that did not come to its end.
    let sources = [files.db()]
        .into_iter()
        .chain(aside(service_dir)?)
        .collect::<Vec<_>>();
    let salvaged = salvage::read(sources.iter().map(PathBuf::as_path));
    let commit = salvaged.commits.max(lock.acknowledged()) + 1;
    let changes = rebuild::rebuild(salvaged, found, Timestamp::now());
    build(&files, &changes, commit)?;
    let moved = set_aside(&files)?;
    files.finish_new()?;
    lock.acknowledge(commit);
    let ended: HashSet<_> = changes.ended.iter().map(|ended| ended.attempt_id).collect();
    let sessions = changes.started.iter().map(|started| started.attempt_id);
    Ok(Repaired {
        moved,
        issues: changes.machines.len(),
        attempts: changes.started.len(),
        open: sessions.filter(|session| !ended.contains(session)).collect(),
    })
}

/// The databases that earlier repairs set aside.
fn aside(service_dir: &Path) -> Result<Vec<PathBuf>, LedgerError> {
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

fn build(files: &Files, changes: &Changes, commit: u64) -> Result<(), LedgerError> {
    let path = files.create_temporary()?;
    let make = || {
        let mut db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::migrate(&mut db, 0, schema::MIGRATIONS)?;
        let transaction = db.transaction()?;
        write::apply(&transaction, changes)?;
        write::put_meta(&transaction, COMMITS, &commit.to_string())?;
        transaction.commit()?;
        db.close().map_err(|(_, error)| error)
    };
    make().map_err(|error| LedgerError::of(&path, error))
}

/// Gives the damaged files another name. Until the new ledger has theirs, a database is never without its log: so the
/// database has both names first, then its log moves.
fn set_aside(files: &Files) -> Result<Vec<PathBuf>, LedgerError> {
    let stamp = Timestamp::now().strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
    let to = files.db().with_file_name(format!("{ASIDE}{stamp}"));
    let mut moved = Vec::new();
    let fail = |source| LedgerError::of_io(&to, source);
    if files.db().exists() {
        if std::fs::hard_link(files.db(), &to).is_err() {
            // Some file systems have no links.
            std::fs::copy(files.db(), &to).map_err(fail)?;
        }
        moved.push(to.clone());
    }
    for (from, end) in [(files.wal(), "-wal"), (files.shm(), "-shm")] {
        if from.exists() {
            let to = to.with_file_name(format!("{ASIDE}{stamp}{end}"));
            std::fs::rename(&from, &to).map_err(|source| LedgerError::of_io(&to, source))?;
            moved.push(to);
        }
    }
    files.sync_folder()?;
    Ok(moved)
}
