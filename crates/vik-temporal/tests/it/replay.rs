//! Recorded histories, which each later version must be able to continue.
//!
//! `cargo test -p vik-temporal --test it records_histories -- --ignored` records them again, which is
//! right only for a workflow that no user can have running.

use std::path::{Path, PathBuf};
use std::time::Duration;

use temporalio_client::{Client, UntypedWorkflow, WorkflowFetchHistoryOptions, WorkflowHistory};
use vik_temporal::hub::replayer;
use vik_temporal::log::Limits;
use vik_temporal::request::{Recipient, Requests};
use vik_temporal::workers::Workers;

use crate::attempt::{World, updates};
use crate::child::Process;
use crate::server::{KEY, Server, codec, queue, worker_name};
use crate::workers;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories")
}

fn histories() -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(folder()).unwrap();
    files
        .map(|file| {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            (name, std::fs::read(file.path()).unwrap())
        })
        .collect()
}

#[tokio::test]
async fn replayed_histories_are_those_of_this_version() {
    let replayer = replayer(codec(KEY)).unwrap();
    let histories = histories();
    assert!(histories.len() >= 12, "{}", histories.len());
    for (name, json) in histories {
        let history = WorkflowHistory::from_json(&json).unwrap();
        let replayed = replayer.replay_workflow(history).await;
        assert!(replayed.is_ok(), "{name}: {replayed:?}");
    }
}

#[tokio::test]
async fn replayed_history_of_another_version_is_refused() {
    let json = std::fs::read_to_string(folder().join("attempt_finished.json")).unwrap();
    let other = json.replace("\"vik_command\"", "\"another_activity\"");
    assert_ne!(json, other);
    let history = WorkflowHistory::from_json(other.as_bytes()).unwrap();
    let replayed = replayer(codec(KEY)).unwrap().replay_workflow(history).await;
    let error = replayed.unwrap_err().to_string();
    assert!(error.contains("nondeterministic"), "{error}");
}

async fn record(client: &Client, name: &str, workflow_id: &str) {
    let handle = client.get_workflow_handle::<UntypedWorkflow>(workflow_id);
    let history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
    let mut json = history.to_json().await.unwrap();
    json.push(b'\n');
    std::fs::write(folder().join(format!("{name}.json")), json).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it writes tests/histories"]
async fn records_histories() {
    let Some(server) = Server::start() else { return };
    std::fs::create_dir_all(folder()).unwrap();
    let limits = Limits {
        updates: 4,
        ..Limits::default()
    };
    let world = World::with(server.hub(limits).await);
    let hub = &world.hub;

    let tenure = hub.log.take_term(1).await.unwrap();
    let appender = hub.log.appender(&tenure);
    for entry in ["a", "b", "c", "d"] {
        appender.append(entry.to_owned()).await.unwrap();
    }
    let index = appender.seal().await.unwrap();
    appender.append("state".to_owned()).await.unwrap();
    hub.log.compacted(index).await.unwrap();

    let worker = world.worker();
    let attempt = world.start("finished", "").await;
    updates(&attempt, "spent 1").await;
    for command in ["a", "b", "finish"] {
        attempt.send(command.to_owned()).await.unwrap();
    }
    attempt.outcome().await.unwrap();
    let attempt = world.start("cancelled", "").await;
    updates(&attempt, "spent 1").await;
    attempt.cancel().await.unwrap();
    attempt.outcome().await.unwrap();
    worker.stop().await.unwrap();
    let attempt = world.start("not_taken", "").await;
    attempt.outcome().await.unwrap();
    let mut process = Process::start("worker", "w", server.port());
    let attempt = world.start("lost", "").await;
    process.wait_for("started");

    let requests = Requests::new(hub.client.clone(), queue());
    let recipient = Recipient::Worker(worker_name());
    let start = |body: &str| requests.start(&recipient, body.to_owned(), Duration::from_secs(60));
    let mut answered = start("a").await.unwrap();
    answered.answer().await.unwrap();
    let mut cancelled = start("hang").await.unwrap();
    process.wait_for("answering");
    cancelled.cancel().await.unwrap();
    cancelled.answer().await.unwrap_err();
    let mut lost = start("hang").await.unwrap();
    process.wait_for("answering");
    process.kill();
    lost.answer().await.unwrap_err();
    let mut not_taken = start("a").await.unwrap();
    not_taken.answer().await.unwrap_err();
    attempt.outcome().await.unwrap();

    let table = Workers::new(hub.client.clone(), queue());
    for _ in 0..3 {
        table.announce(&workers::worker("w")).await.unwrap();
    }
    table.table().await.unwrap();

    record(&hub.client, "hub", &queue().hub()).await;
    record(&hub.client, "log_index", &queue().log()).await;
    record(&hub.client, "log_segment_closed", &queue().segment(1)).await;
    record(&hub.client, "workers", &queue().workers()).await;
    for attempt in ["finished", "cancelled", "not_taken", "lost"] {
        let id = queue().attempt("VIK-1", attempt);
        record(&hub.client, &format!("attempt_{attempt}"), &id).await;
    }
    let requests = [
        ("answered", answered),
        ("cancelled", cancelled),
        ("lost", lost),
        ("not_taken", not_taken),
    ];
    for (name, request) in requests {
        record(&hub.client, &format!("request_{name}"), request.id()).await;
    }
}
