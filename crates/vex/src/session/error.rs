//! Errors of session logs.

use std::path::PathBuf;

use super::{SessionId, entry};

/// Why a conversation could not be stored or resumed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("invalid session ID {0:?}: expected a UUID")]
    BadId(String),
    /// The text after the `@` is not a number.
    #[error("invalid turn number {0:?}")]
    BadTurn(String),
    /// No folder for sessions is known.
    #[error("no folder for sessions: set VEX_HOME or HOME")]
    NoHome,
    #[error("no session {id} in {folder}", folder = folder.display())]
    Unknown { id: SessionId, folder: PathBuf },
    /// Its process ended before the first prompt.
    #[error("no session {0} to resume: it has no prompt")]
    Empty(SessionId),
    /// Another process works on it now.
    #[error("the session {0} is in use by another process")]
    InUse(SessionId),
    /// It was started in another folder.
    #[error("the session {id} belongs to {cwd}: run it there, or fork it")]
    Elsewhere { id: SessionId, cwd: String },
    /// It does not have that many answers.
    #[error("the session {id} has only {turns} turns")]
    NoSuchTurn {
        id: SessionId,
        /// The number of its answers.
        turns: u32,
    },
    /// A line other than the last one is invalid.
    #[error("line {line} of {path} is damaged", path = path.display())]
    Damaged {
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// It was written in a newer format.
    #[error("{path} has format {version}, but this vex supports at most {known}", path = path.display(), known = entry::FORMAT)]
    TooNew { path: PathBuf, version: u32 },
    /// An error of the system.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
}
