//! What stands in the workspace now.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ignore::WalkBuilder;

use super::differences::holds_objects;
use crate::git;

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// A folder with its permission bits.
    Folder {
        mode: u32,
    },
    /// A file with its permission bits.
    File {
        mode: u32,
    },
    Link {
        target: PathBuf,
    },
    /// A pipe, a socket or a device.
    Other,
}

/// What shows whether a file was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    identity: Identity,
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What two files or folders cannot share: a number is used again after a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    number: u64,
    /// `None` where the file system does not record it.
    created: Option<SystemTime>,
}

impl Stat {
    /// Returns the size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

impl Entry {
    /// Returns what stands at `path`; `None` if nothing does.
    pub(super) fn of(path: &Path) -> io::Result<Option<(Self, Stat)>> {
        let found = match path.symlink_metadata() {
            Ok(found) => found,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let stat = Stat {
            identity: Identity {
                device: found.dev(),
                number: found.ino(),
                created: found.created().ok(),
            },
            size: found.size(),
            mode: found.mode(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        };
        let (kind, mode) = (found.file_type(), found.mode() & 0o7777);
        let entry = if kind.is_dir() {
            Self::Folder { mode }
        } else if kind.is_symlink() {
            let target = fs::read_link(path)?;
            Self::Link { target }
        } else if kind.is_file() {
            Self::File { mode }
        } else {
            Self::Other
        };
        Ok(Some((entry, stat)))
    }
}

/// Returns whether a folder of the workspace is still the same one, and not behind a link.
pub(super) fn is_same_folder(root: &Path, path: &Path, stat: &Stat) -> io::Result<bool> {
    let mut full = root.to_owned();
    let mut last = None;
    for part in path {
        full.push(part);
        match Entry::of(&full)? {
            Some((Entry::Folder { .. }, found)) => last = Some(found.identity),
            _ => return Ok(false),
        }
    }
    Ok(last == Some(stat.identity))
}

/// Returns the paths in the workspace, relative to it, each folder before what is in it: without
/// what git ignores, but with what it tracks all the same, and with repositories. Of the objects of
/// a repository, only the folder is among them.
pub(super) fn paths(root: &Path) -> BTreeSet<PathBuf> {
    let mut all = not_ignored(root);
    for path in tracked(root) {
        if exists(&root.join(&path)) {
            let folders = path.ancestors().filter(|folder| *folder != Path::new(""));
            all.extend(folders.map(Path::to_owned));
        }
    }
    let folders: Vec<PathBuf> = all
        .iter()
        .filter(|path| is_folder(&root.join(path)))
        .cloned()
        .collect();
    for folder in std::iter::once(PathBuf::new()).chain(folders) {
        let repository = folder.join(".git");
        if exists(&root.join(&repository)) {
            all.extend(below(root, repository));
        }
    }
    all
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Returns the paths that git does not ignore, without repositories.
pub(super) fn not_ignored(root: &Path) -> BTreeSet<PathBuf> {
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .ignore(false)
        .git_global(false)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    // What cannot be read is left out, like what vanishes meanwhile.
    walk.flatten()
        .filter_map(|entry| Some(entry.path().strip_prefix(root).ok()?.to_owned()))
        .filter(|path| path != Path::new(""))
        .collect()
}

/// Returns the files that git tracks.
fn tracked(root: &Path) -> Vec<PathBuf> {
    let listed = git::command(root).args(["ls-files", "-z"]).output();
    let names = listed.map(|output| output.stdout).unwrap_or_default();
    names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .map(|name| PathBuf::from(OsString::from_vec(name.to_vec())))
        .collect()
}

/// Returns a path and everything below it, apart from objects of repositories.
pub(super) fn below(root: &Path, path: PathBuf) -> Vec<PathBuf> {
    let mut all = vec![path];
    let mut next = 0;
    while let Some(path) = all.get(next).cloned() {
        next += 1;
        let full = root.join(&path);
        if is_folder(&full) && !holds_objects(&path) {
            let mut names: Vec<_> = fs::read_dir(full).into_iter().flatten().flatten().collect();
            names.sort_by_key(fs::DirEntry::file_name);
            all.extend(names.iter().map(|entry| path.join(entry.file_name())));
        }
    }
    all
}

/// Returns whether two files have the same content.
pub(super) fn is_same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        match other.read_exact(&mut right[..count]) {
            Ok(()) if left[..count] == right[..count] => {}
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(error),
            _ => return Ok(false),
        }
    }
}
