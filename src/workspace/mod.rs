//! Every path that Vik owns, and the workspaces of issues.
//!
//! Paths are made here and nowhere else. What an agent may have touched is opened by directory handles that never
//! follow a link, so an issue's folder is that folder, whatever stands in it or was put in its place.

pub mod changes;
mod clean;
mod diff;
mod fingerprint;
pub mod fs;
mod home;
mod instance;
mod issues;
mod list;
mod lock;
mod name;
mod removal;
pub mod worktree;

#[cfg(test)]
mod tests;

pub(crate) use clean::VIEW_PREFIX;
pub use clean::{Leftover, leftover};
pub use diff::diff;
pub use fingerprint::{Fingerprint, fingerprint};
pub(crate) use home::normal;
pub use home::{Layout, absolute_workflow_path, resolve_path};
pub use instance::InstanceDir;
pub use issues::{Prepared, Workspace, finish, open, prepare, remove, sweep};
pub use list::list;
pub use lock::{Locked, lock, lock_beside};
pub use name::folder_name;

use std::io;
use std::path::PathBuf;

/// Why a folder of Vik's cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The workflow path names no file.
    #[error("{} names no file", path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },
    /// Neither the environment nor the user database tells the home directory.
    #[error("cannot tell the home directory")]
    NoHomeDirectory,
    /// A folder could not be made.
    #[error("cannot create the folder {}", path.display())]
    CreateFolder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder could not be opened without following a link.
    #[error("cannot open the folder {}", path.display())]
    Open {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something that is no folder stands where a folder of Vik's belongs.
    #[error("{} is {what}, not a folder; Vik does not follow it", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
        /// What stands there.
        what: &'static str,
    },
    /// A folder of Vik's belongs to another user, or others may write to it.
    #[error("{} belongs to another user or is open to others", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// The folder was exchanged for another while it was in use.
    #[error("{} is not the folder it was when it was opened", path.display())]
    Exchanged {
        /// The folder.
        path: PathBuf,
    },
    /// A lock could not be looked at.
    #[error("cannot lock {}", path.display())]
    Lock {
        /// The lock.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder could not be removed.
    #[error("cannot remove {}", path.display())]
    Remove {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
