//! The ledger: decisions, written to disk before they are carried out.
//!
//! One thread writes. It commits all waiting changes in one transaction and one sync of the disk,
//! so that a thousand concurrent decisions cost little more than one. A failed commit ends the
//! ledger: its changes must not be carried out, and nothing more is stored until the ledger is
//! opened again.
//!
//! A hub has a [`LedgerCopy`] instead: the entries of the log that several hubs share.

mod copy;
mod error;
mod figures;
mod files;
mod log_id;
mod network_fs;
mod read;
mod repair;
mod reserve;
mod retention;
mod runs;
mod schema;
mod snapshot;
mod sql;
mod write;
mod writer;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags};
use tokio::sync::oneshot;
use vik_core::changes::{Changes, Stored};
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;

pub use copy::LedgerCopy;
pub use error::{Cause, CommitError, LedgerError};
pub use figures::{EndedFigures, IssueCounts, StoredFigures};
pub use log_id::{InvalidLogId, LogId};
pub use read::{Reader, StoredAttempt, StoredParked};
pub use repair::{Health, Repaired, check, repair};
pub use runs::{RunFilter, StoredRun};
pub use schema::latest as schema_version;
pub use snapshot::Snapshot;

use files::{Files, Lock};
use reserve::Reserve;
use writer::{DeleteHistory, Item, Queue, Request, Thread, Writer};

/// The key in `meta` of the number of commits.
const COMMITS: &str = "commits";

/// The key in `meta` of the time when the ledger was last opened for writing.
const OPENED: &str = "opened";

/// The time for which another process may hold a lock of the database, for example an open
/// `sqlite3` or a checkpoint.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The options that tests override.
struct Options {
    probe: network_fs::Probe,
    lock_timeout: Duration,
    /// The page limit of the database.
    max_pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            probe: network_fs::network,
            lock_timeout: LOCK_TIMEOUT,
            max_pages: None,
        }
    }
}

/// The ledger of one workflow, open for writing. Dropping it commits the waiting changes and closes
/// it.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    open: Option<(Queue, Thread)>,
}

