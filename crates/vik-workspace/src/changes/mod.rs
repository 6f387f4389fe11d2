//! The changes that an attempt made in its workspace: the differences between two snapshots, one
//! before its agent starts and one after its last process has ended.
//!
//! It does not matter how the agent made them: with a tool or a shell, committed, amended, staged
//! or not, with its `.git` rewritten or removed. Vik runs nothing of the workspace and no git in
//! it. It walks through the workspace by open folders and keeps the contents in its own store (see
//! `adr/0033-the-trace.md`).

mod ignored;
mod lines;
mod restore;
mod store;
mod tracked;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vik_core::file_change::{ChangeKind, ContentHash, FileChange, Hunk, RelPath, Side};

pub use lines::{hunks, is_binary, lines};
pub use restore::{Restored, read_file, restore, restore_mark};
pub use store::{Store, hash_of};
pub use tracked::{GitDirs, index_paths, small_file};
pub use walk::{Bounds, Mark, MarkKind, Snapshot};
use walk::{SnapshotEntry, SnapshotOptions};

/// Renames are not searched among more pairs of files than this.
const MAX_PAIRS: usize = 10_000;

/// The lowest similarity in percent at which two files count as one that was renamed, as in git.
const RENAMED_FROM: usize = 50;

/// The state of a workspace before an attempt's agent ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The commit that was checked out, if it is a git work tree.
    pub head: Option<String>,
    #[serde(flatten)]
    pub snapshot: Snapshot,
}

/// The changes of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The files, sorted by path.
    pub files: Vec<FileChange>,
    /// Changed folders, special files and extended attributes. They have no lines, but a scope
    /// covers them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub marks: BTreeSet<RelPath>,
    /// The paths that could not be read, before or after. Changes below them are unknown.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unseen: BTreeSet<RelPath>,
    /// The commit that was checked out before.
    pub base_head: Option<String>,
    /// The commit that is checked out now.
    pub head: Option<String>,
    /// A hash of the whole workspace before.
    pub base_tree: ContentHash,
    /// A hash of the whole workspace now.
    pub tree: ContentHash,
}

impl Base {
    /// Takes a snapshot of a workspace before its agent starts. `path` is the path of the open
    /// folder. `earlier` is any earlier snapshot of it; files that were not touched since are not
    /// read again. Blocks.
    ///
    /// # Errors
    /// When the folder cannot be read, or its contents cannot be stored.
    pub fn take(
        store: &Store,
        workspace: impl AsFd,
        path: &Path,
        earlier: Option<&Snapshot>,
        bounds: Bounds,
    ) -> io::Result<Self> {
        let git = GitDirs::of(path);
        let snapshot = SnapshotOptions {
            store,
            // Its files stay included, even if an agent has changed the rules since.
            earlier,
            tracked: git.as_ref().and_then(GitDirs::tracked).unwrap_or_default(),
            rules: None,
            exclude: git.as_ref().and_then(GitDirs::exclude),
            bounds,
        }
        .take(workspace)?;
        Ok(Self {
            head: git.and_then(|git| git.head()),
            snapshot,
        })
    }

    /// Takes a snapshot after the last process of the attempt has ended, and returns the changes.
    /// The rules of the first snapshot decide which files are left out. Files of the first
    /// snapshot, and those in git's index now, are always included. Blocks.
    ///
    /// # Errors
    /// When the folder cannot be read, or its contents cannot be stored.
    pub fn changes(
        &self,
        store: &Store,
        workspace: impl AsFd,
        path: &Path,
        bounds: Bounds,
    ) -> io::Result<(Changes, Snapshot)> {
        let git = GitDirs::of(path);
        let now = SnapshotOptions {
            store,
            earlier: Some(&self.snapshot),
            tracked: git.as_ref().and_then(GitDirs::tracked).unwrap_or_default(),
            rules: Some(&self.snapshot.rules),
            exclude: git.as_ref().and_then(GitDirs::exclude),
            bounds,
        }
        .take(workspace)?;
        let changes = Changes {
            files: compare(&self.snapshot, &now, store),
            marks: compare_marks(&self.snapshot, &now),
            unseen: [&self.snapshot, &now]
                .iter()
                .flat_map(|snapshot| snapshot.unseen.union(&snapshot.crowded))
                .cloned()
                .collect(),
            base_head: self.head.clone(),
            head: git.and_then(|git| git.head()),
            base_tree: self.snapshot.tree(),
            tree: now.tree(),
        };
        Ok((changes, now))
    }
}

