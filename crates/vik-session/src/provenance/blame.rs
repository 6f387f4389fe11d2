//! Computes the author of each line of a file by replaying the records in order.

use std::collections::{BTreeMap, HashMap};

use vik_core::file_change::{ChangeKind, ContentHash, FileChange, Hunk, RelPath};
use vik_workspace::changes::{Store, hash_of, hunks, is_binary, lines};

use super::record::Record;

/// The author of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Author {
    /// The attempt of this record, by its index in the list.
    Attempt(usize),
    /// No attempt: the line existed before, or a hook or a person wrote it.
    Outside,
    /// The content that determines the author is no longer stored.
    Unknown,
}

/// The authors of a file, by line if it has lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The author of each line.
    Lines(Vec<Author>),
    /// The author of the last change, for a file that is binary, a link or too big.
    Whole(Author),
}

/// The known states of files during the replay.
struct Replay<'a> {
    store: &'a Store,
    /// Whether records were removed from the start of the trace.
    is_trimmed: bool,
    /// The authors by path and content, so that a file that returns to an earlier state gets its
    /// authors of that state.
    known: HashMap<(RelPath, ContentHash), Blame>,
    /// The last state of each path.
    last: BTreeMap<RelPath, ContentHash>,
}

/// Returns the authors of the lines of a file with this content. If records were removed from the
/// start of the trace (`is_trimmed`), the author of a line that no record explains is unknown.
pub fn blame(records: &[Record], is_trimmed: bool, path: &RelPath, content: &[u8], store: &Store) -> Blame {
    let mut replay = Replay {
        store,
        is_trimmed,
        known: HashMap::new(),
        last: BTreeMap::new(),
    };
    for (at, record) in records.iter().enumerate() {
        for mutation in &record.vik().changes {
            replay.apply_change(&mutation.change, at);
        }
    }
    replay.state(path, hash_of(content), Some(content))
}

impl Replay<'_> {
    fn apply_change(&mut self, change: &FileChange, at: usize) {
        let before = match &change.kind {
            ChangeKind::Renamed { from } => from,
            _ => &change.path,
        };
        let Some(hash) = change.new.as_ref().and_then(|new| new.hash) else {
            return;
        };
        let author = Author::Attempt(at);
        let authors = match (&change.hunks, change.old.as_ref()) {
            (None, _) => Blame::Whole(author),
            (Some(hunks), None) => apply(&[], hunks, author),
            (Some(hunks), Some(old)) => {
                let previous = old.hash.map(|hash| self.state(before, hash, None));
                match previous {
                    Some(Blame::Lines(lines)) => apply(&lines, hunks, author),
                    _ => self.unknown(hash, hunks, author),
                }
            }
        };
        self.known.insert((change.path.clone(), hash), authors);
        self.last.insert(change.path.clone(), hash);
    }

    /// Returns the authors of a file with this content. If no record produced this content, the
    /// difference from the last recorded one was written outside of attempts.
    fn state(&self, path: &RelPath, hash: ContentHash, content: Option<&[u8]>) -> Blame {
        if let Some(known) = self.known.get(&(path.clone(), hash)) {
            return known.clone();
        }
        let kept;
        let content = match content {
            Some(content) => content,
            None => match self.store.get(hash) {
                Some(content) => {
                    kept = content;
                    &kept
                }
                None => return Blame::Whole(Author::Unknown),
            },
        };
        let last = self.last.get(path).copied();
        let earlier = match last {
            None if self.is_trimmed => Author::Unknown,
            _ => Author::Outside,
        };
        if is_binary(content) {
            return Blame::Whole(earlier);
        }
        let Some(last) = last else {
            return Blame::Lines(vec![earlier; lines(content).len()]);
        };
        let known = self.known.get(&(path.clone(), last));
        match (known, self.store.get(last)) {
            (Some(Blame::Lines(authors)), Some(previous)) => {
                apply(authors, &hunks(&previous, content), Author::Outside)
            }
            (Some(Blame::Whole(_)), _) => Blame::Lines(vec![Author::Outside; lines(content).len()]),
            _ => Blame::Lines(vec![Author::Unknown; lines(content).len()]),
        }
    }

    /// Returns the authors if the previous state is unknown: only the lines of this change have a
    /// known author.
    fn unknown(&self, hash: ContentHash, hunks: &[Hunk], author: Author) -> Blame {
        let Some(content) = self.store.get(hash) else {
            return Blame::Whole(Author::Unknown);
        };
        let mut authors = vec![Author::Unknown; lines(&content).len()];
        for hunk in hunks {
            if let Some(lines) = authors.get_mut(hunk.new.indices()) {
                lines.fill(author);
            }
        }
        Blame::Lines(authors)
    }
}

/// Returns the authors after a change. Hunks that do not fit the content drop lines and never add
/// any.
fn apply(before: &[Author], hunks: &[Hunk], author: Author) -> Blame {
    let mut after = Vec::new();
    let mut at = 0;
    for hunk in hunks {
        let removed = hunk.old.indices();
        after.extend_from_slice(before.get(at..removed.start).unwrap_or_default());
        after.extend(std::iter::repeat_n(author, hunk.new.count as usize));
        at = removed.end;
    }
    after.extend_from_slice(before.get(at..).unwrap_or_default());
    Blame::Lines(after)
}
