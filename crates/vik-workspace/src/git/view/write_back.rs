//! Writes the results of a command in a view into the workspace.

use std::ffi::OsStr;
use std::path::Path;

use super::View;
use crate::git::GitError;
use crate::git::files::{self, Takeover};
use crate::git::repository::Head;

/// Files that mark an unfinished merge or similar operation; a reset ends it.
const UNFINISHED: [&str; 8] = [
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "REVERT_HEAD",
    "SQUASH_MSG",
    "index.lock",
];

impl View {
    /// Copies the objects that were added to this view into the workspace.
    ///
    /// # Errors
    /// Returns an error if the objects cannot be written without following a link.
    pub fn copy_objects_to_workspace(&self) -> Result<(), GitError> {
        let is_alternates = |path: &Path| path == Path::new("info/alternates");
        self.give("objects", &is_alternates)?;
        if self.folder.join("lfs/objects").is_dir() {
            self.give("lfs/objects", &|_| false)?;
        }
        Ok(())
    }

    fn give(&self, name: &str, leave_out: &dyn Fn(&Path) -> bool) -> Result<(), GitError> {
        let target = files::descend_or_make(&self.repository.common, Path::new(name))
            .map_err(GitError::io("open", &self.repository.common_path(name)))?;
        let path = self.folder.join(name);
        let takeover = Takeover {
            name: &path,
            leave_out,
            of_refs: false,
        };
        takeover.run(&self.open_own(name)?, &target)
    }

    /// Writes refs into the workspace.
    ///
    /// # Errors
    /// Returns an error if a ref cannot be written without following a link; the other refs are
    /// written.
    pub fn write_refs_to_workspace<'r>(
        &self,
        refs: impl IntoIterator<Item = (&'r String, &'r String)>,
    ) -> Result<(), GitError> {
        let mut result = Ok(());
        for (name, value) in refs {
            let written = self.repository.write_ref(name, value);
            result = result.and(written);
        }
        result
    }

    /// Detaches the `HEAD` of the workspace at a commit, so that a reset moves no branch.
    ///
    /// # Errors
    /// Returns an error if `HEAD` cannot be written without following a link.
    pub fn detach(&self, commit: &str) -> Result<(), GitError> {
        let content = format!("{commit}\n");
        files::replace(&self.repository.own, OsStr::new("HEAD"), content.as_bytes())
            .map_err(GitError::io("write", Path::new("HEAD")))
    }

    /// Checks out a commit and a branch in the workspace, with the index of the view, and ends an
    /// unfinished merge. The files are already there.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written without following a link.
    pub fn check_out_in_workspace(&self, branch: Option<&str>, commit: Option<&str>) -> Result<(), GitError> {
        let own = |name: &'static str| GitError::io("write", Path::new(name));
        let folder = &self.repository.own;
        for name in UNFINISHED {
            files::remove(folder, name).map_err(own("index"))?;
        }
        files::install(&self.folder.join("index"), folder, "index").map_err(own("index"))?;
        match (branch, commit) {
            (Some(branch), commit) => {
                let name = format!("refs/heads/{branch}");
                if let Some(commit) = commit {
                    self.repository.write_ref(&name, commit)?;
                }
                let content = format!("ref: {name}\n");
                files::replace(folder, OsStr::new("HEAD"), content.as_bytes()).map_err(own("HEAD"))
            }
            (None, Some(commit)) => self.detach(commit),
            (None, None) => Ok(()),
        }
    }

    /// Applies the reset of the view to the workspace: its branch, its index, and the end of an
    /// unfinished merge.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written without following a link.
    pub fn apply_reset_to_workspace(&self, commit: &str, before: Option<&str>) -> Result<(), GitError> {
        let own = |name: &'static str| GitError::io("write", Path::new(name));
        let folder = &self.repository.own;
        for name in UNFINISHED {
            files::remove(folder, name).map_err(own("index"))?;
        }
        files::install(&self.folder.join("index"), folder, "index").map_err(own("index"))?;
        if let Some(before) = before {
            // The previous commit stays reachable by this name.
            files::replace(folder, OsStr::new("ORIG_HEAD"), format!("{before}\n").as_bytes())
                .map_err(own("ORIG_HEAD"))?;
        }
        match self.repository.head()? {
            Head::Branch(name) => self.repository.write_ref(&name, commit),
            Head::Commit(_) => self.detach(commit),
        }
    }
}
