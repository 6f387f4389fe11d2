use std::path::Path;

use vik_core::changes::Changes;
use vik_orchestrator::{CommitFailure, CommitLog as _};
use vik_store::ledger::Reader;
use vik_temporal::log::Limits;
use vik_temporal::shared_ledger::{CompactionLimits, FollowingLedger, LeadingLedger};

use crate::server::{HubWithLog, Server};

fn paused(paused: bool) -> Changes {
    Changes {
        paused: Some(paused),
        ..Changes::default()
    }
}

fn is_paused(folder: &Path) -> bool {
    Reader::open(folder).unwrap().unwrap().is_paused().unwrap()
}

async fn open(hub: &HubWithLog, folder: &Path) -> FollowingLedger {
    FollowingLedger::open(hub.log.clone(), folder).await.unwrap()
}

/// Leads with the ledger in a folder, and returns whether the state there is paused.
async fn lead(hub: &HubWithLog, folder: &Path) -> (LeadingLedger, bool) {
    let leadership = hub.hub.leadership.clone();
    let limits = CompactionLimits::default();
    let lead = open(hub, folder).await.lead(leadership, limits).await;
    let (ledger, stored) = lead.unwrap();
    (ledger, stored.paused)
}

#[tokio::test(flavor = "multi_thread")]
async fn leading_ledger_has_what_the_log_accepts_and_nothing_else() {
    let Some(server) = Server::start() else { return };
    let mut hub = server.hub(Limits::default()).await;
    hub.hub.leadership.acquired().await;
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [first, second] = [folders[0].path(), folders[1].path()];
    let (old, was_paused) = lead(&hub, first).await;
    assert!(!was_paused);
    let committing = old.commit(paused(true));
    assert!(!is_paused(first), "the log has not answered yet");
    assert!(old.recall(Vec::new()).await.unwrap().is_empty());
    assert!(is_paused(first), "an answer has what was decided before");
    committing.await.unwrap();
    let mut follower = hub.log.follow(None).await.unwrap();
    let entry = follower.next().await.unwrap();
    assert!(entry.text.contains(r#""paused":true"#), "{}", entry.text);

    // It takes the next term.
    let (new, was_paused) = lead(&hub, second).await;
    assert!(was_paused, "it has what the log had");
    for _ in 0..2 {
        let refused = old.commit(paused(false)).await;
        assert!(matches!(refused, Err(CommitFailure::Superseded)), "{refused:?}");
    }
    assert!(is_paused(first));
    new.commit(paused(false)).await.unwrap();
    assert!(!is_paused(second));

    let third = tempfile::tempdir().unwrap();
    let (_, was_paused) = lead(&hub, third.path()).await;
    assert!(!was_paused, "it has what both have decided");
}

#[tokio::test(flavor = "multi_thread")]
async fn leading_ledger_reports_no_commit_after_its_hub_leads_no_longer() {
    let Some(server) = Server::start() else { return };
    let mut hub = server.hub(Limits::default()).await;
    hub.hub.leadership.acquired().await;
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = lead(&hub, folder.path()).await;
    let closed = ledger.closed();
    let _other = server.hub(Limits::default()).await;
    hub.hub.stop().await.unwrap();
    assert!(matches!(closed.await, CommitFailure::Superseded));
    // No other hub has taken a term, so that the log accepts it.
    let refused = ledger.commit(paused(true)).await;
    assert!(matches!(refused, Err(CommitFailure::Superseded)), "{refused:?}");
    assert!(is_paused(folder.path()));
}
