//! What stands in the workspace now.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use sha2::{Digest as _, Sha256};

use super::RULES;
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
    /// The device and the number on it.
    place: (u64, u64),
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stat {
    /// Returns the device and the number on it.
    pub(super) fn place(&self) -> (u64, u64) {
        self.place
    }

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
            place: (found.dev(), found.ino()),
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

/// Returns whether a path leads to a folder, and not behind a link.
pub(super) fn is_real_folder(root: &Path, path: &Path) -> bool {
    let mut full = root.to_owned();
    path.iter().all(|part| {
        full.push(part);
        is_folder(&full)
    })
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Lists the paths in a workspace, relative to it. What cannot be read is left out, like what
/// vanishes meanwhile.
#[derive(Clone, Copy)]
pub(super) struct Listing<'a> {
    pub(super) root: &'a Path,
    /// Whether the rules of the folders above the workspace apply to it.
    pub(super) has_rules_above: bool,
}

impl Listing<'_> {
    /// Returns what git does not ignore or tracks, with rules about ignored files, and with
    /// repositories. Of the objects of a repository, only the folder is among them.
    pub(super) fn with_repositories(self) -> BTreeSet<PathBuf> {
        let mut all = self.not_ignored();
        for folder in self.folders(&all) {
            let rules = folder.join(RULES);
            if exists(&self.root.join(&rules)) {
                all.insert(rules);
            }
            let repository = folder.join(".git");
            if exists(&self.root.join(&repository)) {
                all.extend(below(self.root, repository));
            }
        }
        all
    }

    /// Returns what git does not ignore or tracks, without repositories. Each folder comes before
    /// its content.
    pub(super) fn not_ignored(self) -> BTreeSet<PathBuf> {
        let walk = WalkBuilder::new(self.root)
            .hidden(false)
            .ignore(false)
            .git_global(false)
            .require_git(false)
            .parents(self.has_rules_above)
            .filter_entry(|entry| entry.file_name() != ".git")
            .build();
        let mut all: BTreeSet<PathBuf> = walk
            .flatten()
            .filter_map(|entry| Some(entry.path().strip_prefix(self.root).ok()?.to_owned()))
            .filter(|path| path != Path::new(""))
            .collect();
        for folder in self.folders(&all) {
            let is_first = folder == Path::new("");
            if is_first || exists(&self.root.join(&folder).join(".git")) {
                self.add_known_to_git(&folder, &mut all);
            }
        }
        all
    }

    /// Returns the folders among these paths, with the workspace itself.
    fn folders(self, paths: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let folders = paths.iter().filter(|path| is_folder(&self.root.join(path)));
        std::iter::once(PathBuf::new()).chain(folders.cloned()).collect()
    }

    /// Adds the files that git tracks or does not ignore: it tracks ignored files too, and reads
    /// some rules in another way.
    fn add_known_to_git(self, folder: &Path, all: &mut BTreeSet<PathBuf>) {
        let listed = git::command(&self.root.join(folder))
            .args(["-c", "core.excludesFile=/dev/null"])
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .output();
        let names = listed.map(|output| output.stdout).unwrap_or_default();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = OsString::from_vec(name.to_vec());
            let path = folder.join(Path::new(&name));
            let above = path.parent().unwrap_or(Path::new(""));
            if exists(&self.root.join(&path)) && is_real_folder(self.root, above) {
                let new = path.ancestors().take_while(|part| *part != folder);
                all.extend(new.map(Path::to_owned));
            }
        }
    }
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

/// Returns a digest of the content of a file, which can have any size.
pub(super) fn digest(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    let (mut digest, mut part) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut part)? {
            0 => return Ok(digest.finalize().into()),
            count => digest.update(&part[..count]),
        }
    }
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
