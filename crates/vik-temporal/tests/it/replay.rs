//! Recorded histories, which each later version must be able to continue.
//!
//! CONTRIBUTING.md has the command that records those that are missing. To remove one and record it
//! again is right only for a workflow that no user can have running.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use temporalio_client::{
    Client, WorkflowCancelOptions, WorkflowFetchHistoryOptions, WorkflowGetResultOptions, WorkflowHistory,
};
use vik_temporal::hub::{Hub, replayer};
use vik_temporal::lead::MIN_LEAD_TIMEOUT;
use vik_temporal::log::Limits;
use vik_temporal::request::{Recipient, Requests};
use vik_temporal::workers::Workers;

use crate::attempt::{World, updates};
use crate::child::Process;
use crate::request;
use crate::server::{HubWithLog, KEY, PATIENCE, Server, codec, of_run, queue, worker_name};
use crate::workers;

/// For each branch of a workflow a history that takes it, and a text that is only there then.
const BRANCHES: &[(&str, &str)] = &[
    (
        "attempt_cancelled.json",
        "WorkflowExecutionCancelRequestedEventAttributes",
    ),
    ("attempt_finished.json", "ActivityTaskCompletedEventAttributes"),
    ("attempt_lost.json", "TIMEOUT_TYPE_HEARTBEAT"),
    ("attempt_not_taken.json", "TIMEOUT_TYPE_SCHEDULE_TO_START"),
    ("hub.json", "\"vik_lead\""),
    ("hub_cancelled.json", "WorkflowExecutionCompletedEventAttributes"),
    (
        "hub_with_a_longer_timeout.json",
        "ActivityTaskCompletedEventAttributes",
    ),
    (
        "log_index.json",
        "StartChildWorkflowExecutionInitiatedEventAttributes",
    ),
    (
        "log_index.json",
        "SignalExternalWorkflowExecutionInitiatedEventAttributes",
    ),
    ("log_index_continued.json", "\"continued_execution_run_id\":\"0"),
    (
        "log_index_continues.json",
        "WorkflowExecutionContinuedAsNewEventAttributes",
    ),
    (
        "log_segment_closed.json",
        "WorkflowExecutionCompletedEventAttributes",
    ),
    (
        "log_segment_open.json",
        "WorkflowExecutionUpdateCompletedEventAttributes",
    ),
    ("request_answered.json", "ActivityTaskCompletedEventAttributes"),
    (
        "request_cancelled.json",
        "WorkflowExecutionCancelRequestedEventAttributes",
    ),
    ("request_lost.json", "TIMEOUT_TYPE_HEARTBEAT"),
    ("request_not_taken.json", "TIMEOUT_TYPE_SCHEDULE_TO_START"),
    ("workers.json", "WorkflowExecutionSignaledEventAttributes"),
];

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
    let names: BTreeSet<_> = histories.iter().map(|(name, _)| name.as_str()).collect();
    let missing: Vec<_> = BRANCHES
        .iter()
        .filter(|(name, _)| !names.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    for (name, json) in histories {
        let text = String::from_utf8_lossy(&json);
        for (_, event) in BRANCHES.iter().filter(|(branch, _)| *branch == name) {
            assert!(text.contains(event), "{name} has no {event}");
        }
        let history = WorkflowHistory::from_json(&json).unwrap();
        let replayed = replayer.replay_workflow(history).await;
        assert!(replayed.is_ok(), "{name}: {replayed:?}");
    }
}

#[tokio::test]
async fn replayed_history_of_another_version_is_refused() {
    let json = std::fs::read_to_string(folder().join("hub.json")).unwrap();
    let other = json.replace("\"vik_lead\"", "\"another_activity\"");
    assert_ne!(json, other);
    let history = WorkflowHistory::from_json(other.as_bytes()).unwrap();
    let replayed = replayer(codec(KEY)).unwrap().replay_workflow(history).await;
    let error = replayed.unwrap_err().to_string();
    assert!(error.contains("nondeterministic"), "{error}");
}

async fn record(client: &Client, name: &str, workflow_id: &str) {
    record_run(client, name, workflow_id, "").await;
}

async fn record_run(client: &Client, name: &str, workflow_id: &str, run_id: &str) {
    let path = folder().join(format!("{name}.json"));
    if path.exists() {
        return;
    }
    let handle = of_run(client, workflow_id, run_id);
    let history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
    let mut json = history.to_json().await.unwrap();
    json.push(b'\n');
    std::fs::write(path, json).unwrap();
}

/// Cancels a workflow, and waits for its end.
async fn cancel(client: &Client, workflow_id: &str) {
    let handle = of_run(client, workflow_id, "");
    handle.cancel(WorkflowCancelOptions::default()).await.unwrap();
    let ended = handle.get_result(WorkflowGetResultOptions::default());
    let _ = tokio::time::timeout(PATIENCE, ended).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it writes tests/histories"]
async fn records_histories() {
    let Some(server) = Server::start() else { return };
    std::fs::create_dir_all(folder()).unwrap();
    let limits = Limits {
        updates: 4,
        index_events: 20,
        ..Limits::default()
    };
    let world = World::with(server.hub(limits).await);
    let hub = &world.hub;

    let tenure = hub.log.take_term(1).await.unwrap();
    let appender = hub.log.appender(&tenure);
    for entry in ["a", "b", "c", "d"] {
        appender.append(entry.to_owned()).await.unwrap();
    }
    for _ in 0..2 {
        let index = appender.seal().await.unwrap();
        appender.append("state".to_owned()).await.unwrap();
        hub.log.compacted(index).await.unwrap();
    }
    let end = hub.log.take_term(tenure.segment).await.unwrap();

    let worker = world.worker();
    let attempt = world.start("finished", "").await;
    updates(&attempt, "spent 1").await;
    attempt.send("finish".to_owned()).await.unwrap();
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
        let announcement = workers::announced(&workers::worker("w"));
        table.announce(&announcement).await.unwrap();
    }
    table.table().await.unwrap();

    record(&hub.client, "hub", &queue().hub()).await;
    cancel(&hub.client, &queue().hub()).await;
    record(&hub.client, "hub_cancelled", &queue().hub()).await;
    let index = queue().log();
    record(&hub.client, "log_index", &index).await;
    let runs = server.runs(&hub.client, &index).await;
    record_run(&hub.client, "log_index_continues", &index, &runs[0]).await;
    record_run(&hub.client, "log_index_continued", &index, &runs[1]).await;
    record(&hub.client, "log_segment_open", &queue().segment(end.segment)).await;
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

    let HubWithLog { client, hub, .. } = world.hub;
    hub.stop().await.unwrap();
    let responder = Arc::new(request::Scripted("hub"));
    let hub = Hub::start(client.clone(), &queue(), MIN_LEAD_TIMEOUT * 2, responder).await;
    hub.unwrap().leadership.acquired().await;
    record(&client, "hub_with_a_longer_timeout", &queue().hub()).await;
}
