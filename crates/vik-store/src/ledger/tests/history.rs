//! Tests that old attempts are deleted, and that no counter is lost with them.

use super::*;

/// Ends all attempts of [`sample`] and all runs but the parked one. The charge of a last attempt has
/// this source.
pub(super) fn finished(folder: &Path, source: CostSource) -> Ledger {
    sample(folder);
    let (ledger, _) = Ledger::open(folder).unwrap();
    let last = EndedAttempt {
        source,
        ..ended(4, 5)
    };
    let changes = Changes {
        machines: vec![machine("A-1", 3, 35, &[])],
        started: vec![started("A-1", "plan", 4, 4)],
        ended: vec![ended(3, 0), last],
        ..Changes::default()
    };
    ledger.commit(changes).wait().unwrap();
    ledger
}

pub(super) fn delete(ledger: &Ledger, before: i64, limit: u32) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime
        .block_on(ledger.delete_history(at(before), limit))
        .unwrap()
}

fn sessions(folder: &Path) -> Vec<AttemptId> {
    let reader = Reader::open(folder).unwrap().unwrap();
    let mut ids: Vec<_> = reader
        .attempts(None, 10)
        .unwrap()
        .iter()
        .map(|attempt| attempt.started.attempt_id)
        .collect();
    ids.sort();
    ids
}

#[test]
fn old_attempts_are_deleted_and_counters_stay() {
    let folder = TempDir::new().unwrap();
    let ledger = finished(folder.path(), CostSource::Estimate);
    let before = Reader::open(folder.path()).unwrap().unwrap().stored().unwrap();
    let has_old = |second| {
        let reader = Reader::open(folder.path()).unwrap().unwrap();
        reader.has_old_history(at(second)).unwrap()
    };
    assert!(!has_old(2) && has_old(3));
    assert_eq!(delete(&ledger, 2, 10), 0, "none is that old");
    assert_eq!(delete(&ledger, 100, 1), 1, "the oldest one first");
    assert_eq!(
        sessions(folder.path()),
        [session_id(2), session_id(3), session_id(4)]
    );
    assert_eq!(delete(&ledger, 100, 10), 1);
    assert_eq!(delete(&ledger, 100, 10), 0);
    // The run of one is parked, and the charge of another one is an estimate.
    assert_eq!(sessions(folder.path()), [session_id(2), session_id(4)]);
    let reader = Reader::open(folder.path()).unwrap().unwrap();
    assert_eq!(
        reader.stored().unwrap(),
        before,
        "a daemon starts from the same state"
    );
    let runs: Vec<_> = reader
        .runs(&RunFilter::default(), 10)
        .unwrap()
        .iter()
        .map(|run| run.id)
        .collect();
    assert_eq!(runs, [run_id(4), run_id(2)]);
    assert!(!has_old(100));
    ledger.close().unwrap();
    let (_, stored) = Ledger::open(folder.path()).unwrap();
    assert_eq!(stored, before);
}

#[test]
fn running_attempt_is_not_deleted() {
    let folder = TempDir::new().unwrap();
    sample(folder.path());
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    // The first attempt ended, but its run settles; the third one runs.
    assert_eq!(delete(&ledger, 1_000_000, 10), 0);
    assert_eq!(sessions(folder.path()).len(), 3);
}

/// A failure changes nothing, and decisions are still stored.
#[test]
fn failed_deletion_does_not_end_the_ledger() {
    let folder = TempDir::new().unwrap();
    drop(finished(folder.path(), CostSource::Estimate));
    let options = Options {
        lock_timeout: Duration::from_millis(20),
        ..Options::default()
    };
    let (ledger, _) = Ledger::open_with(folder.path(), &options).unwrap();
    let other = Connection::open(folder.path().join(DB)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let deleted = runtime.block_on(ledger.delete_history(at(100), 10));
    assert!(matches!(deleted, Err(LedgerError::Busy { .. })), "{deleted:?}");
    other.execute_batch("ROLLBACK").unwrap();
    ledger.commit(pause(false)).wait().unwrap();
    assert_eq!(delete(&ledger, 100, 10), 2);
}
