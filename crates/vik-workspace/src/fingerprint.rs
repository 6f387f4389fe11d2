//! Detects whether a file or a commit of a workspace changed: without git, without reading files,
//! without following links.

use std::collections::hash_map::DefaultHasher;
use std::ffi::CStr;
use std::hash::{Hash, Hasher};
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::dir::Dir;
use nix::fcntl::{AtFlags, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};

use super::fs::{FOLDER, file_type};

/// A workspace with more entries than this has no fingerprint.
const MAX_ENTRIES: usize = 100_000;
/// The depth limit of folders; each level holds one handle. A deeper workspace has no fingerprint.
const MAX_DEPTH: usize = 100;

/// A hash of the state of a workspace. If it is equal before and after, no file, commit, branch or
/// tag changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u64);

/// Returns the fingerprint of a workspace; `None` if the workspace is too big or cannot be read.
/// Blocks.
///
/// It covers names, sizes, times, modes and inodes of all files. In a `.git` folder it covers only
/// what a commit changes: a `git status` that refreshes the index is no change.
pub fn fingerprint(workspace: &Path) -> Option<Fingerprint> {
    let dir = nix::fcntl::open(workspace, FOLDER, Mode::empty()).ok()?;
    let mut walk = Walk { entries: 0, sum: 0 };
    walk.folder(&dir, 0, 0, Git::Outside)?;
    Some(Fingerprint(walk.sum))
}

/// The relation of a folder to a `.git` folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Git {
    /// Among the files of the workspace.
    Outside,
    Top,
    Refs,
    Logs,
}

struct Walk {
    entries: usize,
    sum: u64,
}

impl Walk {
    /// `path` is the hash of the folder's path.
    fn folder(&mut self, dir: &OwnedFd, path: u64, depth: usize, git: Git) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut reader = Dir::from_fd(dir.try_clone().ok()?).ok()?;
        for entry in reader.iter() {
            let entry = entry.ok()?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entry(dir, name, path, depth, git)?;
        }
        Some(())
    }

    fn entry(&mut self, dir: &OwnedFd, name: &CStr, path: u64, depth: usize, git: Git) -> Option<()> {
        let inner = match (git, name.to_bytes()) {
            (Git::Outside, b".git") => Git::Top,
            (Git::Outside, _) => Git::Outside,
            (Git::Top, b"HEAD" | b"packed-refs") => Git::Top,
            (Git::Top | Git::Refs, b"refs") => Git::Refs,
            (Git::Top, b"logs") => Git::Logs,
            (Git::Top, _) => return Some(()),
            // A fetch moves remote-tracking refs: that is no change of the workspace.
            (Git::Refs, b"remotes") => return Some(()),
            (Git::Refs, _) => Git::Refs,
            (Git::Logs, b"HEAD") => Git::Logs,
            (Git::Logs, _) => return Some(()),
        };
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return None;
        }
        let Ok(stat) = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
            // It was removed meanwhile. If it appears again, that is a change.
            return Some(());
        };
        let kind = file_type(&stat);
        let mut hash = DefaultHasher::new();
        (path, name, stat.st_mode).hash(&mut hash);
        let path = hash.finish();
        let mut hash = DefaultHasher::new();
        path.hash(&mut hash);
        if kind != SFlag::S_IFDIR {
            (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ino).hash(&mut hash);
        }
        // A sum, because the order of entries must not matter.
        self.sum = self.sum.wrapping_add(hash.finish());
        if kind != SFlag::S_IFDIR {
            return Some(());
        }
        match openat(dir, name, FOLDER, Mode::empty()) {
            Ok(inner_dir) => self.folder(&inner_dir, path, depth + 1, inner),
            // A folder that cannot be read counts with its name and mode only.
            Err(_) => Some(()),
        }
    }
}
