//! Who wrote each line of a file: the records played forward, from what a file was to what it is.

use std::collections::{BTreeMap, HashMap};

use vik_core::file_change::{ChangeKind, ContentHash, FileChange, Hunk, RelPath};

use super::record::Record;
use crate::workspace::changes::{Store, hash_of, hunks, is_binary, lines};

/// Who wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Author {
    /// The attempt of this record, by its place in the list.
    Attempt(usize),
    /// No attempt: it was there before, or a hook or a person wrote it.
    Outside,
    /// The content that would tell is not kept any more.
    Unknown,
}

/// A file whose lines are known, or that has none to tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blamed {
    /// The author of each line.
    Lines(Vec<Author>),
    /// It is binary, a link or too big: who changed it last.
    Whole(Author),
}

/// What is known of the states of files so far.
struct Replay<'a> {
    store: &'a Store,
    /// By path and content: a file that was put back to what it was has its authors again.
    known: HashMap<(RelPath, ContentHash), Blamed>,
    /// The last state of each path.
    last: BTreeMap<RelPath, ContentHash>,
}

/// Who wrote the lines of a file that now holds this.
pub fn blame(records: &[Record], path: &RelPath, content: &[u8], store: &Store) -> Blamed {
    let mut replay = Replay {
        store,
        known: HashMap::new(),
        last: BTreeMap::new(),
    };
    for (at, record) in records.iter().enumerate() {
        for mutation in &record.vik().changes {
            replay.play(&mutation.change, at);
        }
    }
    replay.state(path, hash_of(content), Some(content))
}

impl Replay<'_> {
    fn play(&mut self, change: &FileChange, at: usize) {
        let before = match &change.kind {
            ChangeKind::Renamed { from } => from,
            _ => &change.path,
        };
        let Some(hash) = change.new.as_ref().and_then(|new| new.hash) else {
            return;
        };
        let author = Author::Attempt(at);
        let now = match (&change.hunks, change.old.as_ref()) {
            (None, _) => Blamed::Whole(author),
            (Some(hunks), None) => apply(&[], hunks, author),
            (Some(hunks), Some(old)) => {
                let was = old.hash.map(|hash| self.state(before, hash, None));
                match was {
                    Some(Blamed::Lines(lines)) => apply(&lines, hunks, author),
                    _ => self.unknown(hash, hunks, author),
                }
            }
        };
        self.known.insert((change.path.clone(), hash), now);
        self.last.insert(change.path.clone(), hash);
    }

    /// The authors of a file with this content. Where no record left it so, what differs from the last that one left was
    /// written outside.
    fn state(&self, path: &RelPath, hash: ContentHash, content: Option<&[u8]>) -> Blamed {
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
                None => return Blamed::Whole(Author::Unknown),
            },
        };
        if is_binary(content) {
            return Blamed::Whole(Author::Outside);
        }
        let last = self.last.get(path).copied();
        let Some(last) = last else {
            return Blamed::Lines(vec![Author::Outside; lines(content).len()]);
        };
        let known = self.known.get(&(path.clone(), last));
        match (known, self.store.get(last)) {
            (Some(Blamed::Lines(authors)), Some(was)) => {
                apply(authors, &hunks(&was, content), Author::Outside)
            }
            (Some(Blamed::Whole(_)), _) => Blamed::Lines(vec![Author::Outside; lines(content).len()]),
            _ => Blamed::Lines(vec![Author::Unknown; lines(content).len()]),
        }
    }

    /// What is known where the state before is not: the lines that this change made.
    fn unknown(&self, hash: ContentHash, hunks: &[Hunk], author: Author) -> Blamed {
        let Some(content) = self.store.get(hash) else {
            return Blamed::Whole(Author::Unknown);
        };
        let mut authors = vec![Author::Unknown; lines(&content).len()];
        for hunk in hunks {
            if let Some(lines) = authors.get_mut(hunk.new.indices()) {
                lines.fill(author);
            }
        }
        Blamed::Lines(authors)
    }
}

/// The authors after a change. Hunks of a record that does not fit leave lines out, not more.
fn apply(before: &[Author], hunks: &[Hunk], author: Author) -> Blamed {
    let mut after = Vec::new();
    let mut at = 0;
    for hunk in hunks {
        let gone = hunk.old.indices();
        after.extend_from_slice(before.get(at..gone.start).unwrap_or_default());
        after.extend(std::iter::repeat_n(author, hunk.new.count as usize));
        at = gone.end;
    }
    after.extend_from_slice(before.get(at..).unwrap_or_default());
    Blamed::Lines(after)
}
