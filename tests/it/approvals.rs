//! Approvals with the real binary: what waits, who answers, and what survives the death of the
//! daemon.

use serde_json::{Value, json};

use crate::support::*;

fn approvals(world: &World) -> Vec<Value> {
    let status = world.status();
    let list = status.and_then(|status| status["approvals"].as_array().cloned());
    list.unwrap_or_default()
}

fn waits(world: &World, gate: &str) -> Value {
    eventually(gate, || approvals(world).iter().any(|one| one["gate"] == gate));
    approvals(world).remove(0)
}

#[test]
fn start_waits_for_approval_across_a_crash() {
    let world = World::new(&[("1", "todo")])
        .script("ok")
        .work("approve", json!({"before": true}));
    let daemon = world.daemon();
    let waiting = waits(&world, "before");
    assert_eq!(waiting["issue_id"], "1");
    assert_eq!(waiting["on_timeout"], "deny");
    let text = world.vik(&["status"]).expect(0).out;
    assert_contains(&text, "WAITING FOR APPROVAL");
    assert_contains(&text, "a person must approve the start (denied in 2");
    let explained = world.vik(&["explain", "1"]).expect(0).out;
    assert_contains(&explained, "vik approve");
    assert!(world.sessions("1").is_empty());
    // An answer with the id of another request is refused.
    let done = world.vik(&["approve", "1", "--request", "another"]).expect(1);
    assert_contains(&done.err, "not the one that you named");
    world.vik(&["approve", "none"]).expect(8);
    // The request still waits after the daemon was killed.
    daemon.kill();
    let daemon = world.daemon();
    let again = waits(&world, "before");
    assert_eq!(
        (&again["id"], &again["since"]),
        (&waiting["id"], &waiting["since"])
    );
    let id = again["id"].as_str().unwrap();
    world
        .vik(&["approve", "1", "--request", id, "--message", "be gentle"])
        .expect(0);
    world.wait_for_state("1", "done");
    let prompt = world.session("1").text(".prompt.md");
    assert_contains(&prompt, "be gentle");
    let done = world.vik(&["approve", "1"]).expect(1);
    assert_contains(&done.err, "has no pending approval");
    daemon.stop().expect(0);
}

#[test]
fn approval_message_reaches_prompt_and_hooks_as_data() {
    let here = "said=[{{ approval.message }}]";
    let script = "printf '%s\\n' {{ approval.message }} > said";
    let world = World::new(&[("1", "todo")])
        .work("approve", json!({"before": true}))
        .work("prompt", json!(format!("{here}\nSCRIPT: ok")))
        .work("hooks/before_run", json!(script));
    let daemon = world.daemon();
    waits(&world, "before");
    // The message is data, as all input is.
    let message = "be gentle; $(touch pwned) {{ 7*7 }}";
    world.vik(&["approve", "1", "--message", message]).expect(0);
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
    let prompt = world.session("1").text(".prompt.md");
    assert!(prompt.starts_with(&format!("said=[{message}]\n")), "{prompt}");
    assert_eq!(prompt.matches("be gentle").count(), 1, "{prompt}");
    assert_eq!(world.workspace_file("1", "said"), format!("{message}\n"));
    // Without a request or without a message the text is empty, and this is no error.
    let world = World::new(&[("1", "todo")]).work("prompt", json!(format!("{here}\nSCRIPT: ok")));
    world.once().expect(0);
    assert!(world.session("1").text(".prompt.md").starts_with("said=[]\n"));
}

#[test]
fn denied_start_is_parked_until_the_issue_changes() {
    let world = World::new(&[("1", "todo")])
        .script("ok")
        .work("approve", json!({"before": true}));
    let daemon = world.daemon();
    waits(&world, "before");
    world.vik(&["deny", "1"]).expect(0);
    world.wait_for_status("it is parked", |status| status["parked"][0]["reason"] == "denied");
    assert!(world.sessions("1").is_empty());
    // Another description needs another approval.
    world.tracker.set("1", "description", json!("something else"));
    waits(&world, "before");
    world.vik(&["approve", "1"]).expect(0);
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
}

#[test]
fn run_once_reports_a_pending_approval_and_exits() {
    let world = World::new(&[("1", "todo")])
        .script("ok")
        .work("approve", json!({"before": true}));
    let done = world.once().expect(10);
    assert!(
        done.err.contains("vik approve 1") || done.out.contains("vik approve 1"),
        "{}{}",
        done.out,
        done.err
    );
    let world = World::new(&[("1", "todo")]).script("ok").work(
        "approve",
        json!({"before": true, "timeout": "1ms", "on_timeout": "approve"}),
    );
    world.once().expect(0);
}

#[test]
fn time_limit_that_passed_without_a_daemon_applies_at_start() {
    let world = World::new(&[("1", "todo")]).script("ok").work(
        "approve",
        json!({"before": true, "timeout": "1h", "on_timeout": "approve"}),
    );
    let daemon = world.start_with_points(&["run"]);
    waits(&world, "before");
    daemon.stop().expect(0);
    world.jump(7200);
    let daemon = world.start_with_points(&["run"]);
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
}

/// Checks that a result that waits is shown as such without a daemon.
#[track_caller]
fn is_not_lost(world: &World) {
    let runs = world.runs();
    let attempt = &runs[0]["attempts"][0];
    assert_eq!(runs[0]["state"], "waiting");
    assert_eq!(attempt["outcome"], Value::Null);
}

