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
fn gets_its_turn_once(test: &str, agent: RealAgent) {
    const FEEDBACK: &str = "not yet done";
    for point in TURN_POINTS {
        let script = json!([
            {"text": "First.", "expect": "Do the task."},
            {"text": "Second.", "run": format!("touch done.txt; {MOVE}"), "expect": FEEDBACK},
            {"text": "Finished.", "expect": "Do the task."}
        ]);
        let Some(real) = with_turns(test, agent, 3, &script) else {
            return;
        };
        let Real { world, server } = real;
        let verify = format!("test -e done.txt || {{ echo {FEEDBACK}; exit 1; }}");
        let rig = Rig::around(world.work("verify", json!(verify)));
        let world = &rig.world;
        rig.arm(point);
        rig.up();
        rig.wait_for(point);
        rig.kill(Target::Daemon);
        rig.resume(point);
        rig.up();
        eventually("the issue is done", || {
            world.tracker.state("1").as_deref() == Some("done")
        });
        eventually("the attempt has ended", || {
            let runs = world.runs();
            runs.first().is_some_and(|run| run["state"] == "ended")
        });
        let explained = world.vik(&["explain", "1", "--json"]).expect(0).json();
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
    gets_its_turn_once(
        "steerable_codex_gets_its_turn_once_when_the_daemon_dies",
        RealAgent::Codex,
    );
}

#[test]
fn steerable_claude_gets_its_turn_once_when_the_daemon_dies() {
    gets_its_turn_once(
        "steerable_claude_gets_its_turn_once_when_the_daemon_dies",
        RealAgent::Claude,
    );
}
