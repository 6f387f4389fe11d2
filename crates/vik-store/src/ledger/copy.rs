//! Ledgers of hubs: each one is a copy of the log that the hubs share
//! (`adr/0067-many-machines-on-temporal.md`).
//!
//! Only the log decides the order of decisions, so a copy contains its entries from the first one
//! on that the log had when the copy was created, and nothing else. The position in the log is stored in the transaction of the entry: after a
//! crash, the hub reads the log again from there. A copy therefore acknowledges no commit in the
//! lock file. If it has lost commits, or is missing, the log still has them.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, params};
use vik_core::changes::{Changes, Stored};
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;

use super::files::{self, Files, Lock};
use super::log_id::LogId;
use super::{Answer, Ledger, LedgerError, Options, connect, create, exists, read, write};

/// The key in `meta` of the id of the log.
const LOG: &str = "log";

/// The key in `meta` of the number of entries that the ledger contains.
const POSITION: &str = "log_position";

/// The files of a copy that lacks entries have names that start with this.
const BEHIND: &str = "vik.db.behind-";

/// The ledger of a hub, open for writing. It takes entries of its log and no other commit.
///
/// Dropping it commits the waiting entries and closes it.
#[derive(Debug)]
pub struct LedgerCopy(Ledger);

impl LedgerCopy {
    /// Opens or creates the copy of a log in a service folder. Returns its contents, and the number
    /// of entries of the log that it contains.
    ///
    /// # Errors
    /// Returns an error if the ledger there is a copy of another log
    /// ([`LedgerError::OtherLog`]), has decisions of its own ([`LedgerError::OwnDecisions`]), or
    /// cannot be relied on; see [`LedgerError`]. In that case it is not changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_core::changes::Changes;
    /// use vik_store::ledger::{LedgerCopy, LogId};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let log: LogId = "01993c00-0000-7000-8000-000000000001".parse()?;
    /// let (copy, _, position) = LedgerCopy::open(folder.path(), &log)?;
    /// assert_eq!(position, 0);
    /// let pause = Changes { paused: Some(true), ..Changes::default() };
    /// copy.commit_entry(1, pause).wait()?;
    /// copy.close()?;
    ///
    /// let (_, stored, position) = LedgerCopy::open(folder.path(), &log)?;
    /// assert_eq!((stored.paused, position), (true, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(service_dir: &Path, log: &LogId) -> Result<(Self, Stored, u64), LedgerError> {
        Self::open_with(service_dir, log, &Options::default())
    }

    pub(super) fn open_with(
        service_dir: &Path,
        log: &LogId,
        options: &Options,
    ) -> Result<(Self, Stored, u64), LedgerError> {
        let (ledger, stored, position) = Ledger::open_as(service_dir, Some(log), options)?;
        Ok((Self(ledger), stored, position.unwrap_or(0)))
    }

    /// Opens a copy that has no entry and continues after `position`: the log starts there, with
    /// everything that a hub needs of the entries before. A copy in the service folder that has
    /// entries lacks some of them. Its files get other names, which are returned; its history is
    /// nowhere else.
    ///
    /// # Errors
    /// As [`open`](Self::open). A crash leaves the old copy or the new one.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_core::changes::Changes;
    /// use vik_store::ledger::{LedgerCopy, LogId};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let log: LogId = "01993c00-0000-7000-8000-000000000001".parse()?;
    /// let (copy, set_aside) = LedgerCopy::start_over(folder.path(), &log, 100)?;
    /// assert!(set_aside.is_empty());
    /// copy.commit_entry(101, Changes::default()).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_over(
        service_dir: &Path,
        log: &LogId,
        position: u64,
    ) -> Result<(Self, Vec<PathBuf>), LedgerError> {
        let files = Files::new(service_dir);
        let lock = Lock::acquire(&files)?;
        let mut set_aside = Vec::new();
        if exists(&files, &lock)? {
            let (db, _, copied) = connect(&files, &lock, Some(log))?;
            let has_entries = copied != Some(0);
            if !has_entries {
                put(&db, log, position).map_err(|error| LedgerError::of(&files.db(), error))?;
            }
            db.close()
                .map_err(|(_, error)| LedgerError::of(&files.db(), error))?;
            if has_entries {
                create(&files, |db| put(db, log, position))?;
                set_aside = files.set_aside(BEHIND)?;
                files.finish_new()?;
            }
        } else {
            create(&files, |db| put(db, log, position))?;
            files.finish_new()?;
        }
        drop(lock);
        let (copy, ..) = Self::open(service_dir, log)?;
        Ok((copy, set_aside))
    }

    /// Makes a ledger with decisions of its own the copy of a log whose first `position` entries have
    /// the same contents. Its history stays.
    ///
    /// # Errors
    /// Returns an error if the ledger is a copy already, or cannot be relied on; see
    /// [`LedgerError`]. In that case it is not changed. A crash leaves it changed or unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_core::changes::Changes;
    /// use vik_store::Ledger;
    /// use vik_store::ledger::{LedgerCopy, LogId};
    ///
    /// let folder = tempfile::tempdir()?;
    /// let (ledger, _) = Ledger::open(folder.path())?;
    /// let pause = Changes { paused: Some(true), ..Changes::default() };
    /// ledger.commit(pause).wait()?;
    /// ledger.close()?;
    ///
    /// let log: LogId = "01993c00-0000-7000-8000-000000000001".parse()?;
    /// LedgerCopy::adopt(folder.path(), &log, 1)?;
    /// let (_, stored, position) = LedgerCopy::open(folder.path(), &log)?;
    /// assert_eq!((stored.paused, position), (true, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn adopt(service_dir: &Path, log: &LogId, position: u64) -> Result<(), LedgerError> {
        let files = Files::new(service_dir);
        let lock = Lock::acquire(&files)?;
        let fail = |error| LedgerError::of(&files.db(), error);
        let (db, ..) = connect(&files, &lock, None)?;
        put(&db, log, position).map_err(fail)?;
        db.close().map_err(|(_, error)| fail(error))
    }

    /// Commits an entry of the log, with its position, in the order of the calls. Positions are
    /// counted from 1. The result resolves when the entry and all before it are on the disk; they
    /// are committed even if the caller does not wait for it.
    ///
    /// An entry that the copy already contains changes nothing. An entry after a gap is refused
    /// with [`LedgerError::Gap`] and changes nothing either; the next one in order is accepted
    /// then.
    pub fn commit_entry(&self, position: u64, changes: Changes) -> Answer<()> {
        self.0.send_commit(changes, Some(position))
    }

    /// Returns the machines of these issues; see [`Ledger::recall`].
    pub fn recall(&self, issues: Vec<IssueId>) -> Answer<Vec<IssueMachine>> {
        self.0.recall(issues)
    }

    /// Deletes old attempts from this copy alone; see [`Ledger::delete_history`]. Also removes the
    /// files that were set aside before this time: they have nothing that is newer.
    ///
    /// # Errors
    /// Returns an error if nothing was deleted because the ledger cannot be written, or if a file
    /// cannot be removed. Commits go on.
    pub async fn delete_history(&self, before: Timestamp, limit: u32) -> Result<u64, LedgerError> {
        let deleted = self.0.delete_history(before, limit).await?;
        for path in set_aside_before(&self.0.path, before) {
            std::fs::remove_file(&path).map_err(|source| LedgerError::of_io(&path, source))?;
        }
        Ok(deleted)
    }

    /// Commits the waiting entries and closes the database.
    ///
    /// # Errors
    /// Returns an error if the write-ahead log cannot be merged into the database; no commit is
    /// lost by that.
    pub fn close(self) -> Result<(), LedgerError> {
        self.0.close()
    }
}

