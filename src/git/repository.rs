//! The repository of a workspace: where it is, and proof that it is still there.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::GitError;
use super::files;
use crate::workspace::Workspace;

/// Files that have a repository: the workspace of an issue, or a submodule in it.
#[derive(Clone, Copy, Debug)]
pub struct WorkTree<'w> {
    /// The workspace. Programs anywhere in it are an agent's.
    pub workspace: &'w Path,
    /// The path of the files.
    pub path: &'w Path,
    /// Their open folder.
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

/// Where a workspace keeps its repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Place {
    /// In the folder `.git`.
    Folder,
    /// Elsewhere: `.git` is a file that names the folder, as in a linked work tree or a submodule.
    Linked {
        /// What belongs to this work tree.
        own: PathBuf,
        /// What it shares with others: objects, refs. The same folder where it shares nothing.
        common: PathBuf,
    },
}

/// The open folders of a repository.
#[derive(Debug)]
pub struct Repository {
    /// What belongs to this work tree: `HEAD`, the index.
    pub own: OwnedFd,
    /// What it shares with others: objects, refs.
    pub common: OwnedFd,
    own_path: PathBuf,
    common_path: PathBuf,
}

/// What is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A branch, `refs/heads/…`.
    Branch(String),
    /// A commit.
    Commit(String),
}

impl Place {
    /// Where the repository of a workspace is now; `None` where it has none. Vouches for nothing but a linked work tree
    /// being known to its repository, so ask before an agent has worked there.
    ///
    /// # Errors
    /// When it cannot be read, or leads to a repository that does not know it.
    pub fn find(workspace: &impl AsFd, path: &Path) -> Result<Option<Self>, GitError> {
        let dot_git = path.join(".git");
        if !files::exists(workspace, ".git") {
            return Ok(None);
        }
        if files::descend(workspace, Path::new(".git")).is_ok() {
            return Ok(Some(Self::Folder));
        }
        let own = named(workspace, path)?;
        let common = own_names_common(&own)?.unwrap_or_else(|| own.clone());
        if common != own {
            let back = files::open_folder(&own)
                .and_then(|own| files::read_text(&own, "gitdir"))
                .map_err(GitError::io("read", &own.join("gitdir")))?
                .unwrap_or_default();
            let known = own.join(back.trim_end()).canonicalize().ok() == dot_git.canonicalize().ok();
            if !known || own.parent() != Some(&*common.join("worktrees")) {
                let what = "names a repository that does not know this work tree";
                return Err(GitError::changed(&dot_git, what));
            }
        }
        Ok(Some(Self::Linked { own, common }))
    }
}

/// The folder that the file `.git` names.
fn named(workspace: &impl AsFd, path: &Path) -> Result<PathBuf, GitError> {
    let dot_git = path.join(".git");
    let text = files::read_text(workspace, ".git")
        .map_err(|error| GitError::changed(&dot_git, format!("cannot be read: {error}")))?;
    let text = text.unwrap_or_default();
    let folder = text
        .strip_prefix("gitdir:")
        .ok_or_else(|| GitError::changed(&dot_git, "is neither a folder nor a file that names one"))?;
    files::canonical(&path.join(folder.trim()))
}

/// The folder that the repository folder of a work tree shares with others, where it names one.
fn own_names_common(own: &Path) -> Result<Option<PathBuf>, GitError> {
    let file = own.join("commondir");
    let folder = files::open_folder(own).map_err(GitError::io("open", own))?;
    let text = files::read_text(&folder, "commondir").map_err(GitError::io("read", &file))?;
    text.map(|text| files::canonical(&own.join(text.trim_end())))
        .transpose()
}

