//! Git in the workspace of an issue, outside of the sandbox, with nothing of the workspace's settings.
//!
//! An agent owns its workspace, `.git` included: settings of git that run programs, hooks, and links to other
//! repositories. So git never works in that repository. Each command gets a repository of Vik's own ([`View`]) in a
//! folder that no agent can reach. Its settings come from the [`Record`] that Vik takes when `after_create` has ended, and
//! from the user; from the workspace it gets objects and refs, as regular files that are reached without following a link.

mod checked;
pub(crate) mod files;
pub mod programs;
mod record;
mod repository;
mod run;
mod settings;
pub mod submodules;
mod view;

use std::io;
use std::path::{Path, PathBuf};

pub use record::{Record, Remote, SavedRecord, local_path, read_record, take_record, write_record};
pub use repository::WorkTree;
pub use run::output;
pub use view::{Tracking, View};

/// Why git does not work in a workspace.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The workspace is no repository, or not one that Vik can use.
    #[error("{0}")]
    NotUsable(String),
    /// Something in the repository is not what it was, or is no regular file.
    #[error("{} {what}", path.display())]
    Unsafe {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// An object cannot be relied on.
    #[error("the object {object} {what}")]
    Object {
        /// Its name.
        object: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried: `read`, `write`, `link`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Git could not be started, or failed.
    #[error("`git {verb}` {how}")]
    Git {
        /// The verb of git.
        verb: String,
        /// How it ended.
        how: String,
    },
}

impl GitError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    fn changed(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsafe {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}