/// Returns a world whose work a person has to accept.
fn reviewed() -> World {
    World::new(&[("1", "todo")])
        .work(
            "prompt",
            json!("{% if attempt.number == 1 %}SCRIPT: run echo one > work; ok\n{% else %}SCRIPT: run echo two > work; ok\n{% endif %}"),
        )
        .work("approve", json!({"after": true}))
        .work("verify", json!("echo verified >> ../verified"))
        .attempts(3)
}

#[test]
fn result_awaiting_approval_survives_stop_and_crash() {
    let world = reviewed();
    let daemon = world.daemon();
    let waiting = waits(&world, "after");
    assert_eq!(
        world.status().unwrap()["sessions"][0]["phase"],
        "awaiting_approval"
    );
    assert_eq!(waiting["session_id"], world.session("1").id());
    let explained = world.vik(&["explain", "1"]).expect(0).out;
    assert_contains(&explained, "Waiting for a person: stage `work`");
    // A stop does not discard finished work.
    daemon.stop().expect(0);
    is_not_lost(&world);
    let explained = world.vik(&["explain", "1"]).expect(0).out;
    assert_contains(&explained, "It waits for a person: stage `work`");
    let daemon = world.daemon();
    assert_eq!(waits(&world, "after")["id"], waiting["id"]);
    daemon.kill();
    is_not_lost(&world);
    assert_eq!(world.tracker.state("1").as_deref(), Some("todo"));
    let daemon = world.daemon();
    waits(&world, "after");
    world.vik(&["approve", "1"]).expect(0);
    world.wait_for_state("1", "done");
    let sessions = world.sessions("1");
    assert_eq!(sessions.len(), 1);
    sessions[0].expect("succeeded", None);
    daemon.stop().expect(0);
}

#[test]
fn result_is_denied_with_a_message_for_retry_or_finally() {
    let world = reviewed();
    let daemon = world.daemon();
    waits(&world, "after");
    world.vik(&["deny", "1", "--message", "write two"]).expect(0);
    eventually("the second attempt waits", || {
        world.sessions("1").len() == 2 && approvals(&world).iter().any(|one| one["gate"] == "after")
    });
    let sessions = world.sessions("1");
    let reason = sessions[0].expect("failed", Some("verify"))["reason"].clone();
    assert!(reason.as_str().unwrap().contains("write two"), "{reason}");
    assert_eq!(world.workspace_file("1", "work"), "two\n");
    let status = world.vik(&["status"]).expect(0).out;
    assert_contains(&status, "a person must approve the result");
    world.vik(&["deny", "1"]).expect(0);
    world.wait_for_status("it is parked", |status| status["parked"][0]["reason"] == "denied");
    sessions[1].expect("failed", Some("denied"));
    assert_eq!(world.tracker.state("1").as_deref(), Some("todo"));
    daemon.stop().expect(0);
}

#[test]
fn result_gets_the_default_answer_after_the_time_limit() {
    let world = reviewed().work("approve", json!({"after": true, "timeout": "1ms"}));
    world.once().expect(1);
    world.session("1").expect("failed", Some("denied"));
    let world = reviewed().work(
        "approve",
        json!({"after": true, "timeout": "1ms", "on_timeout": "approve"}),
    );
    world.once().expect(0);
    let notes: Vec<_> = world.session("1").of_kind("error");
    assert!(
        notes
            .iter()
            .any(|note| note["message"] == "the time limit approved the result"),
        "{notes:?}"
    );
}

#[test]
fn cancel_ends_an_attempt_that_awaits_approval() {
    let world = reviewed();
    let daemon = world.daemon();
    waits(&world, "after");
    world.vik(&["cancel", "1"]).expect(0);
    world.wait_for_status("it is parked", |status| {
        status["parked"][0]["reason"] == "cancelled"
    });
    assert!(approvals(&world).is_empty());
    daemon.stop().expect(0);
}

#[test]
fn outputs_wait_for_the_approval_of_a_person() {
    let world = |answer: &[&str]| {
        let world = World::new(&[("1", "todo")]);
        let line = r#"{"kind":"comment","body":"Please look"}"#;
        let file = world.env.write("asked", format!("{line}\n"));
        let done = world.env.path("done");
        let world = world
            .script(&format!("run cat {} >> \"$VIK_OUTPUTS\"; ok", file.display()))
            .set("/agents/a/sandbox", json!({}))
            .attempts(1)
            .work(
                "outputs",
                json!({"comment": {"run": format!("cat \"$VIK_OUTPUT_FILE\" >> {}", done.display()), "approve": true}}),
            );
        let daemon = world.daemon();
        let waiting = waits(&world, "after");
        assert_eq!(waiting["outputs"], json!(["comment: Please look"]));
        assert_contains(waiting["detail"].as_str().unwrap(), "comment: Please look");
        assert!(!done.exists());
        // A new daemon does not ask again.
        daemon.kill();
        let daemon = world.daemon();
        assert_eq!(waits(&world, "after")["id"], waiting["id"]);
        world.vik(answer).expect(0);
        eventually("it is answered", || {
            approvals(&world).is_empty() && world.status().unwrap()["sessions"] == json!([])
        });
        daemon.stop().expect(0);
        std::fs::read_to_string(done).unwrap_or_default()
    };
    assert_eq!(world(&["approve", "1"]), "Please look");
    assert_eq!(world(&["deny", "1"]), "");
}
