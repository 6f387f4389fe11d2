//! An agent that reports success for ever. Elsewhere this cost 2,300 sessions and $5,950 in five
//! days.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::{World, alive, assert_contains, eventually};

fn parked(world: &World) -> Vec<String> {
    let status = world.status().unwrap_or_default();
    let parked = status["parked"].as_array().cloned().unwrap_or_default();
    parked
        .iter()
        .map(|entry| entry["reason"].as_str().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn parked_as(world: &World, reason: &str, sessions: usize) {
    eventually(
        &format!("it is parked ({reason}) after {sessions} sessions"),
        || parked(world) == [reason] && world.sessions("1").len() == sessions,
    );
}

/// Waits until this number of further pulls is over.
fn pulls(world: &World, more: usize) {
    let before = world.tracker.pulls();
    eventually("it was looked at again", || {
        world.tracker.pulls() >= before + more
    });
}

fn pid(world: &World) -> i32 {
    let status = world.status().unwrap();
    i32::try_from(status["pid"].as_i64().unwrap()).unwrap()
}

#[test]
fn agent_that_succeeds_forever_stays_within_the_limits() {
    let mut world = World::new(&[("1", "todo")])
        .work("hooks", json!({}))
        .attempts(2)
        .set("/issue/limits", json!({"attempts": 5}));
    world.vik(&["run", "-d"]).expect(0);
    parked_as(&world, "no_progress", 2);

    // The state flaps: it is the same issue, and no person has edited it.
    for _ in 0..3 {
        world.tracker.move_to("1", "elsewhere");
        pulls(&world, 2);
        world.tracker.move_to("1", "todo");
        pulls(&world, 2);
    }
    parked_as(&world, "no_progress", 2);

    // The daemon dies, is restarted properly, and its workflow is edited.
    let daemon = pid(&world);
    kill(Pid::from_raw(daemon), Signal::SIGKILL).unwrap();
    eventually("it is dead", || !alive(daemon));
    world.vik(&["run", "-d"]).expect(0);
    pulls(&world, 2);
    parked_as(&world, "no_progress", 2);
    world.vik(&["restart"]).expect(0);
    pulls(&world, 2);
    world.put("/logging", json!({"retention_days": 9}));
    pulls(&world, 2);
    parked_as(&world, "no_progress", 2);

    // A person edits the issue: two more attempts, and then the one that the limit of its life
    // still allows.
    world.tracker.set("1", "title", json!("Show cents"));
    parked_as(&world, "no_progress", 4);
    world.tracker.set("1", "title", json!("Show all cents"));
    parked_as(&world, "issue_limit", 5);
    world.tracker.set("1", "title", json!("Show every cent"));
    world.vik(&["restart"]).expect(0);
    pulls(&world, 3);
    parked_as(&world, "issue_limit", 5);

    // Only a command of a person frees it, for as many attempts as the command allows.
    world.vik(&["retry", "1", "--attempts", "1"]).expect(0);
    parked_as(&world, "no_progress", 6);
    world.tracker.set("1", "title", json!("Show each and every cent"));
    parked_as(&world, "issue_limit", 6);
    let entry: Value = world.status().unwrap()["parked"][0].clone();
    assert_contains(entry["freed_by"].as_str().unwrap(), "vik retry");
    world.vik(&["stop"]).expect(0);
}

#[test]
fn flapping_state_stays_within_the_life_limit() {
    // Each success moves the issue on; a person or a bot moves it back, again and again.
    let world = World::new(&[("1", "todo")]).set("/issue/limits", json!({"attempts": 4}));
    world.vik(&["run", "-d"]).expect(0);
    eventually("the life limit holds", || {
        let has_ended = world
            .status()
            .is_some_and(|status| status["sessions"] == json!([]));
        if has_ended && world.tracker.state("1").as_deref() == Some("done") {
            // Vik has seen the state `done`, so this is a new stay in the state.
            pulls(&world, 2);
            world.tracker.move_to("1", "todo");
        }
        parked(&world) == ["issue_limit"]
    });
    assert_eq!(world.sessions("1").len(), 4);
    world.vik(&["stop"]).expect(0);
}
