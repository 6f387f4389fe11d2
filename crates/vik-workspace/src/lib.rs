//! Every path that Vik owns, and the workspaces of issues.
//!
//! [`Layout`] has the paths of one workflow, and [`InstanceDir`] those by which its daemon is
//! found; no other crate builds them. [`prepare`] creates or opens the workspace of an issue,
//! [`changes`] finds what an attempt changed in it, and [`git`] works in it without its settings.
//! [`mod@fs`] reads and writes the files of Vik itself.
//!
//! What an agent may have modified is opened by directory handles that never follow a link, so an
//! issue's folder is always that folder, whatever an agent put in it or in its place.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod changes;
mod clean;
mod diff;
mod expired;
mod fingerprint;
pub mod fs;
pub mod git;
mod home;
mod inspection;
mod instance;
mod isolated_git;
mod issues;
mod list;
mod lock;
mod name;
mod removal;
pub mod worktree;

#[cfg(test)]
mod tests;

pub use clean::{UnsavedWork, unsaved_work};
pub use diff::{Commits, Files, Net, Repository, net_changes};
pub use expired::{are_old_sessions, is_old_scratch, old_scratches, old_sessions};
pub use fingerprint::{Fingerprint, fingerprint};
pub use home::normalize;
pub use home::{Layout, absolute_workflow_path, censuses, resolve_path};
pub use inspection::{InspectionError, InspectionView, VIEW_PREFIX};
pub use instance::InstanceDir;
pub use issues::{Prepared, Workspace, finish, open, prepare, remove, remove_beside, sweep};
pub use list::list;
pub use lock::{WorkspaceLock, lock, lock_free_stages};
pub use name::folder_name;
pub use removal::Removed;

use std::io;
use std::path::{Path, PathBuf};

/// Why Vik cannot use one of its folders.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("{} is not the path of a file", path.display())]
    NotAFile { path: PathBuf },
    /// Neither the environment nor the user database has the home directory.
    #[error("cannot determine the home directory")]
    NoHomeDirectory,
    /// Something that is no folder is where a folder of Vik's belongs.
    #[error("{} is {kind}, not a folder; Vik does not follow it", path.display())]
    NotAFolder {
        path: PathBuf,
        /// What it is instead.
        kind: &'static str,
    },
    /// A folder of Vik's belongs to another user, or others may write to it.
    #[error("{} belongs to another user or is accessible to others", path.display())]
    NotPrivate { path: PathBuf },
    /// The folder was replaced by another one while it was in use.
    #[error("{} was replaced while it was in use", path.display())]
    Replaced { path: PathBuf },
    #[error("cannot {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl WorkspaceError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
