//! Recorded histories, which each later version must be able to continue.
//!
//! `cargo test -p vik-temporal --test it records_histories -- --ignored` records them again, which is
//! right only for a workflow that no user can have running.

use std::path::{Path, PathBuf};

use temporalio_client::{Client, UntypedWorkflow, WorkflowFetchHistoryOptions, WorkflowHistory};
use vik_temporal::hub::replayer;
use vik_temporal::log::Limits;
use vik_temporal::workers::{Announcement, Workers};

use crate::attempt::{World, updates};
use crate::child::Process;
use crate::server::{KEY, Server, codec, queue};

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
    assert!(histories.len() >= 7, "{}", histories.len());
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
    process.kill();
    attempt.outcome().await.unwrap();

    let workers = Workers::new(hub.client.clone(), queue());
    let announcement = Announcement {
        name: "w".to_owned(),
        ..Announcement::default()
    };
    for _ in 0..3 {
        workers.announce(&announcement).await.unwrap();
    }
    workers.table().await.unwrap();

    record(&hub.client, "hub", &queue().hub()).await;
    record(&hub.client, "log_index", &queue().log()).await;
    record(&hub.client, "log_segment_closed", &queue().segment(1)).await;
    record(&hub.client, "workers", &queue().workers()).await;
    for attempt in ["finished", "cancelled", "not_taken", "lost"] {
        let id = queue().attempt("VIK-1", attempt);
        record(&hub.client, &format!("attempt_{attempt}"), &id).await;
    }
}
