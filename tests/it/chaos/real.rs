//! The real Codex and Claude Code, killed while a tool runs.

use serde_json::json;
use vik_testkit::RealAgent;

use super::rig::{Target, kill_processes};
use crate::real_agents::Real;
use crate::support::eventually;

/// Kills with `kill -9` while a tool runs: the death of the daemon costs nothing, any other death
/// costs an attempt, and the next one resumes the conversation.
fn survives(agent: RealAgent, target: Target) {
    let wait = "echo started >> started.txt; while [ ! -e go.txt ]; do sleep 0.1; done";
    let script = json!([
        {"text": "Going.", "run": wait},
        {"text": "Went on.", "expect": "Do the task."}
    ]);
    let Some(real) = Real::new(agent, script) else {
        return;
    };
    let world = real.world.attempts(3);
    world.vik(&["run", "-d"]).expect(0);
    eventually("the agent has reported its tool", || {
        !world.workspace_file("1", "started.txt").is_empty()
            && world
                .session("1")
                .text(".jsonl")
                .contains(r#""kind":"tool_call""#)
    });
    assert!(kill_processes(&world, target) > 0);
    if target.hits_daemon() {
        world.vik(&["run", "-d"]).expect(0);
    }
    if target != Target::Daemon {
        eventually("another attempt is made", || world.sessions("1").len() == 2);
    }
    std::fs::write(world.workspace("1").join("go.txt"), "").unwrap();
    world.wait_for_state("1", "done");
    world.vik(&["stop"]).expect(0);
    world.env.assert_nothing_left();
    assert_eq!(real.server.failures(), [""; 0]);
    let sessions = world.sessions("1");
    if target == Target::Daemon {
        let [session] = &sessions[..] else {
            panic!("{:?}", world.runs())
        };
        session.expect("succeeded", None);
        assert_eq!(session.messages(), ["Going.", "Went on."]);
        assert_eq!(session.of_kind("tool_call").len(), 1);
    } else {
        let [first, second] = &sessions[..] else {
            panic!("{:?}", world.runs())
        };
        first.ended();
        second.expect("succeeded", None);
    }
    assert_eq!(
        world.workspace_file("1", "started.txt"),
        "started\n",
        "the tool ran once"
    );
}

#[test]
fn codex_survives_a_daemon_crash() {
    survives(RealAgent::Codex, Target::Daemon);
}

#[test]
fn claude_survives_a_daemon_crash() {
    survives(RealAgent::Claude, Target::Daemon);
}

#[test]
fn codex_resumes_after_all_processes_are_killed() {
    survives(RealAgent::Codex, Target::All);
}

#[test]
fn claude_resumes_after_all_processes_are_killed() {
    survives(RealAgent::Claude, Target::All);
}

#[test]
fn codex_resumes_after_its_shim_is_killed() {
    survives(RealAgent::Codex, Target::Shims);
}

#[test]
fn claude_resumes_after_its_shim_is_killed() {
    survives(RealAgent::Claude, Target::Shims);
}
