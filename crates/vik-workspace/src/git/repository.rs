//! The repository of a workspace: its location, and the check that it is still there.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::GitError;
use super::files::{self, is_id};
use crate::Workspace;

/// Files with a repository: the workspace of an issue, or a submodule in it.
#[derive(Clone, Copy, Debug)]
pub struct WorkTree<'w> {
    /// The workspace. Programs anywhere in it may come from an agent.
    pub workspace: &'w Path,
    /// The path of the files.
    pub path: &'w Path,
    /// The open folder of the files.
    pub folder: BorrowedFd<'w>,
}

impl<'w> From<&'w Workspace> for WorkTree<'w> {
    fn from(workspace: &'w Workspace) -> Self {
        Self {
            workspace: workspace.path(),
            path: workspace.path(),
            folder: workspace.as_fd(),
        }
    }
}

/// The location of a workspace's repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RepositoryLocation {
    /// The repository is the folder `.git`.
    Folder,
    /// The repository is elsewhere: `.git` is a file that names the folder, as in a linked work
    /// tree or a submodule.
    Linked {
        /// The folder of this work tree.
        own: PathBuf,
        /// The folder shared with other work trees (objects, refs). It equals `own` if nothing is
        /// shared.
        common: PathBuf,
    },
}

/// The open folders of a repository.
#[derive(Debug)]
pub struct Repository {
    /// The folder of this work tree: `HEAD`, the index.
    pub own: OwnedFd,
    /// The folder shared with other work trees: objects, refs.
    pub common: OwnedFd,
    own_path: PathBuf,
    common_path: PathBuf,
}

/// The target of `HEAD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    Branch(String),
    Commit(String),
}

impl RepositoryLocation {
    /// Returns the present location of a workspace's repository; `None` if it has none. It verifies
    /// only that the repository of a linked work tree refers back to the work tree, so call it
    /// before an agent has worked there.
    ///
    /// # Errors
    /// Returns an error if the location cannot be read, or if the repository does not refer back to
    /// the work tree.
    pub fn find(workspace: &impl AsFd, path: &Path) -> Result<Option<Self>, GitError> {
        let dot_git = path.join(".git");
        if !files::exists(workspace, ".git") {
            return Ok(None);
        }
        if files::descend(workspace, Path::new(".git")).is_ok() {
            return Ok(Some(Self::Folder));
        }
        let own = read_dot_git(workspace, path)?;
        let common = read_common_dir(&own)?.unwrap_or_else(|| own.clone());
        if common != own {
            let gitdir = files::open_folder(&own)
                .and_then(|own| files::read_text(&own, "gitdir"))
                .map_err(GitError::io("read", &own.join("gitdir")))?
                .unwrap_or_default();
            let known = own.join(gitdir.trim_end()).canonicalize().ok() == dot_git.canonicalize().ok();
            if !known || own.parent() != Some(&*common.join("worktrees")) {
                let violation = "names a repository that does not contain this work tree";
                return Err(GitError::changed(&dot_git, violation));
            }
        }
        Ok(Some(Self::Linked { own, common }))
    }
}

/// Returns the folder that the file `.git` names.
fn read_dot_git(workspace: &impl AsFd, path: &Path) -> Result<PathBuf, GitError> {
    let dot_git = path.join(".git");
    let text = files::read_text(workspace, ".git")
        .map_err(|error| GitError::changed(&dot_git, format!("cannot be read: {error}")))?;
    let text = text.unwrap_or_default();
    let folder = text
        .strip_prefix("gitdir:")
        .ok_or_else(|| GitError::changed(&dot_git, "is neither a folder nor a file that names a folder"))?;
    files::canonical(&path.join(folder.trim()))
}

/// Returns the folder that the repository folder of a work tree shares with others, if it names
/// one.
fn read_common_dir(own: &Path) -> Result<Option<PathBuf>, GitError> {
    let file = own.join("commondir");
    let folder = files::open_folder(own).map_err(GitError::io("open", own))?;
    let text = files::read_text(&folder, "commondir").map_err(GitError::io("read", &file))?;
    text.map(|text| files::canonical(&own.join(text.trim_end())))
        .transpose()
}

