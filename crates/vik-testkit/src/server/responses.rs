//! OpenAI Responses.

use serde_json::{Value, json};

use super::answer::{Answer, Part, SseEvent};
use super::tools::{Call, Input};

fn usage(answer: &Answer) -> Value {
    let usage = answer.usage;
    json!({"input_tokens": usage.input, "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output})
}

fn reasoning_item(answer: &Answer) -> Value {
    json!({"type": "reasoning", "id": format!("rs_{}", answer.id),
        "summary": [{"type": "summary_text", "text": answer.thinking}], "encrypted_content": "c2NyaXB0ZWQ="})
}

fn message_item(answer: &Answer) -> Value {
    json!({"type": "message", "id": format!("msg_{}", answer.id), "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": answer.text, "annotations": []}]})
}

fn call_item(answer: &Answer, number: usize, call: &Call) -> Value {
    let (id, call_id) = (
        format!("fc_{}_{number}", answer.id),
        format!("call_{}_{number}", answer.id),
    );
    let arguments = answer.arguments(call);
    let mut item = match call.input {
        Input::Json(_) => json!({"type": "function_call", "id": id, "call_id": call_id, "name": call.name,
            "arguments": arguments, "status": "completed"}),
        Input::Text(_) => json!({"type": "custom_tool_call", "id": id, "call_id": call_id, "name": call.name,
            "input": arguments, "status": "completed"}),
    };
    if let Some(namespace) = &call.namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

fn items(answer: &Answer) -> Vec<Value> {
    let mut items = Vec::new();
    if !answer.thinking.is_empty() {
        items.push(reasoning_item(answer));
    }
    if !answer.text.is_empty() {
        items.push(message_item(answer));
    }
    items.extend(
        answer
            .calls
            .iter()
            .enumerate()
            .map(|(number, call)| call_item(answer, number, call)),
    );
    items
}

/// Returns the whole response object.
pub(crate) fn whole(answer: &Answer) -> Value {
    let mut response = json!({"id": format!("resp_{}", answer.id), "object": "response", "created_at": 1_700_000_000,
        "status": "completed", "model": answer.model, "output": items(answer), "usage": usage(answer)});
    if !answer.with_usage {
        response["usage"] = Value::Null;
    }
    if let Some(reason) = &answer.stop {
        response["status"] = json!("incomplete");
        let reason = if reason == "max_tokens" {
            "max_output_tokens"
        } else {
            reason
        };
        response["incomplete_details"] = json!({"reason": reason});
    }
    response
}

/// Returns the events of a stream.
pub(crate) fn events(answer: &Answer) -> Vec<SseEvent> {
    let response = whole(answer);
    let mut started = response.clone();
    started["status"] = json!("in_progress");
    started["output"] = json!([]);
    started["usage"] = Value::Null;
    let mut events = Vec::new();
    let mut push = |part: Part, mut data: Value| {
        data["sequence_number"] = json!(events.len());
        events.push(SseEvent::named(part, &data));
    };
    push(
        Part::Start,
        json!({"type": "response.created", "response": started}),
    );
    push(
        Part::Other,
        json!({"type": "response.in_progress", "response": started}),
    );
    for (index, item) in items(answer).into_iter().enumerate() {
        let id = item["id"].clone();
        let kind = item["type"].as_str().unwrap_or_default().to_owned();
        let mut opened = item.clone();
        opened["status"] = json!("in_progress");
        let (emptied, text) = match kind.as_str() {
            "reasoning" => ("summary", answer.thinking.clone()),
            "message" => ("content", answer.text.clone()),
            "function_call" => (
                "arguments",
                item["arguments"].as_str().unwrap_or_default().to_owned(),
            ),
            _ => ("input", item["input"].as_str().unwrap_or_default().to_owned()),
        };
        opened[emptied] = if opened[emptied].is_string() {
            json!("")
        } else {
            json!([])
        };
        push(
            Part::Other,
            json!({"type": "response.output_item.added", "output_index": index, "item": opened}),
        );
        let delta = |piece: String| match kind.as_str() {
            "reasoning" => (
                Part::Text,
                json!({"type": "response.reasoning_summary_text.delta", "item_id": id,
                "output_index": index, "summary_index": 0, "delta": piece}),
            ),
            "message" => (
                Part::Text,
                json!({"type": "response.output_text.delta", "item_id": id,
                "output_index": index, "content_index": 0, "delta": piece}),
            ),
            "function_call" => (
                Part::ToolArgs,
                json!({"type": "response.function_call_arguments.delta",
                "item_id": id, "output_index": index, "delta": piece}),
            ),
            _ => (
                Part::ToolArgs,
                json!({"type": "response.custom_tool_call_input.delta", "item_id": id,
                "output_index": index, "delta": piece}),
            ),
        };
        if kind == "reasoning" {
            push(
                Part::Other,
                json!({"type": "response.reasoning_summary_part.added", "item_id": id,
                "output_index": index, "summary_index": 0, "part": {"type": "summary_text", "text": ""}}),
            );
        } else if kind == "message" {
            push(
                Part::Other,
                json!({"type": "response.content_part.added", "item_id": id, "output_index": index,
                "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}),
            );
        }
        for piece in answer.pieces(&text) {
            let (part, data) = delta(piece);
            push(part, data);
        }
        if kind == "message" {
            push(
                Part::Other,
                json!({"type": "response.output_text.done", "item_id": id, "output_index": index,
                "content_index": 0, "text": text}),
            );
        } else if kind == "function_call" {
            push(
                Part::Other,
                json!({"type": "response.function_call_arguments.done", "item_id": id,
                "output_index": index, "arguments": text}),
            );
        }
        push(
            Part::Other,
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
    }
    let kind = if answer.stop.is_some() {
        "response.incomplete"
    } else {
        "response.completed"
    };
    push(Part::End, json!({"type": kind, "response": response}));
    events
}

/// Returns the event of an error in mid-stream.
pub(crate) fn error_event(code: &str, message: &str) -> SseEvent {
    let error = json!({"code": code, "message": message});
    let response = json!({"id": "resp_failed", "object": "response", "status": "failed", "error": error});
    SseEvent::named(
        Part::End,
        &json!({"type": "response.failed", "sequence_number": 9999, "response": response}),
    )
}
