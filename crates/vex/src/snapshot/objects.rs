//! The objects of a repository in the workspace.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::present::{Entry, is_real_folder};

/// The folder with the objects of a repository.
#[derive(Debug)]
pub(super) struct Objects {
    /// The path relative to the workspace.
    pub(super) path: PathBuf,
    /// The device and the number on it.
    place: (u64, u64),
    /// Open, so that its number is not used again.
    _handle: File,
    /// Whether all objects have a second name in the copy: not on another file system.
    pub(super) is_linked: bool,
}

impl Objects {
    /// Keeps the objects in `from`, as far as they can have a second name in `to`.
    pub(super) fn keep(path: PathBuf, from: &Path, to: &Path) -> io::Result<Self> {
        let handle = File::open(from)?;
        let found = Entry::of(from)?.ok_or(io::ErrorKind::NotFound)?;
        let is_linked = link_all(from, to).is_ok();
        if !is_linked {
            // What was linked is of no use.
            let _ = fs::remove_dir_all(to);
        }
        Ok(Self {
            path,
            place: found.1.place(),
            _handle: handle,
            is_linked,
        })
    }

    /// Returns whether all objects can be there again.
    pub(super) fn can_return(&self, root: &Path) -> io::Result<bool> {
        if self.is_linked {
            return Ok(true);
        }
        let found = Entry::of(&root.join(&self.path))?;
        Ok(is_real_folder(root, &self.path) && found.is_some_and(|(_, stat)| stat.place() == self.place))
    }

    /// Returns the objects that are missing. The folder of the repository is restored already.
    pub(super) fn restore(&self, root: &Path, store: &Path) -> io::Result<()> {
        let (full, copy) = (root.join(&self.path), store.join(&self.path));
        if !self.is_linked {
            return Ok(());
        }
        if !is_real_folder(root, &self.path) && full.symlink_metadata().is_ok() {
            fs::remove_file(&full)?;
        }
        link_all(&copy, &full)
    }
}

/// Gives all files below `from` a second name below `to`, apart from those that have one there.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (one, other) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            link_all(&one, &other)?;
        } else {
            match fs::hard_link(&one, &other) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}
