//! Tests of `blame`: the text of each line names its author, which is compared with the result.

use proptest::prelude::*;

use super::*;
use crate::provenance::blame::{Author, Blame, blame};

/// An edit of a file.
#[derive(Clone, Debug)]
enum Edit {
    Insert(usize, usize),
    Remove(usize, usize),
    Rename,
}

#[derive(Clone, Debug)]
struct Turn {
    /// Whether an attempt made the edits; otherwise a person or a hook did.
    by_attempt: bool,
    edits: Vec<Edit>,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let edit = prop_oneof![
        4 => (0usize..10, 1usize..4).prop_map(|(at, count)| Edit::Insert(at, count)),
        3 => (0usize..10, 1usize..4).prop_map(|(at, count)| Edit::Remove(at, count)),
        1 => Just(Edit::Rename),
    ];
    (any::<bool>(), proptest::collection::vec(edit, 1..4))
        .prop_map(|(by_attempt, edits)| Turn { by_attempt, edits })
}

fn text(lines: &[String]) -> Vec<u8> {
    lines.concat().into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn lines_are_blamed_on_the_author_that_wrote_them(turns in proptest::collection::vec(any_turn(), 1..8)) {
        let (_folder, _, store) = scene();
        let mut lines: Vec<String> = (0..6).map(|number| format!("outside {number}\n")).collect();
        let mut name = "name 0".to_owned();
        let mut records: Vec<Record> = Vec::new();
        let mut fresh = 100;
        for turn in turns {
            let (before, old_name) = (text(&lines), name.clone());
            let author = if turn.by_attempt { format!("attempt{}", records.len()) } else { "outside".to_owned() };
            for edit in turn.edits {
                match edit {
                    Edit::Insert(at, count) => {
                        let at = at.min(lines.len());
                        let new: Vec<_> = (0..count).map(|_| { fresh += 1; format!("{author} {fresh}\n") }).collect();
                        lines.splice(at..at, new);
                    }
                    Edit::Remove(at, count) => {
                        let at = at.min(lines.len());
                        lines.drain(at..(at + count).min(lines.len()));
                    }
                    // Renames by a person are unknown to Vik, so only those of an attempt are
                    // tested.
                    Edit::Rename if turn.by_attempt => {
                        fresh += 1;
                        name = format!("name {fresh}");
                    }
                    Edit::Rename => {}
                }
            }
            let after = text(&lines);
            if turn.by_attempt && (after != before || name != old_name) {
                let made = change(&store, &name, Some((&old_name, &before)), Some(&after));
                records.push(record(&store, "1", vec![made]));
            }
        }
        let blamed = blame(&records, false, &RelPath::new(name.as_str()), &text(&lines), &store);
        let expected = lines.iter().map(|line| {
            let author = line.split(' ').next().unwrap();
            author.strip_prefix("attempt").map_or(Author::Outside, |at| Author::Attempt(at.parse().unwrap()))
        });
        prop_assert_eq!(blamed, Blame::Lines(expected.collect()));
    }
}

#[test]
fn restored_file_has_its_former_authors() {
    let (_folder, _, store) = scene();
    let path = RelPath::new("a");
    let first = record(&store, "1", vec![change(&store, "a", None, Some(b"1\n2\n"))]);
    let second = record(
        &store,
        "1",
        vec![change(&store, "a", Some(("a", b"1\n2\n")), Some(b"3\n"))],
    );
    let both = [first, second];
    let attempts = |at| Blame::Lines(vec![Author::Attempt(at); if at == 0 { 2 } else { 1 }]);
    assert_eq!(blame(&both, false, &path, b"3\n", &store), attempts(1));
    assert_eq!(blame(&both, false, &path, b"1\n2\n", &store), attempts(0));
}

#[test]
fn binary_file_is_blamed_as_a_whole() {
    let (_folder, _, store) = scene();
    let path = RelPath::new("a");
    let records = [record(&store, "1", vec![change(&store, "a", None, Some(b"\0"))])];
    assert_eq!(
        blame(&records, false, &path, b"\0", &store),
        Blame::Whole(Author::Attempt(0))
    );
    assert_eq!(
        blame(&records, false, &path, b"\0x", &store),
        Blame::Whole(Author::Outside)
    );
    assert_eq!(
        blame(&[], false, &path, b"1\n", &store),
        Blame::Lines(vec![Author::Outside])
    );
}

#[test]
fn lines_with_removed_content_have_unknown_authors() {
    let (_folder, _, store) = scene();
    let path = RelPath::new("a");
    let records = [
        record(&store, "1", vec![change(&store, "a", None, Some(b"1\n2\n"))]),
        record(
            &store,
            "1",
            vec![change(
                &store,
                "a",
                Some(("a", b"1\n2\n3\n")),
                Some(b"1\n2\n3\n4\n"),
            )],
        ),
    ];
    let removed = hash_of(b"1\n2\n3\n");
    store.retain(|hash| hash != removed).unwrap();
    use Author::*;
    let expected = vec![Unknown, Unknown, Unknown, Attempt(1)];
    assert_eq!(
        blame(&records, false, &path, b"1\n2\n3\n4\n", &store),
        Blame::Lines(expected)
    );
}
