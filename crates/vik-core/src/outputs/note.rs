//! The notes in the book of a run: what is known of each of its outputs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{OutputKey, OutputKind, Progress};
use crate::ids::AttemptId;

/// The progress of one output. The output itself is not a part of it: its key identifies it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputNote {
    pub at: Timestamp,
    /// The attempt that requested the output.
    #[serde(rename = "session")]
    pub attempt_id: AttemptId,
    pub key: OutputKey,
    pub kind: OutputKind,
    /// A line that distinguishes it from others of its kind, for people and agents.
    pub summary: String,
    pub progress: Progress,
    /// Whether the command left the key in the tracker, and can be repeated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_keyed: bool,
    /// The reason for a failure, or for an unknown result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Returns the last note of an output in a book.
pub fn last_note<'n>(book: &'n [OutputNote], key: &OutputKey) -> Option<&'n OutputNote> {
    book.iter().rev().find(|note| note.key == *key)
}

/// Returns the outputs in a book that count for the limits of the stage. Failed ones were not carried
/// out and do not count.
pub fn counted_outputs(book: &[OutputNote]) -> BTreeMap<OutputKey, OutputKind> {
    let last: BTreeMap<_, _> = book.iter().map(|note| (&note.key, note)).collect();
    let counted = last
        .into_values()
        .filter(|note| note.progress != Progress::Failed);
    counted.map(|note| (note.key.clone(), note.kind)).collect()
}
