//! The files of a ledger: the database, and the lock that says who writes it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::LedgerError;

/// A program that is being started has a copy of every open file for a moment, locks included: so a lock that was given
/// up may be held a little longer.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Where a ledger is.
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

    /// The database.
    pub(super) fn db(&self) -> PathBuf {
        self.folder.join("vik.db")
    }

    /// What was committed and is not yet in the database.
    pub(super) fn wal(&self) -> PathBuf {
        self.folder.join("vik.db-wal")
    }

    /// The index of the write-ahead log.
    pub(super) fn shm(&self) -> PathBuf {
        self.folder.join("vik.db-shm")
    }

    /// A database that is being made.
    pub(super) fn new_db(&self) -> PathBuf {
        self.folder.join("vik.db.new")
    }

    /// Room that is set aside.
    pub(super) fn reserve(&self) -> PathBuf {
        self.folder.join("vik.db.reserve")
    }

    /// The lock.
    pub(super) fn lock(&self) -> PathBuf {
        self.folder.join("vik.db.lock")
    }

    /// Makes what was renamed in the folder last.
    pub(super) fn sync_folder(&self) -> Result<(), LedgerError> {
        File::open(&self.folder)
            .and_then(|folder| folder.sync_all())
            .map_err(|source| LedgerError::of_io(&self.folder, source))
    }

    /// Begins a new database, empty and readable for its owner alone. What an earlier one left unfinished goes away.
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

    /// The new database becomes the ledger.
    pub(super) fn finish_new(&self) -> Result<(), LedgerError> {
        std::fs::rename(self.new_db(), self.db()).map_err(|source| LedgerError::of_io(&self.db(), source))?;
        self.sync_folder()
    }
}

/// The right to write: held by one process, and given up with its end however that comes.
///
/// The file also tells the number of the last commit that was acknowledged. It is written without waiting for the disk,
/// after the commit is safe: so it may be behind the ledger, but a ledger that is behind it has lost something.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock.
    ///
    /// # Errors
    /// When another process has it, or the file cannot be made.
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

    /// The last commit that was acknowledged, as far as is known.
    pub(super) fn acknowledged(&self) -> u64 {
        read_number(&self.file)
    }

    /// Notes a commit. What fails here costs only the proof of a later loss.
    pub(super) fn acknowledge(&self, commit: u64) {
        let _ = self.file.write_all_at(format!("{commit:020}\n").as_bytes(), 0);
    }
}

/// The last commit that was acknowledged, for those who do not write.
pub(super) fn acknowledged(files: &Files) -> u64 {
    File::open(files.lock()).map_or(0, |file| read_number(&file))
}

fn read_number(file: &File) -> u64 {
    let mut text = [0; 20];
    // After a power cut the file may be of any content: then nothing is known.
    match file.read_exact_at(&mut text, 0) {
        Ok(()) => std::str::from_utf8(&text)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
        Err(_) => 0,
    }
}
