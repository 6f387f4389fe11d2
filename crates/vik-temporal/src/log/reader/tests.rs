use super::*;
use crate::log::pieces::{Piece, split};
use crate::log::segment::Limits;

fn start() -> SegmentStart {
    let limits = Limits {
        updates: 100,
        bytes: 1_000,
        ..Limits::default()
    };
    SegmentStart::first("log", limits)
}

/// A log in memory that records what a history would contain.
struct Log {
    segments: Vec<(Segment, Vec<Record>)>,
}

impl Log {
    fn new() -> Self {
        let mut log = Self { segments: Vec::new() };
        log.add_segment(start());
        log
    }

    fn add_segment(&mut self, start: SegmentStart) {
        let records = vec![Record::Start(start.clone())];
        self.segments.push((Segment::new(start), records));
    }

    fn take_term(&mut self) {
        let (segment, records) = self.segments.last_mut().unwrap();
        segment.take_term();
        records.push(Record::Term);
    }

    fn append(&mut self, pieces: Vec<Piece>, seal: bool) {
        let (segment, records) = self.segments.last_mut().unwrap();
        let append = Append {
            term: segment.term(),
            position: segment.position(),
            pieces,
            seal,
        };
        segment.check_append(&append).unwrap();
        segment.append(&append);
        records.push(Record::Append(append));
        if segment.is_sealed() {
            let next = segment.next();
            self.add_segment(next);
        }
    }

    fn entry(&mut self, text: &str) {
        self.append(split(text, 100), false);
    }

    fn read(&self, reader: &mut Reader) -> Result<Vec<String>, ReadError> {
        let mut texts = Vec::new();
        for (segment, records) in &self.segments {
            if segment.number() < reader.number() {
                continue;
            }
            for record in records {
                let entries = reader.apply(record.clone())?;
                texts.extend(entries.into_iter().map(|entry| entry.text));
            }
            if reader.is_at_end_of_segment() {
                reader.advance()?;
            }
        }
        Ok(texts)
    }
}

fn log_of_two_segments() -> Log {
    let mut log = Log::new();
    log.take_term();
    log.entry("a");
    log.append(split("b", 100), true);
    log.entry("c");
    log
}

#[test]
fn reader_reads_entries_across_segments() {
    let mut reader = Reader::new(None, 1);
    assert_eq!(log_of_two_segments().read(&mut reader).unwrap(), ["a", "b", "c"]);
    let cursor = reader.cursor.unwrap();
    assert_eq!((cursor.segment, cursor.position), (2, 3));
}

#[test]
fn reader_continues_after_its_cursor() {
    let log = log_of_two_segments();
    for (position, expected) in [(0, &["a", "b", "c"][..]), (1, &["b", "c"]), (2, &["c"])] {
        let cursor = Cursor {
            log: "log".to_owned(),
            segment: 1,
            position,
        };
        let mut reader = Reader::new(Some(cursor), 1);
        assert_eq!(log.read(&mut reader).unwrap(), expected);
    }
}

#[test]
fn reader_detects_a_gap() {
    let log = log_of_two_segments();
    let cursor = |position| Cursor {
        log: "log".to_owned(),
        segment: 1,
        position,
    };
    let mut behind = Reader::new(Some(cursor(1)), 1);
    behind.skip_to(2);
    let gap = ReadError::Gap { read: 1, starts: 2 };
    assert_eq!(log.read(&mut behind), Err(gap));
    let mut at_end = Reader::new(Some(cursor(2)), 1);
    at_end.skip_to(2);
    assert_eq!(log.read(&mut at_end).unwrap(), ["c"]);
    assert_eq!(log.read(&mut Reader::new(None, 2)).unwrap(), ["c"]);
}

#[test]
fn reader_detects_another_log_and_a_shorter_one() {
    let log = log_of_two_segments();
    let read = |log_id: &str, position| {
        let cursor = Cursor {
            log: log_id.to_owned(),
            segment: 1,
            position,
        };
        log.read(&mut Reader::new(Some(cursor), 1))
    };
    assert_eq!(read("other", 0), Err(ReadError::OtherLog));
    assert_eq!(read("log", 9), Err(ReadError::Ahead { read: 9, ends: 2 }));
}

#[test]
fn reader_discards_parts_of_a_hub_that_no_longer_leads() {
    let mut log = Log::new();
    log.take_term();
    let mut parts = split(&"x".repeat(250), 100);
    assert_eq!(parts.len(), 3);
    log.append(parts.drain(..2).collect(), false);
    log.take_term();
    log.entry("y");
    assert_eq!(log.read(&mut Reader::new(None, 1)).unwrap(), ["y"]);
}

#[test]
fn restarted_reader_repeats_no_entry_and_loses_no_part() {
    let mut log = Log::new();
    log.entry("a");
    let mut parts = split(&"x".repeat(250), 100);
    log.append(parts.drain(..2).collect(), true);
    log.append(parts, false);
    let mut reader = Reader::new(None, 1);
    for record in log.segments[0].1.clone() {
        reader.apply(record).unwrap();
    }
    reader.advance().unwrap();
    reader.apply(log.segments[1].1[0].clone()).unwrap();
    reader.restart();
    assert_eq!(log.read(&mut reader).unwrap(), ["x".repeat(250)]);
}

#[test]
fn reader_joins_parts_across_a_seal() {
    let mut log = Log::new();
    let mut parts = split(&"x".repeat(250), 100);
    log.entry("a");
    log.append(parts.drain(..2).collect(), true);
    log.append(parts, false);
    log.entry("b");
    let texts = log.read(&mut Reader::new(None, 1)).unwrap();
    assert_eq!(texts, ["a", &"x".repeat(250), "b"]);
    // The ledger of a reader that stopped before the last part has no entry of it.
    let cursor = Cursor {
        log: "log".to_owned(),
        segment: 1,
        position: 1,
    };
    let texts = log.read(&mut Reader::new(Some(cursor), 1)).unwrap();
    assert_eq!(texts, [&"x".repeat(250), "b"]);
}

#[test]
fn reader_refuses_a_history_that_breaks_the_rules() {
    let append = |position| {
        Record::Append(Append {
            term: 0,
            position,
            pieces: split("a", 100),
            seal: false,
        })
    };
    let mut reader = Reader::new(None, 1);
    assert!(matches!(reader.apply(append(0)), Err(ReadError::Damaged { .. })));
    reader.apply(Record::Start(start())).unwrap();
    assert!(matches!(reader.apply(append(1)), Err(ReadError::Damaged { .. })));
    assert!(matches!(
        reader.apply(Record::Start(start())),
        Err(ReadError::Damaged { .. })
    ));
    let mut other = Reader::new(None, 2);
    assert!(matches!(
        other.apply(Record::Start(start())),
        Err(ReadError::Damaged { .. })
    ));
}
