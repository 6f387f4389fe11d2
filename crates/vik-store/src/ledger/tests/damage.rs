//! Tests that a damaged ledger is refused before any effect, and stays unchanged.

use super::*;

/// Returns the contents of the folder without the lock and the index, which are irrelevant here.
pub(super) fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != LOCK && name != "vik.db-shm")
        .map(|name| (name.clone(), fs::read(folder.join(&name)).unwrap()))
        .filter(|(name, content)| name != WAL || !content.is_empty())
        .collect();
    files.sort();
    files
}

#[test]
fn damage_is_reported_with_a_hint() {
    let damages: &[fn(&Path)] = &[
        |db| fs::write(db, "").unwrap(),
        |db| fs::write(db, "this is no database at all, but some text. ".repeat(500)).unwrap(),
        |db| fs::remove_file(db).unwrap(),
        |db| {
            let mut bytes = fs::read(db).unwrap();
            bytes.truncate(bytes.len() / 2);
            fs::write(db, bytes).unwrap();
        },
        |db| {
            let mut bytes = fs::read(db).unwrap();
            let half = bytes.len() / 2;
            bytes[4096 * 2..half].fill(0xa5);
            fs::write(db, bytes).unwrap();
        },
        |db| {
            let db = Connection::open(db).unwrap();
            db.execute("UPDATE issues SET machine = '{}' WHERE id = 'A-2'", [])
                .unwrap();
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        let folder = TempDir::new().unwrap();
        sample(folder.path());
        damage(&folder.path().join(DB));
        let before = content(folder.path());
        let error = refused(folder.path());
        assert!(error.is_damage(), "{number}: {error:?}");
        assert!(error.hint().unwrap().contains("doctor --repair"));
        assert!(matches!(check(folder.path()), Health::Bad(error) if error.is_damage()));
        assert_eq!(content(folder.path()), before, "{number}");
    }
}

#[test]
fn truncated_wal_is_behind_the_acknowledged_commits() {
    let (folder, ledger) = empty();
    for number in 1..=20 {
        ledger
            .commit(of_machine(machine("A-1", number, 0, &[])))
            .wait()
            .unwrap();
    }
    let whole = fs::read(folder.path().join(WAL)).unwrap();
    let (mut behind, mut torn) = (0, Vec::new());
    for cut in (0..whole.len()).step_by(1999) {
        let copied = TempDir::new().unwrap();
        copy(folder.path(), copied.path(), &[DB, LOCK]);
        fs::write(copied.path().join(WAL), &whole[..cut]).unwrap();
        let error = refused(copied.path());
        assert!(
            matches!(error, LedgerError::Behind { expected: 20, .. }),
            "{error:?}"
        );
        behind += 1;
        // Without the number of the acknowledged commit, the files look like the result of a power
        // failure: a whole number of commits.
        fs::remove_file(copied.path().join(LOCK)).unwrap();
        let (ledger, _) = Ledger::open(copied.path()).unwrap();
        torn.push(ledger.recall(vec!["A-1".into()]).wait().unwrap());
    }
    assert!(behind > 20, "{behind}");
    assert!(
        torn.iter()
            .any(|machines| *machines == [machine("A-1", 10, 0, &[])])
    );
    for machines in torn {
        let number = machines.first().map_or(0, |_| {
            (1..=20)
                .find(|&number| machines == [machine("A-1", number, 0, &[])])
                .unwrap()
        });
        assert!(number < 20);
    }
}

#[test]
fn older_copy_is_behind_the_acknowledged_commits() {
    let folder = TempDir::new().unwrap();
    sample(folder.path());
    let backup = fs::read(folder.path().join(DB)).unwrap();
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    ledger.commit(pause(false)).wait().unwrap();
    ledger.close().unwrap();
    fs::write(folder.path().join(DB), backup).unwrap();
    assert!(matches!(
        refused(folder.path()),
        LedgerError::Behind {
            found: 1,
            expected: 2,
            ..
        }
    ));
}

#[test]
fn newer_schema_and_foreign_database_are_refused_unchanged() {
    for (pragma, is_newer) in [("user_version = 99", true), ("application_id = 7", false)] {
        let folder = TempDir::new().unwrap();
        sample(folder.path());
        // The log contains changes that are not in the database yet.
        let db = Connection::open(folder.path().join(DB)).unwrap();
        db.execute_batch(&format!("PRAGMA wal_autocheckpoint = 0; PRAGMA {pragma};"))
            .unwrap();
        let copied = TempDir::new().unwrap();
        copy(folder.path(), copied.path(), &[DB, WAL, LOCK]);
        let before = content(copied.path());
        assert_eq!(before.len(), 2);
        let error = refused(copied.path());
        assert_eq!(
            matches!(error, LedgerError::Newer { found: 99, .. }),
            is_newer,
            "{error:?}"
        );
        assert_eq!(
            matches!(error, LedgerError::Foreign { .. }),
            !is_newer,
            "{error:?}"
        );
        assert!(!error.is_damage());
        assert_eq!(content(copied.path()), before);
    }
}
