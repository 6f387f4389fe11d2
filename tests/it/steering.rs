//! A person steers the daemon: pause, cancel, retry, drain, explain, doctor.

use serde_json::{Value, json};
use vik_testkit::alive;

use crate::support::*;

/// Returns a world whose issue 1 is in work until the file `go` exists.
fn waiting() -> World {
    World::new(&[("1", "todo")]).script("touch up; wait-file go; ok")
}

/// Waits until the hold of the first stage of an issue has this reason.
fn held_by(world: &World, issue: &str, reason: &str) {
    eventually(reason, || {
        let done = world.vik(&["explain", issue, "--json"]);
        done.code == 0 && done.json()["now"]["stages"][0]["hold"]["reason"] == reason
    });
}

fn decided(explained: &Value) -> Vec<&str> {
    let decisions = explained["decisions"].as_array().unwrap();
    decisions
        .iter()
        .map(|decision| decision["kind"].as_str().unwrap())
        .collect()
}

#[test]
fn pause_holds_all_work_until_continue() {
    let world = World::new(&[]);
    let daemon = world.daemon();
    let output = world.vik(&["pause"]).expect(0).out;
    assert_contains(&output, "paused");
    world.tracker.add("1", "One", "todo");
    held_by(&world, "1", "paused");
    assert_eq!(world.status().unwrap()["paused"], true);
    assert!(world.vik(&["status"]).expect(0).out.contains("PAUSED"));
    let text = world.vik(&["explain", "1"]).expect(0).out;
    assert_contains(&text, "Not running");
    assert_contains(&text, "`vik resume`");
    assert!(world.sessions("1").is_empty());
    // The pause outlives the daemon.
    daemon.stop().expect(0);
    let daemon = world.daemon();
    held_by(&world, "1", "paused");
    world.vik(&["continue"]).expect(0);
    world.wait_for_state("1", "done");
    let again = world.vik(&["continue"]).expect(0).out;
    assert_contains(&again, "nothing to do");
    daemon.stop().expect(0);
}

#[test]
fn pause_of_an_issue_lets_its_running_attempt_finish() {
    let world = waiting();
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.vik(&["pause", "1"]).expect(0);
    assert_eq!(world.status().unwrap()["paused_issues"], json!(["1"]));
    // A running attempt proceeds.
    world.go();
    world.wait_for_state("1", "done");
    for verb in ["pause", "resume", "cancel", "retry"] {
        let done = world.vik(&[verb, "none"]).expect(8);
        assert_contains(&done.err, "`none`");
        assert_contains(&done.err, "hint");
    }
    daemon.stop().expect(0);
}

#[test]
fn cancelled_issue_stays_parked_until_retry() {
    let world = waiting();
    let daemon = world.daemon();
    world.wait_for_agent(1);
    let output = world.vik(&["cancel", "1"]).expect(0).out;
    assert_contains(&output, "vik retry 1");
    held_by(&world, "1", "parked");
    world.sessions("1")[0].expect("cancelled", None);
    let parked = &world.status().unwrap()["parked"][0];
    assert_eq!(parked["reason"], "cancelled");
    assert!(parked["freed_by"].as_str().unwrap().contains("vik retry"));
    std::fs::remove_file(world.workspace("1").join("up")).unwrap();
    let output = world.vik(&["retry", "1", "--stage", "other"]).expect(2).err;
    assert_contains(&output, "the workflow has no stage `other`");
    held_by(&world, "1", "parked");
    let output = world.vik(&["retry", "1", "--attempts", "20"]).expect(0).out;
    assert_contains(&output, "another 20 attempts");
    world.wait_for_agent(2);
    let explained = world.explained("1");
    assert_eq!(explained["now"]["stages"][0]["state"], "running");
    // The issue is in the same stay in its state, so the run is the same.
    assert_eq!(explained["runs"].as_array().unwrap().len(), 1);
    assert_eq!(explained["runs"][0]["attempts"].as_array().unwrap().len(), 2);
    let allowed = explained["now"]["life"]["max_attempts"].as_u64().unwrap();
    assert!(allowed >= 20, "more than the 15 of the workflow: {allowed}");
    assert!(decided(&explained).len() > 2, "{explained}");
    world.go();
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
}

#[test]
fn drain_ends_the_daemon_when_nothing_runs() {
    let world = waiting();
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.vik(&["drain"]).expect(0);
    assert_eq!(world.status().unwrap()["state"], "draining");
    world.tracker.add("2", "Two", "todo");
    let late = world.vik(&["drain", "--wait", "--timeout", "0"]).expect(6);
    assert_contains(&late.err, "vik status");
    let mut waits = world.start(&["drain", "--wait"]);
    assert!(!waits.is_over());
    world.go();
    let output = waits.done().expect(0).out;
    assert_contains(&output, "vik exited");
    daemon.done().expect(0);
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
    assert!(world.sessions("2").is_empty(), "nothing more was started");
}

