//! Attempts of the real agents that Vik ends.

use std::time::Instant;

use super::*;

/// Returns whether the endless tool runs.
fn sleeps(real: &Real) -> bool {
    let mut processes = real.world.env.leftovers().into_iter();
    processes.any(|process| process.command == "sleep 1000")
}

pub(super) fn stops_in_mid_tool(agent: RealAgent) {
    let Some(real) = Real::new(agent, json!([{"text": "Going.", "run": ENDLESS}])) else {
        return;
    };
    real.world.vik(&["run", "-d"]).expect(0);
    eventually("the tool runs", || {
        real.world.sessions("1").len() == 1 && sleeps(&real)
    });
    // Codex starts a tool before it reports the call.
    eventually("the agent has reported it", || {
        real.world
            .session("1")
            .text(".jsonl")
            .contains(r#""kind":"tool_call""#)
    });
    let before = real.world.env.leftovers();
    assert!(before.len() >= 3, "daemon, agent and tool are seen: {before:?}");
    let started = Instant::now();
    real.world.vik(&["stop"]).expect(0);
    let took = started.elapsed();
    // Nothing is left when `stop` has returned, not only some time later.
    let left = real.world.env.leftovers();
    assert!(left.is_empty(), "left: {left:?}");
    assert!(took.as_secs() < 30, "{took:?}");
    let session = real.world.session("1");
    session.expect("cancelled", None);
    assert!(!session.of_kind("tool_call").is_empty());
    let runs = real.world.runs();
    assert_eq!(runs[0]["outcome"], "cancelled");
    assert_eq!(real.world.tracker.state("1").as_deref(), Some("todo"));
}

#[test]
fn codex_is_stopped_during_a_tool_call() {
    stops_in_mid_tool(RealAgent::Codex);
}

#[test]
fn claude_is_stopped_during_a_tool_call() {
    stops_in_mid_tool(RealAgent::Claude);
}

pub(super) fn runs_out_of_time(agent: RealAgent) {
    let Some(real) = Real::new(agent, json!([{"text": "Going.", "run": ENDLESS}])) else {
        return;
    };
    // Long enough for a slow machine to start the tool, and shorter than Codex waits for one.
    let world = real.world.work("timeout", json!("8s"));
    world.once().expect(1);
    world.env.assert_nothing_left();
    let session = world.session("1");
    session.expect("timed_out", None);
    assert!(!session.of_kind("tool_call").is_empty(), "{:?}", session.events());
    assert_eq!(world.runs()[0]["outcome"], "timed_out");
    assert_eq!(world.tracker.state("1").as_deref(), Some("todo"));
}

#[test]
fn codex_times_out_during_a_tool_call() {
    runs_out_of_time(RealAgent::Codex);
}

#[test]
fn claude_times_out_during_a_tool_call() {
    runs_out_of_time(RealAgent::Claude);
}
