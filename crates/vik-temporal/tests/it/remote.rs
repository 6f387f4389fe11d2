//! What a hub asks of workers: the files of their sessions, and the removal of their workspaces.

use serde_json::{Value, json};
use vik_core::outcome::Outcome;
use vik_testkit::{HttpClient, eventually, wait_for_value};

use crate::machines::Scene;
use crate::server::PATIENCE;

/// Returns the page of the events of an attempt after this one.
fn events(api: &HttpClient, id: &str, after: u64) -> Value {
    let page = api.get(&format!("/api/v1/sessions/{id}/events?after={after}"));
    page.expect_status(200).json()
}

fn has_message(page: &Value, text: &str) -> bool {
    let events = page["events"].as_array().unwrap().iter();
    let mut messages = events.filter(|event| event["kind"] == "message");
    messages.any(|event| event["text"].as_str().is_some_and(|found| found.contains(text)))
}

#[test]
fn session_on_a_worker_is_read_through_the_hub() {
    let script = "line first; stderr trouble; touch up; wait-file go; line second; ok";
    let Some(scene) = Scene::new(script) else { return };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    eventually("the agent runs", || worker.workspace_file("up").exists());
    let api = hub.api();

    let state = api.get("/api/v1/state").json();
    let id = state["sessions"][0]["session_id"].as_str().unwrap().to_owned();
    let page = wait_for_value(PATIENCE, || {
        let page = events(&api, &id, 0);
        has_message(&page, "first").then_some(page)
    });
    let page = page.unwrap_or_else(|| panic!("{:#}", events(&api, &id, 0)));
    assert_eq!(page["ended"], false);
    assert!(!has_message(&page, "second"), "{page:#}");
    let detail = api
        .get(&format!("/api/v1/sessions/{id}"))
        .expect_status(200)
        .json();
    assert_eq!(detail["live"]["worker"], "w");
    assert_eq!(detail["attempt"]["outcome"], Value::Null);
    let prompt = detail["prompt"]["text"].as_str().unwrap();
    assert!(prompt.contains("line first"), "{prompt}");
    let issue = api.get("/api/v1/issues/1").expect_status(200).json();
    assert_eq!(issue["runs"][0]["attempts"][0]["session_id"], json!(id));

    std::fs::write(worker.workspace_file("go"), "").unwrap();
    scene.wait_for_state("done");
    assert_eq!(hub.outcomes(1), [Outcome::Succeeded]);
    let after = page["last_seq"].as_u64().unwrap();
    let page = events(&api, &id, after);
    assert!(
        has_message(&page, "second") && !has_message(&page, "first"),
        "{page:#}"
    );
    assert_eq!(page["ended"], true);
    let stderr = api.get(&format!("/api/v1/sessions/{id}/stderr")).json();
    assert!(stderr["text"].as_str().unwrap().contains("trouble"), "{stderr}");
    let detail = api.get(&format!("/api/v1/sessions/{id}")).json();
    assert_eq!(detail["attempt"]["outcome"], "succeeded");
    assert_eq!(detail["attempt"]["files_removed"], false);
    assert!(
        detail["scripts"]
            .as_array()
            .unwrap()
            .iter()
            .any(|script| script["name"] == "after_run")
    );

    // The ledger of the hub has the file of the log as it was at the end.
    let report = hub.attempts().remove(0).ended.unwrap().report;
    let log = report.log.unwrap();
    let file = log.file.unwrap();
    assert_eq!(log.worker.as_str(), "w");
    assert!(
        file.path.starts_with(worker.home().unwrap().join("sessions")),
        "{file:?}"
    );
    assert_eq!(file.bytes, std::fs::metadata(&file.path).unwrap().len());
    assert_eq!(file.sha256.len(), 64);

    worker.stop();
    let refused = api
        .get(&format!("/api/v1/sessions/{id}/events"))
        .expect_status(500)
        .json();
    let message = refused["detail"].as_str().unwrap_or_default().to_owned();
    let path = file.path.to_str().unwrap();
    assert!(message.contains("`w`") && message.contains(path), "{refused:#}");
    assert!(message.contains("does not respond"), "{refused:#}");
    hub.stop();
}

#[test]
fn workspace_on_a_worker_is_removed_when_its_issue_is_finished() {
    let keys = json!({
        "remove_workspace": "always",
        "terminal_states": ["done"],
        "hooks": {"before_remove": "touch {{ workflow_dir }}/removing"},
    });
    let Some(scene) = Scene::with_issue_keys("write result x; ok", &keys) else {
        return;
    };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    scene.wait_for_state("done");
    hub.wait_for("workspace removed");
    assert!(!worker.workspace_file("").exists());
    assert!(worker.home().unwrap().join("sessions/1").exists());
    let hooks = |machine: &crate::machines::Machine| machine.folder.join("removing").exists();
    assert_eq!((hooks(&worker), hooks(&hub)), (true, false));
    hub.stop();
    worker.stop();
}

#[test]
fn workspace_with_unsaved_work_stays_on_its_worker() {
    let Some(scene) = Scene::with_issue_keys(
        "write result x; ok",
        &json!({"remove_workspace": "clean", "terminal_states": ["done"]}),
    ) else {
        return;
    };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    scene.wait_for_state("done");
    hub.wait_for("workspace kept");
    assert!(hub.log().contains("on the worker `w`: "), "{}", hub.log());
    assert!(worker.workspace_file("result").exists());
    hub.stop();
    worker.stop();
}

#[test]
fn workspace_on_a_missing_worker_is_kept() {
    let Some(scene) = Scene::with_issue_keys(
        "touch up; wait-file go; ok",
        &json!({"remove_workspace": "always", "terminal_states": ["done"]}),
    ) else {
        return;
    };
    let worker = scene.worker("w");
    let hub = scene.hub("hub");
    eventually("the agent runs", || worker.workspace_file("up").exists());
    let workspace = worker.workspace_file("");
    worker.kill();
    scene.tracker.move_to("1", "done");
    hub.wait_for("workspace kept");
    assert!(
        hub.log().contains("the worker `w` does not respond"),
        "{}",
        hub.log()
    );
    assert!(workspace.exists());
    hub.stop();
}
