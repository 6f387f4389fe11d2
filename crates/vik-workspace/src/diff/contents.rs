//! Differences between contents that Vik has stored, without git and without the workspace.

use std::collections::BTreeMap;

use vik_api::{FileChange, FileDiff};
use vik_core::file_change::{self, ChangeKind, Hunk, RelPath, Side};

use super::{Files, MAX_FILES, MAX_PATCH_BYTES, MAX_TOTAL_BYTES};
use crate::changes::{Store, hunks, is_binary, lines};

/// The number of unchanged lines around a change, as in git.
const CONTEXT: usize = 3;

/// The size limit of a file whose lines are compared, in bytes.
const MAX_CONTENT_BYTES: u64 = 8 * 1024 * 1024;

/// Changed files, and whether contents of some are no longer stored.
#[derive(Debug)]
pub struct Net {
    pub files: Files,
    pub incomplete: bool,
}

/// A file before and after changes; `None` if it does not exist.
#[derive(Default)]
struct Sides {
    old: Option<Side>,
    new: Option<Side>,
    /// The recorded lines, if there is only one change.
    hunks: Option<Vec<Hunk>>,
}

/// Returns the net effect of the changes of attempts, oldest first. A renamed file counts as a
/// deleted one and an added one. Blocks.
pub fn net_changes<'c>(changes: impl IntoIterator<Item = &'c file_change::FileChange>, store: &Store) -> Net {
    let mut files: BTreeMap<RelPath, Sides> = BTreeMap::new();
    let mut set = |path: &RelPath, old: Option<&Side>, new: Option<&Side>, hunks: Option<&Vec<Hunk>>| {
        let sides = files.entry(path.clone());
        let sides = sides.and_modify(|sides| {
            sides.new = new.cloned();
            sides.hunks = None;
        });
        sides.or_insert_with(|| Sides {
            old: old.cloned(),
            new: new.cloned(),
            hunks: hunks.cloned(),
        });
    };
    for change in changes {
        let (old, new) = (change.old.as_ref(), change.new.as_ref());
        if let ChangeKind::Renamed { from } = &change.kind {
            set(from, old, None, None);
            set(&change.path, None, new, None);
        } else {
            set(&change.path, old, new, change.hunks.as_ref());
        }
    }
    files.retain(|_, sides| sides.old != sides.new);
    let left_out = files.len().saturating_sub(MAX_FILES);
    let (mut incomplete, mut total_bytes) = (false, 0);
    let shown = files.into_iter().take(MAX_FILES).map(|(path, sides)| {
        let (mut file, is_missing) = file_diff(&path, &sides, store);
        incomplete |= is_missing;
        let bytes = file.patch.as_ref().map_or(0, String::len);
        if bytes > MAX_PATCH_BYTES || total_bytes + bytes > MAX_TOTAL_BYTES {
            file.patch = None;
        } else {
            total_bytes += bytes;
        }
        file
    });
    let files = (shown.collect(), left_out);
    Net { files, incomplete }
}

/// Returns the change of a file, and whether a content that it needs is no longer stored.
fn file_diff(path: &RelPath, sides: &Sides, store: &Store) -> (FileDiff, bool) {
    let change = match (&sides.old, &sides.new) {
        (None, _) => FileChange::Added,
        (_, None) => FileChange::Deleted,
        _ => FileChange::Modified,
    };
    let mut file = FileDiff {
        path: String::from_utf8_lossy(path.as_bytes()).into_owned(),
        change,
        added: 0,
        removed: 0,
        patch: None,
    };
    let is_readable = |side: &Option<Side>| {
        let side = side.as_ref();
        side.is_none_or(|side| side.hash.is_some() && side.size <= MAX_CONTENT_BYTES)
    };
    let content = |side: &Option<Side>| match side {
        None => Some(Vec::new()),
        Some(side) => store.get(side.hash?),
    };
    if !is_readable(&sides.old) || !is_readable(&sides.new) {
        return (file, false);
    }
    let (Some(old), Some(new)) = (content(&sides.old), content(&sides.new)) else {
        count_lines(&mut file, sides.hunks.as_deref().unwrap_or_default());
        return (file, true);
    };
    if !is_binary(&old) && !is_binary(&new) {
        let hunks = hunks(&old, &new);
        count_lines(&mut file, &hunks);
        file.patch = Some(unified(&lines(&old), &lines(&new), &hunks));
    }
    (file, false)
}

fn count_lines(file: &mut FileDiff, hunks: &[Hunk]) {
    file.added = hunks.iter().map(|hunk| u64::from(hunk.new.count)).sum();
    file.removed = hunks.iter().map(|hunk| u64::from(hunk.old.count)).sum();
}

