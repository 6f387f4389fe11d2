//! Requests of the chat protocol.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::conversation::{Block, Turn};
use crate::provider::Request;
use crate::provider::protocol::{ModelSettings, Protocol};
use crate::provider::request::{
    Body, Entry, NOTHING, arguments, entries, is_strict, output, parts, tool_name,
};

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Cow<'a, str>,
    },
    Assistant {
        content: Option<Cow<'a, str>>,
        #[serde(flatten)]
        thoughts: BTreeMap<&'a str, Thought<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
}

/// Thinking is sent back in the field in which it came; some providers refuse to continue without
/// it.
#[derive(Serialize)]
#[serde(untagged)]
enum Thought<'a> {
    Text(String),
    Native(&'a Value),
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    arguments: String,
}

/// Builds the body of a request.
pub(crate) fn body<'a>(request: &Request<'_>, settings: &'a ModelSettings) -> Body<'a> {
    let mut body = Body::new("messages", &settings.extra);
    set_fields(&mut body, request, settings);
    if !request.system.trim().is_empty() {
        body.push(&Message::System {
            content: request.system,
        });
    }
    for entry in entries(request.messages) {
        match entry {
            Entry::Input { results, text } => {
                for result in results {
                    body.push(&Message::Tool {
                        tool_call_id: &result.call_id,
                        content: output(result),
                    });
                }
                if let Some(content) = text {
                    body.push(&Message::User { content });
                }
            }
            Entry::Answer { turn, answered } => body.push(&answer(turn, |id| answered.contains(id))),
        }
    }
    body
}

fn answer<'a>(turn: &'a Turn, answered: impl Fn(&str) -> bool) -> Message<'a> {
    let mut text = String::new();
    let mut thoughts = BTreeMap::new();
    let mut tool_calls = Vec::new();
    for (block, annex) in parts(turn, Protocol::Chat.as_str()) {
        match block {
            Block::Text { text: part } => text.push_str(part),
            Block::Thinking { text: part, .. } => {
                if let Some(details) = annex.get("reasoning_details") {
                    thoughts.insert("reasoning_details", Thought::Native(details));
                } else if let Some(field) = annex.get("field").and_then(Value::as_str) {
                    let thought = thoughts.entry(field).or_insert(Thought::Text(String::new()));
                    if let Thought::Text(before) = thought {
                        before.push_str(part);
                    }
                }
            }
            Block::ToolCall(call) if answered(&call.call_id) => tool_calls.push(Call {
                id: &call.call_id,
                r#type: "function",
                function: Function {
                    name: tool_name(&call.tool),
                    arguments: arguments(&call.input).to_string(),
                },
                extra_content: annex.get("extra_content"),
            }),
            Block::ToolCall(_) | Block::Native { .. } => {}
        }
    }
    let content = match (text.trim().is_empty(), tool_calls.is_empty()) {
        (false, _) => Some(Cow::Owned(text)),
        (true, true) => Some(Cow::Borrowed(NOTHING)),
        (true, false) => None,
    };
    Message::Assistant {
        content,
        thoughts,
        tool_calls,
    }
}

fn set_fields(body: &mut Body<'_>, request: &Request<'_>, settings: &ModelSettings) {
    body.set("model", &settings.model);
    body.set("stream", &true);
    if let Some(temperature) = request.temperature {
        body.set("temperature", &temperature);
    }
    body.set("stream_options", &json!({"include_usage": true}));
    if let Some(max) = settings.max_output_tokens {
        body.set("max_tokens", &max);
    }
    if let Some(effort) = &settings.effort {
        body.set("reasoning_effort", effort);
    }
    if let Some(schema) = request.output_schema.filter(|_| settings.structured_output) {
        let schema = json!({"name": "answer", "schema": schema, "strict": is_strict(schema)});
        body.set(
            "response_format",
            &json!({"type": "json_schema", "json_schema": schema}),
        );
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let parameters = &tool.input_schema;
            let function =
                json!({"name": tool.name, "description": tool.description, "parameters": parameters});
            json!({"type": "function", "function": function})
        });
        body.set("tools", &tools.collect::<Vec<_>>());
        if let Some(parallel) = settings.parallel_tool_calls {
            body.set("parallel_tool_calls", &parallel);
        }
    }
}
