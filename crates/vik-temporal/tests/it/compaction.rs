//! Compaction of the log by the hub that leads.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;
use tempfile::TempDir;
use temporalio_client::Client;
use uuid::Uuid;
use vik_base::failpoint::COMPACTION_POINTS;
use vik_core::attempt::AttemptResult;
use vik_core::changes::{Changes, EndedAttempt, StartedAttempt, Stored};
use vik_core::ids::{AttemptId, IssueId, RunId};
use vik_core::limits::Spend;
use vik_core::machine::IssueMachine;
use vik_core::outcome::{CostSource, Outcome};
use vik_orchestrator::CommitLog as _;
use vik_store::ledger::Reader;
use vik_temporal::log::Limits;
use vik_temporal::shared_ledger::{CompactionLimits, FollowingLedger, LeadingLedger};

use crate::child::{Process, print};
use crate::server::{HubWithLog, PATIENCE, Server};

const SMALL: CompactionLimits = CompactionLimits {
    min_bytes: 20_000,
    max_part_bytes: 3_000,
};

const NEVER: CompactionLimits = CompactionLimits {
    min_bytes: u64::MAX,
    max_part_bytes: 1_000,
};

fn id(issue: u32) -> IssueId {
    format!("A-{issue:05}").as_str().into()
}

/// Returns the machine of an issue after so many changes. Each second issue is in use.
pub fn machine(issue: u32, version: u32, text: &str) -> IssueMachine {
    let payload = json!({"id": id(issue), "title": "T", "state": "todo", "text": text}).to_string();
    serde_json::from_value(json!({
        "issue": {"id": id(issue), "title": "T", "state": "todo", "payload": payload},
        "present": true,
        "runs": [],
        "life": {"attempts": version, "extra_attempts": 0, "spend": {"tokens": version, "usd": 0}},
        "paused": issue.is_multiple_of(2),
    }))
    .unwrap()
}

fn changes(issue: u32, version: u32) -> Changes {
    Changes {
        machines: vec![machine(issue, version, "")],
        ..Changes::default()
    }
}

pub fn attempt_id(number: u64) -> AttemptId {
    AttemptId(Uuid::from_u64_pair(1, number))
}

pub fn started(issue: u32, number: u64) -> StartedAttempt {
    StartedAttempt {
        attempt_id: attempt_id(number),
        run: RunId(Uuid::from_u64_pair(2, number)),
        issue: id(issue),
        stage: "work".into(),
        agent: "a".into(),
        attempt: 1,
        resumed_from: None,
        at: jiff::Timestamp::UNIX_EPOCH,
    }
}

pub fn ended(number: u64) -> EndedAttempt {
    EndedAttempt {
        attempt_id: attempt_id(number),
        at: jiff::Timestamp::UNIX_EPOCH,
        report: AttemptResult::new(Outcome::Succeeded),
        charged: Spend::default(),
        source: CostSource::Reported,
    }
}

/// Leads with the ledger in a folder.
pub async fn lead(hub: &HubWithLog, folder: &Path, limits: CompactionLimits) -> LeadingLedger {
    let mut leadership = hub.hub.leadership.clone();
    leadership.acquired().await;
    let ledger = FollowingLedger::open(hub.log.clone(), folder).await.unwrap();
    ledger.lead(leadership, limits).await.unwrap().0
}

/// Everything that is decided with, of the first 50 issues.
#[derive(Debug, PartialEq)]
struct Content {
    stored: Stored,
    machines: Vec<IssueMachine>,
    claims: Vec<StartedAttempt>,
}

fn content(folder: &Path) -> Content {
    let reader = Reader::open(folder).unwrap().unwrap();
    let issues: Vec<_> = (0..50).map(id).collect();
    Content {
        stored: reader.stored().unwrap(),
        machines: reader.recall(&issues).unwrap(),
        claims: reader.claims().unwrap(),
    }
}

/// Follows the log until the ledger has this content.
async fn follow_to(ledger: &mut FollowingLedger, folder: &Path, expected: &Content) {
    let is_there = async {
        while content(folder) != *expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        error = ledger.follow() => panic!("{error}"),
        there = tokio::time::timeout(PATIENCE, is_there) => there.unwrap(),
    }
}

