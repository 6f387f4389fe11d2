//! Agents that print their answers in parts.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::*;

/// Returns a step that prints a part of an answer of Claude Code.
fn part(event: &Value) -> String {
    let line = json!({"type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": null});
    // Quoted text in a script is escaped as in JSON.
    format!("partial {}", json!(format!("{line}\n")))
}

fn text_part() -> String {
    let delta = json!({"type": "text_delta", "text": "twelve chars"});
    part(&json!({"type": "content_block_delta", "index": 0, "delta": delta}))
}

/// Returns stages whose agent is Claude Code that streams; its stall timeout is 1 s.
fn streaming(issues: &[(&str, &str)]) -> World {
    World::new(issues)
        .set(
            "/agents/a",
            json!({"runtime": "claude_code", "model": "scripted", "stream": true}),
        )
        .work("stall_timeout", json!("1s"))
        .attempts(1)
}

/// Repeats a step, with a pause after each.
fn paced(times: u32, pause_ms: u32, step: &str) -> String {
    format!("repeat {times} {}", json!(format!("{step}; sleep {pause_ms}")))
}

#[test]
fn parts_of_an_answer_are_no_stall_and_leave_the_raw_output() {
    let parts = paced(10, 250, &text_part());
    let world = streaming(&[("1", "todo")]).script(&format!("start; {parts}; message whole; done"));
    world.once().expect(0);
    let session = world.session("1");
    session.expect("succeeded", None);
    assert_eq!(session.messages(), ["whole"]);
    for kind in ["unknown", "malformed"] {
        assert_eq!(session.of_kind(kind), [Value::Null; 0]);
    }
    let raw = String::from_utf8(session.raw()).unwrap();
    assert!(raw.contains("whole") && !raw.contains("stream_event"), "{raw}");
}

#[test]
fn pings_of_the_provider_are_a_stall_after_a_while() {
    let pings = paced(200, 100, &part(&json!({"type": "ping"})));
    let world = streaming(&[("1", "todo")]).script(&format!("start; {pings}; message late; done"));
    world.once().expect(1);
    world.session("1").expect("stalled", None);
}

/// Returns the CPU time of a process so far, in user and kernel mode.
#[cfg(target_os = "linux")]
fn cpu_time(pid: i32) -> Duration {
    let fields = stat_fields(pid);
    // `utime` and `stime`.
    let ticks: u64 = fields[11..=12]
        .iter()
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 10)
}

#[cfg(target_os = "linux")]
#[test]
fn ten_streaming_agents_cost_the_daemon_little() {
    let ids = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let parts = paced(3000, 100, &text_part());
    let world = streaming(&ids.map(|id| (id, "todo")))
        .set("/loop/max_issue_concurrency", json!(10))
        // Pulls would be most of the work.
        .set("/issues/pull/idle_sec", json!("1m"))
        .script(&format!("start; {parts}; message whole; done"));
    let daemon = world.daemon();
    let streams = |status: &Value| {
        let sessions = status["sessions"].as_array().unwrap();
        let is_streaming = |session: &&Value| session["tokens_per_second"].as_f64().is_some_and(|n| n > 1.0);
        sessions.iter().filter(is_streaming).count() == 10
    };
    world.wait_for_status("all agents stream", |status| streams(status));
    let status = world.status().unwrap();
    let waits = &status["sessions"][0]["waits_for"];
    assert_eq!(waits["kind"], "model");
    assert_eq!(waits["detail"], "text");
    let (before, started) = (cpu_time(daemon.pid()), std::time::Instant::now());
    std::thread::sleep(Duration::from_secs(5));
    let used = cpu_time(daemon.pid()) - before;
    let share = used.as_secs_f64() / started.elapsed().as_secs_f64();
    println!("ten streaming agents: {:.1} % of a core", share * 100.0);
    // A debug build needs several times the CPU of a release build.
    let most = if cfg!(debug_assertions) { 0.15 } else { 0.03 };
    assert!(share <= most, "{:.1} % of a core", share * 100.0);
    world.vik(&["stop"]).expect(0);
    daemon.done();
}
