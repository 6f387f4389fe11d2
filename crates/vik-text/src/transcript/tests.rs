use serde_json::{Value, json};
use vik_core::event::LogLine;

use super::*;

fn entry(event: &Value) -> Entry {
    let line: LogLine = serde_json::from_str(&event.to_string()).unwrap();
    Entry::of(line.event)
}

fn note(event: &Value) -> Note {
    match entry(event) {
        Entry::Note(note) => note,
        entry => panic!("{entry:?}"),
    }
}

fn rows(lines: Vec<Line>) -> Vec<String> {
    lines
        .into_iter()
        .flat_map(|line| line.folded(1_000))
        .map(|row| row.into_iter().map(|(_, text)| text).collect())
        .collect()
}

#[test]
fn event_of_another_version_is_shown_with_its_fields() {
    let note = note(&json!({"seq": 1, "kind": "hologram", "depth": {"z": 3}}));
    assert_eq!(note.importance, Importance::Minor);
    assert_eq!(rows(note.lines), [r#"hologram {"depth":{"z":3}}"#]);
}

#[test]
fn implied_events_are_details() {
    for (event, importance) in [
        (json!({"kind": "completed", "ok": true}), Importance::Detail),
        (json!({"kind": "completed", "ok": false}), Importance::Normal),
        (
            json!({"kind": "rate_limit", "status": "allowed"}),
            Importance::Detail,
        ),
        (
            json!({"kind": "rate_limit", "utilization": 0.9}),
            Importance::Normal,
        ),
        (json!({"kind": "unknown", "raw": 1}), Importance::Minor),
    ] {
        assert_eq!(note(&event).importance, importance, "{event}");
    }
}

#[test]
fn call_and_result_have_a_label_and_lines() {
    let input = json!({"command": "make\ncheck", "description": "Build"});
    let Entry::Call(call) =
        entry(&json!({"kind": "tool_call", "call_id": "1", "tool": "Bash", "input": input}))
    else {
        panic!()
    };
    assert_eq!(call.label(), "Bash make");
    assert_eq!(rows(call.lines(false)), ["Bash  make  # Build", "check"]);
    let result =
        json!({"kind": "tool_result", "call_id": "1", "is_error": true, "exit_code": 2, "output": "no"});
    let Entry::Result(result) = entry(&result) else {
        panic!()
    };
    let (mark, lines) = result.lines(Some(&call.label()), false);
    assert_eq!(mark.1, '✗');
    assert_eq!(rows(lines), ["Bash make  exit 2", "no"]);
}

#[test]
fn truncated_entries_keep_their_start() {
    let mut message = entry(&json!({"kind": "message", "text": "äääää"}));
    message.truncate(5);
    assert!(matches!(message, Entry::Message(text) if text == "ää…"));
    let output = "one\ntwo\nthree\nfour";
    let mut result =
        entry(&json!({"kind": "tool_result", "call_id": "1", "is_error": false, "output": output}));
    result.truncate(10);
    let Entry::Result(result) = result else { panic!() };
    assert_eq!(rows(result.output().collect()), ["one", "two", "th…"]);
}
