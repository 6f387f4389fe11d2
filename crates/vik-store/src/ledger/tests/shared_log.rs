//! Tests that a copy of a shared log contains its entries: each one once, in their order, and
//! nothing else.

use proptest::prelude::*;

use super::decided::{decide, event, every_kind};
use super::*;

pub(super) fn log() -> LogId {
    "01993c00-0000-7000-8000-000000000001".parse().unwrap()
}

pub(super) fn open(folder: &Path) -> (LedgerCopy, Stored, u64) {
    LedgerCopy::open(folder, &log()).unwrap()
}

/// Creates a copy that contains the data of [`sample`] as its only entry.
pub(super) fn sample_copy(folder: &Path) -> Changes {
    let other = TempDir::new().unwrap();
    let changes = sample(other.path());
    let (copy, ..) = open(folder);
    copy.commit_entry(1, changes.clone()).wait().unwrap();
    copy.close().unwrap();
    changes
}

/// Returns a change as the log carries it.
fn carried(changes: &Changes) -> Changes {
    let text = serde_json::to_string(changes).unwrap();
    let read: Changes = serde_json::from_str(&text).unwrap();
    assert_eq!(&read, changes);
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    read
}

/// Returns all rows, except for those about the file itself.
fn rows(folder: &Path) -> Vec<String> {
    let db = read::connect_to_read(&folder.join(DB)).unwrap();
    let tables: Vec<String> = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY 1")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut found = Vec::new();
    for table in tables {
        let only = match &*table {
            "meta" => "WHERE key NOT IN ('commits', 'opened', 'log', 'log_position')",
            _ => "",
        };
        let mut statement = db
            .prepare(&format!("SELECT * FROM {table} {only} ORDER BY 1"))
            .unwrap();
        let columns = statement.column_count();
        let values = |row: &rusqlite::Row<'_>| {
            let values = (0..columns).map(|at| Ok(format!("{:?}", row.get_ref(at)?)));
            Ok(format!(
                "{table}: {:?}",
                values.collect::<rusqlite::Result<Vec<_>>>()?
            ))
        };
        let rows = statement.query_map([], values).unwrap();
        found.extend(rows.map(Result::unwrap));
    }
    found
}

fn commit(copy: &LedgerCopy, position: u64, changes: Changes) -> Result<(), Arc<LedgerError>> {
    copy.commit_entry(position, changes)
        .wait()
        .map_err(|error| error.cause)
}

#[test]
fn entries_are_committed_once_and_in_order() {
    let folder = TempDir::new().unwrap();
    let (copy, stored, position) = open(folder.path());
    assert_eq!((stored, position), (Stored::default(), 0));
    let of = |number: u64| Changes {
        machines: vec![machine("A-1", u32::try_from(number).unwrap(), 0, &[])],
        decisions: vec![decision(Some("A-1"), i64::try_from(number).unwrap())],
        ..Changes::default()
    };
    let other = || of_machine(machine("other", 1, 0, &[]));
    let deliveries = [
        (1, of(1), Ok(1)),
        // Entries that are there already, whatever they contain.
        (1, other(), Ok(1)),
        (0, other(), Ok(1)),
        (3, other(), Err(2)),
        (u64::MAX, other(), Err(2)),
        (2, of(2), Ok(2)),
        // An entry without changes counts too.
        (3, Changes::default(), Ok(3)),
        (2, other(), Ok(3)),
        (3, other(), Ok(3)),
        (5, other(), Err(4)),
    ];
    let position_on_disk = || {
        let db = read::connect_to_read(&folder.path().join(DB)).unwrap();
        let found = copy::log_and_position(&db, Path::new(DB)).unwrap();
        found.unwrap().1
    };
    for (position, changes, expected) in deliveries {
        let result = commit(&copy, position, changes);
        match (&result, expected) {
            (Ok(()), Ok(applied)) => assert_eq!(position_on_disk(), applied),
            (Err(error), Err(expected)) => {
                assert!(
                    matches!(**error, LedgerError::Gap { next, position: found, .. } if (next, found) == (expected, position)),
                    "{error:?}"
                );
                assert!(!error.is_damage() && error.hint().is_some());
            }
            _ => panic!("entry {position}: {result:?}"),
        }
    }
    copy.close().unwrap();
    let (copy, _, position) = open(folder.path());
    assert_eq!(position, 3);
    commit(&copy, 2, other()).unwrap();
    commit(&copy, 4, of(4)).unwrap();
    let all = vec!["A-1".into(), "other".into()];
    assert_eq!(copy.recall(all).wait().unwrap(), of(4).machines);
    let reader = Reader::open(folder.path()).unwrap().unwrap();
    let decisions = reader.decisions(None, 10).unwrap();
    assert_eq!(decisions, [4, 2, 1].map(|number| decision(Some("A-1"), number)));
}