/// Waits until the log starts at a later segment, and returns its number.
async fn compacted(hub: &HubWithLog, before: u64) -> u64 {
    loop {
        let first = hub.log.index().await.unwrap().first;
        if first > before {
            return first;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compacted_log_has_the_state_for_copies_without_the_entries_before() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let folders = [(); 4].map(|()| TempDir::new().unwrap());
    let [leading, new, behind, following] = [0, 1, 2, 3].map(|index| folders[index].path());
    let ledger = lead(&hub, leading, SMALL).await;
    let start = Changes {
        started: vec![started(0, 0), started(1, 1)],
        machines: vec![machine(0, 1, ""), machine(1, 1, "")],
        paused: Some(true),
        ..Changes::default()
    };
    ledger.commit(start).await.unwrap();
    let mut follower = FollowingLedger::open(hub.log.clone(), following).await.unwrap();
    follow_to(&mut follower, following, &content(leading)).await;
    {
        let mut older = FollowingLedger::open(hub.log.clone(), behind).await.unwrap();
        follow_to(&mut older, behind, &content(leading)).await;
    }

    // Decisions go on while the log is compacted, again and again. Each one ends an attempt, which a
    // copy must have, and starts another one.
    let mut first = 1;
    let mut version = 0;
    let mut attempt = 1;
    for round in 0..3 {
        let before = first;
        while first == before {
            version += 1;
            let mut commits = Vec::new();
            for issue in 2..50 {
                attempt += 1;
                commits.push(ledger.commit(Changes {
                    ended: vec![ended(attempt - 1)],
                    started: vec![started(issue, attempt)],
                    ..changes(issue, version)
                }));
            }
            for commit in commits {
                commit.await.unwrap();
            }
            first = hub.log.index().await.unwrap().first;
        }
        if round == 1 {
            let end = Changes {
                ended: vec![ended(0)],
                paused: Some(false),
                ..changes(0, 2)
            };
            ledger.commit(end).await.unwrap();
        }
    }
    ledger.commit(changes(7, version + 1)).await.unwrap();
    let expected = content(leading);
    assert_eq!(expected.machines.len(), 50);
    follow_to(&mut follower, following, &expected).await;

    drop(ledger);
    for folder in [new, behind] {
        drop(lead(&hub, folder, NEVER).await);
        assert_eq!(content(folder), expected);
    }
    let is_set_aside = |folder: &Path| {
        let files = std::fs::read_dir(folder).unwrap();
        let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.any(|name| name.starts_with("vik.db.behind-"))
    };
    assert!(is_set_aside(behind) && !is_set_aside(new));
    // A copy that has everything continues.
    drop(lead(&hub, leading, NEVER).await);
    assert_eq!(content(leading), expected);
    assert!(!is_set_aside(leading));
}

fn versions(content: &Content) -> impl Iterator<Item = u32> {
    content.machines.iter().map(|machine| machine.life().attempts)
}

fn highest(content: &Content) -> u32 {
    versions(content).max().unwrap_or(0)
}

/// The role `compacting` of a child: it leads, and commits until it is stopped.
pub async fn run_compacting(client: Client) {
    let hub = HubWithLog::start(client, Limits::default()).await;
    let folder = TempDir::new().unwrap();
    let ledger = lead(&hub, folder.path(), SMALL).await;
    for version in highest(&content(folder.path())) + 1.. {
        for issue in 0..20 {
            ledger.commit(changes(issue, version)).await.unwrap();
        }
        print(&version.to_string());
    }
}

/// Kills the hub that leads at each step of a compaction. Nothing that was committed is lost, and
/// the next hub compacts the log.
#[tokio::test(flavor = "multi_thread")]
async fn killed_hub_leaves_a_log_with_all_decisions() {
    let Some(server) = Server::start() else { return };
    let crashes = TempDir::new().unwrap();
    let mut first = 1;
    for point in COMPACTION_POINTS {
        std::fs::write(crashes.path().join(format!("{point}.armed")), "").unwrap();
        let mut process = Process::with_fail_points("compacting", server.port(), crashes.path());
        let started = Instant::now();
        while !crashes.path().join(format!("{point}.hit")).exists() {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "{point} is not reached"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        process.signal(Signal::SIGSTOP);
        let committed = process
            .printed()
            .last()
            .map_or(0, |version| version.parse().unwrap());
        process.kill();
        std::fs::remove_file(crashes.path().join(format!("{point}.hit"))).unwrap();

        let hub = server.hub(Limits::default()).await;
        let folder = TempDir::new().unwrap();
        let ledger = lead(&hub, folder.path(), SMALL).await;
        let found = content(folder.path());
        assert_eq!(found.machines.len(), 20, "{point}");
        assert!(
            versions(&found).all(|version| version >= committed),
            "{point}: {found:?}"
        );
        let now = hub.log.index().await.unwrap().first;
        assert_eq!(now > first, *point == "log_compacted", "{point}");
        for version in highest(&found) + 1.. {
            ledger.commit(changes(version % 20, version)).await.unwrap();
            if hub.log.index().await.unwrap().first > now {
                break;
            }
        }
        first = compacted(&hub, now).await;
        drop(ledger);
        hub.hub.stop().await.unwrap();
    }
}