impl Snapshot {
    /// Returns a hash of all contents, names and modes.
    pub fn tree(&self) -> ContentHash {
        let mut text = Vec::new();
        for (path, found) in &self.files {
            let side = &found.side;
            let kind = if side.link { "link" } else { "file" };
            // Writing to memory does not fail.
            let _ = write!(text, "{kind} {:o} {} ", side.mode, side.size);
            let _ = match side.hash {
                Some(hash) => write!(text, "{hash} "),
                None => write!(text, "{:?} ", found.stamp),
            };
            text.extend_from_slice(path.as_bytes());
            text.push(0);
        }
        hash_of(&text)
    }

    /// Returns the mark of a path.
    pub fn mark(&self, path: &RelPath) -> Option<&Mark> {
        self.marks.as_ref().and_then(|marks| marks.get(path))
    }

    /// Returns whether a path, or a folder above it, could not be read.
    fn is_unseen(&self, path: &RelPath) -> bool {
        self.unseen.iter().any(|unseen| is_below(path, unseen))
    }

    /// Returns whether a path may have existed without being in the snapshot.
    fn may_have(&self, path: &RelPath) -> bool {
        self.is_unseen(path) || self.crowded.iter().any(|folder| is_below(path, folder))
    }
}

/// Returns whether a path is that of a folder, or below it.
pub fn is_below(path: &RelPath, folder: &RelPath) -> bool {
    let suffix = path.as_bytes().strip_prefix(folder.as_bytes());
    suffix.is_some_and(|suffix| folder.as_bytes().is_empty() || matches!(suffix, [] | [b'/', ..]))
}

/// Returns the differences between two snapshots.
fn compare(before: &Snapshot, after: &Snapshot, store: &Store) -> Vec<FileChange> {
    let mut changes = BTreeMap::new();
    let (mut removed, mut added) = (BTreeMap::new(), BTreeMap::new());
    for (path, old) in &before.files {
        match after.files.get(path) {
            None if after.is_unseen(path) => {}
            None => {
                removed.insert(path, old);
            }
            Some(new) if is_same(old, new) => {}
            Some(new) => {
                let kind = if old.side.link == new.side.link {
                    ChangeKind::Modified
                } else {
                    ChangeKind::TypeChanged
                };
                changes.insert(path, change(path, kind, Some(old), Some(new), store));
            }
        }
    }
    for (path, new) in &after.files {
        if !before.files.contains_key(path) && !before.may_have(path) {
            added.insert(path, new);
        }
    }
    for (from, to) in renamed(&removed, &added, store) {
        let (Some(old), Some(new)) = (removed.remove(from), added.remove(to)) else {
            continue;
        };
        let kind = ChangeKind::Renamed { from: from.clone() };
        changes.insert(to, change(to, kind, Some(old), Some(new), store));
    }
    for (path, old) in removed {
        changes.insert(path, change(path, ChangeKind::Deleted, Some(old), None, store));
    }
    for (path, new) in added {
        changes.insert(path, change(path, ChangeKind::Added, None, Some(new), store));
    }
    changes.into_values().collect()
}

/// Returns the paths whose marks differ between two snapshots.
fn compare_marks(before: &Snapshot, after: &Snapshot) -> BTreeSet<RelPath> {
    let (Some(old), Some(new)) = (&before.marks, &after.marks) else {
        return BTreeSet::new();
    };
    let changed = old
        .iter()
        .filter(|(path, mark)| new.get(*path) != Some(mark) && !after.is_unseen(path));
    let added = new
        .keys()
        .filter(|path| !old.contains_key(*path) && !before.may_have(path));
    changed.map(|(path, _)| path).chain(added).cloned().collect()
}

