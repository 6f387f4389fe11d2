//! The state of a segment of the log, as a pure state machine.
//!
//! The workflow decides with it, and readers apply the same transitions to its history, so that both
//! have the same order and know when a segment ends.

use serde::{Deserialize, Serialize};

use super::pieces::Piece;

/// When a segment is sealed, and how long the history of the index becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Appends and terms. The server allows 2,000 updates of one workflow.
    pub updates: u32,
    /// The texts of the entries, before compression.
    pub bytes: u64,
    /// After so many events, a short history of the index replaces the long one.
    #[serde(default = "max_index_events")]
    pub index_events: u32,
}

/// A compaction has about 10 events, and each segment that it closes about 5.
fn max_index_events() -> u32 {
    2_000
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            updates: 1_900,
            bytes: 10 * 1024 * 1024,
            index_events: max_index_events(),
        }
    }
}

/// With this a segment starts. It is derived from the end of the segment before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentStart {
    /// Identifies the log: if it is removed and started again, the new one has another id.
    pub log: String,
    pub number: u64,
    /// The last term that was taken.
    pub term: u64,
    /// The number of pieces in all segments before.
    pub position: u64,
    /// The size of all segments before.
    pub bytes: u64,
    pub limits: Limits,
}

impl SegmentStart {
    /// Returns the start of the first segment of a log.
    pub fn first(log: &str, limits: Limits) -> Self {
        Self {
            log: log.to_owned(),
            number: 1,
            term: 0,
            position: 0,
            bytes: 0,
            limits,
        }
    }
}

/// An append that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    pub term: u64,
    /// The number of pieces in the log before these.
    pub position: u64,
    pub pieces: Vec<Piece>,
    /// Seals the segment after this append.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub seal: bool,
}

/// The result of an append, or of taking a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    pub term: u64,
    /// The number of pieces in the log.
    pub position: u64,
    /// The size of the log.
    pub bytes: u64,
    /// The segment has ended, and the next one goes on.
    pub sealed: bool,
}

/// Why a segment refuses an update. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    #[error("the term is old: the present one is {term}")]
    OldTerm { term: u64 },
    #[error("the log continues at position {position}")]
    WrongPosition { position: u64 },
    #[error("the segment is sealed")]
    Sealed,
}

/// A segment of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    start: SegmentStart,
    term: u64,
    position: u64,
    bytes: u64,
    updates: u32,
    is_sealed: bool,
}

impl Segment {
    pub fn new(start: SegmentStart) -> Self {
        Self {
            term: start.term,
            position: start.position,
            bytes: 0,
            updates: 0,
            is_sealed: false,
            start,
        }
    }

    pub fn number(&self) -> u64 {
        self.start.number
    }

    #[cfg(test)]
    pub fn term(&self) -> u64 {
        self.term
    }

    pub fn position(&self) -> u64 {
        self.position
    }

    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Checks whether [`append`](Self::append) may follow.
    ///
    /// # Errors
    ///
    /// Refuses an append of another term or at another position, and any in a sealed segment.
    pub fn check_append(&self, append: &Append) -> Result<(), Refusal> {
        if append.term != self.term {
            return Err(Refusal::OldTerm { term: self.term });
        }
        self.check_term()?;
        if append.position != self.position {
            return Err(Refusal::WrongPosition {
                position: self.position,
            });
        }
        Ok(())
    }

    /// Checks whether [`take_term`](Self::take_term) may follow.
    ///
    /// # Errors
    ///
    /// Refuses in a sealed segment.
    pub fn check_term(&self) -> Result<(), Refusal> {
        if self.is_sealed {
            return Err(Refusal::Sealed);
        }
        Ok(())
    }

    /// Adds pieces that were checked.
    pub fn append(&mut self, append: &Append) -> Accepted {
        let bytes: usize = append.pieces.iter().map(|piece| piece.text.len()).sum();
        self.position += append.pieces.len() as u64;
        self.bytes += bytes as u64;
        self.count(append.seal)
    }

    /// Starts the next term, so that appends of all older ones are refused.
    pub fn take_term(&mut self) -> Accepted {
        self.term += 1;
        self.count(false)
    }

