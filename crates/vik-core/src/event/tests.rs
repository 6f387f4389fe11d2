use serde_json::{Value, json};

use super::*;
use crate::limits::{LimitScope, LimitUnit};

/// Returns JSON of each kind, as written in a log.
fn of_each_kind() -> Vec<Value> {
    let attempt = "01890000-0000-7000-8000-000000000001";
    vec![
        json!({"kind": "session_started", "provider_session_id": "a", "agent_version": "1", "model": "m"}),
        json!({"kind": "message", "text": "a\n\"b\" \u{1b}"}),
        json!({"kind": "reasoning", "text": ""}),
        json!({"kind": "tool_call", "call_id": "1", "tool": "Bash", "input": {"z": [1, null], "a": 1.5}}),
        json!({"kind": "tool_result", "call_id": "1", "is_error": true, "exit_code": -1, "output": "text"}),
        json!({"kind": "subagent", "id": "s", "status": "started", "description": "d"}),
        json!({"kind": "token_usage", "usage": {"input_tokens": 1, "cached_input_tokens": 0,
            "cache_write_input_tokens": 0, "output_tokens": 2}, "cost_usd": 0.25}),
        json!({"kind": "rate_limit", "status": "rejected", "resets_at_unix": 5, "utilization": 0.5}),
        json!({"kind": "approval", "by": "vik", "tool": "Bash", "decision": "denied", "detail": "rm"}),
        json!({"kind": "error", "message": "m", "fatal": true, "failure_class": "network", "http_status": 500}),
        json!({"kind": "unknown", "raw": {"type": "new", "n": 18_446_744_073_709_551_615_u64}}),
        json!({"kind": "malformed", "line": "x", "bytes": 9, "offset": 3}),
        json!({"kind": "completed", "ok": true, "message": "m", "result": {"a": 1}, "reason": "r"}),
        json!({"kind": "resumed", "resumed_from": attempt, "provider_session_id": "p"}),
        json!({"kind": "resume_failed", "resumed_from": attempt, "reason": "r"}),
        json!({"kind": "limit", "scope": "attempt", "unit": "tokens", "spent": 8, "limit": 10, "percent": 80}),
        json!({"kind": "output", "output": "label", "status": "applied", "summary": "s", "key": "k", "reason": "r"}),
        json!({"kind": "person_message", "id": attempt, "by": "a person", "text": "t",
            "sent_at": "2026-03-04T12:00:00Z", "state": "sent"}),
        json!({"kind": "turn", "number": 2, "of": 3, "why": "verify_failed", "prompt": "p"}),
        json!({"kind": "question", "question": "q", "choices": ["a", "b"], "default": "a"}),
        json!({"kind": "answer", "asked_by": attempt, "question": "q", "answer": "a", "by": "a person",
            "answered_at": "2026-03-04T12:00:00Z"}),
        json!({"kind": "ended", "outcome": "failed", "failure_class": "agent", "exit_code": 1, "signal": null,
            "duration_ms": 5, "usage": {"input_tokens": 1, "cached_input_tokens": 0,
            "cache_write_input_tokens": 0, "output_tokens": 2}, "cost_usd": null, "cost_source": "none",
            "reason": "r"}),
    ]
}

#[test]
fn event_of_each_kind_is_read_back_as_it_was_written() {
    let events = of_each_kind();
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    let all: Vec<_> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    assert_eq!(kinds, all);
    for written in events {
        let text = written.to_string();
        let event: Event<'static> = serde_json::from_str(&text).unwrap();
        assert_eq!(event.kind().as_str(), written["kind"]);
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
        let line = format!("{{\"seq\":7,\"at\":\"2026-03-04T12:00:00.5Z\",{}", &text[1..]);
        let read: LogLine = serde_json::from_str(&line).unwrap();
        assert!(matches!(read.event, LoggedEvent::Known(_)), "{line}");
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
}

#[test]
fn tool_output_is_read_back_as_text_or_json() {
    for (output, is_text) in [("\"text\"", true), ("[{\"text\":\"a\"}]", false), ("17", false)] {
        let text = format!(r#"{{"kind":"tool_result","call_id":"1","is_error":false,"output":{output}}}"#);
        let event: Event<'static> = serde_json::from_str(&text).unwrap();
        let Event::ToolResult {
            output: Some(read), ..
        } = &event
        else {
            panic!("{event:?}")
        };
        assert_eq!(matches!(read, ToolOutput::Text(_)), is_text, "{output}");
        assert_eq!(serde_json::to_string(&event).unwrap(), text);
    }
}

#[test]
fn fields_without_a_value_may_be_absent() {
    let event: Event<'static> = serde_json::from_str(r#"{"kind":"session_started"}"#).unwrap();
    assert_eq!(
        serde_json::to_string(&event).unwrap(),
        r#"{"kind":"session_started"}"#
    );
    let limit =
        json!({"kind": "limit", "scope": "day", "unit": "usd", "spent": 1, "limit": 2, "percent": 50});
    let event: Event<'static> = serde_json::from_value(limit).unwrap();
    let Event::Limit { hit, percent: 50 } = event else {
        panic!("{event:?}")
    };
    assert_eq!((hit.scope, hit.unit), (LimitScope::Day, LimitUnit::Usd));
}

#[test]
fn event_of_another_version_loses_nothing() {
    for text in [
        r#"{"seq":1,"kind":"hologram","depth":3}"#,
        r#"{"seq":1,"kind":"message","body":"no text"}"#,
        r#"{"seq":1,"kind":"error","message":"m","fatal":true,"failure_class":"bored"}"#,
    ] {
        let line: LogLine = serde_json::from_str(text).unwrap();
        assert!(matches!(line.event, LoggedEvent::Other(_)), "{text}");
        assert_eq!(serde_json::to_string(&line).unwrap(), text);
    }
    assert!(serde_json::from_str::<LogLine>("no json").is_err());
}

#[test]
fn kinds_are_found_by_name() {
    for kind in EventKind::ALL {
        assert_eq!(EventKind::from_name(kind.as_str()), Some(*kind));
    }
}
