//! Tests that `verify` finds any damage to the file, and that no death loses or doubles a record.

use proptest::prelude::*;

use super::*;
use crate::provenance::chain::{Head, verify};

fn head_file(trace: &Trace) -> PathBuf {
    trace.file().with_file_name("head.json")
}

/// Creates a trace with this number of records. Returns the file, and its head after each record.
fn trace_of(count: usize) -> (TempDir, Trace, Vec<u8>, Vec<Vec<u8>>) {
    let (folder, trace, store) = scene();
    let mut heads = vec![Vec::new()];
    for number in 0..count {
        let text = format!("{number}\n");
        let files = vec![change(&store, "a", None, Some(text.as_bytes()))];
        let seq = trace.append(&record(&store, "1", files), 0).unwrap();
        assert_eq!(seq, number as u64 + 1);
        heads.push(std::fs::read(head_file(&trace)).unwrap());
    }
    let text = std::fs::read(trace.file()).unwrap_or_default();
    (folder, trace, text, heads)
}

#[test]
fn undamaged_trace_passes_verification() {
    for count in 0..3 {
        let (_folder, trace, text, heads) = trace_of(count);
        let found = trace.verify().unwrap();
        assert_eq!(
            (found.records, found.broken, found.cut_off),
            (count as u64, None, false)
        );
        // A death between the writes of a record and of its head: the next append handles it.
        if count > 0 {
            let found = verify(&text, &heads[count - 1]);
            assert_eq!((found.records, found.broken), (count as u64, None));
        }
    }
    let (_folder, _, text, heads) = trace_of(3);
    let found = verify(&text, &heads[1]);
    assert_eq!(
        found.broken.map(|broken| broken.line),
        Some(2),
        "a head of long ago is no head"
    );
}

#[test]
fn attempt_appended_again_adds_no_second_record() {
    let (_folder, trace, store) = scene();
    let records: Vec<_> = ["1", "2"]
        .map(|issue| record(&store, issue, vec![change(&store, issue, None, Some(b"1\n"))]))
        .into();
    assert_eq!(trace.append(&records[0], 0).unwrap(), 1);
    let (text, head) = (
        std::fs::read(trace.file()).unwrap(),
        std::fs::read(head_file(&trace)).unwrap(),
    );
    assert_eq!(trace.append(&records[0], 0).unwrap(), 1);
    assert_eq!(std::fs::read(trace.file()).unwrap(), text);
    // The state after a death before the first head was written.
    std::fs::remove_file(head_file(&trace)).unwrap();
    assert_eq!(trace.append(&records[0], 0).unwrap(), 1);
    assert_eq!(std::fs::read(head_file(&trace)).unwrap(), head);
    std::fs::remove_file(head_file(&trace)).unwrap();
    assert_eq!(trace.append(&records[1], 0).unwrap(), 2);
    assert_eq!(trace.append(&records[0], 0).unwrap(), 1);
    assert_eq!(trace.verify().unwrap().broken, None);
    assert_eq!(trace.read().unwrap().len(), 2);
}

#[test]
fn append_clears_a_record_cut_by_a_crash() {
    let (_folder, trace, text, _) = trace_of(2);
    let torn = [&text[..], &text[..40]].concat();
    std::fs::write(trace.file(), &torn).unwrap();
    let found = trace.verify().unwrap();
    assert_eq!((found.broken, found.cut_off), (None, true));
    let (_other, _, store) = scene();
    trace
        .append(
            &record(&store, "3", vec![change(&store, "b", None, Some(b"1\n"))]),
            0,
        )
        .unwrap();
    let found = trace.verify().unwrap();
    assert_eq!((found.records, found.broken, found.cut_off), (3, None, false));
}

#[test]
fn damage_stays_detected_and_the_chain_continues() {
    let (_folder, trace, text, _) = trace_of(3);
    let first = text.iter().position(|byte| *byte == b'\n').unwrap();
    for damaged in [
        [&text[..first / 2], b"!", &text[first / 2 + 1..]].concat(),
        text[..text.len() - 2].to_vec(),
        text[..first].to_vec(),
        Vec::new(),
        [&text[..], b"junk\n"].concat(),
    ] {
        std::fs::write(trace.file(), &damaged).unwrap();
        let broken = trace.verify().unwrap().broken;
        assert!(broken.is_some());
        let (_other, _, store) = scene();
        let new = record(&store, "4", vec![change(&store, "b", None, Some(b"1\n"))]);
        let head = std::fs::read(head_file(&trace)).unwrap();
        assert_eq!(trace.append(&new, 0).unwrap(), 4);
        let now = std::fs::read(trace.file()).unwrap();
        assert!(now.starts_with(&damaged), "nothing is taken away");
        assert!(trace.verify().unwrap().broken.is_some());
        assert_eq!(
            trace.read().unwrap().last().unwrap().record.vik().session,
            new.vik().session
        );
        std::fs::write(head_file(&trace), head).unwrap();
    }
}