/// Returns the files of copies that were set aside before this time, beside a database.
pub(super) fn set_aside_before(db: &Path, before: Timestamp) -> Vec<PathBuf> {
    let files = db.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let paths = files.into_iter().flatten().flatten().map(|file| file.path());
    let is_old = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let time = name.and_then(|name| name.strip_prefix(BEHIND));
        time.and_then(files::set_aside_at).is_some_and(|at| at < before)
    };
    paths.filter(is_old).collect()
}

/// Returns the log of which the ledger is a copy.
pub(super) fn log(db: &Connection) -> rusqlite::Result<Option<LogId>> {
    Ok(read::meta(db, LOG)?.map(LogId::restored))
}

/// Returns the log of which the ledger is a copy, and the number of its entries in the ledger.
///
/// # Errors
/// Returns an error if they cannot be read.
pub(super) fn log_and_position(db: &Connection, path: &Path) -> Result<Option<(LogId, u64)>, LedgerError> {
    let fail = |error| LedgerError::of(path, error);
    let Some(log) = log(db).map_err(fail)? else {
        return Ok(None);
    };
    let position = read::meta(db, POSITION).map_err(fail)?;
    match position.and_then(|text| text.parse().ok()) {
        Some(position) => Ok(Some((log, position))),
        None => Err(LedgerError::Corrupt {
            path: path.to_owned(),
            detail: "its position in the shared log cannot be read".to_owned(),
        }),
    }
}

/// Returns the number of entries in a ledger that is to be a copy of `wanted`; `None` for a ledger
/// that is to be no copy. An empty ledger can become a copy.
///
/// # Errors
/// Returns an error if the ledger is something else.
pub(super) fn check(
    db: &Connection,
    path: &Path,
    wanted: Option<&LogId>,
    commits: u64,
) -> Result<Option<u64>, LedgerError> {
    let to_path = || path.to_owned();
    match (log_and_position(db, path)?, wanted) {
        (None, None) => Ok(None),
        (None, Some(_)) if commits == 0 => Ok(Some(0)),
        (None, Some(_)) => Err(LedgerError::OwnDecisions { path: to_path() }),
        (Some((log, _)), None) => Err(LedgerError::Shared { path: to_path(), log }),
        (Some((log, position)), Some(wanted)) if log == *wanted => Ok(Some(position)),
        (Some((found, _)), Some(wanted)) => Err(LedgerError::OtherLog {
            path: to_path(),
            found,
            expected: wanted.clone(),
        }),
    }
}

/// Marks a ledger as a copy of this log with this number of its entries. One statement stores both,
/// so that a crash leaves both or none.
pub(super) fn put(db: &Connection, log: &LogId, position: u64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO meta (key, value) VALUES (?1, ?2), (?3, ?4)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    )?
    .execute(params![LOG, log.as_str(), POSITION, position.to_string()])?;
    Ok(())
}

/// Stores the number of entries that a copy contains.
pub(super) fn put_position(db: &Connection, position: u64) -> rusqlite::Result<()> {
    write::put_meta(db, POSITION, &position.to_string())
}
