//! The state of a workspace at one time.

use std::collections::{BTreeMap, BTreeSet};

use nix::sys::stat::FileStat;
use serde::{Deserialize, Serialize};
use vik_core::file_change::{ContentHash, RelPath, Side};

use crate::changes::ignored::Rules;

/// The limits of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most files and folders.
    pub entries: usize,
    /// The deepest folder; each level holds one handle.
    pub depth: usize,
    /// The content of a longer file, in bytes, is hashed and not stored: its changed lines are
    /// unknown.
    pub kept: u64,
    /// A longer file, in bytes, is not read: its stamp shows whether it changed.
    pub hashed: u64,
    /// The most bytes that one snapshot reads into the store; later files are only hashed.
    pub all_kept: u64,
    /// The most new contents that one snapshot stores in files of their own; further ones are in a
    /// pack.
    pub own_files: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            entries: 200_000,
            depth: 100,
            kept: 4 * 1024 * 1024,
            hashed: 256 * 1024 * 1024,
            all_kept: 4 * 1024 * 1024 * 1024,
            own_files: 256,
        }
    }
}

/// Device, inode and change time of a file: if they are equal, the file was not touched. A program
/// can set the time of a file's content, but not its change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp(u64, u64, i64, i64);

impl Stamp {
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    pub(super) fn of(stat: &FileStat) -> Self {
        Self(
            stat.st_dev as u64,
            stat.st_ino as u64,
            stat.st_ctime as i64,
            stat.st_ctime_nsec as i64,
        )
    }

    /// Returns whether a later change would produce a different stamp: clocks of file systems tick
    /// slowly.
    pub(super) fn is_settled(self, taken_at: i64) -> bool {
        self.2 < taken_at
    }
}

/// A file or a link in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Its mode, size and content.
    #[serde(flatten)]
    pub side: Side,
    /// An equal stamp later shows that it was not touched.
    pub stamp: Stamp,
}

/// The kind of an entry that is more than a file's content or a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    Folder,
    /// A regular file with extended attributes.
    File,
    Pipe,
    Socket,
    /// A device, by its number.
    Device(u64),
}

/// Properties that a scope covers besides the content and mode of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub kind: MarkKind,
    /// Its mode; 0 for a file, whose mode is in its [`Side`].
    pub mode: u32,
    /// A hash of its extended attributes, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<ContentHash>,
}

/// The state of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// The files and links, by path.
    pub files: BTreeMap<RelPath, SnapshotEntry>,
    /// Folders, special files and files with extended attributes; `None` in a snapshot of an older
    /// version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marks: Option<BTreeMap<RelPath, Mark>>,
    /// The rules that left files out.
    pub rules: Rules,
    /// The hash of the repository's own ignore list at that time.
    #[serde(default)]
    pub exclude: Option<ContentHash>,
    /// Folders and files that could not be read. What is below them is unknown.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unseen: BTreeSet<RelPath>,
    /// Folders with so many entries that only the wanted files are included.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub crowded: BTreeSet<RelPath>,
    /// The start of the snapshot, in seconds of the clock of files.
    #[serde(rename = "looked_at")]
    pub taken_at: i64,
}
