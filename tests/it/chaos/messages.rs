//! `kill -9` of the daemon while a person sends a message, and while an agent gets it.

use serde_json::json;
use vik_base::failpoint::{MESSAGE_POINTS, SEND_POINTS};
use vik_testkit::RealAgent;

use super::rig::{Rig, Target};
use crate::real_agents::Real;
use crate::support::eventually;

#[test]
fn message_is_neither_lost_nor_doubled_when_the_daemon_dies() {
    for point in SEND_POINTS {
        let rig = Rig::new(&[("1", "todo")], 3000);
        let waiting = || {
            let listed = rig.world.vik(&["message", "1", "--list", "--json"]);
            listed.expect(0).json()["messages"].as_array().unwrap().clone()
        };
        rig.up();
        eventually("the agent runs", || rig.starts() == 1);
        rig.world.arm(point);
        let sending = rig.world.start(&["message", "1", "hello"]);
        rig.kill_at(point, Target::Daemon);
        let sent = sending.done();
        assert_ne!(sent.code, 0, "nobody confirmed it: {}", sent.out);
        // Without a daemon, the ledger has it or not.
        let expected = usize::from(*point == "message_committed");
        assert_eq!(waiting().len(), expected, "{point}");
        rig.up();
        let again = waiting();
        assert_eq!(again.len(), expected, "{point}");
        for message in again {
            assert_eq!(message["text"], "hello");
            assert!(
                !message["session_id"].is_null(),
                "the recovered attempt has it: {message}"
            );
        }
        rig.world.vik(&["stop"]).expect(0);
        rig.world.env.assert_nothing_left();
    }
}

const TEXT: &str = "Make it blue.";

/// Kills the daemon at each point of a message to the real CLI: the model gets it once.
fn gets_it_once(agent: RealAgent) {
    let wait = "echo started >> started.txt; while [ ! -e go.txt ]; do sleep 0.1; done";
    for point in MESSAGE_POINTS {
        let script = json!([{"text": "Going.", "run": wait}, {"text": "Blue it is.", "expect": TEXT}]);
        let Some(Real { world, server }) = Real::new(agent, script) else {
            return;
        };
        let rig = Rig::around(world);
        let world = &rig.world;
        rig.up();
        eventually("the agent can be steered", || {
            let status = world.status().unwrap_or_default();
            !world.workspace_file("1", "started.txt").is_empty()
                && status["sessions"][0]["steerable"] == "ready"
        });
        rig.world.arm(point);
        let sending = world.start(&["message", "1", TEXT]);
        let go = || std::fs::write(world.workspace("1").join("go.txt"), "").unwrap();
        if *point == "message_taken" {
            eventually("the message is sent", || {
                world.session("1").of_kind("person_message").len() == 1
            });
            go();
        }
        rig.kill_at(point, Target::Daemon);
        // The daemon may have died before it confirmed the message.
        let _ = sending.done();
        rig.up();
        go();
        world.wait_for_state("1", "done");
        world.vik(&["stop"]).expect(0);
        world.env.assert_nothing_left();
        assert_eq!(server.failures(), [""; 0], "{point}");
        let requests: Vec<_> = server.turns().iter().map(|turn| turn.body.to_string()).collect();
        let counts: Vec<_> = requests.iter().map(|body| body.matches(TEXT).count()).collect();
        assert_eq!(counts, [0, 1], "{point}: what the model got");
        let [session] = &world.sessions("1")[..] else {
            panic!("{point}: {:?}", world.runs());
        };
        let states: Vec<_> = session
            .of_kind("person_message")
            .iter()
            .map(|event| event["state"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(states, ["sent", "taken"], "{point}");
        let listed = world.vik(&["message", "1", "--list", "--json"]).expect(0).json();
        assert_eq!(listed["messages"], json!([]), "{point}");
    }
}

#[test]
fn steerable_codex_gets_a_message_once_when_the_daemon_dies() {
    gets_it_once(RealAgent::Codex);
}

#[test]
fn steerable_claude_gets_a_message_once_when_the_daemon_dies() {
    gets_it_once(RealAgent::Claude);
}