impl Repository {
    /// Opens the repository of a workspace at its recorded location.
    ///
    /// # Errors
    /// Returns an error if the repository is no longer there, or if the path leads elsewhere.
    pub fn open(workspace: &impl AsFd, path: &Path, place: &RepositoryLocation) -> Result<Self, GitError> {
        let dot_git = path.join(".git");
        match place {
            RepositoryLocation::Folder => {
                let own = files::descend(workspace, Path::new(".git")).map_err(|error| {
                    GitError::changed(
                        &dot_git,
                        format!("was replaced since `after_create` finished ({error})"),
                    )
                })?;
                if files::exists(&own, "commondir") {
                    let violation = "was added: it points to another repository";
                    return Err(GitError::changed(&dot_git.join("commondir"), violation));
                }
                let common = own
                    .as_fd()
                    .try_clone_to_owned()
                    .map_err(GitError::io("open", &dot_git))?;
                Ok(Self {
                    own,
                    common,
                    own_path: dot_git.clone(),
                    common_path: dot_git,
                })
            }
            RepositoryLocation::Linked { own, common } => {
                if read_dot_git(workspace, path)? != *own {
                    let violation = format!("no longer points to {}", own.display());
                    return Err(GitError::changed(&dot_git, violation));
                }
                let now = read_common_dir(own)?.unwrap_or_else(|| own.clone());
                if now != *common {
                    let violation = format!("no longer points to {}", common.display());
                    return Err(GitError::changed(&own.join("commondir"), violation));
                }
                let relative = own.strip_prefix(common).unwrap_or(Path::new(""));
                let folder = files::open_folder(common).map_err(GitError::io("open", common))?;
                Ok(Self {
                    own: files::descend(&folder, relative).map_err(GitError::io("open", own))?,
                    common: folder,
                    own_path: own.clone(),
                    common_path: common.clone(),
                })
            }
        }
    }

    /// Returns the path of a file that is shared with other work trees.
    pub fn common_path(&self, name: &str) -> PathBuf {
        self.common_path.join(name)
    }

    /// Reads a file of this work tree.
    pub fn read_own(&self, name: &str) -> Result<Option<String>, GitError> {
        files::read_text(&self.own, name).map_err(GitError::io("read", &self.own_path.join(name)))
    }

    /// Reads a file that is shared with other work trees, by its path relative to the shared
    /// folder.
    pub fn read_common(&self, path: &str) -> Result<Option<String>, GitError> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let full = self.common_path.join(path);
        let folder = match files::descend(&self.common, Path::new(folder)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(GitError::changed(
                    &full,
                    "is in a folder that cannot be opened without following a link",
                ));
            }
            Err(error) => return Err(GitError::io("open", &full)(error)),
        };
        files::read_text(&folder, name).map_err(GitError::io("read", &full))
    }

    /// Returns the target of `HEAD`.
    ///
    /// # Errors
    /// Returns an error if `HEAD` cannot be read, or names neither a branch nor a commit.
    pub fn head(&self) -> Result<Head, GitError> {
        let text = self.read_own("HEAD")?.unwrap_or_default();
        let text = text.trim();
        let Some(name) = text.strip_prefix("ref:").map(str::trim) else {
            return is_id(text)
                .then(|| Head::Commit(text.to_owned()))
                .ok_or_else(|| GitError::changed(&self.own_path.join("HEAD"), "does not name a commit"));
        };
        if !name.starts_with("refs/heads/") || !is_ref(name) {
            return Err(GitError::changed(
                &self.own_path.join("HEAD"),
                "does not name a branch",
            ));
        }
        Ok(Head::Branch(name.to_owned()))
    }

    /// Refuses a linked work tree on another branch than the recorded one, because its branches
    /// belong to the user's main repository.
    ///
    /// # Errors
    /// Returns an error if another branch is checked out, or `HEAD` cannot be read.
    pub fn check_head(&self, place: &RepositoryLocation, branch: Option<&str>) -> Result<(), GitError> {
        if !matches!(place, RepositoryLocation::Linked { own, common } if own != common) {
            return Ok(());
        }
        match self.head()? {
            Head::Branch(name) if name.strip_prefix("refs/heads/") != branch => {
                let violation = "names another branch than when `after_create` finished";
                Err(GitError::changed(&self.own_path.join("HEAD"), violation))
            }
            _ => Ok(()),
        }
    }

    /// Writes a ref, or `HEAD` if it is detached.
    ///
    /// # Errors
    /// Returns an error if the ref cannot be written without following a link.
    pub fn write_ref(&self, name: &str, content: &str) -> Result<(), GitError> {
        let fail = |source| GitError::io("write", &self.common_path.join(name))(source);
        if !is_ref(name) {
            return Err(fail(ErrorKind::InvalidInput.into()));
        }
        let path = Path::new(name);
        let folder = path.parent().unwrap_or(Path::new(""));
        let folder = files::descend_or_make(&self.common, folder).map_err(fail)?;
        let content = format!("{content}\n");
        files::replace(
            &folder,
            path.file_name().unwrap_or(OsStr::new("")),
            content.as_bytes(),
        )
        .map_err(fail)
    }
}

/// Returns whether a name is a valid ref below `refs/`.
pub fn is_ref(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    name.starts_with("refs/")
        && name.split('/').all(is_part)
        && !name
            .bytes()
            .any(|byte| byte.is_ascii_control() || b" ~^:?*[\\".contains(&byte))
}
