//! The files of a ledger: the database, and the lock that admits one writer.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::LedgerError;

/// A program that is being started briefly has copies of all open files, including locks, so a
/// released lock may stay held a little longer.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The time in the names of files that were set aside, in UTC.
const STAMP: &str = "%Y%m%dT%H%M%S%.3fZ";

/// Returns when a file was set aside, from what follows the prefix in its name.
pub(super) fn set_aside_at(end: &str) -> Option<Timestamp> {
    let (stamp, _) = end.split_once('-').unwrap_or((end, ""));
    let time = DateTime::strptime(STAMP, stamp).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// The paths of the files of a ledger.
#[derive(Clone, Debug)]
pub(super) struct Files {
    folder: PathBuf,
}

impl Files {
    pub(super) fn new(service_dir: &Path) -> Self {
        Self {
            folder: service_dir.to_owned(),
        }
    }

    /// Returns the path of the database.
    pub(super) fn db(&self) -> PathBuf {
        self.folder.join("vik.db")
    }

    /// Returns the path of the write-ahead log, which holds commits that are not yet in the
    /// database.
    pub(super) fn wal(&self) -> PathBuf {
        self.folder.join("vik.db-wal")
    }

    /// Returns the path of the index of the write-ahead log.
    pub(super) fn shm(&self) -> PathBuf {
        self.folder.join("vik.db-shm")
    }

    /// Returns the path of a database that is being created.
    pub(super) fn new_db(&self) -> PathBuf {
        self.folder.join("vik.db.new")
    }

    /// Returns the path of the reserve.
    pub(super) fn reserve(&self) -> PathBuf {
        self.folder.join("vik.db.reserve")
    }

    /// Returns the path of the lock.
    pub(super) fn lock(&self) -> PathBuf {
        self.folder.join("vik.db.lock")
    }

    /// Syncs the folder, so that renames in it are durable.
    pub(super) fn sync_folder(&self) -> Result<(), LedgerError> {
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| LedgerError::of_io(&self.folder, source))
    }

    /// Creates a new, empty database that only its owner can read. It removes an unfinished earlier
    /// one.
    pub(super) fn create_temporary(&self) -> Result<PathBuf, LedgerError> {
        let path = self.new_db();
        for old in [path.clone(), self.folder.join("vik.db.new-journal")] {
            match std::fs::remove_file(&old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(LedgerError::of_io(&old, error));
                }
                _ => {}
            }
        }
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|source| LedgerError::of_io(&path, source))?;
        Ok(path)
    }

    /// Gives the files of the ledger other names, which start with `prefix` and have the time. Returns
    /// their new paths.
    ///
    /// Until a new ledger has their names, a database must not be without its log. So the database
    /// first gets its second name beside the old one, and then its log is moved.
    pub(super) fn set_aside(&self, prefix: &str) -> Result<Vec<PathBuf>, LedgerError> {
        let stamp = Timestamp::now().strftime(STAMP).to_string();
        let to = self.folder.join(format!("{prefix}{stamp}"));
        let mut moved = Vec::new();
        let fail = |source| LedgerError::of_io(&to, source);
        if self.db().exists() {
            if std::fs::hard_link(self.db(), &to).is_err() {
                // Some file systems do not support hard links.
                std::fs::copy(self.db(), &to).map_err(fail)?;
            }
            moved.push(to.clone());
        }
        for (from, end) in [(self.wal(), "-wal"), (self.shm(), "-shm")] {
            if from.exists() {
                let to = to.with_file_name(format!("{prefix}{stamp}{end}"));
                std::fs::rename(&from, &to).map_err(|source| LedgerError::of_io(&to, source))?;
                moved.push(to);
            }
        }
        self.sync_folder()?;
        Ok(moved)
    }

    /// Renames the new database to the name of the ledger.
    pub(super) fn finish_new(&self) -> Result<(), LedgerError> {
        std::fs::rename(self.new_db(), self.db()).map_err(|source| LedgerError::of_io(&self.db(), source))?;
        self.sync_folder()
    }
}

/// The exclusive right to write, which one process holds until it ends in whatever way.
///
/// The file also stores the number of the last acknowledged commit. It is written without waiting
/// for the disk, after the commit is durable. So the number may be behind the ledger, but a ledger
/// that is behind the number has lost commits. A copy of a shared log stores no number, because the
/// log has what it lost.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// Returns an error if another process holds the lock, or if the file cannot be created.
    pub(super) fn acquire(files: &Files) -> Result<Self, LedgerError> {
        let path = files.lock();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|source| LedgerError::of_io(&path, source))?;
        for _ in 0..LOCK_TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file }),
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
                Err(TryLockError::Error(source)) => return Err(LedgerError::of_io(&path, source)),
            }
        }
        Err(LedgerError::Busy { path: files.db() })
    }

    /// Returns the last acknowledged commit, as far as it is known.
    pub(super) fn acknowledged(&self) -> u64 {
        read_number(&self.file)
    }

    /// Stores the number of a commit. A failure here is ignored, because it only prevents the
    /// detection of a later loss.
    pub(super) fn acknowledge(&self, commit: u64) {
        let _ = self.file.write_all_at(format!("{commit:020}\n").as_bytes(), 0);
    }
}

/// Returns the last acknowledged commit, for processes that do not write.
pub(super) fn acknowledged(files: &Files) -> u64 {
    File::open(files.lock()).map_or(0, |file| read_number(&file))
}

fn read_number(file: &File) -> u64 {
    let mut text = [0; 20];
    // After a power failure the content of the file is arbitrary: then nothing is known.
    match file.read_exact_at(&mut text, 0) {
        Ok(()) => std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
        Err(_) => 0,
    }
}
