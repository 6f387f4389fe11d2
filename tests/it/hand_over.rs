//! The hand-over of finished work is repeated alone: without another attempt, agent or charge.

use serde_json::{Value, json};
use vik_core::decision_kind::DecisionKind;

use crate::reconcile::decided;
use crate::support::*;

/// A world whose `after_run` counts its tries and then runs `script`. Its hand-overs hardly wait.
fn world(script: &str) -> World {
    let world = World::new(&[("1", "todo")]);
    let moves = world.on_success("done");
    let script = script.replace("MOVE", &moves);
    world
        .work(
            "hand_over",
            json!({"initial_backoff": "10ms", "max_backoff": "10ms", "max_tries": 4}),
        )
        .work(
            "hooks/after_run",
            json!(format!(
                "echo $VIK_RUN_ID >> {{{{ workflow_dir }}}}/tries\n\
                 try=$(wc -l < {{{{ workflow_dir }}}}/tries)\n{script}"
            )),
        )
        .script("write x y; ok")
}

fn tries(world: &World) -> usize {
    let tries = std::fs::read_to_string(world.env.path("work/tries")).unwrap_or_default();
    let runs: std::collections::BTreeSet<_> = tries.lines().collect();
    assert!(runs.len() <= 1, "all tries are of one run: {runs:?}");
    tries.lines().count()
}

fn hold(world: &World) -> Value {
    world.explained("1")["now"]["stages"][0]["hold"].clone()
}

fn runs_state(world: &World) -> String {
    world.runs()[0]["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn failed_after_run_is_repeated_without_an_agent() {
    let world = world("test $try = 3 || { echo the tracker is down; exit 1; }\nMOVE");
    let done = world.once().expect(0);
    assert_eq!(tries(&world), 3);
    world.session("1").expect("succeeded", None);
    for kind in [
        DecisionKind::HandOverFailed,
        DecisionKind::HandingOver,
        DecisionKind::HandedOver,
    ] {
        assert!(decided(&world, "1", &kind), "{kind:?}");
    }
    assert!(!decided(&world, "1", &DecisionKind::BackingOff));
    assert_contains(&done.err, "the tracker is down");
    assert_contains(&done.err, "handed over by try 3");
    let show = world.vik(&["show", "1"]).expect(0).out;
    assert!(!show.contains("but not handed over"), "{show}");
    let logs = world.offline(&["logs", "--issue", "1"]).expect(0).out;
    assert!(!logs.contains("after_run failed"));
}

#[test]
fn hand_over_that_keeps_failing_parks_the_stage() {
    let world = world("echo the tracker is down; exit 1");
    let done = world.once().expect(1);
    assert_eq!(tries(&world), 4);
    world.session("1").expect("succeeded", None);
    assert_contains(&done.out, "1 work: parked (hand_over)");
    let hold = hold(&world);
    assert_eq!(hold["reason"], "parked");
    let detail = hold["detail"].as_str().unwrap();
    assert_contains(
        detail,
        "parked (hand_over): the work is done, but its hand-over failed 4 times",
    );
    assert_contains(detail, "the tracker is down");
    assert!(hold["freed_by"].as_str().unwrap().contains("vik retry --agent"));
    let verbs = [&["show", "1"][..], &["explain", "1"], &["logs", "--issue", "1"]];
    // The output of hooks stays on a worker, and `vik logs` does not have it.
    let count = if temporal().is_some() { 2 } else { 3 };
    for verb in &verbs[..count] {
        let text = world.vik(verb).expect(0).out;
        assert!(text.contains("the tracker is down"), "{verb:?}: {text}");
    }
    let decisions = world.explained("1")["decisions"].clone();
    let parked = decisions
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["kind"] == "parked");
    assert_contains(parked.unwrap()["detail"].as_str().unwrap(), "the tracker is down");
    // It was parked by an earlier daemon, and nothing of it runs.
    world.once().expect(10);
    assert_eq!(tries(&world), 4);
}

#[test]
fn retry_hands_over_again_with_the_script_of_the_edited_workflow() {
    let mut world = world("exit 1");
    world.once().expect(1);
    let moves = world.on_success("done");
    world.put("/issue/stages/work/hooks/after_run", json!(moves));
    let daemon = world.daemon();
    let done = world.vik(&["retry", "1"]).expect(0);
    assert_contains(&done.out, "retrying 1 stage of issue 1");
    world.wait_for_state("1", "done");
    daemon.stop();
    assert_eq!(tries(&world), 4);
    world.session("1").expect("succeeded", None);
}

