//! The differences between the workspace and its copy.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::present::{self, Entry, Stat};
use super::{Snapshot, SnapshotError, at};

/// A kept entry that is no longer as it was.
#[derive(Debug)]
pub(super) struct Difference {
    /// The path relative to the workspace.
    pub(super) path: PathBuf,
    pub(super) kept: Entry,
    /// What stands there now.
    pub(super) now: Option<Entry>,
}

impl Snapshot {
    /// Returns the kept entries that are no longer as they were, each folder before what is in it.
    pub(super) fn changed(&self) -> Result<Vec<Difference>, SnapshotError> {
        let mut found = Vec::new();
        self.add_changed(Path::new(""), true, &mut found)?;
        Ok(found)
    }

    /// Adds what changed in a folder. If the folder is not there any more, neither is anything in
    /// it, whatever a link in its place leads to.
    fn add_changed(
        &self,
        folder: &Path,
        is_there: bool,
        found: &mut Vec<Difference>,
    ) -> Result<(), SnapshotError> {
        for name in self.kept_names(folder)? {
            let path = folder.join(name);
            let (copy, full) = (self.store.join(&path), self.root.join(&path));
            if holds_objects(&path) {
                continue;
            }
            let Some((mut kept, _)) = Entry::of(&copy).map_err(at(&copy))? else {
                continue;
            };
            if let (Entry::Folder { mode }, Some(own)) = (&mut kept, self.folders.get(&path)) {
                *mode = *own;
            }
            let now = if is_there {
                Entry::of(&full).map_err(at(&full))?
            } else {
                None
            };
            let is_same = match &now {
                Some((now @ Entry::File { .. }, stat)) => *now == kept && self.is_equal(&path, *stat)?,
                Some((now, _)) => *now == kept,
                None => false,
            };
            let now = now.map(|(now, _)| now);
            let is_folder = matches!(now, Some(Entry::Folder { .. }));
            let was_folder = matches!(kept, Entry::Folder { .. });
            if !is_same {
                let path = path.clone();
                found.push(Difference { path, kept, now });
            }
            if was_folder {
                self.add_changed(&path, is_folder, found)?;
            }
        }
        Ok(())
    }

    /// Returns whether a present file equals its copy.
    fn is_equal(&self, path: &Path, stat: Stat) -> Result<bool, SnapshotError> {
        if self.equal.borrow().get(path) == Some(&stat) {
            return Ok(true);
        }
        let full = self.root.join(path);
        let is_equal = present::is_same_content(&full, &self.store.join(path)).map_err(at(&full))?;
        if is_equal {
            self.equal.borrow_mut().insert(path.to_owned(), stat);
        }
        Ok(is_equal)
    }

    /// Returns the names in a folder of the copy.
    fn kept_names(&self, folder: &Path) -> Result<BTreeSet<OsString>, SnapshotError> {
        let copy = self.store.join(folder);
        let entries = fs::read_dir(&copy).map_err(at(&copy))?;
        entries
            .map(|entry| entry.map(|entry| entry.file_name()).map_err(at(&copy)))
            .collect()
    }

    /// Returns whether there is a copy of a path, or there was something that cannot be copied.
    pub(super) fn is_kept(&self, path: &Path) -> bool {
        self.store.join(path).symlink_metadata().is_ok()
            || path.ancestors().any(|folder| self.others.contains(folder))
    }

    /// Returns what was added and is not ignored: the outermost paths.
    pub(super) fn added(&self) -> Result<Vec<PathBuf>, SnapshotError> {
        let mut added = self.listing().not_ignored();
        added.retain(|path| !self.is_kept(path));
        self.add_new_of_git(Path::new(""), false, &mut added)?;
        let mut outermost: Vec<PathBuf> = Vec::new();
        for path in added {
            if !outermost.last().is_some_and(|last| path.starts_with(last)) {
                outermost.push(path);
            }
        }
        Ok(outermost)
    }

    /// Adds what was added in the repositories of a kept folder, and added repositories.
    fn add_new_of_git(
        &self,
        folder: &Path,
        in_git: bool,
        added: &mut BTreeSet<PathBuf>,
    ) -> Result<(), SnapshotError> {
        let full = self.root.join(folder);
        let now = Entry::of(&full).map_err(at(&full))?;
        if !matches!(now, Some((Entry::Folder { .. }, _))) {
            return Ok(());
        }
        let kept = self.kept_names(folder)?;
        if in_git {
            for entry in fs::read_dir(&full).map_err(at(&full))? {
                let name = entry.map_err(at(&full))?.file_name();
                let path = folder.join(&name);
                if !holds_objects(&path) && !self.is_kept(&path) {
                    added.insert(path);
                }
            }
        } else if !kept.contains(OsStr::new(".git")) && full.join(".git").symlink_metadata().is_ok() {
            added.insert(folder.join(".git"));
        }
        for name in kept {
            let path = folder.join(&name);
            if holds_objects(&path) {
                continue;
            }
            let is_folder = self.store.join(&path).symlink_metadata();
            if is_folder.is_ok_and(|found| found.is_dir()) {
                self.add_new_of_git(&path, in_git || name == ".git", added)?;
            }
        }
        Ok(())
    }
}

/// Returns the part of a path inside of a repository's own folder.
fn in_repository(path: &Path) -> Option<Vec<&OsStr>> {
    let parts: Vec<&OsStr> = path.components().map(Component::as_os_str).collect();
    let repository = parts.iter().position(|part| *part == ".git")?;
    Some(parts[repository + 1..].to_vec())
}

/// Returns whether a path is inside of a repository's own folder.
pub(super) fn is_in_repository(path: &Path) -> bool {
    in_repository(path).is_some()
}

/// Returns whether a path is the folder of the objects of a repository.
pub(super) fn holds_objects(path: &Path) -> bool {
    in_repository(path).is_some_and(|parts| match &parts[..] {
        [only] if *only == "lfs" => true,
        [folders @ .., last] if *last == "objects" => {
            !folders.iter().any(|part| *part == "refs" || *part == "logs")
        }
        _ => false,
    })
}

/// Returns whether a path is a part of the state of the workspace: a file, or a branch. The other
/// files of a repository change when somebody only reads.
pub(super) fn belongs_to_state(path: &Path) -> bool {
    in_repository(path).is_none_or(|parts| {
        let first = parts.first();
        first.is_none_or(|first| *first == "HEAD" || *first == "refs" || *first == "packed-refs")
    })
}
