//! The paths in the git index of a workspace, read without git.
//!
//! A file that the rules leave out may still be in the repository (`git add -f`). An agent may have
//! written the index, so its entries can only add files to the snapshot.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use vik_proc::untrusted;

use crate::git::files::is_id;

/// The size limit of an index. A larger one is not read.
const MAX_INDEX: u64 = 64 * 1024 * 1024;

/// The size limit of a small file. A larger one is not read.
const MAX_SMALL_FILE: u64 = 64 * 1024;

/// The folders of a workspace's repository: its own, and the one that it shares with other work
/// trees.
pub struct GitDirs {
    /// `HEAD` and the index.
    pub own: PathBuf,
    pub common: PathBuf,
}

impl GitDirs {
    /// Returns the folders; `None` if the workspace is no git work tree that can be recognised.
    pub fn of(workspace: &Path) -> Option<Self> {
        let dot_git = workspace.join(".git");
        let kind = dot_git.symlink_metadata().ok()?.file_type();
        if kind.is_dir() {
            return Some(Self {
                own: dot_git.clone(),
                common: dot_git,
            });
        }
        if !kind.is_file() {
            return None;
        }
        let text = small_file(&dot_git).ok()?;
        let own = workspace.join(text.strip_prefix("gitdir:")?.trim());
        let common =
            small_file_of(&own, "commondir").map_or_else(|_| own.clone(), |text| own.join(text.trim_end()));
        Some(Self { own, common })
    }

    /// Returns the commit that is checked out.
    pub fn head(&self) -> Option<String> {
        let head = small_file_of(&self.own, "HEAD").ok()?;
        let head = head.trim();
        match head.strip_prefix("ref:") {
            Some(name) => self.commit(name.trim()),
            None => commit(head),
        }
    }

    /// Returns the branch that is checked out, without `refs/heads/`.
    pub fn branch(&self) -> Option<String> {
        let head = small_file_of(&self.own, "HEAD").ok()?;
        let name = head.trim().strip_prefix("ref:")?.trim();
        name.strip_prefix("refs/heads/").map(str::to_owned)
    }

    /// Returns the commit of a ref, by its full name.
    pub fn commit(&self, name: &str) -> Option<String> {
        let is_ref =
            name.starts_with("refs/") && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !is_ref {
            return None;
        }
        if let Ok(text) = small_file_of(&self.common, name) {
            return commit(text.trim());
        }
        let packed = file_of(&self.common, "packed-refs", MAX_INDEX).ok()?;
        let packed = String::from_utf8_lossy(&packed);
        packed.lines().find_map(|line| {
            let (id, packed_name) = line.split_once(' ')?;
            (packed_name == name).then(|| commit(id)).flatten()
        })
    }

    /// Returns the repository's own ignore list.
    pub fn exclude(&self) -> Option<String> {
        small_file_of(&self.common, "info/exclude").ok()
    }

    /// Returns the paths in the index; `None` if there is none that can be read.
    pub fn tracked(&self) -> Option<BTreeSet<Vec<u8>>> {
        let index = file_of(&self.own, "index", MAX_INDEX).ok()?;
        // All hashes of a repository have the same length, which the index does not contain.
        index_paths(&index, 20).or_else(|| index_paths(&index, 32))
    }
}

fn commit(text: &str) -> Option<String> {
    is_id(text).then(|| text.to_ascii_lowercase())
}

/// Reads a small file that an agent may have written. Links on the path to its folder are followed.
pub fn small_file(path: &Path) -> io::Result<String> {
    text(untrusted::read(path, MAX_SMALL_FILE)?)
}

/// Reads a small file of a repository's folder. Follows no link, neither to the folder nor below
/// it.
fn small_file_of(folder: &Path, name: &str) -> io::Result<String> {
    text(file_of(folder, name, MAX_SMALL_FILE)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(io::Error::other)
}

fn file_of(folder: &Path, name: &str, limit: u64) -> io::Result<Vec<u8>> {
    match (folder.parent(), folder.file_name()) {
        (Some(above), Some(own)) => untrusted::read_below(above, &Path::new(own).join(name), limit),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Returns the paths in an index of version 2 to 4 with hashes of this length; `None` if it is not
/// one.
pub fn index_paths(index: &[u8], hash_bytes: usize) -> Option<BTreeSet<Vec<u8>>> {
    const STAT: usize = 40;
    const EXTENDED: u16 = 0x4000;
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    let mut paths = BTreeSet::new();
    let mut name: Vec<u8> = Vec::new();
    for _ in 0..count {
        let flags_at = at + STAT + hash_bytes;
        let flags = u16::from_be_bytes(index.get(flags_at..flags_at + 2)?.try_into().ok()?);
        let mut name_at = flags_at + 2;
        if flags & EXTENDED != 0 {
            if version < 3 {
                return None;
            }
            name_at += 2;
        }
        if version == 4 {
            let (cut, after) = varint(index, name_at)?;
            name.truncate(name.len().checked_sub(cut)?);
            name_at = after;
        } else {
            name.clear();
        }
        let end = name_at + index.get(name_at..)?.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&index[name_at..end]);
        if name.is_empty() {
            return None;
        }
        at = if version == 4 {
            end + 1
        } else {
            // Padding of one to eight zeros, up to a multiple of eight.
            let next = at + (end - at) / 8 * 8 + 8;
            if index.get(end..next)?.iter().any(|byte| *byte != 0) {
                return None;
            }
            next
        };
        paths.insert(name.clone());
    }
    // Extensions and the hash of the index follow.
    (index.len() >= at + hash_bytes).then_some(paths)
}

/// Reads a number in the encoding of git packs and indices. Returns it and its end.
fn varint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)? | usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}
