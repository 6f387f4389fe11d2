//! Tests that a snapshot recreates what decides in a ledger, and that copies start with it.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use proptest::prelude::*;

use super::damage::content;
use super::decided::{decide, event, every_kind};
use super::shared_log::{log, open, sample_copy};
use super::*;

fn snapshot(folder: &Path, max_bytes: usize) -> Vec<Changes> {
    let reader = Reader::open(folder).unwrap().unwrap();
    let series: Result<_, _> = reader.into_snapshot(max_bytes).collect();
    series.unwrap()
}

/// Fills a copy with these changes as the entries after `position`.
fn copy_of(series: &[Changes], position: u64) -> TempDir {
    let folder = TempDir::new().unwrap();
    let (copy, _) = LedgerCopy::start_over(folder.path(), &log(), position).unwrap();
    for (number, changes) in (position + 1..).zip(series) {
        // As the log carries it.
        let text = serde_json::to_string(changes).unwrap();
        let carried = serde_json::from_str(&text).unwrap();
        copy.commit_entry(number, carried).wait().unwrap();
    }
    copy.close().unwrap();
    folder
}

/// The tables of a ledger, and what of each a scheduler decides with. The test fails for a new table
/// or column: see whether [`Snapshot`] has to have it.
const TABLES: [(&str, usize, &str); 11] = [
    ("attempts", 12, "SELECT * FROM attempts WHERE ended_at IS NULL"),
    ("claims", 3, "SELECT * FROM claims"),
    ("days", 5, "SELECT * FROM days"),
    ("decisions", 8, ""),
    // The columns, in any order of the rows.
    (
        "issues",
        12,
        "SELECT id, title, state, present, paused, attempts, extra_attempts, tokens, usd_micro,
           machine_version, machine, in_use FROM issues",
    ),
    (
        "meta",
        2,
        "SELECT value FROM meta WHERE key = 'paused' AND value = '1'",
    ),
    (
        "outputs",
        10,
        "SELECT run, session, at, key, kind, summary, progress, is_keyed, detail FROM outputs
         WHERE run IN (SELECT id FROM runs WHERE phase <> 'over')",
    ),
    ("parked", 5, "SELECT * FROM parked"),
    ("runs", 7, "SELECT * FROM runs WHERE phase <> 'over'"),
    (
        "sessions",
        4,
        "SELECT sessions.* FROM sessions JOIN attempts USING (session) WHERE ended_at IS NULL",
    ),
    ("usage", 8, ""),
];

/// Returns the rows that decide.
fn rows(folder: &Path) -> BTreeSet<String> {
    let db = read::connect_to_read(&folder.join(DB)).unwrap();
    let mut found = BTreeSet::new();
    for (table, _, sql) in TABLES.iter().filter(|(.., sql)| !sql.is_empty()) {
        let mut statement = db.prepare(sql).unwrap();
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

#[test]
fn snapshot_knows_each_table_and_column() {
    let (folder, ledger) = empty();
    ledger.close().unwrap();
    let db = read::connect_to_read(&folder.path().join(DB)).unwrap();
    let found: Vec<(String, usize)> = db
        .prepare(
            "SELECT tables.name, (SELECT count(*) FROM pragma_table_info(tables.name))
             FROM sqlite_schema AS tables WHERE type = 'table' ORDER BY tables.name",
        )
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, usize::from(row.get::<_, u16>(1)?))))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let known = TABLES.map(|(table, columns, _)| (table.to_owned(), columns));
    assert_eq!(found, known);
}

#[test]
fn snapshot_has_every_issue_in_parts_of_the_size() {
    let (folder, ledger) = empty();
    let machines: Vec<_> = (0..50)
        .map(|number| machine(&format!("A-{number:02}"), 1, 0, &[]))
        .collect();
    let bytes = serde_json::to_string(&machines[0]).unwrap().len();
    for machine in &machines {
        ledger.commit(of_machine(machine.clone())).wait().unwrap();
    }
    let reader = Reader::open(folder.path()).unwrap().unwrap();
    assert_eq!(reader.machine_bytes().unwrap(), bytes as u64 * 50);
    assert_eq!(reader.stored().unwrap().machines.len(), 50);
    for (max_bytes, parts) in [(0, 50), (bytes, 50), (bytes * 7, 8), (bytes * 50, 1)] {
        let series = snapshot(folder.path(), max_bytes);
        assert_eq!(series.len(), 1 + parts);
        let found: Vec<_> = series.into_iter().flat_map(|changes| changes.machines).collect();
        assert_eq!(found, machines);
    }
}

#[test]
fn decisions_continue_after_the_first_part_of_a_snapshot() {
    let folder = TempDir::new().unwrap();
    let changes = sample_copy(folder.path());
    let series = snapshot(folder.path(), 0);
    assert_eq!(series[0].started, changes.started[2..]);
    // Its end comes before the other machines.
    let end = Changes {
        ended: vec![ended(3, 1)],
        ..of_machine(machine("A-1", 4, 31, &[]))
    };
    let issue: IssueId = "A-1".into();
    let tail = series[1..]
        .iter()
        .filter(|part| part.machines[0].issue().id != issue);
    let log: Vec<_> = [series[0].clone(), end.clone()]
        .into_iter()
        .chain(tail.cloned())
        .collect();
    let copied = copy_of(&log, 7);
    let (copy, ..) = open(folder.path());
    copy.commit_entry(2, end).wait().unwrap();
    copy.close().unwrap();
    assert_eq!(rows(copied.path()), rows(folder.path()));
}

