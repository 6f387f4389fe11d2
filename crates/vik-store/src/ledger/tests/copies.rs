//! Tests that the files of a copy of a shared log are never taken for anything else, and that
//! damage makes it start over.

use super::damage::content;
use super::shared_log::{log, open, sample_copy};
use super::*;

/// Opens the copy in a folder, and returns its position and the number of its issues in use.
fn position(folder: &Path) -> Result<(u64, usize), LedgerError> {
    let (_, stored, position) = LedgerCopy::open(folder, &log())?;
    Ok((position, stored.machines.len()))
}

/// Opens the ledger in a folder as one of some kind.
type Open = fn(&Path) -> Result<(), LedgerError>;

fn open_own(folder: &Path) -> Result<(), LedgerError> {
    Ledger::open(folder).map(drop)
}

fn open_copy(folder: &Path) -> Result<(), LedgerError> {
    LedgerCopy::open(folder, &log()).map(drop)
}

fn open_other_copy(folder: &Path) -> Result<(), LedgerError> {
    LedgerCopy::open(folder, &"another.log_2".parse().unwrap()).map(drop)
}

#[test]
fn log_id_is_a_short_text_without_special_characters() {
    let longest = "x".repeat(LogId::MAX_BYTES);
    for text in [
        "a",
        "another.log_2",
        "01993c00-0000-7000-8000-000000000001",
        &longest,
    ] {
        assert_eq!(text.parse::<LogId>().unwrap().as_str(), text);
    }
    for text in ["", " a", "a/b", "a\n", "ü", &format!("{longest}x")] {
        let error = text.parse::<LogId>().unwrap_err();
        assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
    }
}

/// Each kind of ledger is refused as another kind. Its files are not changed, not even the lock.
#[test]
fn ledger_of_another_kind_is_refused_unchanged() {
    let own = TempDir::new().unwrap();
    sample(own.path());
    let copied = TempDir::new().unwrap();
    sample_copy(copied.path());
    let cases: [(&TempDir, Open, &str); 3] = [
        (&own, open_copy, "decisions that are in no shared log"),
        (
            &copied,
            open_own,
            "is a copy of the shared log 01993c00-0000-7000-8000-000000000001",
        ),
        (&copied, open_other_copy, "not of another.log_2"),
    ];
    for (folder, open, message) in cases {
        // The log of SQLite has changes that are not in the database, as after a crash.
        let db = Connection::open(folder.path().join(DB)).unwrap();
        db.execute_batch(
            "PRAGMA wal_autocheckpoint = 0; UPDATE meta SET value = value + 1 WHERE key = 'commits'",
        )
        .unwrap();
        let crashed = TempDir::new().unwrap();
        copy(folder.path(), crashed.path(), &[DB, WAL, LOCK]);
        drop(db);
        let lock = fs::read(crashed.path().join(LOCK)).unwrap();
        let before = content(crashed.path());
        assert_eq!(before.len(), 2);
        let error = open(crashed.path()).unwrap_err();
        let text = error.to_string();
        let path = crashed.path().join(DB);
        assert!(
            text.contains(path.to_str().unwrap()) && text.contains(message),
            "{text}"
        );
        assert!(error.hint().is_some() && !error.is_damage());
        assert_eq!(content(crashed.path()), before);
        assert_eq!(fs::read(crashed.path().join(LOCK)).unwrap(), lock);
    }
}

#[test]
fn empty_ledger_becomes_a_copy() {
    let (folder, ledger) = empty();
    ledger.close().unwrap();
    assert_eq!(position(folder.path()).unwrap(), (0, 0));
    let error = open_own(folder.path()).unwrap_err();
    assert!(matches!(error, LedgerError::Shared { .. }), "{error:?}");
}

#[test]
fn copy_that_is_lost_or_older_starts_from_what_it_has() {
    let folder = TempDir::new().unwrap();
    let changes = sample_copy(folder.path());
    let backup = fs::read(folder.path().join(DB)).unwrap();
    let (copy, _, position_before) = open(folder.path());
    assert_eq!(position_before, 1);
    copy.commit_entry(2, pause(false)).wait().unwrap();
    copy.close().unwrap();
    fs::write(folder.path().join(DB), backup).unwrap();
    let (copy, stored, position_of_backup) = open(folder.path());
    assert_eq!((stored, position_of_backup), (stored_of(&changes), 1));
    copy.commit_entry(2, pause(false)).wait().unwrap();
    copy.close().unwrap();
    fs::remove_file(folder.path().join(DB)).unwrap();
    assert!(matches!(check(folder.path()), Health::Missing));
    assert_eq!(position(folder.path()).unwrap(), (0, 0));
}