#[derive(Clone, Debug)]
enum Harm {
    Flip(usize, u8),
    FlipHead(usize, u8),
    Remove(usize),
    Swap(usize, usize),
    Double(usize),
    Cut(usize),
}

fn any_harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        4 => (any::<usize>(), 0u8..8).prop_map(|(at, bit)| Harm::Flip(at, bit)),
        1 => (any::<usize>(), 0u8..8).prop_map(|(at, bit)| Harm::FlipHead(at, bit)),
        1 => (0usize..4).prop_map(Harm::Remove),
        1 => (0usize..4, 0usize..4).prop_map(|(a, b)| Harm::Swap(a, b)),
        1 => (0usize..4).prop_map(Harm::Double),
        2 => any::<usize>().prop_map(Harm::Cut),
    ]
}

impl Harm {
    fn apply(&self, text: &[u8], head: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut text, mut head) = (text.to_vec(), head.to_vec());
        let mut lines: Vec<Vec<u8>> = text
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        match *self {
            Self::Flip(at, bit) => {
                let at = at % text.len();
                text[at] ^= 1 << bit;
            }
            Self::FlipHead(at, bit) => {
                let at = at % head.len();
                head[at] ^= 1 << bit;
            }
            Self::Cut(at) => text.truncate(at % text.len()),
            Self::Remove(at) => {
                lines.remove(at);
                text = lines.concat();
            }
            Self::Swap(a, b) => {
                lines.swap(a, b);
                text = lines.concat();
            }
            Self::Double(at) => {
                lines.insert(at, lines[at].clone());
                text = lines.concat();
            }
        }
        (text, head)
    }
}

#[test]
fn arbitrary_damage_is_detected() {
    let (_folder, _, text, heads) = trace_of(4);
    let head = heads.last().unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(3000));
    runner
        .run(&any_harm(), |harm| {
            let damaged = harm.apply(&text, head);
            prop_assume!((&damaged.0, &damaged.1) != (&text, head));
            prop_assert!(verify(&damaged.0, &damaged.1).broken.is_some());
            Ok(())
        })
        .unwrap();
}

#[test]
fn append_leaves_the_same_trace_wherever_it_starts_to_read() {
    let (_folder, trace, text, heads) = trace_of(4);
    let ends: Vec<u64> = [0]
        .into_iter()
        .chain(heads[1..].iter().map(|head| {
            let head: Head = serde_json::from_slice(head).unwrap();
            head.bytes
        }))
        .collect();
    assert_eq!(trace.end().unwrap(), ends[4]);
    let (_other, _, store) = scene();
    let new = record(&store, "4", vec![change(&store, "b", None, Some(b"1\n"))]);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(100));
    runner
        .run(&(prop::option::of(any_harm()), 1usize..=4), |(harm, start)| {
            let is_whole = harm.is_none();
            let (text, head) = harm.map_or((text.clone(), heads[4].clone()), |harm| {
                harm.apply(&text, &heads[4])
            });
            let appended = |since| {
                std::fs::write(trace.file(), &text).unwrap();
                std::fs::write(head_file(&trace), &head).unwrap();
                let seq = trace.append(&new, since).unwrap();
                // An attempt that is recovered finds its record.
                assert!(!is_whole || trace.append(&new, since).unwrap() == seq);
                (
                    seq,
                    std::fs::read(trace.file()).unwrap(),
                    std::fs::read(head_file(&trace)).unwrap(),
                )
            };
            prop_assert_eq!(appended(ends[start]), appended(0));
            Ok(())
        })
        .unwrap();
}

#[test]
fn flipped_bit_of_a_record_is_detected() {
    let (_folder, _, text, heads) = trace_of(1);
    for at in 0..text.len() {
        for bit in 0..8 {
            let mut text = text.clone();
            text[at] ^= 1 << bit;
            assert!(verify(&text, &heads[1]).broken.is_some(), "byte {at}, bit {bit}");
        }
    }
}

proptest! {
    #[test]
    fn verification_of_any_file_does_not_panic(text in proptest::collection::vec(any::<u8>(), 0..300), head in any::<bool>()) {
        let head = if head { br#"{"seq":1,"hash":"00"#.to_vec() } else { Vec::new() };
        let found = verify(&text, &head);
        prop_assert_eq!(found.records, 0);
    }
}

#[test]
fn head_with_an_extra_blank_is_broken() {
    let (_folder, trace, _, heads) = trace_of(1);
    let spaced = [b" ", &heads[1][..]].concat();
    std::fs::write(head_file(&trace), spaced).unwrap();
    assert!(trace.verify().unwrap().broken.is_some());
    let head: Head = serde_json::from_slice(&heads[1]).unwrap();
    assert_eq!(head.seq, 1);
}