#[test]
fn explain_works_without_a_daemon() {
    let world = World::new(&[("1", "todo")]).script("exit 3").attempts(1);
    let daemon = world.daemon();
    held_by(&world, "1", "parked");
    eventually("the ledger has it", || world.runs()[0]["state"] == "parked");
    let alive = world.explained("1");
    daemon.stop().expect(0);
    let dead = world.explained("1");
    assert_eq!(alive["daemon"]["state"], "running");
    assert_eq!(dead["daemon"]["state"], "not_running");
    for explained in [&alive, &dead] {
        assert_eq!(explained["now"]["stages"][0]["hold"]["reason"], "parked");
        assert_eq!(explained["runs"][0]["state"], "parked");
        assert_eq!(explained["runs"][0]["attempts"][0]["outcome"], "failed");
        assert!(explained["runs"][0]["attempts"][0]["proof"].is_string());
        assert!(explained["runs"][0]["attempts"][0]["charged"].is_object());
        assert!(!decided(explained).is_empty());
    }
    let text = world.vik(&["explain", "1"]).expect(0).out;
    assert_contains(&text, "no daemon is running");
    assert_contains(&text, "attempts_used_up");
    let error = world.vik(&["explain", "none", "--json"]).expect(8).json();
    assert_eq!(error["error"]["code"], "unknown_issue");
    // Explaining only reads: the next daemon has the same state as before.
    let daemon = world.daemon();
    held_by(&world, "1", "parked");
    assert_eq!(world.sessions("1").len(), 1);
    daemon.stop().expect(0);
}

#[test]
fn agents_kept_by_stop_are_no_orphans() {
    let world = waiting().set("/loop", json!({"orphan_grace": "10m"}));
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_agent(1);
    let owner = || -> Vec<Value> {
        let audit = world.vik(&["doctor", "--orphans", "--json"]).json();
        let of = world.env.work().canonicalize().unwrap().join("workflow.yml");
        let processes = audit["processes"].as_array().unwrap().clone();
        let mine = |one: &Value| one["workflow_path"] == of.to_str().unwrap();
        processes.into_iter().filter(mine).collect()
    };
    assert!(owner().iter().any(|one| one["owner"] == "daemon"));
    let output = world.vik(&["stop", "--keep-sessions"]).expect(0).out;
    assert_contains(&output, "1 agent keeps running");
    let left = owner();
    assert!(
        !left.is_empty() && left.iter().all(|one| one["owner"] == "shim"),
        "{left:?}"
    );
    let pids: Vec<_> = left
        .iter()
        .map(|one| i32::try_from(one["pid"].as_i64().unwrap()).unwrap())
        .collect();
    assert!(pids.iter().all(|pid| alive(*pid)));
    // `stop` does not wait for the orphan grace.
    let output = world.vik(&["stop"]).expect(0).out;
    assert_contains(&output, "stopped the processes");
    assert!(owner().is_empty());
    world.env.assert_nothing_left();
}

#[test]
fn repair_leaves_a_sound_ledger_unchanged() {
    let world = World::new(&[("1", "todo")]);
    let daemon = world.daemon();
    world.wait_for_state("1", "done");
    let refused = world.vik(&["doctor", "--repair"]).expect(5);
    assert_contains(&refused.err, "vik stop");
    daemon.stop().expect(0);
    let done = world.vik(&["doctor", "--repair", "--json"]).expect(0).json();
    assert_eq!((&done["repaired"], &done["found"]), (&json!(false), &Value::Null));
    let report = world.vik(&["doctor", "--offline", "-v"]).expect(0).out;
    assert_contains(&report, "the ledger is intact");
}

#[test]
fn explain_reports_an_issue_that_matches_no_stage() {
    let world = World::new(&[("1", "todo"), ("2", "backlog")]);
    let daemon = world.daemon();
    eventually("it is done", || {
        let explained = world.vik(&["explain", "1", "--json"]);
        explained.code == 0 && explained.json()["now"]["hold"]["reason"] == "no_stage"
    });
    world.wait_for_status("no agent runs", |status| status["sessions"] == json!([]));
    let text = world.vik(&["explain", "1"]).expect(0).out;
    let message = "no stage handles the state `done`; stages handle `todo`";
    assert_contains(&text, message);
    assert_contains(&text, "Freed by moving the issue");
    // An issue that was never in a state of a stage is unknown, and the error lists those states.
    let error = world.vik(&["explain", "2"]).expect(8).err;
    assert_contains(&error, "in a state that a stage handles: `todo`");
    let shown = world.vik(&["show", "1"]).expect(0).out;
    assert_contains(&shown, message);
    assert_contains(&shown, "1 run, 1 attempt: 1 succeeded, 0 failed");
    daemon.stop().expect(0);
}