/// Entries that wait together are stored together, and each has a result of its own.
#[test]
fn queued_entries_are_committed_once_and_in_order() {
    let folder = TempDir::new().unwrap();
    let (copy, ..) = open(folder.path());
    let of = |number: u64| of_machine(machine("A-1", u32::try_from(number).unwrap(), 0, &[]));
    let positions = (1..=1000_u64).flat_map(|next| [next, next + 1000, next / 2, next]);
    let answers: Vec<_> = positions
        .map(|position| (position, copy.commit_entry(position, of(position))))
        .collect();
    for (number, (position, answer)) in answers.into_iter().enumerate() {
        let result = answer.wait();
        assert_eq!(result.is_err(), number % 4 == 1, "entry {position}: {result:?}");
    }
    copy.close().unwrap();
    let (copy, _, position) = open(folder.path());
    assert_eq!(position, 1000);
    assert_eq!(copy.recall(vec!["A-1".into()]).wait().unwrap(), of(1000).machines);
    let Health::Good { commits, .. } = check(folder.path()) else {
        panic!("not good")
    };
    assert!(commits < 1000, "{commits} commits for 1000 entries");
}

#[test]
fn changes_keep_every_byte_in_the_log() {
    let folder = TempDir::new().unwrap();
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    let decided = decide(&ledger, &every_kind());
    let text: String = decided
        .iter()
        .map(|changes| serde_json::to_string(&carried(changes)).unwrap())
        .collect();
    for part in [
        "\"asking\":{",
        "\"active\":{",
        "\"settling\":{",
        "\"parked\":{",
        "\"backing_off\":{",
        "\"awaiting\":{",
        "\"handing_over\":{",
        "\"hand_over\":{",
        "\"taken_over\":{",
        "\"handed_back\":{",
        "\"messages\":[{",
        "\"answers\":[{",
        "\"granted\":{",
        "\"internal_in_a_row\":{",
        "\"runs_over\":[{",
        "\"ended\":[{",
        "\"days\":[[",
        "\"paused\":true",
        "\"paused\":false",
    ] {
        assert!(text.contains(part), "no change has {part}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Delivery {
    Next,
    /// An entry that was delivered this number of entries ago.
    Repeated(u64),
    /// An entry after a gap of this number of entries.
    After(u64),
    Reopen,
    /// The files that a crash would leave are opened, and the test continues with them.
    Crash,
}

fn delivery() -> impl Strategy<Value = Delivery> {
    prop_oneof![
        12 => Just(Delivery::Next),
        2 => (0..5_u64).prop_map(Delivery::Repeated),
        2 => (1..5_u64).prop_map(Delivery::After),
        1 => Just(Delivery::Reopen),
        1 => Just(Delivery::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever a copy is sent and whenever it stops, it ends up equal to the ledger that committed
    /// the same decisions itself, without a detour through JSON.
    #[test]
    fn copy_equals_the_ledger_of_the_decisions(
        events in prop::collection::vec(event(), 1..40),
        deliveries in prop::collection::vec(delivery(), 1..60),
    ) {
        let direct = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(direct.path()).unwrap();
        let entries = decide(&ledger, &events);
        ledger.close().unwrap();
        let entry = |position: u64| {
            let found = entries.get(usize::try_from(position).unwrap().wrapping_sub(1));
            found.map(carried).unwrap_or_default()
        };
        let last = entries.len() as u64;
        let mut folder = TempDir::new().unwrap();
        let (mut copy, _, mut applied) = open(folder.path());
        let remaining = entries.iter().map(|_| Delivery::Next);
        for delivery in deliveries.into_iter().chain(remaining) {
            match delivery {
                Delivery::Next if applied == last => {}
                Delivery::Next => {
                    applied += 1;
                    prop_assert!(commit(&copy, applied, entry(applied)).is_ok());
                }
                Delivery::Repeated(back) => {
                    let position = applied.saturating_sub(back);
                    prop_assert!(commit(&copy, position, entry(position)).is_ok());
                }
                Delivery::After(gap) => {
                    let position = applied + 1 + gap;
                    prop_assert!(commit(&copy, position, entry(position)).is_err());
                }
                Delivery::Reopen | Delivery::Crash => {
                    if matches!(delivery, Delivery::Reopen) {
                        copy.close().unwrap();
                    } else {
                        let copied = TempDir::new().unwrap();
                        super::copy(folder.path(), copied.path(), &[DB, WAL, LOCK]);
                        folder = copied;
                    }
                    let position;
                    (copy, _, position) = open(folder.path());
                    prop_assert_eq!(position, applied);
                }
            }
        }
        copy.close().unwrap();
        // Both were opened, which deletes decisions that are too old.
        let (_, stored) = Ledger::open(direct.path()).unwrap();
        let (_, copied, position) = open(folder.path());
        prop_assert_eq!((copied, position), (stored, last));
        prop_assert_eq!(rows(folder.path()), rows(direct.path()));
    }
}
