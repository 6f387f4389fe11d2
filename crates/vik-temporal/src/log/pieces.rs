//! Entries of the log as pieces that fit into a payload, and back.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// The largest text of a piece, and of all pieces in one append, in bytes. Compressed, it is smaller
/// than a payload may be, even where JSON has to escape each character.
pub const MAX_APPEND_BYTES: usize = 512 * 1024;

/// The most pieces in one append.
const MAX_APPEND_PIECES: usize = 1_000;

/// An entry, or a part of one: the last part makes all of them valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    #[serde(rename = "t")]
    pub text: String,
    #[serde(rename = "l")]
    pub is_last: bool,
}

/// Splits an entry into pieces of at most `max_bytes`, at the ends of characters.
pub fn split(entry: &str, max_bytes: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut remaining = entry;
    while remaining.len() > max_bytes {
        // A character has at most four bytes.
        let end = remaining.floor_char_boundary(max_bytes.max(4));
        let (text, tail) = remaining.split_at(end);
        pieces.push(Piece {
            text: text.to_owned(),
            is_last: false,
        });
        remaining = tail;
    }
    pieces.push(Piece {
        text: remaining.to_owned(),
        is_last: true,
    });
    pieces
}

/// Takes the pieces of the next append from the front of the queue: at least one, if there are any.
pub fn take_batch(queue: &mut VecDeque<Piece>, max_bytes: usize) -> Vec<Piece> {
    let mut bytes = 0;
    let mut count = 0;
    for piece in queue.iter().take(MAX_APPEND_PIECES) {
        bytes += piece.text.len();
        if bytes > max_bytes && count > 0 {
            break;
        }
        count += 1;
    }
    queue.drain(..count).collect()
}

/// Joins pieces to entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joiner {
    parts: String,
}

impl Joiner {
    /// Adds a piece, and returns the entry that it completes.
    pub fn add(&mut self, piece: Piece) -> Option<String> {
        if piece.is_last && self.parts.is_empty() {
            return Some(piece.text);
        }
        self.parts.push_str(&piece.text);
        piece.is_last.then(|| std::mem::take(&mut self.parts))
    }

    /// Discards an incomplete entry: the hub that was writing it no longer leads.
    pub fn discard(&mut self) {
        self.parts.clear();
    }

    /// Returns the size of the incomplete entry, in bytes.
    pub fn pending_bytes(&self) -> usize {
        self.parts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn join(pieces: Vec<Piece>) -> Vec<String> {
        let mut joiner = Joiner::default();
        pieces.into_iter().filter_map(|piece| joiner.add(piece)).collect()
    }

    #[test]
    fn discarded_parts_are_in_no_entry() {
        let mut joiner = Joiner::default();
        for piece in split("abcdefgh", 4).into_iter().take(1) {
            assert_eq!(joiner.add(piece), None);
        }
        joiner.discard();
        let entry = split("x", 4).into_iter().find_map(|piece| joiner.add(piece));
        assert_eq!(entry.as_deref(), Some("x"));
    }

    #[test]
    fn batch_is_never_empty_and_never_too_large() {
        let mut queue: VecDeque<_> = ["aaaa", "bb", "cc", "d", "eeeeeee"]
            .into_iter()
            .flat_map(|entry| split(entry, 100))
            .collect();
        let mut batches = Vec::new();
        while !queue.is_empty() {
            let batch = take_batch(&mut queue, 4);
            batches.push(batch.iter().map(|piece| piece.text.clone()).collect::<Vec<_>>());
        }
        assert_eq!(
            batches,
            [vec!["aaaa"], vec!["bb", "cc"], vec!["d"], vec!["eeeeeee"]]
        );
        assert!(take_batch(&mut queue, 4).is_empty());
    }

    proptest! {
        #[test]
        fn joined_pieces_are_the_entries(entries: Vec<String>, max in 4_usize..20) {
            let pieces: Vec<_> = entries.iter().flat_map(|entry| split(entry, max)).collect();
            prop_assert!(pieces.iter().all(|piece| piece.text.len() <= max));
            prop_assert_eq!(join(pieces), entries);
        }
    }
}
