//! Requests of the responses protocol.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::conversation::{Block, Turn};
use crate::provider::Request;
use crate::provider::protocol::{ModelSettings, Protocol};
use crate::provider::request::{
    Body, Entry, NOTHING, arguments, entries, is_strict, output, parts, tool_name,
};

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a Value>,
        content: [Content<'a>; 1],
    },
    FunctionCall {
        call_id: &'a str,
        name: Cow<'a, str>,
        arguments: String,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: &'a str,
    },
    #[serde(untagged)]
    Native(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: &'a str },
}

impl<'a> Item<'a> {
    fn assistant_message(text: &'a str, phase: Option<&'a Value>) -> Self {
        Self::Message {
            role: "assistant",
            phase,
            content: [Content::OutputText { text }],
        }
    }

    fn is_reasoning(&self) -> bool {
        matches!(self, Self::Native(item) if item["type"] == "reasoning")
    }
}

/// Builds the body of a request.
pub(crate) fn body<'a>(request: &Request<'_>, settings: &'a ModelSettings) -> Body<'a> {
    let mut body = Body::new("input", &settings.extra);
    set_fields(&mut body, request, settings);
    for entry in entries(request.messages) {
        match entry {
            Entry::Input { results, text } => {
                for result in results {
                    body.push(&Item::FunctionCallOutput {
                        call_id: &result.call_id,
                        output: output(result),
                    });
                }
                if let Some(text) = text {
                    body.push(&Item::Message {
                        role: "user",
                        phase: None,
                        content: [Content::InputText { text }],
                    });
                }
            }
            Entry::Answer { turn, answered } => {
                for item in answer(turn, |id| answered.contains(id)) {
                    body.push(&item);
                }
            }
        }
    }
    body
}

fn answer<'a>(turn: &'a Turn, answered: impl Fn(&str) -> bool) -> Vec<Item<'a>> {
    let mut items: Vec<Item<'a>> = parts(turn, Protocol::Responses.as_str())
        .filter_map(|(block, annex)| match block {
            Block::Text { text } if text.trim().is_empty() => None,
            Block::Text { text } => Some(Item::assistant_message(text, annex.get("phase"))),
            Block::ToolCall(call) if answered(&call.call_id) => Some(Item::FunctionCall {
                call_id: &call.call_id,
                name: tool_name(&call.tool),
                arguments: arguments(&call.input).to_string(),
            }),
            Block::Native { item, .. } => Some(Item::Native(item)),
            // The text of thinking is only for display; the item that it came in is sent back.
            Block::ToolCall(_) | Block::Thinking { .. } => None,
        })
        .collect();
    // Reasoning without the item that follows it is refused.
    while items.last().is_some_and(Item::is_reasoning) {
        items.pop();
    }
    if items.is_empty() {
        items.push(Item::assistant_message(NOTHING, None));
    }
    items
}

fn set_fields(body: &mut Body<'_>, request: &Request<'_>, settings: &ModelSettings) {
    body.set("model", &settings.model);
    body.set("stream", &true);
    if let Some(temperature) = request.temperature {
        body.set("temperature", &temperature);
    }
    // Nothing is stored at the provider; encrypted reasoning is returned and sent with the next
    // request.
    body.set("store", &false);
    body.set("include", &["reasoning.encrypted_content"]);
    if let Some(max) = settings.max_output_tokens {
        body.set("max_output_tokens", &max);
    }
    if let Some(effort) = &settings.effort {
        body.set("reasoning", &json!({"effort": effort, "summary": "auto"}));
    }
    if let Some(key) = &settings.cache_key {
        body.set("prompt_cache_key", key);
    }
    if let Some(schema) = request.output_schema.filter(|_| settings.structured_output) {
        let format =
            json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict(schema)});
        body.set("text", &json!({ "format": format }));
    }
    if !request.tools.is_empty() {
        // Without `strict: false` the provider rewrites schemas that have optional properties.
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
                "strict": false,
            })
        });
        body.set("tools", &tools.collect::<Vec<_>>());
        if let Some(parallel) = settings.parallel_tool_calls {
            body.set("parallel_tool_calls", &parallel);
        }
    }
    if !request.system.trim().is_empty() {
        body.set("instructions", &request.system);
    }
}
