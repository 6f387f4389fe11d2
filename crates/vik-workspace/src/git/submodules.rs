//! The submodules of a workspace: each is a repository with its own record.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::files::is_id;
use super::record::SavedRecord;
use super::repository::{RepositoryLocation, WorkTree};
use super::run::output;
use super::view::View;
use super::{GitError, files};
use crate::Layout;

/// The open folder of a submodule.
#[derive(Debug)]
pub struct Submodule {
    workspace: PathBuf,
    path: PathBuf,
    folder: OwnedFd,
}

impl Submodule {
    /// Opens the folder of a submodule without following a link. Creates the folder and its file
    /// `.git` if they are missing, as after `git rm` or `git submodule deinit`.
    ///
    /// # Errors
    /// Returns an error if a link or a file is in its place, or if its recorded repository is
    /// missing.
    pub fn open(parent: WorkTree<'_>, path: &str, place: &RepositoryLocation) -> Result<Self, GitError> {
        let full = parent.path.join(path);
        let folder = files::descend_or_make(&parent.folder, Path::new(path)).map_err(|error| {
            let violation = format!("cannot be opened as a folder without following a link ({error})");
            GitError::changed(&full, violation)
        })?;
        if let RepositoryLocation::Linked { own, .. } = place
            && !files::exists(&folder, ".git")
        {
            if own.canonicalize().ok().as_ref() != Some(own) {
                return Err(GitError::changed(own, "no longer exists or points elsewhere"));
            }
            let content = format!("gitdir: {}\n", own.display());
            files::replace(&folder, OsStr::new(".git"), content.as_bytes())
                .map_err(GitError::io("write", &full.join(".git")))?;
        }
        Ok(Self {
            workspace: parent.workspace.to_owned(),
            path: full,
            folder,
        })
    }

    /// Returns the work tree of the submodule.
    pub fn tree(&self) -> WorkTree<'_> {
        WorkTree {
            workspace: &self.workspace,
            path: &self.path,
            folder: self.folder.as_fd(),
        }
    }
}

/// Returns the submodules that a commit names: the commit of each by its path.
///
/// # Errors
/// Returns an error if git does not list them.
pub fn submodules_of_commit(view: &View, commit: &str) -> Result<BTreeMap<String, String>, GitError> {
    let list = output(&mut view.git(["ls-tree", "-r", "-z", "--full-tree", commit]))?;
    let text = String::from_utf8_lossy(&list.stdout);
    let entries = text.split('\0').filter_map(|entry| {
        let (id, path) = entry.strip_prefix("160000 commit ")?.split_once('\t')?;
        is_id(id).then(|| (path.to_owned(), id.to_owned()))
    });
    Ok(entries.collect())
}

/// Records the submodules that are checked out, and their submodules.
pub(super) fn records(
    layout: &Layout,
    tree: WorkTree<'_>,
    view: &View,
) -> Result<BTreeMap<String, SavedRecord>, GitError> {
    let mut records = BTreeMap::new();
    if !files::exists(&tree.folder, ".gitmodules") {
        return Ok(records);
    }
    let Some(head) = view.commit("HEAD")? else {
        return Ok(records);
    };
    for path in submodules_of_commit(view, &head)?.into_keys() {
        let Ok(folder) = files::descend(&tree.folder, Path::new(&path)) else {
            continue;
        };
        if !files::exists(&folder, ".git") {
            continue;
        }
        let submodule = WorkTree {
            workspace: tree.workspace,
            path: &tree.path.join(&path),
            folder: folder.as_fd(),
        };
        let record = SavedRecord::of(layout, submodule);
        records.insert(path, record);
    }
    Ok(records)
}
