//! The errors of the ledger.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ffi;
use vik_core::ids::IssueId;

use super::log_id::LogId;

/// An error in opening, reading or writing the ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A later version of Vik wrote the ledger.
    #[error("{path} has schema {found}, but this version of Vik supports schemas up to {known}")]
    Newer {
        path: PathBuf,
        found: i64,
        /// The latest known schema.
        known: i64,
    },
    /// The file is a database of another program.
    #[error("{path} is a database but not a ledger of Vik")]
    Foreign { path: PathBuf },
    /// The file cannot be read as a ledger.
    #[error("{path} is damaged: {detail}")]
    Corrupt { path: PathBuf, detail: String },
    /// The ledger lacks acknowledged commits.
    #[error("{path} lacks commits: its last commit is {found}, but {expected} was acknowledged")]
    Behind {
        path: PathBuf,
        /// The number of its last commit.
        found: u64,
        expected: u64,
    },
    #[error("{path}: cannot read the state of issue {issue}")]
    IssueMachine {
        path: PathBuf,
        issue: IssueId,
        source: serde_json::Error,
    },
    /// The file or its folder is not writable.
    #[error("cannot write {path}")]
    ReadOnly { path: PathBuf, source: Cause },
    #[error("the disk of {path} is full")]
    Full { path: PathBuf, source: Cause },
    /// The disk cannot be read or written, although it has free space.
    #[error("the disk of {path} reports errors")]
    Disk { path: PathBuf, source: Cause },
    /// The folder is on a network file system, where locks and syncs are unreliable.
    #[error("{path} is on a network file system ({kind})")]
    Network {
        path: PathBuf,
        /// The kind of the file system.
        kind: String,
    },
    #[error("{path} is in use by another process")]
    Busy { path: PathBuf },
    /// The changes contradict the contents of the ledger.
    #[error("{path} rejects a change that contradicts its contents")]
    Refused { path: PathBuf, source: Cause },
    /// The ledger is a copy of a shared log, and another kind of ledger was to be opened.
    #[error("{path} is a copy of the shared log {log}, which alone decides what it contains")]
    Shared { path: PathBuf, log: LogId },
    /// The ledger is a copy of another log than the expected one.
    #[error("{path} is a copy of the shared log {found}, not of {expected}")]
    OtherLog {
        path: PathBuf,
        found: LogId,
        expected: LogId,
    },
    /// A copy of a shared log was to be opened, but the ledger contains decisions of its own.
    #[error("{path} contains decisions that are in no shared log")]
    OwnDecisions { path: PathBuf },
    /// An entry of the shared log does not follow the last one in the ledger.
    #[error("{path} needs entry {next} of its shared log before entry {position}")]
    Gap {
        path: PathBuf,
        position: u64,
        /// The position of the next entry.
        next: u64,
    },
    #[error("cannot use {path}")]
    Other { path: PathBuf, source: Cause },
    /// The writer thread has ended.
    #[error("the writer of the ledger has ended")]
    Stopped,
}

