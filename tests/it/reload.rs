//! The workflow is edited while the daemon runs.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::*;

fn workflow(world: &World) -> Value {
    world.status().unwrap()["workflow"].clone()
}

#[test]
fn edit_applies_to_the_next_attempt_and_not_the_running_one() {
    let mut world = World::new(&[("1", "todo")]).script("message old; touch up; wait-file go; ok");
    let daemon = world.daemon();
    eventually("the agent is up", || world.workspace("1").join("up").exists());
    let loaded = workflow(&world)["loaded_at"].clone();
    world.put("/issue/stages/work/prompt", json!("SCRIPT: message new; ok\n"));
    world.put(
        "/issue/stages/work/hooks/after_run",
        json!(world.on_success("elsewhere")),
    );
    eventually("it was loaded", || workflow(&world)["loaded_at"] != loaded);
    world.go();
    world.wait_for_state("1", "done");
    world.tracker.move_to("1", "todo");
    world.wait_for_state("1", "elsewhere");
    daemon.stop().expect(0);
    let messages: Vec<_> = world.sessions("1").iter().map(Session::messages).collect();
    assert_eq!(messages, [["old"], ["new"]]);
}

#[test]
fn invalid_edit_keeps_the_last_good_workflow() {
    let mut world = World::new(&[("1", "later")]).script("append turns x; ok");
    let daemon = world.daemon();
    assert_eq!(workflow(&world)["rejected"], Value::Null);
    world.env.write("work/workflow.yml", "issue: [");
    eventually("it is rejected", || !workflow(&world)["rejected"].is_null());
    let rejected = workflow(&world)["rejected"].clone();
    assert_contains(rejected["diagnostics"][0].as_str().unwrap(), "workflow.yml");
    world.tracker.move_to("1", "todo");
    world.wait_for_state("1", "done");
    world.put("/loop", json!({"max_issue_concurrency": 3}));
    eventually("it is good again", || workflow(&world)["rejected"].is_null());
    daemon.stop().expect(0);
}

#[test]
fn hangup_reloads_the_workflow() {
    let mut world = World::new(&[("1", "todo")])
        .set("/issues/pull/idle_sec", json!("10m"))
        .work("when/state", json!("other"));
    let daemon = world.daemon();
    world.put("/issue/stages/work/when/state", json!("todo"));
    daemon.signal(Signal::SIGHUP);
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
}

fn daemon_log(world: &World) -> String {
    let logs = world.home().join("logs");
    let logs = list(&logs).into_iter().filter(|path| path.is_file());
    logs.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn edit_takes_effect_at_once_and_is_logged_without_secrets() {
    let mut world = World::new(&[("1", "todo")])
        .set("/issues/pull/idle_sec", json!("1h"))
        .work("when", json!({"state": "later"}));
    world.put("/agents/a/env", json!({"TOKEN": "s3cret-one"}));
    let daemon = world.daemon();
    world.put("/agents/a/env", json!({"TOKEN": "s3cret-two"}));
    world.put("/issue/stages/work/when", json!({"state": "todo"}));
    // The long interval between two pulls does not matter, because an edit triggers a pull.
    world.wait_for_state("1", "done");
    let log = daemon_log(&world);
    assert_contains(&log, "issue.stages.work.when.state");
    assert_contains(&log, "agents.a.env.TOKEN: changed");
    assert!(!log.contains("s3cret"), "{log}");
    daemon.stop().expect(0);
}

#[test]
fn invalid_or_missing_file_is_reported_until_corrected() {
    let world = World::new(&[]);
    let good = world.env.read("work/workflow.yml");
    let daemon = world.daemon();
    assert_eq!(workflow(&world)["rejected"], Value::Null);
    world
        .env
        .workflow(&good.replace("\"agent\": \"a\"", "\"agent\": \"nobody\""));
    eventually("it is refused", || !workflow(&world)["rejected"].is_null());
    let rejected = workflow(&world)["rejected"].clone();
    let first = rejected["diagnostics"][0].as_str().unwrap();
    assert!(
        first.starts_with("workflow.yml:") && first.contains("`nobody`"),
        "{rejected}"
    );
    world.tracker.add("1", "one", "todo");
    world.wait_for_state("1", "done");
    std::fs::remove_file(world.env.work().join("workflow.yml")).unwrap();
    eventually("it is missed", || {
        workflow(&world)["rejected"]["diagnostics"][0]
            .as_str()
            .is_some_and(|line| line.contains("cannot read"))
    });
    world.env.workflow(&good);
    eventually("it is taken back", || workflow(&world)["rejected"].is_null());
    daemon.stop().expect(0);
}

#[test]
fn missing_prompt_file_costs_no_attempt() {
    let mut world = World::new(&[]);
    world
        .env
        .write("work/prompt.md", "SCRIPT: write prompt.txt kept\nSCRIPT: ok\n");
    let stage = json!({
        "when": {"state": "todo"}, "agent": "a", "prompt_file": "prompt.md",
        "hooks": {"after_run": world.on_success("done")},
    });
    world.put("/issue/stages/work", stage);
    let daemon = world.daemon();
    std::fs::remove_file(world.env.work().join("prompt.md")).unwrap();
    eventually("it is missed", || !workflow(&world)["rejected"].is_null());
    world.tracker.add("1", "one", "todo");
    world.wait_for_state("1", "done");
    assert_eq!(world.sessions("1").len(), 1);
    assert_eq!(world.workspace_file("1", "prompt.txt").trim(), "kept");
    world
        .env
        .write("work/prompt.md", "SCRIPT: write prompt.txt edited\nSCRIPT: ok\n");
    eventually("it is found", || workflow(&world)["rejected"].is_null());
    world.tracker.add("2", "two", "todo");
    world.wait_for_state("2", "done");
    assert_eq!(world.workspace_file("2", "prompt.txt").trim(), "edited");
    daemon.stop().expect(0);
}

#[test]
fn setting_that_needs_a_restart_is_named() {
    let mut world = World::new(&[]);
    let daemon = world.daemon();
    world.put("/workspace/root", json!("elsewhere"));
    eventually("it is named", || {
        workflow(&world)["needs_restart"] == json!(["workspace.root"])
    });
    assert!(!world.env.work().join("elsewhere").exists());
    world.put("/workspace/root", json!("home"));
    eventually("it is taken back", || {
        workflow(&world)["needs_restart"] == json!([])
    });
    daemon.stop().expect(0);
}