impl Ledger {
    /// Opens or creates the ledger in a service folder, and returns its contents.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be relied on to keep everything, has lost something, or
    /// is the copy of a shared log ([`LedgerError::Shared`]); see [`LedgerError`]. In that case it is
    /// not changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_core::changes::Changes;
    /// use vik_store::Ledger;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let (ledger, _) = Ledger::open(folder.path())?;
    /// let pause = Changes { paused: Some(true), ..Changes::default() };
    /// ledger.commit(pause).wait()?;
    /// ledger.close()?;
    ///
    /// let (_, stored) = Ledger::open(folder.path())?;
    /// assert!(stored.paused);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(service_dir: &Path) -> Result<(Self, Stored), LedgerError> {
        Self::open_with(service_dir, &Options::default())
    }

    fn open_with(service_dir: &Path, options: &Options) -> Result<(Self, Stored), LedgerError> {
        let (ledger, stored, _) = Self::open_as(service_dir, None, options)?;
        Ok((ledger, stored))
    }

    /// Opens or creates the copy of a log, or a ledger that is no copy. The last part of the result
    /// is the number of entries in a copy.
    fn open_as(
        service_dir: &Path,
        log: Option<&LogId>,
        options: &Options,
    ) -> Result<(Self, Stored, Option<u64>), LedgerError> {
        network_fs::refuse_network(service_dir, options.probe)?;
        let files = Files::new(service_dir);
        let path = files.db();
        let lock = Lock::acquire(&files)?;
        if !exists(&files, &lock)? {
            create(&files, |_| Ok(()))?;
            files.finish_new()?;
        }
        let (db, commits, position) = connect(&files, &lock, log)?;
        let stored = read::stored(&db, &path, schema::latest())?;
        let fail = |error| LedgerError::of(&path, error);
        crate::fault::before_commit().map_err(fail)?;
        let now = Timestamp::now();
        retention::trim_all(&db, now).map_err(fail)?;
        // A disk that refuses writes is detected here, before anything is decided.
        write::put_meta(&db, OPENED, &now.to_string()).map_err(fail)?;
        if let (Some(log), Some(position)) = (log, position) {
            copy::put(&db, log, position).map_err(fail)?;
        }
        db.busy_timeout(options.lock_timeout).map_err(fail)?;
        if let Some(pages) = options.max_pages {
            db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
                .map_err(fail)?;
        }
        let writer = Writer {
            db,
            path: path.clone(),
            lock,
            reserve: Reserve::new(files.reserve()),
            commits,
            received: position,
            fresh: retention::NewDecisions::default(),
            first_error: None,
        };
        let open = Some(writer.spawn(&files)?);
        Ok((Self { path, open }, stored, position))
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Commits changes, in the order of the calls. The result resolves when they are on the disk;
    /// they are committed even if the caller does not wait for it. If thousands of commits are
    /// waiting, the call itself blocks until there is room.
    pub fn commit(&self, changes: Changes) -> Answer<()> {
        self.send_commit(changes, None)
    }

    fn send_commit(&self, changes: Changes, position: Option<u64>) -> Answer<()> {
        let (done, commit) = oneshot::channel();
        if let Some((queue, _)) = &self.open {
            let item = Item {
                changes,
                position,
                done,
            };
            // Without a writer the sender is dropped, which the receiver reports as an error.
            let _ = queue.send(Request::Commit(item));
        }
        Answer(commit)
    }

    /// Deletes up to `limit` attempts that ended before this time and whose run is over, with their
    /// charges. The counters of issues and days include them and stay. Returns the number of deleted
    /// attempts.
    ///
    /// # Errors
    /// Returns an error if nothing was deleted because the ledger cannot be written. Commits go on.
    pub async fn delete_history(&self, before: Timestamp, limit: u32) -> Result<u64, LedgerError> {
        let (done, deleted) = oneshot::channel();
        if let Some((queue, _)) = &self.open {
            let request = DeleteHistory { before, limit, done };
            // A full queue must not block the caller: commits are more important.
            let _ = queue.try_send(Request::DeleteHistory(request));
        }
        deleted.await.unwrap_or(Err(LedgerError::Stopped))
    }

    /// Returns the machines of these issues, as far as there are any. They contain the changes of
    /// all earlier calls of [`Ledger::commit`].
    pub fn recall(&self, issues: Vec<IssueId>) -> Answer<Vec<IssueMachine>> {
        let (answer, recall) = oneshot::channel();
        if let Some((queue, _)) = &self.open {
            // Without a writer the sender is dropped, which the receiver reports as an error.
            let _ = queue.send(Request::Recall { issues, answer });
        }
        Answer(recall)
    }

    /// Commits the waiting changes and closes the database.
    ///
    /// # Errors
    /// Returns an error if the write-ahead log cannot be merged into the database; no commit is
    /// lost by that.
    pub fn close(mut self) -> Result<(), LedgerError> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<(), LedgerError> {
        let Some((queue, thread)) = self.open.take() else {
            return Ok(());
        };
        drop(queue);
        thread.join().unwrap_or(Err(LedgerError::Stopped))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // A failure here loses nothing: the next process that opens the ledger reads the
        // write-ahead log.
        let _ = self.shut_down();
    }
}

/// What the thread of the ledger answers: of a [`Ledger::commit`], that its changes are stored.
#[derive(Debug)]
#[must_use = "nothing may take effect before it is committed"]
pub struct Answer<T>(oneshot::Receiver<Result<T, CommitError>>);

impl<T> Answer<T> {
    /// Blocks until the answer is there, outside of async code.
    ///
    /// # Errors
    /// Returns an error if the changes were not stored, or a machine cannot be read.
    pub fn wait(self) -> Result<T, CommitError> {
        self.0.blocking_recv().unwrap_or_else(|_| Err(stopped()))
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, CommitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(cx)
            .map(|result| result.unwrap_or_else(|_| Err(stopped())))
    }
}

fn stopped() -> CommitError {
    CommitError {
        cause: Arc::new(LedgerError::Stopped),
    }
}

