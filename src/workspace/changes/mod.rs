//! What an attempt changed in its workspace: two looks, before its agent starts and after nothing of it lives, and what
//! differs between them.
//!
//! It does not matter how the agent did it: by a tool, by a shell, committed, amended, staged or not, with its `.git`
//! rewritten or removed. Nothing of the workspace is run and no git looks into it: Vik walks through it by open folders and
//! keeps what it finds in a store of its own (decision 33).

mod ignored;
mod lines;
mod restore;
mod store;
mod tracked;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vik_core::file_change::{ChangeKind, ContentHash, FileChange, Hunk, RelPath, Side};

pub use lines::{hunks, is_binary, lines};
pub use restore::{Restored, read_file, restore, restore_mark};
pub use store::{Store, hash_of};
pub use tracked::{GitDirs, index_paths, small_file};
pub use walk::{Bounds, Mark, MarkKind, Snapshot};
use walk::{Found, SnapshotOptions};

/// More pairs of files than these are not compared to find out which was renamed into which.
const MOST_PAIRS: usize = 10_000;

/// Two files are taken for one that was renamed from this likeness on, of 100, as git does.
const RENAMED_FROM: usize = 50;

/// What a workspace was before an attempt's agent ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// The commit that was checked out, where it is a git work tree.
    pub head: Option<String>,
    /// What stood in it.
    #[serde(flatten)]
    pub snapshot: Snapshot,
}

/// What an attempt changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The files, in the order of their paths.
    pub files: Vec<FileChange>,
    /// Folders, special files and extended attributes that are not what they were: these have no lines, but a scope covers
    /// them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub marks: BTreeSet<RelPath>,
    /// What could not be looked at, before or after: what changed below is not known.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub unseen: BTreeSet<RelPath>,
    /// The commit that was checked out before.
    pub base_head: Option<String>,
    /// The commit that is checked out now.
    pub head: Option<String>,
    /// A hash of everything that stood in the workspace before.
    pub base_tree: ContentHash,
    /// A hash of everything that stands in it now.
    pub tree: ContentHash,
}

