//! The ledger: what was decided, on disk before it is done.
//!
//! One thread writes. What waits when it is ready is committed in one transaction and one sync of the disk, so that a
//! thousand decisions at once cost little more than one. A commit that fails ends the ledger: nothing that it was told
//! is acted on, and nothing more is kept until it is opened anew.

mod error;
mod figures;
mod files;
mod place;
mod read;
mod repair;
mod reserve;
mod retention;
mod schema;
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

pub use error::{Cause, CommitError, LedgerError};
pub use figures::{EndedFigures, StoredFigures};
pub use read::{Reader, StoredAttempt, StoredParked, StoredRun};
pub use repair::{Health, Repaired, check, repair};

use files::{Files, Lock};
use reserve::Reserve;
use writer::{Item, Queue, Thread, Writer};

/// The value in `meta` that numbers the commits.
const COMMITS: &str = "commits";

/// The value in `meta` that tells when it was last opened for writing.
const OPENED: &str = "opened";

/// How long another process may hold a lock of the database: a `sqlite3` that someone has open, or a checkpoint.
const PATIENCE: Duration = Duration::from_secs(5);

/// What tests have otherwise.
struct Options {
    probe: place::Probe,
    patience: Duration,
    /// How many pages the database may have.
    most_pages: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            probe: place::network,
            patience: PATIENCE,
            most_pages: None,
        }
    }
}

/// The ledger of one workflow, open for writing. Dropping it commits what waits, and closes it.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    open: Option<(Queue, Thread)>,
}

impl Ledger {
    /// Opens the ledger in a service folder, or makes it, and tells what it knows.
    ///
    /// # Errors
    /// When it cannot be trusted to keep everything, or has not kept everything; see [`LedgerError`]. Nothing of it is
    /// changed then.
    pub fn open(service_dir: &Path) -> Result<(Self, Stored), LedgerError> {
        Self::open_with(service_dir, &Options::default())
    }

    fn open_with(service_dir: &Path, options: &Options) -> Result<(Self, Stored), LedgerError> {
        place::refuse_network(service_dir, options.probe)?;
        let files = Files::new(service_dir);
        let path = files.db();
        let lock = Lock::acquire(&files)?;
        if !exists(&files, &lock)? {
            create(&files)?;
        }
        let (db, commits) = connect(&files, &lock)?;
        let stored = read::stored(&db, &path)?;
        let fail = |error| LedgerError::of(&path, error);
        crate::fault::before_commit().map_err(fail)?;
        let now = Timestamp::now();
        retention::trim_all(&db, now).map_err(fail)?;
        // A disk that takes nothing shows here, before anything is decided.
        write::put_meta(&db, OPENED, &now.to_string()).map_err(fail)?;
        db.busy_timeout(options.patience).map_err(fail)?;
        if let Some(pages) = options.most_pages {
            db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
                .map_err(fail)?;
        }
        let writer = Writer {
            db,
            path: path.clone(),
            lock,
            reserve: Reserve::new(files.reserve()),
            commits,
            fresh: retention::Fresh::default(),
            broken: None,
        };
        let open = Some(writer.spawn(&files)?);
        Ok((Self { path, open }, stored))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has changes committed, in the order of the calls. It resolves when they are on the disk; without waiting for it
    /// they are committed all the same. When thousands wait already, the call itself waits for room.
    pub fn commit(&self, changes: Changes) -> Commit {
        let (done, commit) = oneshot::channel();
        if let Some((queue, _)) = &self.open {
            // Without a writer the sender is dropped, which says so.
            let _ = queue.send(Item { changes, done });
        }
        Commit(commit)
    }

    /// Commits what waits, and closes the file.
    ///
    /// # Errors
    /// When what is in the write-ahead log cannot be brought into the database; nothing is lost by that.
    pub fn close(mut self) -> Result<(), LedgerError> {
        self.shut()
    }

    fn shut(&mut self) -> Result<(), LedgerError> {
        let Some((queue, thread)) = self.open.take() else {
            return Ok(());
        };
        drop(queue);
        thread.join().unwrap_or(Err(LedgerError::Stopped))
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // What fails here loses nothing: the next one to open it reads the write-ahead log.
        let _ = self.shut();
    }
}

/// A commit under way.
#[derive(Debug)]
#[must_use = "nothing may be acted on before it is committed"]
pub struct Commit(oneshot::Receiver<Result<(), CommitError>>);

impl Commit {
    /// Waits for it, outside of async code.
    ///
    /// # Errors
    /// When it is not kept.
    pub fn wait(self) -> Result<(), CommitError> {
        self.0.blocking_recv().unwrap_or_else(|_| Err(stopped()))
    }
}

impl Future for Commit {
    type Output = Result<(), CommitError>;

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

/// Whether there is a ledger. What is left of one that once was is no reason to begin a new one.
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
            detail: "only its write-ahead log is there".to_owned(),
        }),
        Err(_) => Ok(false),
    }
}

/// Makes an empty ledger: whole under another name first, so that a file of its name is never half a ledger.
fn create(files: &Files) -> Result<(), LedgerError> {
    let path = files.create_temporary()?;
    let make = || {
        let mut db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::migrate(&mut db, 0, schema::MIGRATIONS)?;
        db.close().map_err(|(_, error)| error)
    };
    make().map_err(|error| LedgerError::of(&path, error))?;
    files.finish_new()
}

/// Opens a ledger for writing: first looks at it without changing a byte, then brings it to the latest schema.
fn connect(files: &Files, lock: &Lock) -> Result<(Connection, u64), LedgerError> {
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
    sound(&db, &path, "quick_check")?;
    let commits = commits(&db).map_err(fail)?;
    if commits < lock.acknowledged() {
        return Err(LedgerError::Behind {
            path,
            found: commits,
            expected: lock.acknowledged(),
        });
    }
    db.set_db_config(KEEP_LOG, false).map_err(fail)?;
    let mode: String = db
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(fail)?;
    if mode != "wal" {
        return Err(LedgerError::Corrupt {
            path,
            detail: format!("it has no write-ahead log, but the journal mode `{mode}`"),
        });
    }
    schema::migrate(&mut db, version, schema::MIGRATIONS).map_err(fail)?;
    Ok((db, commits))
}

/// What holds for every connection. It writes nothing.
fn configure(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(PATIENCE)?;
    db.set_prepared_statement_cache_capacity(64);
    // Every commit waits for the disk; on macOS also for the disk's own cache.
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
         PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY; PRAGMA journal_size_limit = 16777216;",
    )
}

/// Has SQLite look for damage.
fn sound(db: &Connection, path: &Path, check: &str) -> Result<(), LedgerError> {
    let found: String = db
        .query_row(&format!("PRAGMA {check}(1)"), [], |row| row.get(0))
        .map_err(|error| LedgerError::of(path, error))?;
    if found == "ok" {
        return Ok(());
    }
    Err(LedgerError::Corrupt {
        path: path.to_owned(),
        // What SQLite finds comes in lines.
        detail: found.split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

/// The number of the last commit.
fn commits(db: &Connection) -> rusqlite::Result<u64> {
    Ok(read::meta(db, COMMITS)?
        .and_then(|text| text.parse().ok())
        .unwrap_or(0))
}