/// Returns whether nothing changed. If a file is too big to be read, its stamp decides.
fn is_same(old: &SnapshotEntry, new: &SnapshotEntry) -> bool {
    let (one, other) = (&old.side, &new.side);
    // The mode of a link has no meaning.
    let modes = one.mode == other.mode || one.link;
    let known = one.hash.is_some() || old.stamp == new.stamp;
    (one.link, one.size, one.hash) == (other.link, other.size, other.hash) && modes && known
}

fn change(
    path: &RelPath,
    kind: ChangeKind,
    old: Option<&SnapshotEntry>,
    new: Option<&SnapshotEntry>,
    store: &Store,
) -> FileChange {
    let side = |found: Option<&SnapshotEntry>| found.map(|found| found.side.clone());
    let (old, new) = (side(old), side(new));
    let hunks = hunks_between(old.as_ref(), new.as_ref(), store);
    FileChange {
        path: path.clone(),
        kind,
        old,
        new,
        hunks,
    }
}

/// Returns the changed lines; `None` if one of the sides has no known lines.
fn hunks_between(old: Option<&Side>, new: Option<&Side>, store: &Store) -> Option<Vec<Hunk>> {
    if old
        .zip(new)
        .is_some_and(|(old, new)| old.hash.is_some() && old.hash == new.hash && !old.link)
    {
        return Some(Vec::new());
    }
    let text = |side: Option<&Side>| match side {
        None => Some(Vec::new()),
        Some(side) if side.link => None,
        Some(side) => store.get(side.hash?).filter(|content| !is_binary(content)),
    };
    Some(hunks(&text(old)?, &text(new)?))
}

/// Returns the pairs of removed and added files that are one renamed file.
fn renamed<'a>(
    removed: &BTreeMap<&'a RelPath, &SnapshotEntry>,
    added: &BTreeMap<&'a RelPath, &SnapshotEntry>,
    store: &Store,
) -> Vec<(&'a RelPath, &'a RelPath)> {
    let mut pairs = Vec::new();
    let mut remaining: BTreeMap<_, _> = removed.clone();
    let mut fresh = Vec::new();
    for (to, new) in added {
        let is_candidate =
            |old: &SnapshotEntry| old.side.hash == new.side.hash && old.side.link == new.side.link;
        let same = || {
            remaining
                .iter()
                .filter(|(_, old)| is_candidate(old))
                .map(|(from, _)| *from)
        };
        // All empty files are equal.
        let found = if new.side.size == 0 || new.side.hash.is_none() {
            None
        } else {
            same()
                .find(|from| from.name() == to.name())
                .or_else(|| same().next())
        };
        match found {
            Some(from) => {
                remaining.remove(from);
                pairs.push((from, *to));
            }
            None => fresh.push((*to, *new)),
        }
    }
    if remaining.len().saturating_mul(fresh.len()) > MAX_PAIRS {
        return pairs;
    }
    let text = |found: &SnapshotEntry| {
        let is_text = !found.side.link && found.side.size > 0;
        let content = is_text
            .then_some(found.side.hash?)
            .and_then(|hash| store.get(hash));
        content.filter(|content| !is_binary(content))
    };
    let old: Vec<_> = remaining
        .iter()
        .filter_map(|(path, found)| Some((*path, text(found)?)))
        .collect();
    let mut scores = Vec::new();
    for (to, found) in fresh {
        let Some(new) = text(found) else { continue };
        for (from, old) in &old {
            let score = lines::similarity(old, &new);
            if score >= RENAMED_FROM {
                scores.push((score, *from, to));
            }
        }
    }
    // The best score first, then by path.
    scores.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
    let mut used = BTreeSet::new();
    for (_, from, to) in scores {
        if !used.contains(from) && !used.contains(to) {
            used.extend([from, to]);
            pairs.push((from, to));
        }
    }
    pairs
}