/// A log of SQLite that is cut off anywhere loses entries, and their positions with them.
#[test]
fn truncated_wal_of_a_copy_leaves_a_position_that_agrees_with_the_content() {
    let folder = TempDir::new().unwrap();
    let (ledger, ..) = open(folder.path());
    for number in 1..=20 {
        let changes = of_machine(machine("A-1", number, 0, &[]));
        ledger.commit_entry(number.into(), changes).wait().unwrap();
    }
    let whole = fs::read(folder.path().join(WAL)).unwrap();
    let mut positions = Vec::new();
    for cut in (0..whole.len()).step_by(1999) {
        let copied = TempDir::new().unwrap();
        copy(folder.path(), copied.path(), &[DB, LOCK]);
        fs::write(copied.path().join(WAL), &whole[..cut]).unwrap();
        let (ledger, _, position) = open(copied.path());
        let machines = ledger.recall(vec!["A-1".into()]).wait().unwrap();
        let number = u32::try_from(position).unwrap();
        let expected = (number > 0).then(|| machine("A-1", number, 0, &[]));
        assert_eq!(machines, Vec::from_iter(expected));
        let next = of_machine(machine("A-1", number + 1, 0, &[]));
        ledger.commit_entry(position + 1, next).wait().unwrap();
        positions.push(position);
    }
    assert!(positions.is_sorted() && positions.contains(&10) && !positions.contains(&20));
}

#[test]
fn full_disk_keeps_the_position_before_the_failed_entry() {
    let folder = TempDir::new().unwrap();
    let options = Options {
        max_pages: Some(64),
        ..Options::default()
    };
    let (copy, ..) = LedgerCopy::open_with(folder.path(), &log(), &options).unwrap();
    copy.commit_entry(1, pause(true)).wait().unwrap();
    let mut big = Changes {
        decisions: vec![decision(None, 1)],
        ..pause(false)
    };
    big.decisions[0].detail = "x".repeat(1 << 20);
    // Nothing is reported as stored after the failure, not even what was stored before.
    for (position, changes) in [(2, big), (3, pause(true)), (1, pause(true))] {
        let error = copy.commit_entry(position, changes).wait().unwrap_err();
        assert!(matches!(*error.cause, LedgerError::Full { .. }), "{error:?}");
    }
    drop(copy);
    let (copy, stored, position) = open(folder.path());
    assert_eq!((position, stored.paused), (1, true));
    copy.commit_entry(2, pause(false)).wait().unwrap();
}

/// The position and the content of a copy must not come from different times.
#[test]
fn copy_without_a_position_is_damaged() {
    for change in [
        "DELETE FROM meta WHERE key = 'log_position'",
        "UPDATE meta SET value = '-1' WHERE key = 'log_position'",
    ] {
        let folder = TempDir::new().unwrap();
        sample_copy(folder.path());
        let db = Connection::open(folder.path().join(DB)).unwrap();
        db.execute_batch(change).unwrap();
        drop(db);
        for error in [
            position(folder.path()).unwrap_err(),
            open_own(folder.path()).unwrap_err(),
        ] {
            assert!(error.is_damage(), "{error:?}");
        }
        assert!(matches!(check(folder.path()), Health::Bad(error) if error.is_damage()));
        let sessions = TempDir::new().unwrap();
        assert_eq!(repair(folder.path(), sessions.path()).unwrap().log, Some(log()));
        assert_eq!(position(folder.path()).unwrap(), (0, 0));
    }
}

/// Any damage in the file: what a repair leaves is an empty copy of the same log, or it is refused
/// as a copy. Entries that may be incomplete are never taken for the log.
#[test]
fn repaired_copy_starts_over() {
    let folder = TempDir::new().unwrap();
    sample_copy(folder.path());
    let sessions = TempDir::new().unwrap();
    assert_eq!(
        repair(folder.path(), sessions.path()).unwrap(),
        Repaired::default()
    );
    let whole = fs::read(folder.path().join(DB)).unwrap();
    let mut empty_copies = 0;
    for page in 0..whole.len() / 4096 {
        let broken = TempDir::new().unwrap();
        let mut bytes = whole.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0x5a);
        fs::write(broken.path().join(DB), &bytes).unwrap();
        let repaired = repair(broken.path(), sessions.path()).unwrap();
        assert_eq!(fs::read(&repaired.moved[0]).unwrap(), bytes, "nothing is removed");
        let opened = position(broken.path());
        match &repaired.log {
            Some(found) => {
                assert_eq!((found, repaired.issues, repaired.attempts), (&log(), 0, 0));
                assert!(matches!(check(broken.path()), Health::Good { .. }));
                assert_eq!(opened.unwrap(), (0, 0));
                let error = open_own(broken.path()).unwrap_err();
                assert!(matches!(error, LedgerError::Shared { .. }), "{error:?}");
                empty_copies += 1;
            }
            None => assert!(
                matches!(opened, Err(LedgerError::OwnDecisions { .. })),
                "page {page}: {opened:?}"
            ),
        }
    }
    // Without the schema or the table `meta`, it cannot be recognized.
    assert!(empty_copies > whole.len() / 4096 * 3 / 4, "{empty_copies}");
}

