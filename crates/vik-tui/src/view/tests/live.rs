//! What an agent does at this moment, below its transcript and in the details of the list.

use std::fmt::Write as _;

use serde_json::Value;

use super::*;

/// Returns the session that runs longest, with these live facts.
fn with_facts(facts: &Value) -> vik_api::SessionView {
    let mut session = serde_json::to_value(session(4)).unwrap();
    for (key, value) in facts.as_object().unwrap() {
        session[key] = value.clone();
    }
    from_json(session)
}

fn ago(seconds: i64) -> String {
    later(-seconds).to_string()
}

/// Returns the last line above the keys, which shows the activity.
fn line_below_the_transcript(facts: &Value, size: (u16, u16)) -> String {
    let mut app = app(size.0, size.1, 5);
    let mut status = status(5);
    status.sessions[4] = with_facts(facts);
    send(&mut app, Msg::State(Ok(Box::new(status))));
    followed(&mut app);
    let screen = screen_text(&app);
    let mut lines = screen.lines().rev().filter(|line| !line.is_empty());
    let _keys = lines.next();
    lines.next().unwrap_or_default().trim().to_owned()
}

/// Returns the line of the details that describes the agent.
fn details_of_the_list(facts: &Value) -> String {
    let mut app = app(200, 50, 5);
    let mut status = status(5);
    status.sessions[4] = with_facts(facts);
    send(&mut app, Msg::State(Ok(Box::new(status))));
    let screen = screen_text(&app);
    let at = screen
        .lines()
        .position(|line| line.contains("  agent  "))
        .unwrap();
    // A long text continues in the next line.
    let lines: Vec<_> = screen.lines().skip(at).take(2).collect();
    lines.join("\n")
}

#[test]
fn live_facts_of_a_session() {
    let usual = json!({
        "tokens_per_second": 41.6,
        "context": {"used": 84_000, "window": 200_000},
        "rate_limit": {"used_percent": 82.4, "resets_at": null},
    });
    let with = |more: Value| {
        let mut facts = usual.clone();
        facts
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        facts
    };
    let waits = |kind: &str, detail: Option<&str>, seconds| json!({"kind": kind, "detail": detail, "since": ago(seconds)});
    let states = [
        (
            "writing",
            with(json!({"activity": "writing", "waits_for": waits("model", Some("text"), 4)})),
        ),
        (
            "model",
            json!({"activity": null, "waits_for": waits("model", None, 75), "context": {"used": 84_000, "window": null}}),
        ),
        (
            "tool",
            json!({"activity": "Bash: cargo test", "waits_for": waits("tool", Some("Bash"), 190)}),
        ),
        (
            "other tool",
            json!({"activity": "thinking", "waits_for": waits("tool", Some("Bash"), 190)}),
        ),
        (
            "person",
            with(
                json!({"activity": null, "waits_for": waits("person", None, 7_500), "tokens_per_second": null}),
            ),
        ),
        (
            "interrupted",
            with(
                json!({"activity": "Bash: cargo test", "waits_for": waits("tool", Some("Bash"), 30),
                "stopping": {"why": "a person cancelled it", "step": "interrupt", "next_step_at": later(8).to_string()}}),
            ),
        ),
        (
            "killed",
            json!({"activity": null, "stopping": {"why": "it ran out of time", "step": "kill", "next_step_at": null}}),
        ),
        ("nothing known", json!({"activity": null})),
    ];
    let mut all = String::new();
    for (name, facts) in &states {
        writeln!(all, "--- {name}").unwrap();
        for size in [(80, 24), (200, 50)] {
            writeln!(all, "{}: {}", size.0, line_below_the_transcript(facts, size)).unwrap();
        }
        if facts.as_object().unwrap().len() > 1 {
            writeln!(all, "{}", details_of_the_list(facts)).unwrap();
        }
    }
    insta::assert_snapshot!(all);
}
