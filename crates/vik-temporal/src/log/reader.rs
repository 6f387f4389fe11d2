//! Reads a segment: applies the transitions of its history, and joins pieces to entries.

use serde::{Deserialize, Serialize};

use super::pieces::Joiner;
use super::segment::{Append, Segment, SegmentStart};

/// A larger incomplete entry is an error, in bytes.
const MAX_ENTRY_BYTES: usize = 256 * 1024 * 1024;

/// Up to where a reader has read the log. It is valid after an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The id of the log.
    pub log: String,
    pub segment: u64,
    /// The number of pieces that were read.
    pub position: u64,
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The cursor after this entry.
    pub cursor: Cursor,
    /// The term of the hub that wrote it.
    pub term: u64,
    pub text: String,
}

/// What the history of a segment contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Start(SegmentStart),
    Append(Append),
    Term,
}

/// The log cannot be read further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error(
        "the log was compacted before it was read: it starts at position {starts}, \
         and {read} was read"
    )]
    Gap { read: u64, starts: u64 },
    #[error("this is another log than the one that was read before")]
    OtherLog,
    #[error("the log ends at position {ends}, but {read} was read before")]
    Ahead { read: u64, ends: u64 },
    #[error("segment {segment} of the log is damaged: {reason}")]
    Damaged { segment: u64, reason: String },
}

/// Reads one segment after another.
#[derive(Debug)]
pub(super) struct Reader {
    number: u64,
    /// `None` before the start of the segment was read.
    segment: Option<Segment>,
    /// The start that the segment must have, if the one before was read.
    expected: Option<SegmentStart>,
    /// Where it was read up to; `None` before the first segment.
    cursor: Option<Cursor>,
    joiner: Joiner,
}

impl Reader {
    /// Returns a reader that continues at the cursor, or at the start of segment `first`.
    pub fn new(cursor: Option<Cursor>, first: u64) -> Self {
        Self {
            number: cursor.as_ref().map_or(first, |cursor| cursor.segment),
            segment: None,
            expected: None,
            cursor,
            joiner: Joiner::default(),
        }
    }

    /// Returns the id of the log, once a segment was read.
    pub fn log_id(&self) -> Option<&str> {
        self.cursor.as_ref().map(|cursor| cursor.log.as_str())
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of pieces that were read, with those of an incomplete entry.
    pub fn position(&self) -> Option<u64> {
        self.segment.as_ref().map(Segment::position)
    }

    pub fn is_at_end_of_segment(&self) -> bool {
        self.segment.as_ref().is_some_and(Segment::is_sealed)
    }

    /// Continues with the segment after a sealed one.
    pub fn advance(&mut self) -> Result<(), ReadError> {
        if let Some(segment) = self.segment.take() {
            self.check_not_ahead(segment.position())?;
            let next = segment.next();
            self.number = next.number;
            self.expected = Some(next);
        }
        Ok(())
    }

    /// Continues with a later segment, because those up to it were removed.
    pub fn skip_to(&mut self, number: u64) {
        self.restart();
        self.number = number;
    }

    /// Reads the segment of the last entry again from its start. Entries that were read are left
    /// out.
    pub fn restart(&mut self) {
        self.segment = None;
        self.expected = None;
        self.joiner.discard();
        if let Some(cursor) = &self.cursor {
            self.number = cursor.segment;
        }
    }

    /// Checks that no more was read than the log has.
    pub fn check_not_ahead(&self, ends: u64) -> Result<(), ReadError> {
        match self.cursor.as_ref().map(|cursor| cursor.position) {
            Some(read) if read > ends => Err(ReadError::Ahead { read, ends }),
            _ => Ok(()),
        }
    }

    /// Applies a record, and returns the entries that it completes.
    pub fn apply(&mut self, record: Record) -> Result<Vec<Entry>, ReadError> {
        match (record, self.segment.as_mut()) {
            (Record::Start(start), None) => {
                self.start(start)?;
                Ok(Vec::new())
            }
            (Record::Term, Some(segment)) => {
                segment.take_term();
                // The hub that wrote it no longer leads.
                self.joiner.discard();
                Ok(Vec::new())
            }
            (Record::Append(append), Some(segment)) => {
                if let Err(refusal) = segment.check_append(&append) {
                    return Err(self.damaged(refusal.to_string()));
                }
                self.append(append)
            }
            (Record::Start(_), Some(_)) => Err(self.damaged("it starts twice".to_owned())),
            (_, None) => Err(self.damaged("it has no start".to_owned())),
        }
    }

    fn start(&mut self, start: SegmentStart) -> Result<(), ReadError> {
        if start.number != self.number {
            return Err(self.damaged(format!("it has the number {}", start.number)));
        }
        let expected = self.expected.take();
        let is_continued = expected.is_some();
        if expected.is_some_and(|expected| expected != start) {
            return Err(self.damaged("it does not continue the one before".to_owned()));
        }
        let cursor = self.cursor.get_or_insert_with(|| Cursor {
            log: start.log.clone(),
            segment: start.number,
            position: start.position,
        });
        if cursor.log != start.log {
            return Err(ReadError::OtherLog);
        }
        if cursor.position < start.position && !is_continued {
            return Err(ReadError::Gap {
                read: cursor.position,
                starts: start.position,
            });
        }
        self.segment = Some(Segment::new(start));
        Ok(())
    }

    fn append(&mut self, append: Append) -> Result<Vec<Entry>, ReadError> {
        let (Some(segment), Some(cursor)) = (self.segment.as_mut(), self.cursor.as_mut()) else {
            return Ok(Vec::new());
        };
        segment.append(&append);
        let mut entries = Vec::new();
        for (position, piece) in (append.position + 1..).zip(append.pieces) {
            // Read before the last restart.
            if position <= cursor.position {
                continue;
            }
            let Some(text) = self.joiner.add(piece) else {
                continue;
            };
            cursor.segment = segment.number();
            cursor.position = position;
            entries.push(Entry {
                cursor: cursor.clone(),
                term: append.term,
                text,
            });
        }
        if self.joiner.pending_bytes() > MAX_ENTRY_BYTES {
            return Err(self.damaged(format!("an entry exceeds {MAX_ENTRY_BYTES} bytes")));
        }
        Ok(entries)
    }

    pub fn damaged(&self, reason: String) -> ReadError {
        ReadError::Damaged {
            segment: self.number,
            reason,
        }
    }
}

#[cfg(test)]
mod tests;