/// Formats hunks as a unified diff, from the first `@@`.
fn unified(old: &[&[u8]], new: &[&[u8]], hunks: &[Hunk]) -> String {
    let mut patch = String::new();
    let mut remaining = hunks;
    while let Some(first) = remaining.first() {
        // Changes whose context would touch or overlap are one part.
        let is_apart = |pair: &[Hunk]| pair[1].old.indices().start - pair[0].old.indices().end > 2 * CONTEXT;
        let count = remaining
            .windows(2)
            .position(is_apart)
            .unwrap_or(remaining.len() - 1)
            + 1;
        let (part, later) = remaining.split_at(count);
        remaining = later;
        let last = part.last().unwrap_or(first);
        let before = first.old.indices().start.min(CONTEXT);
        let after = (old.len() - last.old.indices().end).min(CONTEXT);
        let old_range = first.old.indices().start - before..last.old.indices().end + after;
        let new_range = first.new.indices().start - before..last.new.indices().end + after;
        patch.push_str(&format!("@@ -{} +{} @@\n", range(&old_range), range(&new_range)));
        let mut at = old_range.start;
        for hunk in part {
            push_lines(&mut patch, ' ', &old[at..hunk.old.indices().start]);
            push_lines(&mut patch, '-', &old[hunk.old.indices()]);
            push_lines(&mut patch, '+', &new[hunk.new.indices()]);
            at = hunk.old.indices().end;
        }
        push_lines(&mut patch, ' ', &old[at..old_range.end]);
    }
    patch
}

/// Formats a range as in a unified diff: an empty one is after the line that it names.
fn range(lines: &std::ops::Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        count => format!("{},{count}", lines.start + 1),
    }
}

fn push_lines(patch: &mut String, sign: char, lines: &[&[u8]]) {
    for line in lines {
        patch.push(sign);
        patch.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            patch.push_str("\n\\ No newline at end of file\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn side(store: &Store, content: &[u8]) -> Side {
        Side {
            mode: 0o644,
            size: content.len() as u64,
            hash: Some(store.put(content).unwrap()),
            link: false,
        }
    }

    fn change(path: &str, old: Option<Side>, new: Option<Side>) -> file_change::FileChange {
        file_change::FileChange {
            path: RelPath::new(path),
            kind: ChangeKind::Modified,
            old,
            new,
            hunks: None,
        }
    }

    #[test]
    fn net_changes_join_attempts_and_leave_out_what_was_undone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let [one, two, three] = ["a\n", "a\nb\n", "a\nc"].map(|text| Some(side(&store, text.as_bytes())));
        let renamed = file_change::FileChange {
            kind: ChangeKind::Renamed {
                from: RelPath::new("from"),
            },
            ..change("to", one.clone(), one.clone())
        };
        let changes = [
            change("kept", one.clone(), two.clone()),
            change("undone", one.clone(), two.clone()),
            change("brief", None, one.clone()),
            renamed,
            change("kept", two.clone(), three),
            change("undone", two, one.clone()),
            change("brief", one, None),
        ];
        let net = net_changes(&changes, &store);
        let (files, left_out) = net.files;
        assert_eq!((left_out, net.incomplete), (0, false));
        let found: Vec<_> = files
            .iter()
            .map(|file| (file.path.as_str(), file.change, file.patch.as_deref().unwrap()))
            .collect();
        let expected = [
            ("from", FileChange::Deleted, "@@ -1 +0,0 @@\n-a\n"),
            (
                "kept",
                FileChange::Modified,
                "@@ -1 +1,2 @@\n a\n+c\n\\ No newline at end of file\n",
            ),
            ("to", FileChange::Added, "@@ -0,0 +1 @@\n+a\n"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn net_changes_without_stored_contents_are_incomplete() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let (old, new) = (side(&store, b"a\n"), side(&store, b"b\n"));
        let mut change = change("file", Some(old), Some(new));
        change.hunks = Some(hunks(b"a\n", b"b\n"));
        store.retain(|_| false).unwrap();
        let net = net_changes([&change], &store);
        assert!(net.incomplete);
        let file = &net.files.0[0];
        assert_eq!((file.added, file.removed, &file.patch), (1, 1, &None));
    }

    proptest! {
        /// A patch has the removed and added lines in order, and the counts of its headers are right.
        #[test]
        fn patch_turns_the_old_text_into_the_new(
            old in "([abc]\n){0,40}[ab]?",
            new in "([abc]\n){0,40}[ab]?",
        ) {
            let (before, after) = (lines(old.as_bytes()), lines(new.as_bytes()));
            let hunks = hunks(old.as_bytes(), new.as_bytes());
            let patch = unified(&before, &after, &hunks);
            let (mut made, mut at) = (Vec::new(), 0);
            for line in patch.lines() {
                if let Some(header) = line.strip_prefix("@@ -") {
                    let (start, _) = header.split_once(' ').unwrap();
                    let (start, count) = start.split_once(',').unwrap_or((start, "1"));
                    let start = start.parse::<usize>().unwrap() - usize::from(count != "0");
                    made.extend(before[at..start].iter().map(|line| String::from_utf8_lossy(line).into_owned()));
                    at = start;
                } else if let Some(text) = line.strip_prefix('+') {
                    made.push(format!("{text}\n"));
                } else if line.starts_with([' ', '-']) {
                    if let Some(text) = line.strip_prefix(' ') {
                        made.push(format!("{text}\n"));
                    }
                    at += 1;
                }
            }
            made.extend(before[at..].iter().map(|line| String::from_utf8_lossy(line).into_owned()));
            let made = made.concat();
            prop_assert_eq!(made.trim_end_matches('\n'), new.trim_end_matches('\n'));
        }
    }
}
