//! The daemon dies or is replaced, and its agents do not notice.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::support::*;

/// Returns a world whose issue 1 is in work by an agent that ends when the file `go` exists.
fn waiting() -> World {
    World::new(&[("1", "todo")])
        .set("/loop", json!({"orphan_grace": "10m"}))
        .script("message one; touch up; wait-file go; message two; append turns x; ok")
}

/// Returns such a world with a detached daemon, when the agent waits for the file.
fn in_work() -> World {
    let world = waiting();
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_agent(1);
    world
}

/// Lets the agent end, stops the daemon, and checks that the work is complete.
fn assert_finishes(world: &World) {
    world.go();
    world.wait_for_state("1", "done");
    world.vik(&["stop"]).expect(0);
    assert_whole(world);
}

/// Checks that the only attempt is complete: each line once, one end, one `after_run`.
fn assert_whole(world: &World) {
    let session = world.session("1");
    session.expect("succeeded", None);
    assert_eq!(session.messages(), ["one", "two"]);
    assert_eq!(world.workspace_file("1", "turns"), "x");
    let moves = world
        .tracker
        .calls()
        .iter()
        .filter(|call| *call == "move 1 done")
        .count();
    assert_eq!(moves, 1);
}

#[test]
fn agent_is_adopted_by_the_next_daemon() {
    let world = in_work();
    world.kill_daemon();
    world.vik(&["run", "-d"]).expect(0);
    let status = world.status().unwrap();
    assert_eq!(status["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(status["sessions"][0]["adopted"], true);
    assert_finishes(&world);
}

#[test]
fn agent_that_ended_without_a_daemon_is_finished_by_the_next() {
    let world = in_work();
    world.kill_daemon();
    world.go();
    eventually("the agent is gone", || world.env.leftovers().is_empty());
    assert_eq!(
        world.tracker.state("1").as_deref(),
        Some("todo"),
        "no after_run yet"
    );
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_state("1", "done");
    world.vik(&["stop"]).expect(0);
    assert_whole(&world);
}

#[test]
fn restart_with_kept_sessions_replaces_only_the_daemon() {
    let world = in_work();
    let before = world.status().unwrap();
    world.vik(&["restart", "--keep-sessions"]).expect(0);
    let after = world.status().unwrap();
    assert_ne!(before["pid"], after["pid"]);
    assert_eq!(
        before["sessions"][0]["session_id"],
        after["sessions"][0]["session_id"]
    );
    assert_finishes(&world);
}

#[test]
fn stop_ends_kept_sessions() {
    let world = in_work();
    world.vik(&["stop", "--keep-sessions"]).expect(0);
    assert!(!world.env.leftovers().is_empty(), "the agent lives on");
    world.vik(&["stop"]).expect(0);
    world.env.assert_nothing_left();
    // The next daemon sees that the attempt was lost, and retries.
    world.go();
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_state("1", "done");
    world.vik(&["stop"]).expect(0);
    assert_eq!(world.sessions("1").len(), 2);
}

#[test]
fn foreground_daemon_takes_its_agents_down_with_it() {
    let world = World::new(&[("1", "todo")]).script("touch up; hang");
    let daemon = world.daemon();
    world.wait_for_agent(1);
    daemon.kill();
    eventually("the agent has ended", || world.env.leftovers().is_empty());
    let daemon = world.daemon();
    eventually("it is tried again", || world.sessions("1").len() == 2);
    daemon.stop().expect(0);
    world.sessions("1")[0].expect("lost", None);
}

#[test]
fn drain_waits_for_running_work_and_starts_nothing() {
    let world = waiting();
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.vik(&["drain"]).expect(0);
    world.tracker.add("2", "later", "todo");
    world.go();
    daemon.done().expect(0);
    world.wait_for_state("1", "done");
    assert!(world.sessions("2").is_empty());
    assert_whole(&world);
}

#[test]
fn cancelled_issue_stays_parked_across_a_restart() {
    let world = World::new(&[("1", "todo")]).script("touch up; hang");
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.vik(&["cancel", "1"]).expect(0);
    world.wait_for_status("it is parked", |status| {
        status["parked"][0]["reason"] == "cancelled"
    });
    world.session("1").expect("cancelled", None);
    daemon.stop().expect(0);
    let daemon = world.daemon();
    assert_eq!(world.status().unwrap()["parked"][0]["reason"], "cancelled");
    world.vik(&["retry", "1"]).expect(0);
    eventually("it is tried again", || world.sessions("1").len() == 2);
    daemon.stop().expect(0);
}

#[test]
fn damaged_ledger_is_refused_before_any_work() {
    let world = World::new(&[("1", "done")]).script("append turns x; ok");
    world.once().expect(0);
    world.tracker.move_to("1", "todo");
    let ledger = world.home().join("service/vik.db");
    let whole = std::fs::read(&ledger).unwrap();
    std::fs::write(&ledger, "no database").unwrap();
    for args in [&["run", "-d"][..], &["run", "--once"]] {
        let done = world.vik(args).expect(1);
        assert_contains(&done.err, "doctor --repair");
    }
    assert!(world.sessions("1").is_empty() && !world.workspace("1").exists());
    std::fs::write(&ledger, whole).unwrap();
    world.once().expect(0);
    assert_eq!(world.sessions("1").len(), 1);
}

#[test]
fn agents_are_adopted_even_without_the_ledger() {
    let world = in_work();
    world.kill_daemon();
    let service = world.home().join("service");
    for name in ["vik.db", "vik.db-wal", "vik.db-shm", "vik.db.lock"] {
        std::fs::remove_file(service.join(name)).unwrap();
    }
    world.vik(&["run", "-d"]).expect(0);
    assert_eq!(world.status().unwrap()["sessions"][0]["adopted"], true);
    assert_finishes(&world);
}

#[test]
fn agents_without_a_daemon_are_reported() {
    let world = in_work();
    world.kill_daemon();
    let status = world.vik(&["status"]).expect(4);
    assert_contains(&status.err, "1 agent keeps running without a daemon");
    let runs = world.vik(&["runs", "--json"]).expect(0).json();
    assert_eq!(runs[0]["attempts"][0]["outcome"], json!(null), "it is not lost");
    let stopped = world.vik(&["stop"]).expect(0);
    assert_contains(&stopped.out, "no daemon was running");
    world.vik(&["status"]).expect(4);
    world.env.assert_nothing_left();
}

#[test]
fn stop_ends_an_unmarked_process_without_daemon_and_shim() {
    let world = waiting().script("daemonise 600000 clearenv,pid=hidden; touch up; hang");
    world.vik(&["run", "-d"]).expect(0);
    world.wait_for_agent(1);
    let hidden: i32 = world.workspace_file("1", "hidden").trim().parse().unwrap();
    let audit = || -> Vec<serde_json::Value> {
        let audit = world.vik(&["doctor", "--orphans", "--json"]).json();
        let found = audit["processes"].as_array().unwrap().clone();
        found.into_iter().filter(|one| one["pid"] == hidden).collect()
    };
    eventually("its census has it", || !audit().is_empty());
    let shim = i32::try_from(audit()[0]["shim_pid"].as_i64().unwrap()).unwrap();
    world.kill_daemon();
    kill(Pid::from_raw(shim), Signal::SIGKILL).unwrap();
    eventually("nobody owns it", || {
        audit().iter().all(|one| one["owner"] == "nobody")
    });
    assert!(alive(hidden));
    world.vik(&["stop"]).expect(0);
    assert!(!alive(hidden));
    world.env.assert_nothing_left();
}