impl Repository {
    /// Opens the repository of a workspace where it is recorded to be.
    ///
    /// # Errors
    /// When it is not there any more, or leads elsewhere.
    pub fn open(workspace: &impl AsFd, path: &Path, place: &Place) -> Result<Self, GitError> {
        let dot_git = path.join(".git");
        match place {
            Place::Folder => {
                let own = files::descend(workspace, Path::new(".git")).map_err(|error| {
                    GitError::changed(
                        &dot_git,
                        format!("is not the folder it was when `after_create` ended ({error})"),
                    )
                })?;
                if files::exists(&own, "commondir") {
                    let what = "was added: it leads to another repository";
                    return Err(GitError::changed(&dot_git.join("commondir"), what));
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
            Place::Linked { own, common } => {
                if named(workspace, path)? != *own {
                    let what = format!("does not lead to {} any more", own.display());
                    return Err(GitError::changed(&dot_git, what));
                }
                let now = own_names_common(own)?.unwrap_or_else(|| own.clone());
                if now != *common {
                    let what = format!("does not lead to {} any more", common.display());
                    return Err(GitError::changed(&own.join("commondir"), what));
                }
                let below = own.strip_prefix(common).unwrap_or(Path::new(""));
                let folder = files::open_folder(common).map_err(GitError::io("open", common))?;
                Ok(Self {
                    own: files::descend(&folder, below).map_err(GitError::io("open", own))?,
                    common: folder,
                    own_path: own.clone(),
                    common_path: common.clone(),
                })
            }
        }
    }

    /// The path of a file that is shared with other work trees.
    pub fn common_path(&self, name: &str) -> PathBuf {
        self.common_path.join(name)
    }

    /// Reads a file that belongs to this work tree.
    pub fn read_own(&self, name: &str) -> Result<Option<String>, GitError> {
        files::read_text(&self.own, name).map_err(GitError::io("read", &self.own_path.join(name)))
    }

    /// Reads a file, `path` relative to what is shared with other work trees.
    pub fn read_common(&self, path: &str) -> Result<Option<String>, GitError> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let full = self.common_path.join(path);
        let folder = match files::descend(&self.common, Path::new(folder)) {
            Ok(folder) => folder,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(GitError::changed(
                    &full,
                    "is not in a folder that can be entered without following a link",
                ));
            }
            Err(error) => return Err(GitError::io("open", &full)(error)),
        };
        files::read_text(&folder, name).map_err(GitError::io("read", &full))
    }

    /// What is checked out.
    ///
    /// # Errors
    /// When it cannot be read, or is neither a branch nor a commit.
    pub fn head(&self) -> Result<Head, GitError> {
        let text = self.read_own("HEAD")?.unwrap_or_default();
        let text = text.trim();
        let Some(name) = text.strip_prefix("ref:").map(str::trim) else {
            return is_id(text)
                .then(|| Head::Commit(text.to_owned()))
                .ok_or_else(|| GitError::changed(&self.own_path.join("HEAD"), "names no commit"));
        };
        if !name.starts_with("refs/heads/") || !is_ref(name) {
            return Err(GitError::changed(&self.own_path.join("HEAD"), "names no branch"));
        }
        Ok(Head::Branch(name.to_owned()))
    }

    /// Refuses a linked work tree on another branch than the recorded one: its branches are those of the user's main
    /// repository.
    ///
    /// # Errors
    /// When another branch is checked out, or `HEAD` cannot be read.
    pub fn check_head(&self, place: &Place, branch: Option<&str>) -> Result<(), GitError> {
        if !matches!(place, Place::Linked { own, common } if own != common) {
            return Ok(());
        }
        match self.head()? {
            Head::Branch(name) if name.strip_prefix("refs/heads/") != branch => {
                let what = "names another branch than when `after_create` ended";
                Err(GitError::changed(&self.own_path.join("HEAD"), what))
            }
            _ => Ok(()),
        }
    }

    /// Writes a ref, or `HEAD` where it is detached.
    ///
    /// # Errors
    /// When it cannot be written without following a link.
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

/// Whether a name is a ref below `refs/`.
pub fn is_ref(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.');
    name.starts_with("refs/")
        && name.split('/').all(is_part)
        && !name
            .bytes()
            .any(|byte| byte.is_ascii_control() || b" ~^:?*[\\".contains(&byte))
}

/// Whether a text is the id of an object.
pub fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
