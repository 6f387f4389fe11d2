//! `kill -9` of the daemon while an agent gets another turn in its process.

use serde_json::json;
use vik_base::failpoint::TURN_POINTS;
use vik_testkit::RealAgent;

use super::rig::{Rig, Target};
use crate::real_agents::Real;
use crate::real_agents::turns::{MOVE, with_turns};
use crate::support::eventually;

/// Kills the daemon at each point of a further turn of the real CLI: the model gets its prompt once,
/// in the same process.
fn gets_its_turn_once(agent: RealAgent) {
    const FEEDBACK: &str = "not yet done";
    for point in TURN_POINTS {
        let script = json!([
            {"text": "First.", "expect": "Do the task."},
            {"text": "Second.", "run": format!("touch done.txt; {MOVE}"), "expect": FEEDBACK},
            {"text": "Finished.", "expect": "Do the task."}
        ]);
        let Some(real) = with_turns(agent, 3, &script) else {
            return;
        };
        let Real { world, server } = real;
        let verify = format!("test -e done.txt || {{ echo {FEEDBACK}; exit 1; }}");
        let rig = Rig::around(world.work("verify", json!(verify)));
        let world = &rig.world;
        rig.world.arm(point);
        rig.up();
        rig.kill_at(point, Target::Daemon);
        rig.up();
        world.wait_for_state("1", "done");
        eventually("the attempt has ended", || {
            let runs = world.runs();
            runs.first().is_some_and(|run| run["state"] == "ended")
        });
        let explained = world.explained("1");
        world.vik(&["stop"]).expect(0);
        world.env.assert_nothing_left();
        assert_eq!(server.failures(), [""; 0], "{point}");
        let requests: Vec<_> = server.turns().iter().map(|turn| turn.body.to_string()).collect();
        let counts: Vec<_> = requests
            .iter()
            .map(|body| body.matches(FEEDBACK).count())
            .collect();
        assert_eq!(counts, [0, 1, 1], "{point}: what the model got");
        let [session] = &world.sessions("1")[..] else {
            panic!("{point}: {:?}", world.runs());
        };
        session.expect("succeeded", None);
        assert_eq!(session.of_kind("turn").len(), 1, "{point}");
        assert_eq!(explained["now"]["life"]["attempts"], 1, "{point}: {explained}");
    }
}

#[test]
fn steerable_codex_gets_its_turn_once_when_the_daemon_dies() {
    gets_its_turn_once(RealAgent::Codex);
}

#[test]
fn steerable_claude_gets_its_turn_once_when_the_daemon_dies() {
    gets_its_turn_once(RealAgent::Claude);
}

/// Kills the daemon while `verify` runs between two turns: the next daemon ends the process, checks
/// its work, and the next turn is an attempt.
fn is_checked_after_a_crash(agent: RealAgent) {
    let script = json!([
        {"text": "First.", "expect": "Do the task."},
        {"text": "Second.", "run": MOVE, "expect": "still in the state"},
        {"text": "Finished."}
    ]);
    let Some(Real { world, server }) = with_turns(agent, 3, &script) else {
        return;
    };
    let verify = "test -e ../go.txt || { touch ../verifying.txt; sleep 1000; }";
    let rig = Rig::around(world.work("verify", json!(verify)));
    let world = &rig.world;
    let file = |name: &str| world.workspace("1").join("..").join(name);
    rig.up();
    eventually("`verify` runs", || file("verifying.txt").exists());
    rig.kill(Target::Daemon);
    std::fs::write(file("go.txt"), "").unwrap();
    rig.up();
    eventually("the second attempt has ended", || {
        let runs = world.runs();
        runs.first()
            .is_some_and(|run| run["attempts"][1]["outcome"] == "succeeded")
    });
    world.vik(&["stop"]).expect(0);
    world.env.assert_nothing_left();
    assert_eq!(server.failures(), [""; 0]);
    let runs = world.runs();
    let attempts = runs[0]["attempts"].as_array().unwrap().iter();
    let turns: Vec<_> = attempts.map(|attempt| attempt["turn"].clone()).collect();
    assert_eq!(turns, [1, 2]);
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"));
}

#[test]
fn steerable_codex_is_checked_after_a_crash() {
    is_checked_after_a_crash(RealAgent::Codex);
}

#[test]
fn steerable_claude_is_checked_after_a_crash() {
    is_checked_after_a_crash(RealAgent::Claude);
}
