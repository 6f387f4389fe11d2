//! Agents that print their answers in parts.

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

/// Returns stages whose agent is Claude Code that streams; its stall timeout is 3 s.
fn streaming(issues: &[(&str, &str)]) -> World {
    World::new(issues)
        .set(
            "/agents/a",
            json!({"runtime": "claude_code", "model": "scripted", "stream": true}),
        )
        .work("stall_timeout", json!("3s"))
        .attempts(1)
}

/// Repeats a step, with a pause after each.
fn paced(times: u32, pause_ms: u32, step: &str) -> String {
    format!("repeat {times} {}", json!(format!("{step}; sleep {pause_ms}")))
}

#[test]
fn parts_of_an_answer_are_no_stall_and_leave_the_raw_output() {
    let parts = paced(20, 250, &text_part());
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

#[test]
fn streaming_agents_are_shown_with_the_speed_of_their_answers() {
    let ids = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let parts = paced(3000, 100, &text_part());
    let world = streaming(&ids.map(|id| (id, "todo")))
        .set("/loop/max_issue_concurrency", json!(10))
        // On a busy machine a part of an answer may be late.
        .work("stall_timeout", json!("5m"))
        .script(&format!("start; {parts}; message whole; done"));
    let daemon = world.daemon();
    world.wait_for_status("all agents stream", |status| {
        let sessions = status["sessions"].as_array().unwrap();
        let streams = |session: &&Value| {
            session["tokens_per_second"].as_f64().is_some_and(|n| n > 1.0)
                && session["waits_for"]["kind"] == "model"
                && session["waits_for"]["detail"] == "text"
        };
        sessions.iter().filter(streams).count() == ids.len()
    });
    world.vik(&["stop"]).expect(0);
    daemon.done();
}
