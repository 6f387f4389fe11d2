//! The ledger of a machine that worked alone becomes the start of the log.

use std::path::Path;

use tempfile::TempDir;
use vik_core::changes::Changes;
use vik_store::Ledger;
use vik_store::ledger::Reader;
use vik_temporal::log::Limits;
use vik_temporal::shared_ledger::{
    CompactionLimits, FollowingLedger, ImportError, SharedLedgerError, import,
};

use crate::compaction::{ended, machine, started};
use crate::server::{HubWithLog, Server};

/// One machine in each entry.
const PART: usize = 1;

/// Returns the ledger of a machine that has finished an attempt, with so many issues.
fn ledger(issues: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = Ledger::open(folder.path()).unwrap();
    let changes = Changes {
        machines: (0..issues).map(|issue| machine(issue, 1, "text")).collect(),
        started: vec![started(0, 1)],
        paused: Some(true),
        ..Changes::default()
    };
    drop(ledger.commit(changes));
    let changes = Changes {
        ended: vec![ended(1)],
        ..Changes::default()
    };
    drop(ledger.commit(changes));
    ledger.close().unwrap();
    folder
}

/// Returns whether it is paused, and the machines of issues in use.
fn state(folder: &Path) -> (bool, usize) {
    let reader = Reader::open(folder).unwrap().unwrap();
    let stored = reader.stored().unwrap();
    (stored.paused, stored.machines.len())
}

async fn leading(server: &Server) -> HubWithLog {
    let mut hub = server.hub(Limits::default()).await;
    hub.hub.leadership.acquired().await;
    hub
}

async fn lead(hub: &HubWithLog, folder: &Path) {
    let leadership = hub.hub.leadership.clone();
    let ledger = FollowingLedger::open(hub.log.clone(), folder).await.unwrap();
    ledger
        .lead(leadership, CompactionLimits::default())
        .await
        .unwrap();
}

fn refusal(result: Result<(), SharedLedgerError>) -> ImportError {
    match result {
        Err(SharedLedgerError::Import(error)) => error,
        result => panic!("{result:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_of_one_machine_becomes_the_start_of_the_log_and_keeps_its_history() {
    let Some(server) = Server::start() else { return };
    let hub = leading(&server).await;
    let own = ledger(20);
    let before = state(own.path());
    assert_eq!(before, (true, 10));
    import(&hub.log, own.path(), PART).await.unwrap();
    lead(&hub, own.path()).await;
    assert_eq!(state(own.path()), before);
    let reader = Reader::open(own.path()).unwrap().unwrap();
    assert_eq!(reader.attempts(None, 10).unwrap().len(), 1, "the history");
    // A hub that has nothing has the state from the log.
    let other = tempfile::tempdir().unwrap();
    lead(&hub, other.path()).await;
    assert_eq!(state(other.path()), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn import_continues_where_it_was_interrupted_and_refuses_another_log() {
    let Some(server) = Server::start() else { return };
    let hub = leading(&server).await;
    // Its entries are the first ones of the larger ledger.
    let (part, whole, other) = (ledger(6), ledger(20), ledger(3));
    import(&hub.log, part.path(), PART).await.unwrap();
    import(&hub.log, whole.path(), PART).await.unwrap();
    let again = ledger(20);
    import(&hub.log, again.path(), PART).await.unwrap();
    let fresh = tempfile::tempdir().unwrap();
    lead(&hub, fresh.path()).await;
    assert_eq!(state(fresh.path()), (true, 10));
    for smaller in [other, ledger(6)] {
        let refused = refusal(import(&hub.log, smaller.path(), PART).await);
        assert_eq!(refused, ImportError::OtherEntries);
        assert!(
            Ledger::open(smaller.path()).is_ok(),
            "it is still a ledger of its own"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ledger_with_a_running_attempt_stays_as_it_is() {
    let Some(server) = Server::start() else { return };
    let hub = leading(&server).await;
    let own = ledger(2);
    let (ledger, _) = Ledger::open(own.path()).unwrap();
    let changes = Changes {
        started: vec![started(0, 2)],
        ..Changes::default()
    };
    drop(ledger.commit(changes));
    ledger.close().unwrap();
    let refused = refusal(import(&hub.log, own.path(), PART).await);
    assert!(matches!(refused, ImportError::Attempt { .. }), "{refused}");
    assert!(Ledger::open(own.path()).is_ok());
}
