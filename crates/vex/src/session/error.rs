//! What goes wrong with logs.

use std::path::PathBuf;

use super::{SessionId, entry};

/// Why a conversation could not be kept or taken up.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The text is no id.
    #[error("{0:?} is not the id of a session: it is written as a UUID")]
    BadId(String),
    /// The text after the `@` is no number.
    #[error("{0:?} is not the number of a turn")]
    BadTurn(String),
    /// There is no folder for sessions.
    #[error("there is no place for sessions: set VEX_HOME or HOME")]
    NoHome,
    /// There is no such session.
    #[error("no session {id} in {folder}", folder = folder.display())]
    Unknown {
        /// Its id.
        id: SessionId,
        /// Where it would be.
        folder: PathBuf,
    },
    /// Its process ended before anything was asked for.
    #[error("no session {0} to go on with: nothing was asked for in it")]
    Empty(SessionId),
    /// Another process goes on with it right now.
    #[error("the session {0} is in use by another process")]
    InUse(SessionId),
    /// It was begun in another folder.
    #[error("the session {id} belongs to {cwd}: run it there, or fork it")]
    Elsewhere {
        /// Its id.
        id: SessionId,
        /// Its folder.
        cwd: String,
    },
    /// It does not have as many answers.
    #[error("the session {id} has only {turns} turns")]
    NoSuchTurn {
        /// Its id.
        id: SessionId,
        /// How many it has.
        turns: u32,
    },
    /// A line in the middle is not what it should be.
    #[error("line {line} of {path} is damaged", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// It was written by a version with other lines.
    #[error("{path} has format {version}, this vex reads up to {known}", path = path.display(), known = entry::FORMAT)]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: u32,
    },
    /// The system says no.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}
