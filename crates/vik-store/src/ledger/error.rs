//! Why the ledger cannot be opened, read or written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::ffi;
use vik_core::ids::IssueId;

/// Why the ledger cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A later version of Vik wrote it.
    #[error("{path} has schema {found}; this version of Vik knows schemas up to {known}")]
    Newer {
        /// The ledger.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The latest one that is known.
        known: i64,
    },
    /// It is a database of another program.
    #[error("{path} is a database, but no ledger of Vik")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read as a ledger.
    #[error("{path} is damaged: {detail}")]
    Corrupt {
        /// The ledger.
        path: PathBuf,
        /// What was found.
        detail: String,
    },
    /// It lacks commits that it once had.
    #[error("{path} lacks what was committed: it stands at commit {found}, and {expected} was acknowledged")]
    Behind {
        /// The ledger.
        path: PathBuf,
        /// Its last commit.
        found: u64,
        /// The last commit that was acknowledged.
        expected: u64,
    },
    /// The machine of an issue cannot be read.
    #[error("{path}: what is kept of issue {issue} cannot be read")]
    IssueMachine {
        /// The ledger.
        path: PathBuf,
        /// The issue.
        issue: IssueId,
        /// Why.
        source: serde_json::Error,
    },
    /// The file or its folder may not be written.
    #[error("{path} cannot be written")]
    ReadOnly {
        /// The ledger.
        path: PathBuf,
        /// Why.
        source: Cause,
    },
    /// The disk is full.
    #[error("the disk of {path} is full")]
    Full {
        /// The ledger.
        path: PathBuf,
        /// What SQLite says.
        source: Cause,
    },
    /// The disk cannot be read or written, though there is room.
    #[error("the disk of {path} fails")]
    Disk {
        /// The ledger.
        path: PathBuf,
        /// What the system or SQLite says.
        source: Cause,
    },
    /// The folder is on a network file system, where locks and syncs cannot be relied on.
    #[error("{path} is on a network file system ({kind})")]
    Network {
        /// The folder.
        path: PathBuf,
        /// Which.
        kind: String,
    },
    /// Another process has it open for writing.
    #[error("{path} is in use by another process")]
    Busy {
        /// The ledger.
        path: PathBuf,
    },
    /// What was to be committed contradicts what the ledger has.
    #[error("{path} refuses what was decided, as it contradicts what is stored")]
    Refused {
        /// The ledger.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// A file could not be opened, read, written or moved.
    #[error("cannot use {path}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Anything else that SQLite says.
    #[error("{path} cannot be used")]
    Sqlite {
        /// The ledger.
        path: PathBuf,
        /// What SQLite says.
        source: rusqlite::Error,
    },
    /// The writer is gone.
    #[error("the writer of the ledger has ended")]
    Stopped,
}

/// What is behind an error: the system or SQLite.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Cause {
    /// The system.
    Io(#[from] io::Error),
    /// SQLite.
    Sqlite(#[from] rusqlite::Error),
}

/// A commit that is not kept: nothing of it may be acted on, and nothing more is kept until the ledger is opened again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("what was decided could not be kept")]
pub struct CommitError {
    /// The first error; it stands for all commits after it.
    #[source]
    pub cause: Arc<LedgerError>,
}

impl LedgerError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Newer { .. } => "use the newer version of Vik; nothing was changed",
            Self::Foreign { .. } => "move the file away; nothing was changed",
            Self::Corrupt { .. } | Self::Behind { .. } | Self::IssueMachine { .. } => {
                "run `vik doctor --repair`: it keeps the damaged files and rebuilds the ledger from them and the session logs"
            }
            Self::ReadOnly { .. } => {
                "make the folder and the files in it writable for the user that runs Vik"
            }
            Self::Full { .. } => "free some space, then start again; nothing that was acted on is lost",
            Self::Disk { .. } => {
                "look at the system's log for errors of the disk, then start again; nothing that was acted on is lost"
            }
            Self::Network { .. } => "set `workspace.root` or VIK_HOME to a folder on a local disk",
            Self::Busy { .. } => "end the other process: `vik status` tells whether a daemon runs",
            Self::Refused { .. } => "start again; if it comes back, report it with the log",
            Self::Io { .. } | Self::Sqlite { .. } | Self::Stopped => return None,
        })
    }

    /// Whether `vik doctor --repair` is the way out.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. } | Self::Behind { .. } | Self::IssueMachine { .. }
        )
    }

    /// Sorts what SQLite says.
    pub(super) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        let rusqlite::Error::SqliteFailure(failure, message) = &source else {
            return Self::Sqlite { path, source };
        };
        match failure.extended_code & 0xff {
            ffi::SQLITE_NOTADB | ffi::SQLITE_CORRUPT => {
                let detail = message.clone().unwrap_or_else(|| failure.to_string());
                Self::Corrupt { path, detail }
            }
            ffi::SQLITE_FULL => Self::Full {
                path,
                source: source.into(),
            },
            // The shared index of the write-ahead log is a file too, and the first to need space.
            ffi::SQLITE_IOERR if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Self::Full {
                path,
                source: source.into(),
            },
            ffi::SQLITE_IOERR => Self::Disk {
                path,
                source: source.into(),
            },
            ffi::SQLITE_READONLY | ffi::SQLITE_CANTOPEN | ffi::SQLITE_PERM => Self::ReadOnly {
                path,
                source: source.into(),
            },
            ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => Self::Busy { path },
            ffi::SQLITE_CONSTRAINT => Self::Refused { path, source },
            _ => Self::Sqlite { path, source },
        }
    }

    /// A ledger of no bytes, which was cut off: one that is new is never empty.
    pub(super) fn empty(path: PathBuf) -> Self {
        Self::Corrupt {
            path,
            detail: "the file is empty".to_owned(),
        }
    }

    /// Sorts what the system says.
    pub(super) fn of_io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly {
                path,
                source: source.into(),
            },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full {
                path,
                source: source.into(),
            },
            _ if source.raw_os_error() == Some(EIO) => Self::Disk {
                path,
                source: source.into(),
            },
            _ => Self::Io { path, source },
        }
    }

    /// What an error of a file says of its disk, where it is the disk that fails: no later write fares better then.
    pub fn of_disk(path: &Path, error: &io::Error) -> Option<Self> {
        let sorted = Self::of_own_file(path, error);
        let fails = match &sorted {
            Self::Full { .. } | Self::Disk { .. } => true,
            Self::ReadOnly { .. } => error.kind() == io::ErrorKind::ReadOnlyFilesystem,
            _ => false,
        };
        fails.then_some(sorted)
    }

    /// What keeps a file of Vik's own, which no attempt has a hand in, from being written.
    pub fn of_own_file(path: &Path, error: &io::Error) -> Self {
        let copy = match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => error.kind().into(),
        };
        Self::of_io(path, copy)
    }
}

/// The system could not read or write a disk.
const EIO: i32 = nix::libc::EIO;
