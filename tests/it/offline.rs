//! Commands of people while no daemon runs: they change the ledger, and the next daemon follows.

use serde_json::json;

use crate::support::*;

fn parked() -> World {
    let world = World::new(&[("1", "todo")]).script("exit 3").attempts(1);
    world.once().expect(1);
    world
}

/// Returns why the first stage of an issue is held, read without a daemon.
fn hold_detail(world: &World) -> String {
    let explained = world.explained("1");
    let hold = &explained["now"]["stages"][0]["hold"];
    hold["detail"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn retry_frees_a_parked_stage_for_the_next_run() {
    let world = parked();
    let done = world.vik(&["retry", "1"]).expect(0);
    assert_contains(&done.out, "retrying 1 stage of issue 1");
    assert_contains(&done.err, "no daemon is running: recorded");
    let again = world.vik(&["retry", "1"]).expect(0);
    assert_contains(&again.out, "nothing to retry");
    assert_eq!(world.sessions("1").len(), 1, "nothing is started");
    let explained = world.vik(&["explain", "1"]).expect(0).out;
    assert_contains(&explained, "command line, without a daemon");
    world.script("ok").once().expect(0);
}

#[test]
fn pause_and_resume_hold_and_free_the_next_run() {
    let world = World::new(&[("1", "todo")]).script("ok");
    // There is no ledger yet.
    world.vik(&["pause"]).expect(0);
    world.once().expect(10);
    assert!(world.sessions("1").is_empty());
    world.vik(&["resume"]).expect(0);
    let again = world.vik(&["resume"]).expect(0);
    assert_contains(&again.out, "nothing to do");
    world.once().expect(0);
}

#[test]
fn start_is_approved_or_denied() {
    for (args, code, sessions) in [
        (&["approve", "1", "--message", "be gentle"][..], 0, 1),
        (&["deny", "1"], 10, 0),
    ] {
        let world = World::new(&[("1", "todo")])
            .script("ok")
            .work("approve", json!({"before": true}));
        world.once().expect(10);
        let reason = hold_detail(&world);
        assert_contains(&reason, "a person must approve the start");
        let wrong = world.vik(&["approve", "1", "--request", "another"]).expect(1);
        assert!(!wrong.err.is_empty());
        world.vik(args).expect(0);
        world.vik(args).expect(1);
        world.once().expect(code);
        assert_eq!(world.sessions("1").len(), sessions, "{args:?}");
    }
}

#[test]
fn result_is_approved_or_denied() {
    let answers: [(&[&str], _, _); 3] = [
        (&["approve"], "done", ["succeeded"].as_slice()),
        (&["deny"], "todo", &["failed"]),
        (&["deny", "--message", "write two"], "todo", &["failed", "failed"]),
    ];
    for (answer, state, outcomes) in answers {
        let world = World::new(&[("1", "todo")])
            .script("run echo $VIK_ATTEMPT >> ../agents; ok")
            .attempts(2)
            .work("verify", json!("echo $VIK_ATTEMPT >> ../verified"))
            .work("approve", json!({"after": true}));
        let daemon = world.daemon();
        let is_pending = || {
            world
                .status()
                .is_some_and(|status| status["approvals"] != json!([]))
        };
        eventually("the result waits", is_pending);
        daemon.kill();
        let reason = hold_detail(&world);
        assert_contains(&reason, "a person must approve the result");
        world.vik(&["approve", "1", "--request", "another"]).expect(1);
        let mut args = vec![answer[0], "1"];
        args.extend(&answer[1..]);
        let done = world.vik(&args).expect(0);
        assert_contains(&done.err, "no daemon is running: recorded");
        // It has its answer: no other one replaces it.
        for verb in ["approve", "deny"] {
            world.vik(&[verb, "1"]).expect(1);
        }

        let daemon = world.daemon();
        let ended = || {
            let sessions = world.sessions("1");
            sessions
                .iter()
                .filter(|session| !session.of_kind("ended").is_empty())
                .count()
        };
        if outcomes.len() == 2 {
            eventually("the second result waits", is_pending);
            assert_eq!(ended(), 1);
            world.vik(&["deny", "1"]).expect(0);
        }
        eventually("the attempts have ended", || ended() == outcomes.len());
        daemon.stop().expect(0);
        let sessions = world.sessions("1");
        let found: Vec<_> = sessions
            .iter()
            .map(|session| session.ended()["outcome"].clone())
            .collect();
        assert_eq!(found, outcomes, "{answer:?}");
        assert_eq!(world.tracker.state("1").as_deref(), Some(state), "{answer:?}");
        // Neither agent nor `verify` is repeated for the result that waited.
        for file in ["agents", "verified"] {
            let text = std::fs::read_to_string(world.workspace("1").join("..").join(file)).unwrap();
            assert_eq!(text.lines().count(), outcomes.len(), "{file} {answer:?}");
        }
    }
}

#[test]
fn cancel_parks_what_waits() {
    let world = World::new(&[("1", "todo")])
        .script("exit 3")
        .work("retry", json!({"initial_backoff": "1h", "max_backoff": "1h"}));
    world.once().expect(10);
    world.vik(&["cancel", "1"]).expect(0);
    let reason = hold_detail(&world);
    assert_contains(&reason, "cancelled");
}

#[test]
fn cancelled_agent_without_a_daemon_is_stopped_by_the_next_one() {
    let world = World::new(&[("1", "todo")])
        .script("touch up; hang")
        .set("/loop", json!({"orphan_grace": "10m"}));
    world.vik(&["run", "-d"]).expect(0);
    eventually("the agent is up", || world.workspace("1").join("up").exists());
    world.vik(&["stop", "--keep-sessions"]).expect(0);
    world.vik(&["cancel", "1"]).expect(0);
    world.once().expect(10);
    world.session("1").expect("cancelled", None);
    world.env.assert_nothing_left();
}

#[test]
fn unknown_issue_and_broken_workflow_change_nothing() {
    let world = parked();
    for args in [
        &["retry", "9"][..],
        &["cancel", "9"],
        &["pause", "9"],
        &["approve", "9"],
    ] {
        world.vik(args).expect(8);
    }
    for verb in ["retry", "approve", "deny"] {
        let refused = world.vik(&[verb, "1", "--stage", "wrok"]).expect(2);
        let message = "the workflow has no stage `wrok`\n  hint: known stages: work";
        assert_contains(&refused.err, message);
    }
    std::fs::write(world.env.work().join("workflow.yml"), "agents: [").unwrap();
    world.vik(&["retry", "1"]).expect(3);
}

#[test]
fn concurrent_commands_apply_once() {
    let world = parked();
    // Each takes the locks for itself alone.
    let commands: Vec<_> = (0..4).map(|_| world.start(&["retry", "1"])).collect();
    let freed = commands
        .into_iter()
        .map(|command| command.done().expect(0).out)
        .filter(|out| out.contains("retrying 1 stage"))
        .count();
    assert_eq!(freed, 1);
    world.vik(&["drain"]).expect(4);
    world.vik(&["refresh"]).expect(4);
}

#[test]
fn agent_that_outlives_its_daemon_is_refused() {
    let vik = env!("CARGO_BIN_EXE_vik");
    let world = World::new(&[("1", "todo")])
        .set("/loop", json!({"orphan_grace": "10m"}))
        .set("/agents/a/sandbox", json!("off"));
    let workflow = world.env.work().join("workflow.yml").display().to_string();
    let script = format!(
        "touch up; wait-file go; run '{vik}' pause --workflow {workflow} > refused 2>&1 || touch tried; wait-file end; ok"
    );
    let world = world.script(&script);
    world.vik(&["run", "-d"]).expect(0);
    eventually("the agent is up", || world.workspace("1").join("up").exists());
    world.vik(&["stop", "--keep-sessions"]).expect(0);
    world.go();
    eventually("the agent has tried", || {
        world.workspace("1").join("tried").exists()
    });
    let refused = world.workspace_file("1", "refused");
    assert_contains(&refused, "agents must not control");
    std::fs::write(world.workspace("1").join("end"), "").unwrap();
    world.once().expect(0);
}