/// Returns whether a ledger exists. Remains of an earlier one are an error, so that no new ledger
/// replaces it.
fn exists(files: &Files, lock: &Lock) -> Result<bool, LedgerError> {
    let path = files.db();
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => Err(LedgerError::Foreign { path }),
        Ok(found) if found.len() == 0 => Err(LedgerError::empty(path)),
        Ok(_) => Ok(true),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(LedgerError::of_io(&path, error)),
        Err(_) if lock.acknowledged() > 0 => Err(LedgerError::Behind {
            path,
            found: 0,
            expected: lock.acknowledged(),
        }),
        Err(_) if files.wal().exists() => Err(LedgerError::Corrupt {
            path,
            detail: "only its write-ahead log exists".to_owned(),
        }),
        Err(_) => Ok(false),
    }
}

/// Creates a ledger and fills it in one transaction. It has a temporary name until
/// [`Files::finish_new`], so that a file with the final name is always complete.
fn create(files: &Files, fill: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<(), LedgerError> {
    let path = files.create_temporary()?;
    let make = || {
        let mut db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::migrate(&mut db, 0, schema::MIGRATIONS)?;
        let transaction = db.transaction()?;
        fill(&transaction)?;
        transaction.commit()?;
        db.close().map_err(|(_, error)| error)
    };
    make().map_err(|error| LedgerError::of(&path, error))
}

/// Opens a ledger for writing: checks it without changing a byte, then migrates it to the latest
/// schema. Returns it with the number of its commits, and with that of its entries if it is to be
/// the copy of a log.
fn connect(
    files: &Files,
    lock: &Lock,
    log: Option<&LogId>,
) -> Result<(Connection, u64, Option<u64>), LedgerError> {
    use rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE as KEEP_LOG;

    let path = files.db();
    let fail = |error| LedgerError::of(&path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(&path, flags).map_err(fail)?;
    configure(&db).map_err(fail)?;
    db.set_db_config(KEEP_LOG, true).map_err(fail)?;
    let version = schema::version(&db, &path)?;
    if db.is_readonly(rusqlite::MAIN_DB).map_err(fail)? {
        return Err(LedgerError::ReadOnly {
            path,
            source: std::io::Error::from(std::io::ErrorKind::PermissionDenied).into(),
        });
    }
    check_integrity(&db, &path, "quick_check")?;
    let commits = commits(&db).map_err(fail)?;
    if commits < lock.acknowledged() {
        return Err(LedgerError::Behind {
            path,
            found: commits,
            expected: lock.acknowledged(),
        });
    }
    let position = copy::check(&db, &path, log, commits)?;
    db.set_db_config(KEEP_LOG, false).map_err(fail)?;
    let mode: String = db
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(fail)?;
    if mode != "wal" {
        return Err(LedgerError::Corrupt {
            path,
            detail: format!("its journal mode is `{mode}`, not a write-ahead log"),
        });
    }
    schema::migrate(&mut db, version, schema::MIGRATIONS).map_err(fail)?;
    Ok((db, commits, position))
}

/// Applies the settings of every connection. It writes nothing.
fn configure(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(LOCK_TIMEOUT)?;
    db.set_prepared_statement_cache_capacity(64);
    // Every commit waits for the disk; on macOS also for the disk's own cache.
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
         PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 16777216;",
    )
}

/// Runs an integrity check of SQLite.
fn check_integrity(db: &Connection, path: &Path, check: &str) -> Result<(), LedgerError> {
    let found: String = db
        .query_row(&format!("PRAGMA {check}(1)"), [], |row| row.get(0))
        .map_err(|error| LedgerError::of(path, error))?;
    if found == "ok" {
        return Ok(());
    }
    Err(LedgerError::Corrupt {
        path: path.to_owned(),
        // SQLite reports its findings on several lines.
        detail: found.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

/// Returns the number of the last commit.
fn commits(db: &Connection) -> rusqlite::Result<u64> {
    Ok(read::meta(db, COMMITS)?
        .and_then(|text| text.parse().ok())
        .unwrap_or(0))
}
