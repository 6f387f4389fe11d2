//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::answer::{Answer, Part, SseEvent};

fn usage(answer: &Answer) -> Value {
    let usage = answer.usage;
    json!({"prompt_tokens": usage.input, "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output, "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning}})
}

fn finish_reason(answer: &Answer) -> String {
    match answer.stop.as_deref() {
        Some("max_tokens") => "length".to_owned(),
        Some(other) => other.to_owned(),
        None if answer.calls.is_empty() => "stop".to_owned(),
        None => "tool_calls".to_owned(),
    }
}

pub(crate) fn whole(answer: &Answer) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text});
    if !answer.thinking.is_empty() {
        message["reasoning_content"] = json!(answer.thinking);
    }
    if !answer.calls.is_empty() {
        let calls = answer.calls.iter().enumerate().map(|(number, call)| {
            json!({"id": format!("call_{}_{number}", answer.id), "type": "function",
                "function": {"name": call.name, "arguments": answer.arguments(call)}})
        });
        message["tool_calls"] = calls.collect();
    }
    json!({"id": format!("chatcmpl-{}", answer.id), "object": "chat.completion", "created": 1_700_000_000,
        "model": answer.model, "usage": usage(answer),
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(answer)}]})
}

/// Returns the events of a stream.
pub(crate) fn events(answer: &Answer, with_usage: bool) -> Vec<SseEvent> {
    let chunk = |delta: Value, finish: Value| {
        json!({"id": format!("chatcmpl-{}", answer.id), "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": answer.model, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let mut events = Vec::new();
    let mut push = |part: Part, data: &Value| events.push(SseEvent::plain(part, data));
    push(
        Part::Start,
        &chunk(json!({"role": "assistant", "content": ""}), Value::Null),
    );
    for piece in answer.pieces(&answer.thinking) {
        push(
            Part::Text,
            &chunk(json!({"reasoning_content": piece}), Value::Null),
        );
    }
    for piece in answer.pieces(&answer.text) {
        push(Part::Text, &chunk(json!({"content": piece}), Value::Null));
    }
    for (number, call) in answer.calls.iter().enumerate() {
        let opened = json!([{"index": number, "id": format!("call_{}_{number}", answer.id), "type": "function",
            "function": {"name": call.name, "arguments": ""}}]);
        push(Part::Other, &chunk(json!({"tool_calls": opened}), Value::Null));
        for piece in answer.pieces(&answer.arguments(call)) {
            let more = json!([{"index": number, "function": {"arguments": piece}}]);
            push(Part::ToolArgs, &chunk(json!({"tool_calls": more}), Value::Null));
        }
    }
    push(Part::Other, &chunk(json!({}), json!(finish_reason(answer))));
    if with_usage {
        let mut last = chunk(json!({}), Value::Null);
        last["choices"] = json!([]);
        last["usage"] = usage(answer);
        push(Part::Other, &last);
    }
    events.push(SseEvent::plain(Part::End, &"[DONE]"));
    events
}

/// Returns the event of an error in mid-stream.
pub(crate) fn error_event(code: &str, message: &str) -> SseEvent {
    SseEvent::plain(
        Part::End,
        &json!({"error": {"message": message, "type": code, "code": code}}),
    )
}