impl Base {
    /// Looks at a workspace before its agent starts. `path` is where the open folder stands; `earlier` is any earlier look at
    /// it, which spares reading what was not touched since. Blocks.
    ///
    /// # Errors
    /// When the folder cannot be read, or its contents cannot be kept.
    pub fn take(
        store: &Store,
        workspace: impl AsFd,
        path: &Path,
        earlier: Option<&Snapshot>,
        bounds: Bounds,
    ) -> io::Result<Self> {
        let git = GitDirs::of(path);
        let mut wanted = git.as_ref().and_then(GitDirs::tracked).unwrap_or_default();
        // What was seen once stays in sight, whatever an agent has made of the rules since.
        let seen = earlier.into_iter().flat_map(|earlier| earlier.files.keys());
        wanted.extend(seen.map(|path| path.as_bytes().to_vec()));
        let snapshot = SnapshotOptions {
            store,
            earlier,
            wanted,
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

    /// Looks again, after nothing of the attempt lives, and tells what changed. The rules of before decide what is left out;
    /// what was seen before, or what git's index names now, is looked at in any case. Blocks.
    ///
    /// # Errors
    /// When the folder cannot be read, or its contents cannot be kept.
    pub fn changes(
        &self,
        store: &Store,
        workspace: impl AsFd,
        path: &Path,
        bounds: Bounds,
    ) -> io::Result<(Changes, Snapshot)> {
        let git = GitDirs::of(path);
        let mut wanted = git.as_ref().and_then(GitDirs::tracked).unwrap_or_default();
        let seen = self.snapshot.files.keys();
        wanted.extend(seen.map(|path| path.as_bytes().to_vec()));
        let now = SnapshotOptions {
            store,
            earlier: Some(&self.snapshot),
            wanted,
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
                .flat_map(|look| look.unseen.union(&look.crowded))
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
    /// A hash of all that it tells of contents, names and modes.
    pub fn tree(&self) -> ContentHash {
        let mut text = Vec::new();
        for (path, found) in &self.files {
            let side = &found.side;
            let hash = side
                .hash
                .map_or_else(|| format!("{:?}", found.stamp), |hash| hash.to_string());
            let kind = if side.link { "link" } else { "file" };
            text.extend_from_slice(format!("{kind} {:o} {} {hash} ", side.mode, side.size).as_bytes());
            text.extend_from_slice(path.as_bytes());
            text.push(0);
        }
        hash_of(&text)
    }

    /// What is marked at a path.
    pub fn mark(&self, path: &RelPath) -> Option<&Mark> {
        self.marks.as_ref().and_then(|marks| marks.get(path))
    }

    /// Whether a path, or a folder above it, could not be looked at.
    fn is_unseen(&self, path: &RelPath) -> bool {
        self.unseen.iter().any(|unseen| is_below(path, unseen))
    }

    /// Whether a path may have stood there without being looked at.
    fn may_have(&self, path: &RelPath) -> bool {
        self.is_unseen(path) || self.crowded.iter().any(|folder| is_below(path, folder))
    }
}

/// Whether a path is that of a folder, or of something in it.
pub fn is_below(path: &RelPath, folder: &RelPath) -> bool {
    let rest = path.as_bytes().strip_prefix(folder.as_bytes());
    rest.is_some_and(|rest| folder.as_bytes().is_empty() || matches!(rest, [] | [b'/', ..]))
}

/// What differs between two looks.
fn compare(before: &Snapshot, after: &Snapshot, store: &Store) -> Vec<FileChange> {
    let mut changes = BTreeMap::new();
    let (mut gone, mut come) = (BTreeMap::new(), BTreeMap::new());
    for (path, old) in &before.files {
        match after.files.get(path) {
            None if after.is_unseen(path) => {}
            None => {
                gone.insert(path, old);
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
            come.insert(path, new);
        }
    }
    for (from, to) in renamed(&gone, &come, store) {
        let (Some(old), Some(new)) = (gone.remove(from), come.remove(to)) else {
            continue;
        };
        let kind = ChangeKind::Renamed { from: from.clone() };
        changes.insert(to, change(to, kind, Some(old), Some(new), store));
    }
    for (path, old) in gone {
        changes.insert(path, change(path, ChangeKind::Deleted, Some(old), None, store));
    }
    for (path, new) in come {
        changes.insert(path, change(path, ChangeKind::Added, None, Some(new), store));
    }
    changes.into_values().collect()
}

/// Where the marks of two looks differ.
fn compare_marks(before: &Snapshot, after: &Snapshot) -> BTreeSet<RelPath> {
    let (Some(old), Some(new)) = (&before.marks, &after.marks) else {
        return BTreeSet::new();
    };
    let changed = old
        .iter()
        .filter(|(path, mark)| new.get(path) != Some(mark) && !after.is_unseen(path));
    let come = new
        .keys()
        .filter(|path| !old.contains_key(path) && !before.may_have(path));
    changed.map(|(path, _)| path).chain(come).cloned().collect()
}

/// Nothing of it changed. Of a file too big to be read, its stamp tells.
fn is_same(old: &Found, new: &Found) -> bool {
    let (one, other) = (&old.side, &new.side);
    // The mode of a link means nothing.
    let modes = one.mode == other.mode || one.link;
    let known = one.hash.is_some() || old.stamp == new.stamp;
    (one.link, one.size, one.hash) == (other.link, other.size, other.hash) && modes && known
}

fn change(
    path: &RelPath,
    kind: ChangeKind,
    old: Option<&Found>,
    new: Option<&Found>,
    store: &Store,
) -> FileChange {
    let side = |found: Option<&Found>| found.map(|found| found.side.clone());
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

/// `None` where one of the sides has no lines that are known.
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

/// Which of the files that are gone stand under which other name.
fn renamed<'a>(
    gone: &BTreeMap<&'a RelPath, &Found>,
    come: &BTreeMap<&'a RelPath, &Found>,
    store: &Store,
) -> Vec<(&'a RelPath, &'a RelPath)> {
    let mut pairs = Vec::new();
    let mut left: BTreeMap<_, _> = gone.clone();
    let mut fresh = Vec::new();
    for (to, new) in come {
        let is_candidate = |old: &Found| old.side.hash == new.side.hash && old.side.link == new.side.link;
        let same = || {
            left.iter()
                .filter(|(_, old)| is_candidate(old))
                .map(|(from, _)| *from)
        };
        // Empty files are all alike.
        let found = if new.side.size == 0 || new.side.hash.is_none() {
            None
        } else {
            same()
                .find(|from| from.name() == to.name())
                .or_else(|| same().next())
        };
        match found {
            Some(from) => {
                left.remove(from);
                pairs.push((from, *to));
            }
            None => fresh.push((*to, *new)),
        }
    }
    if left.len().saturating_mul(fresh.len()) > MOST_PAIRS {
        return pairs;
    }
    let text = |found: &Found| {
        let is_text = !found.side.link && found.side.size > 0;
        let content = is_text
            .then_some(found.side.hash?)
            .and_then(|hash| store.get(hash));
        content.filter(|content| !is_binary(content))
    };
    let old: Vec<_> = left
        .iter()
        .filter_map(|(path, found)| Some((*path, text(found)?)))
        .collect();
    let mut scores = Vec::new();
    for (to, found) in fresh {
        let Some(new) = text(found) else { continue };
        for (from, old) in &old {
            let score = lines::likeness(old, &new);
            if score >= RENAMED_FROM {
                scores.push((score, *from, to));
            }
        }
    }
    // The best first; among equals the order of paths decides.
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
