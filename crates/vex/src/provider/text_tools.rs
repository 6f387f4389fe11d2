//! Tool calls as text, for models without native tool calls: the system prompt describes the tools,
//! calls are JSON or fences in the text of an answer, and results are messages of the user. JSON is
//! read like any call written as text ([`tool_call_repair`]), a fence by [`fences`].

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Request;
use super::protocol::ToolCalls;
use super::request::{arguments, output};
use crate::conversation::{Block, Message, ToolCall, ToolResult, Turn};
use crate::fences;
use crate::tools::{Need, ToolDefinition};

pub(crate) struct TextRequest {
    system: String,
    messages: Vec<Message>,
}

impl TextRequest {
    /// Converts the conversation to one without tools. Each message depends only on earlier ones,
    /// so each request still extends the previous one.
    pub(crate) fn of(request: &Request<'_>, form: ToolCalls) -> Self {
        let mut messages = Vec::with_capacity(request.messages.len());
        let mut calls: &[Block] = &[];
        for (at, message) in request.messages.iter().enumerate() {
            messages.push(match message {
                Message::User { .. } => message.clone(),
                Message::Assistant(turn) => {
                    calls = &turn.blocks;
                    Message::Assistant(turn_as_text(turn, form))
                }
                Message::Tool(result) => {
                    let is_last = !matches!(request.messages.get(at + 1), Some(Message::Tool(_)));
                    Message::user(result_text(result, calls, request.tools, is_last))
                }
            });
        }
        Self {
            system: format!(
                "{}\n\n{}",
                request.system.trim_end(),
                description(request.tools, form)
            ),
            messages,
        }
    }

    /// Returns the request for the provider.
    pub(crate) fn request<'a>(&'a self, of: &Request<'a>) -> Request<'a> {
        Request {
            system: &self.system,
            messages: &self.messages,
            tools: &[],
            output_schema: of.output_schema,
            temperature: of.temperature,
        }
    }
}

/// Returns a call in the form that the model is to write.
fn call_as_text(call: &ToolCall, form: ToolCalls) -> String {
    let written = fences::written(call).filter(|_| form.in_fences());
    written.unwrap_or_else(|| json_call(call))
}

fn json_call(call: &ToolCall) -> String {
    json!({"name": call.tool, "arguments": arguments(&call.input)}).to_string()
}

fn turn_as_text(turn: &Turn, form: ToolCalls) -> Turn {
    let parts = turn.blocks.iter().filter_map(|block| match block {
        Block::Text { text } if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Block::ToolCall(call) => Some(call_as_text(call, form)),
        _ => None,
    });
    let text = parts.collect::<Vec<_>>().join("\n");
    Turn {
        blocks: vec![Block::Text { text }],
        ..turn.clone()
    }
}

/// Returns a result as text. A weak model repeats calls for ever, or stops at once, unless it is
/// asked for its next step.
fn result_text(result: &ToolResult, calls: &[Block], tools: &[ToolDefinition], is_last: bool) -> String {
    let call = calls.iter().find_map(|block| match block {
        Block::ToolCall(call) if call.call_id == result.call_id => Some(call),
        _ => None,
    });
    let name = call.map_or("the call", |call| call.tool.as_str());
    let heading = if result.is_error { "Error of" } else { "Result of" };
    let mut text = format!("{heading} {name}:\n{}", output(result).trim_end());
    if is_last {
        let changes = |tool: &ToolDefinition| tool.name == name && tool.need == Need::Write;
        text.push_str(if !result.is_error && tools.iter().any(changes) {
            "\n\nIf the whole task is done now, say so in one sentence. Else make the next call."
        } else {
            "\n\nMake the next call, or answer if the task asks for nothing more."
        });
    }
    text
}

/// Describes how the model changes files and runs commands.
fn description(tools: &[ToolDefinition], form: ToolCalls) -> String {
    match form {
        ToolCalls::Native | ToolCalls::Text => catalogue(tools),
        ToolCalls::Blocks => fences::description(false, tools),
        ToolCalls::Files => fences::description(true, tools),
    }
}

/// Describes the tools with their required arguments; optional ones only confuse a weak model.
fn catalogue(tools: &[ToolDefinition]) -> String {
    let mut text = "Tools:\n".to_owned();
    for tool in tools {
        let schema = &tool.input_schema;
        let mut names: Vec<String> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Value::to_string)
            .collect();
        if !names.iter().any(|name| name == "\"path\"") && schema["properties"]["path"].is_object() {
            names.push("\"path\"".to_owned());
        }
        let _ = writeln!(
            text,
            "{} {{{}}}: {}",
            tool.name,
            names.join(", "),
            tool.description
        );
    }
    text.push_str(
        "\nTo call one, answer with nothing but one JSON object:\n\
         {\"name\": \"read_file\", \"arguments\": {\"path\": \"notes.txt\"}}\n\
         The result comes in the next message. Then make the next call.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Arguments, StopReason};
    use crate::tools::{Permission, Root, Toolbox};

    fn call(id: &str, tool: &str, input: Value) -> Block {
        Block::ToolCall(ToolCall {
            call_id: id.to_owned(),
            tool: tool.to_owned(),
            input: Arguments::Json(input),
            repaired: true,
        })
    }

    fn result(id: &str, is_error: bool, output: &str) -> Message {
        Message::Tool(ToolResult {
            call_id: id.to_owned(),
            is_error,
            output: output.to_owned(),
            ..ToolResult::default()
        })
    }

    #[test]
    fn text_tools_conversation_is_equivalent() {
        let dir = tempfile::tempdir().unwrap();
        let tools = Toolbox::new(Root::open(dir.path(), false).unwrap(), Permission::WorkspaceWrite);
        let answer = |blocks| {
            Message::Assistant(Turn {
                blocks,
                stop: StopReason::ToolUse,
                ..Turn::default()
            })
        };
        let messages = [
            Message::user("Write it."),
            answer(vec![
                Block::text("I look.\n"),
                call("1", "read_file", json!({"path": "a"})),
                call("2", "list_dir", json!({})),
            ]),
            result("1", true, "a is not there"),
            result("2", false, "[empty]\n"),
            answer(vec![call(
                "3",
                "write_file",
                json!({"path": "a", "content": "x\n"}),
            )]),
            result("3", false, "created a (1 line)"),
        ];
        let request = Request {
            system: "You are vex.\n",
            messages: &messages,
            tools: &tools.definitions()[..6],
            output_schema: None,
            temperature: None,
        };
        let as_text = TextRequest::of(&request, ToolCalls::Text);
        let mut shown = as_text.system.clone();
        for message in &as_text.messages {
            shown += &match message {
                Message::User { text } => format!("\n--- user\n{text}\n"),
                Message::Assistant(turn) => format!("\n--- model\n{}\n", turn.text()),
                Message::Tool(_) => panic!("a result is sent as text"),
            };
        }
        insta::assert_snapshot!(shown);
        assert!(as_text.request(&request).tools.is_empty());
        for cut in 1..messages.len() {
            let earlier = TextRequest::of(
                &Request {
                    messages: &messages[..cut],
                    ..request
                },
                ToolCalls::Text,
            );
            let continues = matches!(messages[cut], Message::Tool(_));
            // No question is asked while results are missing.
            if !continues {
                assert_eq!(earlier.messages, as_text.messages[..cut]);
            }
        }
    }
}
