//! The errors of the embedded tracker.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vik_base::report::ErrorCode;

/// A file that is no issue, and the place of the error.
#[derive(Debug, thiserror::Error)]
#[error("{path}:{line}: {reason}", path = path.display())]
pub struct BrokenFile {
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    pub reason: String,
    /// What to do about it.
    pub hint: Option<Cow<'static, str>>,
}

impl BrokenFile {
    pub(crate) fn new(path: &Path, line: usize, reason: impl Into<String>, hint: &'static str) -> Self {
        Self {
            path: path.to_owned(),
            line,
            reason: reason.into(),
            hint: Some(hint.into()),
        }
    }
}

/// Why a command of the tracker failed.
#[derive(Debug, thiserror::Error)]
pub enum TrackerError {
    /// The folder does not exist or cannot be opened.
    #[error("cannot open the issues folder {dir}", dir = dir.display())]
    Open { dir: PathBuf, source: std::io::Error },
    #[error("cannot list the issues folder {dir}", dir = dir.display())]
    List { dir: PathBuf, source: std::io::Error },
    #[error("cannot lock the issues folder {dir}", dir = dir.display())]
    Lock { dir: PathBuf, source: std::io::Error },
    /// Another writer has held the lock for too long.
    #[error("{file} of the user {owner} has been locked for {} s", waited.as_secs(), file = file.display())]
    LockHeld {
        /// The lock file, or the folder if the file system does not support such a file.
        file: PathBuf,
        /// The name of its owner.
        owner: String,
        /// The time spent waiting.
        waited: Duration,
    },
    #[error("cannot write {path}", path = path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// The file of the issue is broken.
    #[error(transparent)]
    Broken(#[from] BrokenFile),
    /// No file has this id.
    #[error("no issue {id:?} in {dir}", dir = dir.display())]
    NotFound { id: String, dir: PathBuf },
    /// Two files have this id.
    #[error("the id {id:?} is used by two files: {} and {}", paths[0].display(), paths[1].display())]
    Ambiguous { id: String, paths: Box<[PathBuf; 2]> },
    /// The id of a new issue is already in use.
    #[error("the id {id:?} is already used by {path}", path = path.display())]
    IdInUse {
        id: String,
        /// The file with this id.
        path: PathBuf,
    },
    /// The id of a new issue is invalid.
    #[error("{id:?} cannot be the id of a new issue")]
    BadId { id: String },
    /// The title of a new issue is invalid.
    #[error("the title must be one non-empty line")]
    BadTitle,
    /// The state is invalid.
    #[error("the state must be one non-empty line")]
    BadState,
    #[error("the comment is empty")]
    EmptyComment,
    /// The issue is not in the expected state.
    #[error("the issue {id:?} is in state {actual:?}, not in {expected:?}")]
    WrongState {
        id: String,
        expected: String,
        /// The state of the issue.
        actual: String,
    },
    /// The value of a key cannot be changed without changing other bytes.
    #[error("cannot change only `{key}` in {path}", path = path.display())]
    NotEditable { key: String, path: PathBuf },
    /// Another program keeps writing to the file.
    #[error("{path} keeps changing", path = path.display())]
    ConcurrentWrites { path: PathBuf },
    #[error("cannot read the text from stdin")]
    Input(#[source] std::io::Error),
    #[error("cannot print the result")]
    Output(#[source] std::io::Error),
}

impl TrackerError {
    /// Returns a stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Open { .. } | Self::List { .. } => ErrorCode::IssuesFolder,
            Self::Lock { .. } | Self::LockHeld { .. } => ErrorCode::IssuesLocked,
            Self::Write { .. } | Self::NotEditable { .. } | Self::ConcurrentWrites { .. } => {
                ErrorCode::IssueWrite
            }
            Self::Broken(_) => ErrorCode::IssueBroken,
            Self::NotFound { .. } => ErrorCode::IssueNotFound,
            Self::Ambiguous { .. } | Self::IdInUse { .. } => ErrorCode::IssueIdTaken,
            Self::BadId { .. } | Self::BadTitle | Self::BadState | Self::EmptyComment => {
                ErrorCode::IssueUsage
            }
            Self::WrongState { .. } => ErrorCode::IssueWrongState,
            Self::Input(_) | Self::Output(_) => ErrorCode::IssueIo,
        }
    }

    /// Returns the exit code of the command: 2 for an invalid command line, 8 for a missing issue,
    /// otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 8,
            Self::BadId { .. } | Self::BadTitle | Self::BadState | Self::EmptyComment => 2,
            _ => 1,
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> Option<&str> {
        Some(match self {
            Self::Open { .. } => {
                "`vik issue new TITLE` creates the folder; --dir or VIK_ISSUES_DIR selects another one"
            }
            Self::Broken(broken) => return broken.hint.as_deref(),
            Self::NotFound { .. } => "run `vik issue list` to see all ids",
            Self::Ambiguous { .. } => "change one of the ids",
            Self::IdInUse { .. } => "omit --id to use the next free number",
            Self::BadId { .. } => {
                "use at most 100 letters, digits, `.`, `_` and `-`, starting with a letter or a digit"
            }
            Self::NotEditable { .. } => "edit it by hand, or make it a plain `key: value` line",
            Self::LockHeld { .. } => {
                "`fuser` or `lsof` shows which process uses it; if none does, a killed process left it: run `rm .vik-lock` in the issues folder"
            }
            _ => return None,
        })
    }
}
