//! Git in the workspace of an issue, outside of the sandbox, with no setting of the workspace.
//!
//! An agent controls its workspace, including `.git`: settings of git that run programs, hooks, and
//! links to other repositories. So git never works in that repository. Each command gets a
//! repository of Vik's own ([`View`]) in a folder that no agent can reach. Its settings come from
//! the user, and from the [`Record`] that Vik takes when `after_create` has ended. From the
//! workspace it gets objects and refs, as regular files that are reached without following a link.

mod checked;
pub mod durable;
pub mod files;
pub mod programs;
mod record;
mod repository;
mod run;
mod settings;
pub mod submodules;
mod take_record;
mod view;

use std::io;
use std::path::{Path, PathBuf};

pub use files::is_id;
pub use record::{Record, Remote, SavedRecord, local_path, local_settings, read_record, write_record};
pub use repository::WorkTree;
pub use run::output;
pub use take_record::take_record;
pub use view::{Tracking, View};

/// An error of git in a workspace.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// The workspace has no repository, or one that Vik cannot use.
    #[error("{0}")]
    NotUsable(String),
    /// Something in the repository has changed, or is not a regular file.
    #[error("{} {problem}", path.display())]
    Unsafe { path: PathBuf, problem: String },
    /// An object is not trustworthy.
    #[error("the object {object} {problem}")]
    Object {
        /// The id of the object.
        object: String,
        problem: &'static str,
    },
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The attempted action: `read`, `write`, `link`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Git could not be started, or failed.
    #[error("`git {verb}` {how}")]
    Git {
        /// The git command, such as `push`.
        verb: String,
        /// The way it failed.
        how: String,
    },
}

impl GitError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    fn changed(path: &Path, problem: impl Into<String>) -> Self {
        Self::Unsafe {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }
}