#[test]
fn retry_with_an_agent_does_the_work_again() {
    let world = world("test $try = 5 || exit 1\nMOVE").attempts(1);
    world.once().expect(1);
    let daemon = world.daemon();
    world.vik(&["retry", "1", "--agent"]).expect(0);
    world.wait_for_state("1", "done");
    daemon.stop();
    assert_eq!(world.sessions("1").len(), 2);
}

#[test]
fn once_does_not_wait_long_for_a_hand_over() {
    let world = world("echo retry-after: 300; exit 75");
    let done = world.once().expect(10);
    assert_eq!(tries(&world), 1);
    assert_contains(
        &done.out,
        "the work is done, but its hand-over failed (1 of 4 tries)",
    );
    assert_eq!(runs_state(&world), "handing_over");
    // The next one does not begin before its time, and no agent runs.
    world.once().expect(10);
    assert_eq!((tries(&world), world.sessions("1").len()), (1, 1));
}

/// Returns a world whose hand-over has failed once and waits, and its daemon.
fn waiting() -> (World, Running) {
    let world = world("test $try = 2 || { echo retry-after: 300; exit 75; }\nMOVE");
    let daemon = world.daemon();
    eventually("it waits", || {
        decided(&world, "1", &DecisionKind::HandOverFailed) && hold(&world)["reason"] == "hand_over"
    });
    (world, daemon)
}

/// Checks that `vik retry` hands the work over, without another attempt.
fn assert_retry_hands_over(world: &World, daemon: Running) {
    world.vik(&["retry", "1"]).expect(0);
    world.wait_for_state("1", "done");
    daemon.stop();
    assert_eq!((tries(world), world.sessions("1").len()), (2, 1));
}

#[test]
fn retry_ends_the_wait_of_a_hand_over() {
    let (world, daemon) = waiting();
    assert_eq!(runs_state(&world), "handing_over");
    assert_retry_hands_over(&world, daemon);
}

#[test]
fn cancelled_hand_over_is_parked_until_it_is_retried() {
    let (world, daemon) = waiting();
    world.vik(&["cancel", "1"]).expect(0);
    assert_contains(hold(&world)["detail"].as_str().unwrap(), "parked (cancelled)");
    assert_retry_hands_over(&world, daemon);
}

/// What a try did before it failed may be all that a person wants.
#[test]
fn hand_over_ends_when_the_issue_is_elsewhere() {
    let world = world("MOVE\nexit 1");
    let done = world.once().expect(1);
    assert_eq!(tries(&world), 1);
    assert_contains(
        &done.out,
        "1 work: succeeded, but its hand-over failed; the issue has left the stage's state",
    );
    world.once().expect(0);
    assert_eq!(world.sessions("1").len(), 1);
}

/// The processes of the interrupted try are ended, and the next daemon tries again.
#[test]
fn interrupted_hand_over_is_continued_by_the_next_daemon() {
    let world = world(
        "test $try != 1 || exit 1\n\
         test $try != 2 || { sleep 600 & sleep 600; }\nMOVE",
    );
    let daemon = world.start(&["run", "--once"]);
    eventually("the second try runs", || tries(&world) == 2);
    world.kill_machine(daemon);
    world.once().expect(0);
    assert_eq!((tries(&world), world.sessions("1").len()), (3, 1));
    world.env.assert_nothing_left();
}

/// A daemon that dies in each try does not repeat it for ever.
#[test]
fn interrupted_tries_are_counted() {
    let world = world("test $try != 1 || exit 1\nsleep 600");
    for number in 2..=4 {
        let daemon = world.start(&["run", "--once"]);
        eventually("the next try runs", || tries(&world) == number);
        daemon.kill();
    }
    let done = world.once().expect(1);
    assert_contains(&done.out, "1 work: parked (hand_over)");
    assert_eq!((tries(&world), world.sessions("1").len()), (4, 1));
    // The stage is parked without another try, so nothing waited for the end of the last one.
    eventually("the last try has ended", || world.env.leftovers().is_empty());
}

#[test]
fn no_other_stage_starts_before_the_work_is_handed_over() {
    let world = world("test $try = 3 || exit 1\nMOVE").set(
        "/issue/stages/after",
        json!({"when": {"state": "todo"}, "agent": "a", "prompt": "x"}),
    );
    world.once().expect(0);
    assert_eq!((tries(&world), world.sessions("1").len()), (3, 1));
}

/// Each try is judged by what it printed itself.
#[test]
fn wait_that_an_earlier_try_asked_for_is_over() {
    let world =
        world("test $try != 1 || echo retry-after: 0\ntest $try = 3 || { echo failed $try; exit 1; }\nMOVE");
    let done = world.once().expect(0);
    assert_contains(&done.err, "failed 2");
    assert!(!done.err.contains("failed 1\n    failed 2"), "{}", done.err);
    assert_eq!(tries(&world), 3);
}
