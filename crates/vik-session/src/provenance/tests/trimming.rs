//! Tests that a trimmed trace stays verifiable, and that its chain continues.

use proptest::prelude::*;

use super::*;
use crate::provenance::chain::verify;

/// Returns the time of the record with this number.
fn at(number: usize) -> Timestamp {
    Timestamp::from_second(1_000_000 + 60 * number as i64).unwrap()
}

fn append(trace: &Trace, store: &Store, number: usize, since: u64) -> Record {
    let text = format!("{number}\n");
    let mut record = record(store, "1", vec![change(store, "a", None, Some(text.as_bytes()))]);
    record.timestamp = at(number);
    trace.append(&record, since).unwrap();
    record
}

fn trace_of(count: usize) -> (TempDir, Trace, Store) {
    let (folder, trace, store) = scene();
    for number in 0..count {
        append(&trace, &store, number, 0);
    }
    (folder, trace, store)
}

fn numbers(trace: &Trace) -> Vec<u64> {
    let lines = trace.read().unwrap();
    lines.iter().map(|line| line.record.vik().seq).collect()
}

fn files(trace: &Trace) -> (Vec<u8>, Vec<u8>) {
    let head = trace.file().with_file_name("head.json");
    (std::fs::read(trace.file()).unwrap(), std::fs::read(head).unwrap())
}

#[test]
fn old_records_are_removed_and_the_others_stay_verifiable() {
    let (_folder, trace, store) = trace_of(8);
    let (_, head) = files(&trace);
    assert!(!trace.has_expired(at(0)).unwrap());
    let trimmed = trace.trim(at(5)).unwrap();
    assert!(trimmed.records == 5 && trimmed.bytes > 0);
    assert_eq!(numbers(&trace), [6, 7, 8]);
    assert_eq!(files(&trace).1, head, "the head stays the same");
    let found = trace.verify().unwrap();
    assert_eq!((found.records, found.removed, found.broken), (3, 5, None));
    assert_eq!(trace.removed().unwrap(), 5);
    append(&trace, &store, 8, trace.end().unwrap());
    assert_eq!(trace.trim(at(7)).unwrap().records, 2);
    let found = trace.verify().unwrap();
    assert_eq!((found.records, found.removed, found.broken), (2, 7, None));
}

#[test]
fn few_old_records_stay_and_so_does_the_last_one() {
    let (_folder, trace, _) = trace_of(10);
    assert_eq!(
        trace.trim(at(2)).unwrap(),
        Default::default(),
        "less than a quarter"
    );
    assert_eq!(trace.trim(at(100)).unwrap().records, 9);
    assert_eq!(numbers(&trace), [10]);
    assert_eq!(trace.trim(at(100)).unwrap(), Default::default());
    let (_folder, trace, _) = scene();
    assert_eq!(
        trace.trim(at(100)).unwrap(),
        Default::default(),
        "there is no trace"
    );
}

/// The start of an attempt from before the removal still finds the attempt's own record.
#[test]
fn repeated_append_after_a_removal_adds_no_record() {
    let (_folder, trace, store) = trace_of(4);
    let since = [0, trace.end().unwrap()];
    let own = append(&trace, &store, 4, since[1]);
    trace.trim(at(3)).unwrap();
    for since in since {
        assert_eq!(trace.append(&own, since).unwrap(), 5);
        assert_eq!(numbers(&trace), [4, 5]);
    }
    // A death between the record and its head, and one within the record.
    let (text, head) = files(&trace);
    let next = append(&trace, &store, 5, since[1]);
    std::fs::write(trace.file().with_file_name("head.json"), &head).unwrap();
    assert_eq!(trace.append(&next, since[1]).unwrap(), 6);
    std::fs::write(trace.file(), [&text[..], &text[..50]].concat()).unwrap();
    std::fs::write(trace.file().with_file_name("head.json"), &head).unwrap();
    assert!(trace.verify().unwrap().cut_off);
    append(&trace, &store, 6, since[1]);
    let found = trace.verify().unwrap();
    assert_eq!((found.records, found.removed, found.broken), (3, 3, None));
}

#[test]
fn damage_stops_a_removal() {
    let (_folder, trace, _) = trace_of(8);
    let (text, _) = files(&trace);
    let mut damaged = text.clone();
    let third = text
        .split_inclusive(|byte| *byte == b'\n')
        .take(2)
        .map(<[u8]>::len)
        .sum::<usize>();
    damaged[third + 20] ^= 1;
    std::fs::write(trace.file(), &damaged).unwrap();
    trace.trim(at(7)).unwrap();
    assert!(trace.verify().unwrap().broken.is_some(), "the evidence stays");
}

/// A death before the rename leaves a file that the next removal replaces. An error changes nothing.
#[test]
fn interrupted_removal_changes_nothing_and_is_repeated() {
    let (_folder, trace, _) = trace_of(4);
    let before = files(&trace);
    let draft = trace.file().with_extension("new");
    std::fs::create_dir(&draft).unwrap();
    assert!(trace.trim(at(3)).is_err());
    assert_eq!(files(&trace), before);
    std::fs::remove_dir(&draft).unwrap();
    std::fs::write(&draft, "half").unwrap();
    assert_eq!(trace.verify().unwrap().broken, None);
    assert_eq!(trace.trim(at(3)).unwrap().records, 3);
    assert!(!draft.exists());
}

#[test]
fn blame_after_a_removal_claims_nothing_it_does_not_know() {
    use crate::provenance::blame::{Author, Blame, blame};
    let (_folder, trace, store) = trace_of(4);
    trace.trim(at(3)).unwrap();
    let records: Vec<_> = trace
        .read()
        .unwrap()
        .into_iter()
        .map(|line| line.record)
        .collect();
    let path = RelPath::new("other");
    for (is_trimmed, author) in [(false, Author::Outside), (true, Author::Unknown)] {
        let found = blame(&records, is_trimmed, &path, b"1\n", &store);
        assert_eq!(found, Blame::Lines(vec![author]));
        assert_eq!(
            blame(&records, is_trimmed, &path, b"\0", &store),
            Blame::Whole(author)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any flipped bit and any missing line of a trimmed trace is found, also in its first line.
    #[test]
    fn damage_of_a_trimmed_trace_is_found(
        count in 2usize..6, cut in 1usize..5, place in any::<usize>(), bit in 0u8..8, line in any::<usize>(),
    ) {
        let (_folder, trace, _) = trace_of(count);
        trace.trim(at(cut.min(count - 1))).unwrap();
        let (text, head) = files(&trace);
        prop_assert_eq!(verify(&text, &head).broken, None);
        let mut flipped = text.clone();
        let place = place % text.len();
        flipped[place] ^= 1 << bit;
        let found = verify(&flipped, &head);
        // Without its newline, the last record looks like an interrupted append that its head covers.
        prop_assert!(found.broken.is_some(), "{place}");
        let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let line = line % lines.len();
        let shorter = [&lines[..line].concat()[..], &lines[line + 1..].concat()].concat();
        prop_assert!(verify(&shorter, &head).broken.is_some(), "line {line}");
    }
}
