//! What can go wrong with the embedded tracker.

use std::path::PathBuf;
use std::time::Duration;

/// A file that is no issue, and where it goes wrong.
#[derive(Debug, thiserror::Error)]
#[error("{path}:{line}: {reason}", path = path.display())]
pub struct Broken {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
    /// What to do about it.
    pub hint: &'static str,
}

/// Why a verb of the tracker failed.
#[derive(Debug, thiserror::Error)]
pub enum TrackerError {
    /// The folder is not there or cannot be opened.
    #[error("cannot open the issues folder {dir}", dir = dir.display())]
    Open {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The folder cannot be listed.
    #[error("cannot list the issues folder {dir}", dir = dir.display())]
    List {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The folder cannot be locked.
    #[error("cannot lock the issues folder {dir}", dir = dir.display())]
    Lock {
        /// The folder.
        dir: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another writer holds the lock for too long.
    #[error("{file} of the user {owner} has been locked for {} s", waited.as_secs(), file = file.display())]
    LockHeld {
        /// The file that is the lock; the folder, where the file system cannot have one.
        file: PathBuf,
        /// The name of its owner.
        owner: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A file cannot be written.
    #[error("cannot write {path}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file of the issue is broken.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// No file has this id.
    #[error("there is no issue {id:?} in {dir}", dir = dir.display())]
    NotFound {
        /// The id.
        id: String,
        /// The folder.
        dir: PathBuf,
    },
    /// Two files have this id.
    #[error("the id {id:?} stands in two files: {} and {}", paths[0].display(), paths[1].display())]
    Ambiguous {
        /// The id.
        id: String,
        /// The files.
        paths: Box<[PathBuf; 2]>,
    },
    /// The id of a new issue is used already.
    #[error("the id {id:?} is taken by {path}", path = path.display())]
    Taken {
        /// The id.
        id: String,
        /// Who has it.
        path: PathBuf,
    },
    /// The id of a new issue cannot be used.
    #[error("{id:?} cannot be the id of a new issue")]
    BadId {
        /// The id.
        id: String,
    },
    /// The title of a new issue cannot be used.
    #[error("the title must be one line that is not empty")]
    BadTitle,
    /// The state cannot be used.
    #[error("the state must be one line that is not empty")]
    BadState,
    /// The comment has no text.
    #[error("the comment is empty")]
    EmptyComment,
    /// The issue is not in the state that was asked for.
    #[error("the issue {id:?} is in state {actual:?}, not in {expected:?}")]
    WrongState {
        /// The id.
        id: String,
        /// The state asked for.
        expected: String,
        /// The state it is in.
        actual: String,
    },
    /// The value of a key cannot be changed without touching more.
    #[error("cannot change `{key}` in {path} without touching more than that", path = path.display())]
    Entangled {
        /// The key.
        key: String,
        /// The file.
        path: PathBuf,
    },
    /// Another program keeps writing the file.
    #[error("{path} changes all the time", path = path.display())]
    Changing {
        /// The file.
        path: PathBuf,
    },
    /// The text could not be read from stdin.
    #[error("cannot read the text from stdin")]
    Input(#[source] std::io::Error),
    /// The result cannot be printed.
    #[error("cannot print the result")]
    Output(#[source] std::io::Error),
}

impl TrackerError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Open { .. } | Self::List { .. } => "issues_folder",
            Self::Lock { .. } | Self::LockHeld { .. } => "issues_locked",
            Self::Write { .. } | Self::Entangled { .. } | Self::Changing { .. } => "issue_write",
            Self::Broken(_) => "issue_broken",
            Self::NotFound { .. } => "issue_not_found",
            Self::Ambiguous { .. } | Self::Taken { .. } => "issue_id_taken",
            Self::BadId { .. } | Self::BadTitle | Self::BadState | Self::EmptyComment => "issue_usage",
            Self::WrongState { .. } => "issue_wrong_state",
            Self::Input(_) | Self::Output(_) => "issue_io",
        }
    }

    /// The exit code of the verb: 2 for what the command line gets wrong, 8 for an issue that is not there, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 8,
            Self::BadId { .. } | Self::BadTitle | Self::BadState | Self::EmptyComment => 2,
            _ => 1,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        Some(match self {
            Self::Open { .. } => {
                "`vik issue new TITLE` makes the folder; --dir or VIK_ISSUES_DIR names another one"
            }
            Self::Broken(broken) => broken.hint,
            Self::NotFound { .. } => "`vik issue list` shows all ids",
            Self::Ambiguous { .. } => "give one of them another id",
            Self::Taken { .. } => "leave --id out to get the next free number",
            Self::BadId { .. } => {
                "use letters, digits, `.`, `_` and `-`, at most 100, and begin with a letter or a digit"
            }
            Self::Entangled { .. } => "change it by hand, or make it a plain `key: value` line",
            Self::LockHeld { .. } => {
                "`fuser` or `lsof` shows who uses it; if that is no writer, a killed one left it: \
                run `rm .vik-lock` in the issues folder"
            }
            _ => return None,
        })
    }
}
