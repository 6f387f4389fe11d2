//! Anthropic Messages.

use serde_json::{Value, json};

use super::answer::{Answer, Part, SseEvent};
use super::tools::Input;

const SIGNATURE: &str = "c2NyaXB0ZWQgc2lnbmF0dXJl";

fn usage(answer: &Answer, output: u64) -> Value {
    let usage = answer.usage;
    // This input excludes what was read from or written to the cache.
    let fresh = usage.input.saturating_sub(usage.cached + usage.cache_write);
    json!({"input_tokens": fresh, "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached, "output_tokens": output, "service_tier": "standard"})
}

fn stop_reason(answer: &Answer) -> String {
    let fitting = if answer.calls.is_empty() {
        "end_turn"
    } else {
        "tool_use"
    };
    answer.stop.clone().unwrap_or_else(|| fitting.to_owned())
}

fn blocks(answer: &Answer) -> Vec<Value> {
    let mut blocks = Vec::new();
    if !answer.thinking.is_empty() {
        blocks.push(json!({"type": "thinking", "thinking": answer.thinking, "signature": SIGNATURE}));
    }
    if !answer.text.is_empty() {
        blocks.push(json!({"type": "text", "text": answer.text}));
    }
    for (number, call) in answer.calls.iter().enumerate() {
        let input = match &call.input {
            Input::Json(value) => value.clone(),
            Input::Text(text) => json!({"input": text}),
        };
        let id = format!("toolu_{}_{number}", answer.id);
        blocks.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": input}));
    }
    blocks
}

pub(crate) fn whole(answer: &Answer) -> Value {
    json!({"id": format!("msg_{}", answer.id), "type": "message", "role": "assistant", "model": answer.model,
        "content": blocks(answer), "stop_reason": stop_reason(answer), "stop_sequence": null,
        "usage": usage(answer, answer.usage.output)})
}

/// Returns the events of a stream.
pub(crate) fn events(answer: &Answer) -> Vec<SseEvent> {
    let mut message = whole(answer);
    message["content"] = json!([]);
    message["stop_reason"] = Value::Null;
    if answer.with_usage {
        message["usage"] = usage(answer, 1);
    } else {
        message["usage"] = Value::Null;
    }
    let mut events = vec![SseEvent::named(
        Part::Start,
        &json!({"type": "message_start", "message": message}),
    )];
    let mut push = |part: Part, data: &Value| events.push(SseEvent::named(part, data));
    let mut calls = answer.calls.iter();
    for (index, block) in blocks(answer).into_iter().enumerate() {
        let (opened, deltas) = match block["type"].as_str() {
            Some("thinking") => {
                let mut deltas: Vec<Value> = answer
                    .pieces(&answer.thinking)
                    .into_iter()
                    .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                    .collect();
                deltas.push(json!({"type": "signature_delta", "signature": SIGNATURE}));
                (
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    deltas,
                )
            }
            Some("text") => {
                let pieces = answer.pieces(&answer.text).into_iter();
                let deltas = pieces
                    .map(|piece| json!({"type": "text_delta", "text": piece}))
                    .collect();
                (json!({"type": "text", "text": ""}), deltas)
            }
            _ => {
                let mut opened = block.clone();
                opened["input"] = json!({});
                let text = calls
                    .next()
                    .map(|call| answer.arguments(call))
                    .unwrap_or_default();
                let deltas = answer
                    .pieces(&text)
                    .into_iter()
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                    .collect();
                (opened, deltas)
            }
        };
        push(
            Part::Other,
            &json!({"type": "content_block_start", "index": index, "content_block": opened}),
        );
        let part = if block["type"] == "tool_use" {
            Part::ToolArgs
        } else {
            Part::Text
        };
        for delta in deltas {
            push(
                part,
                &json!({"type": "content_block_delta", "index": index, "delta": delta}),
            );
        }
        push(
            Part::Other,
            &json!({"type": "content_block_stop", "index": index}),
        );
    }
    let delta = json!({"stop_reason": stop_reason(answer), "stop_sequence": null});
    let mut last = json!({"type": "message_delta", "delta": delta});
    if answer.with_usage {
        last["usage"] = usage(answer, answer.usage.output);
    }
    push(Part::Other, &last);
    push(Part::End, &json!({"type": "message_stop"}));
    events
}

/// Returns the event of an error in mid-stream.
pub(crate) fn error_event(code: &str, message: &str) -> SseEvent {
    SseEvent::named(
        Part::End,
        &json!({"type": "error", "error": {"type": code, "message": message}}),
    )
}
