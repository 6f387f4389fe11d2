//! Measurements with many issues.

use std::time::{Duration, Instant};

use tempfile::TempDir;
use vik_core::changes::Changes;
use vik_orchestrator::CommitLog as _;
use vik_store::ledger::Reader;
use vik_temporal::log::Limits;
use vik_temporal::shared_ledger::CompactionLimits;

use crate::compaction::{ended, lead, machine, started};
use crate::server::{Server, queue};

const ISSUES: u32 = 10_000;

/// The attempts of each issue, of which each has three commits.
const ATTEMPTS: u32 = 3;

/// How many commits are under way at the same time.
const WINDOW: usize = 100;

/// The text of an issue, in bytes.
const TEXT: usize = 1_000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: 10,000 issues, each with three attempts"]
async fn measure_10_000_issues() {
    let Some(server) = Server::start() else { return };
    let hub = server.hub(Limits::default()).await;
    let folder = TempDir::new().unwrap();
    let ledger = lead(&hub, folder.path(), CompactionLimits::default()).await;
    let empty_database = server.database_bytes();
    let text = crate::attempt::noise(TEXT * ISSUES as usize);
    let started_at = Instant::now();
    let mut times: Vec<Duration> = Vec::new();
    let mut under_way = std::collections::VecDeque::new();
    let mut bytes = 0;
    let mut compactions = 0;
    let mut first = 1;
    for number in 0..ATTEMPTS * ISSUES {
        let (issue, attempt) = (number % ISSUES, number / ISSUES);
        let own_text = &text[issue as usize * TEXT..][..TEXT];
        let with_machine = |version| Changes {
            machines: vec![machine(issue, version, own_text)],
            ..Changes::default()
        };
        let decisions = [
            Changes {
                started: vec![started(issue, number.into())],
                ..with_machine(attempt)
            },
            with_machine(attempt),
            Changes {
                ended: vec![ended(number.into())],
                ..with_machine(attempt + 1)
            },
        ];
        for changes in decisions {
            bytes += serde_json::to_string(&changes).unwrap().len();
            under_way.push_back((Instant::now(), tokio::spawn(ledger.commit(changes))));
            if under_way.len() > WINDOW {
                let (since, commit) = under_way.pop_front().unwrap();
                commit.await.unwrap().unwrap();
                times.push(since.elapsed());
            }
        }
        if number % 100 == 0 {
            let index = hub.log.index().await.unwrap();
            compactions += u32::from(index.first > first);
            first = index.first;
        }
    }
    for (_, commit) in under_way {
        commit.await.unwrap().unwrap();
    }
    let took = started_at.elapsed();
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!(
        "{} commits of {} bytes in {took:?}, {WINDOW} at the same time: p50 {:?}, p95 {:?}, p99 {:?}, max {:?}",
        times.len() + WINDOW,
        bytes / (times.len() + WINDOW),
        at(50),
        at(95),
        at(99),
        times.last().unwrap()
    );
    let state = Reader::open(folder.path())
        .unwrap()
        .unwrap()
        .machine_bytes()
        .unwrap();
    println!("{compactions} compactions, the state has {state} bytes");
    let tenure = hub.log.take_term(first).await.unwrap();
    println!("segments {first} to {} are open", tenure.segment);
    for number in first..=tenure.segment {
        let id = queue().segment(number);
        println!(
            "segment {number}: {} events, {} bytes",
            server.history_length(&hub.client, &id).await,
            server.history_bytes(&hub.client, &id).await
        );
    }
    let index = queue().log();
    println!(
        "index: {} events",
        server.history_length(&hub.client, &index).await
    );
    drop(ledger);
    let database = server.database_bytes() - empty_database;
    println!("database: {} bytes for each issue", database / u64::from(ISSUES));
    let new = TempDir::new().unwrap();
    let started_at = Instant::now();
    let ledger = lead(&hub, new.path(), CompactionLimits::default()).await;
    println!("a new hub leads after {:?}", started_at.elapsed());
    drop(ledger);
}
