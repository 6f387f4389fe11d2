//! Requests of the messages protocol.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::conversation::{Block, Turn};
use crate::provider::Request;
use crate::provider::protocol::{ModelSettings, Protocol};
use crate::provider::request::{
    Body, Entry, NOTHING, WireIds, arguments, entries, is_strict, output, parts, tool_name,
};

/// The default for the longest answer: the protocol requires a number.
const DEFAULT_MAX_TOKENS: u32 = 32_000;

/// Tokens for the answer in addition to a thinking budget.
const ROOM_BESIDE_BUDGET: u32 = 4096;

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        citations: Option<&'a Value>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    ToolUse {
        id: String,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: String,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    #[serde(untagged)]
    Native(&'a Value),
}

impl<'a> Content<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text {
            text,
            citations: None,
        }
    }

    fn is_thought(&self) -> bool {
        match self {
            Self::Thinking { .. } => true,
            Self::Native(item) => item["type"] == "redacted_thinking",
            _ => false,
        }
    }
}

/// Builds the body of a request.
pub(crate) fn body<'a>(request: &Request<'_>, settings: &'a ModelSettings) -> Body<'a> {
    let mut body = Body::new("messages", &settings.extra);
    set_fields(&mut body, request, settings);
    let mut ids = WireIds::default();
    for entry in entries(request.messages) {
        match entry {
            Entry::Input { results, text } => {
                // All results of an answer are in one message, before any text.
                let mut content: Vec<Content<'_>> = results
                    .into_iter()
                    .map(|result| Content::ToolResult {
                        tool_use_id: ids.get(&result.call_id).to_owned(),
                        content: output(result),
                        is_error: result.is_error,
                    })
                    .collect();
                content.extend(text.as_deref().map(Content::text));
                body.push(&Message {
                    role: "user",
                    content,
                });
            }
            Entry::Answer { turn, answered } => {
                let content = answer(turn, &mut ids, |id| answered.contains(id));
                body.push(&Message {
                    role: "assistant",
                    content,
                });
            }
        }
    }
    body
}

fn answer<'a>(turn: &'a Turn, ids: &mut WireIds<'a>, answered: impl Fn(&str) -> bool) -> Vec<Content<'a>> {
    let mut content: Vec<Content<'a>> = parts(turn, Protocol::Messages.as_str())
        .filter_map(|(block, annex)| match block {
            Block::Text { text } if text.trim().is_empty() => None,
            Block::Text { text } => Some(Content::Text {
                text,
                citations: annex.get("citations"),
            }),
            // Only signed thinking is accepted back; other thinking comes from another provider.
            Block::Thinking { text, signature } => Some(Content::Thinking {
                thinking: text,
                signature: signature.as_deref()?,
            }),
            Block::ToolCall(call) if answered(&call.call_id) => Some(Content::ToolUse {
                id: ids.get(&call.call_id).to_owned(),
                name: tool_name(&call.tool),
                input: arguments(&call.input),
            }),
            Block::ToolCall(_) => None,
            Block::Native { item, .. } => Some(Content::Native(item)),
        })
        .collect();
    // An answer must not end with thinking.
    while content.last().is_some_and(Content::is_thought) {
        content.pop();
    }
    if content.is_empty() {
        content.push(Content::text(NOTHING));
    }
    content
}

fn set_fields(body: &mut Body<'_>, request: &Request<'_>, settings: &ModelSettings) {
    let budget = settings.thinking_budget;
    let least = budget.map_or(1, |budget| budget.saturating_add(ROOM_BESIDE_BUDGET));
    let max_tokens = settings
        .max_output_tokens
        .unwrap_or(DEFAULT_MAX_TOKENS)
        .max(least);
    body.set("model", &settings.model);
    body.set("max_tokens", &max_tokens);
    body.set("stream", &true);
    if let Some(temperature) = request.temperature {
        body.set("temperature", &temperature);
    }
    let mark = settings.cache.then(|| json!({"type": "ephemeral"}));
    if let Some(mark) = &mark {
        // The provider itself moves this mark to the last block: no byte of the conversation
        // changes for it.
        body.set("cache_control", mark);
    }
    if let Some(budget) = budget {
        body.set("thinking", &json!({"type": "enabled", "budget_tokens": budget}));
    } else if settings.effort.is_some() {
        body.set("thinking", &json!({"type": "adaptive"}));
    }
    let mut output = Map::new();
    if let Some(effort) = &settings.effort {
        output.insert("effort".to_owned(), json!(effort));
    }
    if let Some(schema) = request
        .output_schema
        .filter(|schema| settings.structured_output && is_strict(schema))
    {
        output.insert(
            "format".to_owned(),
            json!({"type": "json_schema", "schema": schema}),
        );
    }
    if !output.is_empty() {
        body.set("output_config", &output);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let schema = &tool.input_schema;
            json!({"name": tool.name, "description": tool.description, "input_schema": schema})
        });
        body.set("tools", &tools.collect::<Vec<_>>());
        if settings.parallel_tool_calls == Some(false) {
            body.set(
                "tool_choice",
                &json!({"type": "auto", "disable_parallel_tool_use": true}),
            );
        }
    }
    if !request.system.trim().is_empty() {
        // Tools and system text stay in the cache even when the conversation is compacted.
        let mut block = json!({"type": "text", "text": request.system});
        if let Some(mark) = mark {
            block["cache_control"] = mark;
        }
        body.set("system", &[block]);
    }
}