#[test]
fn copy_that_lacks_entries_is_set_aside() {
    let folder = TempDir::new().unwrap();
    sample_copy(folder.path());
    let old = fs::read(folder.path().join(DB)).unwrap();
    let (copy, set_aside) = LedgerCopy::start_over(folder.path(), &log(), 10).unwrap();
    assert_eq!(fs::read(&set_aside[0]).unwrap(), old);
    assert!(
        set_aside[0]
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("vik.db.behind-")
    );
    for (position, is_next) in [(10, true), (12, false), (11, true)] {
        let answer = copy.commit_entry(position, pause(true)).wait();
        assert_eq!(answer.is_ok(), is_next, "{position}");
    }
    copy.close().unwrap();
    let (_, stored, position) = open(folder.path());
    assert_eq!((stored, position), (stored_of(&pause(true)), 11));
}

#[test]
fn copy_that_was_set_aside_is_removed_with_the_history_of_its_time() {
    let folder = TempDir::new().unwrap();
    sample_copy(folder.path());
    let start = Timestamp::now();
    let (copy, mut set_aside) = LedgerCopy::start_over(folder.path(), &log(), 10).unwrap();
    set_aside.push(format!("{}-wal", set_aside[0].display()).into());
    fs::write(&set_aside[1], "").unwrap();
    let kept = [DB, "vik.db.behind-x"].map(|name| folder.path().join(name));
    fs::write(&kept[1], "").unwrap();
    let has_old = |before| {
        let reader = Reader::open(folder.path()).unwrap().unwrap();
        reader.has_old_history(before).unwrap()
    };
    let before = start - SignedDuration::from_secs(1);
    assert!(!has_old(before));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let delete = |before| runtime.block_on(copy.delete_history(before, 10)).unwrap();
    delete(before);
    assert!(set_aside.iter().all(|path| path.exists()), "{set_aside:?}");
    let after = Timestamp::now() + SignedDuration::from_secs(1);
    assert!(has_old(after));
    delete(after);
    assert!(!set_aside.iter().any(|path| path.exists()), "{set_aside:?}");
    assert!(kept.iter().all(|path| path.exists()));
    assert!(!has_old(after));
}

#[test]
fn copy_without_entries_starts_over_without_a_trace() {
    for is_open in [false, true] {
        let folder = TempDir::new().unwrap();
        if is_open {
            open(folder.path()).0.close().unwrap();
        }
        let (copy, set_aside) = LedgerCopy::start_over(folder.path(), &log(), 3).unwrap();
        assert!(set_aside.is_empty());
        copy.commit_entry(4, pause(true)).wait().unwrap();
        copy.close().unwrap();
        assert_eq!(open(folder.path()).2, 4);
    }
}

#[test]
fn ledger_of_another_kind_does_not_start_over() {
    let own = TempDir::new().unwrap();
    sample(own.path());
    let copied = TempDir::new().unwrap();
    sample_copy(copied.path());
    let other = "another".parse().unwrap();
    for (folder, log) in [(&own, &log()), (&copied, &other)] {
        let before = content(folder.path());
        LedgerCopy::start_over(folder.path(), log, 3).unwrap_err();
        assert_eq!(content(folder.path()), before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever was decided, a copy that starts with a snapshot decides as the ledger does, also
    /// after further decisions.
    #[test]
    fn copy_of_a_snapshot_equals_the_ledger(
        events in prop::collection::vec(event(), 1..40),
        at in any::<prop::sample::Index>(),
        max_bytes in 0..5_000_usize,
    ) {
        let folder = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(folder.path()).unwrap();
        let entries = decide(&ledger, &events);
        ledger.close().unwrap();
        let before = TempDir::new().unwrap();
        let (ledger, _) = Ledger::open(before.path()).unwrap();
        let at = at.index(entries.len() + 1);
        for changes in &entries[..at] {
            ledger.commit(changes.clone()).wait().unwrap();
        }
        ledger.close().unwrap();
        let mut series = snapshot(before.path(), max_bytes);
        let copied = copy_of(&series, at as u64);
        prop_assert_eq!(rows(copied.path()), rows(before.path()));
        let (_, stored) = Ledger::open(before.path()).unwrap();
        prop_assert_eq!(open(copied.path()).1, stored);
        series.extend_from_slice(&entries[at..]);
        let copied = copy_of(&series, 0);
        prop_assert_eq!(rows(copied.path()), rows(folder.path()));
    }
}

#[test]
fn snapshot_of_every_kind_of_change_is_complete() {
    let folder = TempDir::new().unwrap();
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    decide(&ledger, &every_kind());
    ledger.close().unwrap();
    let copied = copy_of(&snapshot(folder.path(), 100), 5);
    assert_eq!(rows(copied.path()), rows(folder.path()));
    for table in ["claims", "issues", "days"] {
        assert!(
            rows(copied.path()).iter().any(|row| row.starts_with(table)),
            "{table}"
        );
    }
}
