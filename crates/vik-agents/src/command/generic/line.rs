//! One line of no known dialect.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::outcome::Usage;

use crate::wire::{self, Count, Text};

/// Any field may have any JSON type.
#[derive(Default, Deserialize)]
#[serde(default, bound = "'de: 'a")]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) kind_type: Option<&'a RawValue>,
    pub(super) event: Option<&'a RawValue>,
    pub(super) kind: Option<&'a RawValue>,
    pub(super) role: Option<&'a RawValue>,
    pub(super) text: Option<&'a RawValue>,
    pub(super) message: Option<&'a RawValue>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) response: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
    pub(super) status: Option<&'a RawValue>,
    pub(super) ok: Option<&'a RawValue>,
    pub(super) success: Option<&'a RawValue>,
    pub(super) is_error: Option<&'a RawValue>,
    pub(super) fatal: Option<&'a RawValue>,
    pub(super) exit_code: Option<&'a RawValue>,
    pub(super) reason: Option<&'a RawValue>,
    pub(super) session_id: Option<&'a RawValue>,
    #[serde(rename = "sessionId")]
    pub(super) session_id_camel: Option<&'a RawValue>,
    pub(super) conversation_id: Option<&'a RawValue>,
    pub(super) thread_id: Option<&'a RawValue>,
    pub(super) model: Option<&'a RawValue>,
    pub(super) version: Option<&'a RawValue>,
    pub(super) usage: Option<&'a RawValue>,
    pub(super) cost_usd: Option<&'a RawValue>,
    pub(super) total_cost_usd: Option<&'a RawValue>,
    pub(super) tool: Option<&'a RawValue>,
    pub(super) tool_name: Option<&'a RawValue>,
    pub(super) name: Option<&'a RawValue>,
    pub(super) id: Option<&'a RawValue>,
    pub(super) call_id: Option<&'a RawValue>,
    pub(super) tool_call_id: Option<&'a RawValue>,
    pub(super) tool_use_id: Option<&'a RawValue>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) args: Option<&'a RawValue>,
    pub(super) parameters: Option<&'a RawValue>,
    pub(super) output: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Figures {
    input_tokens: Count,
    prompt_tokens: Count,
    output_tokens: Count,
    completion_tokens: Count,
    cached_input_tokens: Count,
    cache_write_input_tokens: Count,
}

impl From<Figures> for Usage {
    fn from(figures: Figures) -> Self {
        Self {
            input_tokens: figures.input_tokens.0.max(figures.prompt_tokens.0),
            cached_input_tokens: figures.cached_input_tokens.0,
            cache_write_input_tokens: figures.cache_write_input_tokens.0,
            output_tokens: figures.output_tokens.0.max(figures.completion_tokens.0),
        }
    }
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Nested<'a> {
    message: Option<Text<'a>>,
    text: Option<Text<'a>>,
    content: Option<&'a RawValue>,
}

/// The topic of a line.
pub(super) enum Topic {
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    Usage,
    Error,
    Start,
    End,
}

pub(super) fn topic_of(kind: &str) -> Option<Topic> {
    let kind: String = kind
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .take(64)
        .collect();
    Some(match kind.as_str() {
        "message" | "text" | "assistant" | "agent_message" | "assistant_message" | "response" | "say"
        | "output" | "output_text" => Topic::Message,
        "reasoning" | "thinking" | "thought" => Topic::Reasoning,
        "tool_call" | "tool_use" | "tool_start" | "tool_call_start" | "tool_started" | "function_call" => {
            Topic::ToolCall
        }
        "tool_result"
        | "tool_output"
        | "tool_end"
        | "tool_call_end"
        | "tool_finished"
        | "tool_completed"
        | "function_call_output"
        | "function_result" => Topic::ToolResult,
        "usage" | "token_usage" | "tokens" | "token_count" => Topic::Usage,
        "start" | "init" | "session" | "session_start" | "session_started" | "started" => Topic::Start,
        "result" | "end" | "done" | "complete" | "completed" | "finish" | "finished" | "final"
        | "final_result" | "session_end" | "run_completed" | "run_failed" | "failed" | "succeeded" => {
            Topic::End
        }
        kind if kind == "fatal" || kind.ends_with("error") || kind.ends_with("_failure") => Topic::Error,
        _ => return None,
    })
}

pub(super) fn call_id<'a>(line: &Line<'a>) -> Cow<'a, str> {
    [line.call_id, line.tool_call_id, line.tool_use_id, line.id]
        .into_iter()
        .find_map(wire::text)
        .unwrap_or(Cow::Borrowed(""))
}

pub(super) fn session_id<'a>(line: &Line<'a>) -> Option<Cow<'a, str>> {
    [
        line.session_id,
        line.session_id_camel,
        line.conversation_id,
        line.thread_id,
    ]
    .into_iter()
    .find_map(wire::text)
    .filter(|id| !id.is_empty())
}

/// Returns the text of a line: a string, or an object or blocks that contain one.
pub(super) fn line_text<'a>(line: &Line<'a>) -> Option<Cow<'a, str>> {
    [line.text, line.message, line.content, line.response]
        .into_iter()
        .find_map(|raw| nested_text(raw, 0))
}

/// Returns the text of one value.
///
/// The depth is limited, because nesting could be endless.
pub(super) fn nested_text(raw: Option<&RawValue>, depth: u8) -> Option<Cow<'_, str>> {
    if depth > 3 {
        return None;
    }
    if let Some(text) = wire::text(raw) {
        return Some(text).filter(|text| !text.is_empty());
    }
    if let Some(nested) = raw
        .filter(|raw| raw.get().starts_with('{'))
        .and_then(|raw| wire::read::<Nested<'_>>(Some(raw)))
    {
        return nested
            .message
            .or(nested.text)
            .map(|text| text.0)
            .or_else(|| nested_text(nested.content, depth + 1));
    }
    let blocks = wire::read::<Vec<&RawValue>>(raw)?;
    let texts: Vec<Cow<'_, str>> = blocks
        .into_iter()
        .filter_map(|block| nested_text(Some(block), depth + 1))
        .collect();
    Some(texts.join(""))
        .filter(|text| !text.is_empty())
        .map(Cow::Owned)
}

/// Returns whether a line reports success, in one of the usual forms.
pub(super) fn reported_success(line: &Line<'_>) -> Option<bool> {
    if wire::read::<bool>(line.is_error) == Some(true)
        || wire::present(line.error).is_some_and(|e| e.get() != "false")
    {
        return Some(false);
    }
    if let Some(ok) = wire::read::<bool>(line.ok).or_else(|| wire::read::<bool>(line.success)) {
        return Some(ok);
    }
    if let Some(code) = wire::read::<i64>(line.exit_code) {
        return Some(code == 0);
    }
    let status = wire::text(line.status)?.to_ascii_lowercase();
    match status.as_str() {
        "ok" | "success" | "succeeded" | "complete" | "completed" | "done" | "finished" => Some(true),
        "error" | "errored" | "fail" | "failed" | "failure" | "cancelled" | "canceled" | "aborted"
        | "interrupted" | "timeout" | "timed_out" | "denied" => Some(false),
        _ => None,
    }
}