/// The underlying error of the operating system or of SQLite.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Cause {
    Io(#[from] io::Error),
    Sqlite(#[from] rusqlite::Error),
}

/// A commit that failed: its changes must not be carried out, and nothing more is stored until the
/// ledger is opened again. Only after a [`LedgerError::Gap`] are further entries stored.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot store the decision")]
pub struct CommitError {
    /// The first error, which all later commits return too, or a gap.
    #[source]
    pub cause: Arc<LedgerError>,
}

impl LedgerError {
    /// Returns advice on what to do.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Newer { .. } => "use the newer version of Vik; the file was not changed",
            Self::Foreign { .. } => "move the file away; the file was not changed",
            Self::Corrupt { .. } | Self::Behind { .. } | Self::IssueMachine { .. } => {
                "run `vik doctor --repair`: it keeps the damaged files and rebuilds the ledger from them and the session logs"
            }
            Self::ReadOnly { .. } => "make the folder and its files writable for the user that runs Vik",
            Self::Full { .. } => "free some disk space and restart Vik; nothing that took effect is lost",
            Self::Disk { .. } => {
                "check the system log for disk errors and restart Vik; nothing that took effect is lost"
            }
            Self::Network { .. } => "set `workspace.root` or VIK_HOME to a folder on a local disk",
            Self::Busy { .. } => "stop the other process: `vik status` shows whether a daemon is running",
            Self::Refused { .. } => "restart Vik; if the error returns, report it with the log",
            Self::Shared { .. } => {
                "run Vik with the `engine` of the workflow, or set `workspace.root` or VIK_HOME to another folder"
            }
            Self::OtherLog { .. } => {
                "connect Vik to the log of this ledger, or set `workspace.root` or VIK_HOME to another folder"
            }
            Self::OwnDecisions { .. } => {
                "set `workspace.root` or VIK_HOME to another folder, or move all files `vik.db*` out of this one"
            }
            Self::Gap { .. } => "restart Vik, which then reads the log from the missing entry on",
            Self::Other { .. } | Self::Stopped => return None,
        })
    }

    /// Returns whether `vik doctor --repair` can fix the error.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. } | Self::Behind { .. } | Self::IssueMachine { .. }
        )
    }

    /// Classifies an error of SQLite.
    pub(super) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let code = match &source {
            rusqlite::Error::SqliteFailure(failure, message) => match failure.extended_code & 0xff {
                ffi::SQLITE_NOTADB | ffi::SQLITE_CORRUPT => {
                    let detail = message.clone().unwrap_or_else(|| failure.to_string());
                    return Self::Corrupt { path, detail };
                }
                _ => failure.extended_code,
            },
            _ => ffi::SQLITE_ERROR,
        };
        let source = source.into();
        match code & 0xff {
            // The shared index of the write-ahead log is a file too, and the first one to need
            // space.
            _ if code == ffi::SQLITE_IOERR_SHMSIZE => Self::Full { path, source },
            ffi::SQLITE_FULL => Self::Full { path, source },
            ffi::SQLITE_IOERR => Self::Disk { path, source },
            ffi::SQLITE_READONLY | ffi::SQLITE_CANTOPEN | ffi::SQLITE_PERM => Self::ReadOnly { path, source },
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => Self::Busy { path },
            ffi::SQLITE_CONSTRAINT => Self::Refused { path, source },
            _ => Self::Other { path, source },
        }
    }

    /// Returns the error for a ledger without any bytes. It was truncated, because a new ledger is
    /// never empty.
    pub(super) fn empty(path: PathBuf) -> Self {
        Self::Corrupt {
            path,
            detail: "the file is empty".to_owned(),
        }
    }

    /// Classifies an error of the operating system.
    pub(super) fn of_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        let (kind, code) = (source.kind(), source.raw_os_error());
        let source = source.into();
        match kind {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::ReadOnly { path, source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path, source },
            _ if code == Some(EIO) => Self::Disk { path, source },
            _ => Self::Other { path, source },
        }
    }

    /// Returns the ledger error for an error of a file that is caused by a failing disk; later
    /// writes to that disk will fail too.
    pub fn of_disk(path: &Path, error: &io::Error) -> Option<Self> {
        let classified = Self::of_own_file(path, error);
        let fails = match &classified {
            Self::Full { .. } | Self::Disk { .. } => true,
            Self::ReadOnly { .. } => error.kind() == io::ErrorKind::ReadOnlyFilesystem,
            _ => false,
        };
        fails.then_some(classified)
    }

    /// Returns the ledger error for a file that only Vik writes and no attempt can affect.
    pub fn of_own_file(path: &Path, error: &io::Error) -> Self {
        let copy = match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => error.kind().into(),
        };
        Self::of_io(path, copy)
    }
}

/// The error code of the operating system for a failed read or write of a disk.
const EIO: i32 = nix::libc::EIO;
