//! Properties of every adapter for arbitrary lines.

use proptest::prelude::*;
use serde_json::Value;
use vik_agents::{Adapter, Exit, driver};
use vik_core::event::Event;
use vik_core::workflow::{AgentProfile, ArgValue, OutputFormat, Runtime};

fn adapters() -> Vec<(&'static str, Box<dyn Adapter>)> {
    let make = |runtime, output| {
        let schema = ArgValue::Text("{}".to_owned());
        let profile = AgentProfile {
            args: vec![("json-schema".to_owned(), schema)],
            output,
            ..AgentProfile::new(runtime)
        };
        driver(runtime).adapter(&profile, None)
    };
    vec![
        ("codex", make(Runtime::Codex, OutputFormat::Text)),
        ("claude_code", make(Runtime::ClaudeCode, OutputFormat::Text)),
        ("vex", make(Runtime::Vex, OutputFormat::Text)),
        ("text", make(Runtime::Command, OutputFormat::Text)),
        ("jsonl", make(Runtime::Command, OutputFormat::Jsonl)),
    ]
}

/// Terms of the protocols, so that generated lines resemble real ones.
const VOCABULARY: &[&str] = &[
    "type",
    "subtype",
    "item",
    "id",
    "text",
    "message",
    "content",
    "error",
    "usage",
    "modelUsage",
    "input_tokens",
    "output_tokens",
    "result",
    "is_error",
    "session_id",
    "sessionID",
    "thread_id",
    "data",
    "part",
    "state",
    "status",
    "tool_use_id",
    "tool_use",
    "tool_result",
    "tool_call",
    "call_id",
    "tool",
    "input",
    "output",
    "exit_code",
    "agent_message",
    "reasoning",
    "command_execution",
    "item.started",
    "item.completed",
    "item.updated",
    "turn.started",
    "turn.completed",
    "turn.failed",
    "thread.started",
    "assistant",
    "user",
    "system",
    "init",
    "api_retry",
    "rate_limit_event",
    "control_request",
    "session_start",
    "end",
    "success",
    "in_progress",
    "completed",
    "v",
    "seq",
    "ok",
    "event",
    "role",
    "stats",
    "tokens",
    "cost",
    "step_finish",
    "step_start",
    "errors",
    "permission_denials",
    "rate_limit_info",
    "request",
    "name",
    "toolCallId",
    "todo_list",
    "task_started",
    "patch",
];

/// Returns whether a line has no event on purpose, by `type` and `subtype`.
fn known_silent(value: &Value) -> bool {
    let kind = value["type"].as_str().unwrap_or("");
    let subtype = value["subtype"].as_str().unwrap_or("");
    matches!(
        kind,
        "turn.started" | "stream_event" | "keep_alive" | "step_start"
    ) || (kind == "system"
        && matches!(
            subtype,
            "status"
                | "thinking_tokens"
                | "background_tasks_changed"
                | "permission_denied"
                | "vcs_state_changed"
        ))
        || (kind == "message" && value["role"] == "user")
}

fn vocabulary_item() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(VOCABULARY).prop_map(str::to_owned), 1 => ".{0,12}"]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        vocabulary_item().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((vocabulary_item(), inner), 0..6)
                .prop_map(|pairs| pairs.into_iter().collect()),
        ]
    })
}

/// Generates an object whose `type` is a term of the protocols.
fn line() -> impl Strategy<Value = Value> {
    (
        vocabulary_item(),
        prop::collection::vec((vocabulary_item(), json()), 0..8),
    )
        .prop_map(|(kind, pairs)| {
            let mut map: serde_json::Map<String, Value> = pairs.into_iter().collect();
            map.insert("type".to_owned(), Value::from(kind));
            Value::Object(map)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// No bytes make an adapter panic, and none turn a failed exit into a success.
    #[test]
    fn adapters_survive_any_bytes(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8), stderr in ".{0,200}") {
        for (name, mut adapter) in adapters() {
            for line in &lines {
                adapter.line(line, &mut |event: Event<'_>| { serde_json::to_string(&event).unwrap(); });
            }
            let conclusion = adapter.conclude(Exit::Code(1), &stderr);
            prop_assert!(!conclusion.ok && conclusion.failure_class.is_some() && conclusion.reason.is_some(), "{name}");
        }
    }

    /// A line that is not JSON is kept verbatim and ends nothing.
    #[test]
    fn non_json_lines_are_kept(text in "[a-zA-Z<#:][^\\pC]{0,80}") {
        prop_assume!(serde_json::from_str::<Value>(text.trim()).is_err());
        for (name, mut adapter) in adapters() {
            let mut kept = Vec::new();
            adapter.line(text.as_bytes(), &mut |event: Event<'_>| match event {
                Event::Malformed { line, .. } => kept.push(line.into_owned()),
                Event::Message { text } if name == "text" => kept.push(text.trim().to_owned()),
                _ => {}
            });
            prop_assert_eq!(kept, vec![text.trim().to_owned()], "{}", name);
        }
    }

    /// Each object gives an event, or has none on purpose.
    #[test]
    fn json_objects_are_never_lost(value in line()) {
        let text = value.to_string();
        for (name, mut adapter) in adapters() {
            let mut events = 0;
            adapter.line(text.as_bytes(), &mut |event: Event<'_>| {
                serde_json::to_string(&event).unwrap();
                events += 1;
            });
            prop_assert!(events > 0 || known_silent(&value), "{name} lost {text}");
        }
    }

    #[test]
    fn unknown_kinds_are_kept_whole(value in json()) {
        let line = serde_json::json!({"type": "xyzzy", "payload": value}).to_string();
        for (name, mut adapter) in adapters().into_iter().filter(|(name, _)| *name != "text") {
            let mut kept = Vec::new();
            adapter.line(line.as_bytes(), &mut |event: Event<'_>| if let Event::Unknown { raw } = event {
                kept.push(raw.get().to_owned());
            });
            prop_assert_eq!(kept, vec![line.clone()], "{}", name);
        }
    }

    /// A successful conclusion needs exit code 0, whatever the lines are.
    #[test]
    fn failing_exit_never_succeeds(values in prop::collection::vec(line(), 0..6), signal in 1..32) {
        for (name, mut adapter) in adapters() {
            for value in &values {
                adapter.line(value.to_string().as_bytes(), &mut |_| {});
            }
            prop_assert!(!adapter.conclude(Exit::Signal(signal), "").ok, "{name}");
        }
    }
}

/// Nesting does not exhaust the stack.
#[test]
fn deep_nesting_is_survived() {
    for (open, close) in [
        ("[", "]"),
        ("{\"content\":", "}"),
        ("{\"message\":", "}"),
        ("{\"item\":", "}"),
    ] {
        for head in [
            "",
            "{\"type\":\"message\",\"content\":",
            "{\"type\":\"assistant\",\"message\":",
            "{\"type\":\"item.completed\",\"item\":",
        ] {
            let tail = if head.is_empty() { "" } else { "}" };
            let line = format!("{head}{}1{}{tail}", open.repeat(20_000), close.repeat(20_000));
            for (name, mut adapter) in adapters() {
                let mut events = 0;
                adapter.line(line.as_bytes(), &mut |_| events += 1);
                assert!(events > 0, "{name}");
            }
        }
    }
}