    fn count(&mut self, seal: bool) -> Accepted {
        self.updates += 1;
        let limits = self.start.limits;
        self.is_sealed |= seal || self.updates >= limits.updates || self.bytes >= limits.bytes;
        Accepted {
            term: self.term,
            position: self.position,
            bytes: self.start.bytes + self.bytes,
            sealed: self.is_sealed,
        }
    }

    /// Returns the start of the segment after this one, once it is sealed.
    pub fn next(&self) -> SegmentStart {
        SegmentStart {
            log: self.start.log.clone(),
            number: self.start.number + 1,
            term: self.term,
            position: self.position,
            bytes: self.start.bytes + self.bytes,
            limits: self.start.limits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(updates: u32, bytes: u64) -> Segment {
        let limits = Limits {
            updates,
            bytes,
            ..Limits::default()
        };
        Segment::new(SegmentStart::first("log", limits))
    }

    fn append(term: u64, position: u64, texts: &[&str]) -> Append {
        let piece = |text: &&str| Piece {
            text: (*text).to_owned(),
            is_last: true,
        };
        Append {
            term,
            position,
            pieces: texts.iter().map(piece).collect(),
            seal: false,
        }
    }

    #[test]
    fn segment_refuses_an_older_term_and_a_wrong_position() {
        let mut segment = segment(100, 1_000);
        assert_eq!(segment.take_term().term, 1);
        assert_eq!(segment.check_append(&append(1, 0, &["a", "b"])), Ok(()));
        assert_eq!(segment.append(&append(1, 0, &["a", "b"])).position, 2);
        let wrong = Refusal::WrongPosition { position: 2 };
        assert_eq!(segment.check_append(&append(1, 0, &["c"])), Err(wrong));
        assert_eq!(segment.check_append(&append(1, 3, &["c"])), Err(wrong));
        segment.take_term();
        let old = Refusal::OldTerm { term: 2 };
        assert_eq!(segment.check_append(&append(1, 2, &["c"])), Err(old));
        assert_eq!(segment.check_append(&append(3, 2, &["c"])), Err(old));
        assert_eq!(segment.check_append(&append(2, 2, &["c"])), Ok(()));
    }

    #[test]
    fn segment_is_sealed_by_updates_bytes_or_request() {
        let mut by_updates = segment(2, 1_000);
        assert!(!by_updates.take_term().sealed);
        assert!(by_updates.append(&append(1, 0, &["a"])).sealed);
        assert_eq!(by_updates.check_term(), Err(Refusal::Sealed));
        assert_eq!(
            by_updates.check_append(&append(1, 1, &["b"])),
            Err(Refusal::Sealed)
        );

        let mut by_bytes = segment(100, 4);
        assert!(!by_bytes.append(&append(0, 0, &["abc"])).sealed);
        assert!(by_bytes.append(&append(0, 1, &["d"])).sealed);

        let mut by_request = segment(100, 1_000);
        let seal = Append {
            seal: true,
            ..append(0, 0, &[])
        };
        assert!(by_request.append(&seal).sealed);
    }

    #[test]
    fn next_segment_continues_where_the_sealed_one_ended() {
        let mut first = segment(2, 1_000);
        first.take_term();
        first.append(&append(1, 0, &["abc", "d"]));
        let start = first.next();
        assert_eq!((start.number, start.term), (2, 1));
        assert_eq!((start.position, start.bytes), (2, 4));
        assert_eq!(start.log, "log");
        let mut second = Segment::new(start);
        assert_eq!(second.check_append(&append(1, 2, &["e"])), Ok(()));
        assert_eq!(second.append(&append(1, 2, &["e"])).bytes, 5);
    }

    #[test]
    fn refusal_survives_its_text() {
        let refusal = Refusal::OldTerm { term: 7 };
        let text = serde_json::to_string(&refusal).unwrap();
        assert_eq!(text, r#"{"old_term":{"term":7}}"#);
        assert_eq!(serde_json::from_str::<Refusal>(&text).unwrap(), refusal);
    }
}