/// A copy acknowledges nothing, so that a number in the lock is from something else.
#[test]
fn repaired_copy_is_not_behind_the_number_in_the_lock() {
    let folder = TempDir::new().unwrap();
    sample_copy(folder.path());
    fs::write(folder.path().join(LOCK), "00000000000000000050\n").unwrap();
    let error = position(folder.path()).unwrap_err();
    assert!(
        matches!(error, LedgerError::Behind { expected: 50, .. }),
        "{error:?}"
    );
    let sessions = TempDir::new().unwrap();
    assert_eq!(repair(folder.path(), sessions.path()).unwrap().log, Some(log()));
    assert_eq!(position(folder.path()).unwrap(), (0, 0));
}

/// Files that an earlier repair set aside are of the other kind.
#[test]
fn repair_does_not_mix_a_copy_with_decisions_of_its_own() {
    let aside = "vik.db.broken-20270101T000000.000Z";
    let own = TempDir::new().unwrap();
    sample(own.path());
    let copied = TempDir::new().unwrap();
    let (ledger, ..) = open(copied.path());
    for number in 1..=5 {
        let changes = of_machine(machine("copied", number, 0, &[run(9, "plan", 1, &settling())]));
        ledger.commit_entry(number.into(), changes).wait().unwrap();
    }
    ledger.close().unwrap();
    fs::copy(copied.path().join(DB), own.path().join(aside)).unwrap();
    let db = Connection::open(own.path().join(DB)).unwrap();
    db.execute("UPDATE issues SET machine = 'nothing' WHERE id = 'A-2'", [])
        .unwrap();
    drop(db);
    let sessions = TempDir::new().unwrap();
    let repaired = repair(own.path(), sessions.path()).unwrap();
    assert_eq!((repaired.issues, repaired.log), (2, None));
    let (_, stored) = Ledger::open(own.path()).unwrap();
    assert!(
        stored
            .machines
            .iter()
            .all(|machine| machine.issue().id.as_str() != "copied")
    );
}

#[test]
fn readers_of_a_copy_see_its_entries() {
    let folder = TempDir::new().unwrap();
    let changes = sample_copy(folder.path());
    let (copy, ..) = open(folder.path());
    let reader = Reader::open(folder.path()).unwrap().unwrap();
    assert_eq!(reader.stored().unwrap(), stored_of(&changes));
    assert_eq!(reader.attempts(None, 10).unwrap().len(), 3);
    assert_eq!(reader.runs(&RunFilter::default(), 10).unwrap().len(), 3);
    copy.commit_entry(2, pause(false)).wait().unwrap();
    assert!(!reader.is_paused().unwrap());
    assert!(matches!(check(folder.path()), Health::Good { .. }));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let deleted = runtime.block_on(copy.delete_history(at(1_000_000), 10));
    assert_eq!(deleted.unwrap(), 0, "the runs are settling, parked or active");
}

/// A copy is one only from schema 7 on. A version of Vik that knows no copies knows only schemas
/// before it.
#[test]
fn copy_of_a_newer_version_is_refused_unchanged() {
    let folder = TempDir::new().unwrap();
    sample_copy(folder.path());
    let db = Connection::open(folder.path().join(DB)).unwrap();
    let schema: i64 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert!(schema >= 7);
    db.execute_batch("PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    drop(db);
    let before = content(folder.path());
    let sessions = TempDir::new().unwrap();
    let refusals = [
        position(folder.path()).unwrap_err(),
        open_own(folder.path()).unwrap_err(),
        Reader::open(folder.path()).unwrap_err(),
        repair(folder.path(), sessions.path()).unwrap_err(),
    ];
    for error in refusals {
        assert!(matches!(error, LedgerError::Newer { found: 99, .. }), "{error:?}");
    }
    assert_eq!(content(folder.path()), before);
}
