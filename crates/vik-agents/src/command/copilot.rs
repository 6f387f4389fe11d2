//! GitHub Copilot CLI (`--output-format json`): `{"type":"assistant.message","data":{…},…}`, with a
//! `result` at the end.
//!
//! It reports neither tokens nor cost. After a signal it still writes a `result` with exit code 0,
//! so an `abort` event overrides it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::event::Event;

use crate::state::Session;
use crate::wire::{self, Text};
use crate::{Adapter, Conclusion, Exit, Sink};

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    data: Option<&'a RawValue>,
    #[serde(rename = "sessionId")]
    session_id: Option<Text<'a>>,
    #[serde(rename = "exitCode")]
    exit_code: Option<i64>,
}

/// The `data` of any line that is read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct Data<'a> {
    content: Option<Text<'a>>,
    tool_call_id: Option<Text<'a>>,
    tool_name: Option<Text<'a>>,
    arguments: Option<&'a RawValue>,
    success: Option<bool>,
    result: Option<ToolResult<'a>>,
    error: Option<ToolError<'a>>,
    shell_execution: Option<Shell>,
    message: Option<Text<'a>>,
    error_message: Option<Text<'a>>,
    status_code: Option<u16>,
    reason: Option<Text<'a>>,
    aborted: Option<bool>,
    parent_tool_call_id: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct ToolResult<'a> {
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct ToolError<'a> {
    message: Option<&'a RawValue>,
    code: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shell {
    exit_code: Option<i64>,
}

/// Parts of a message that follows as a whole, and keep-alives.
const SILENT: &[&str] = &[
    "assistant.message_start",
    "assistant.message_delta",
    "assistant.reasoning_delta",
    "assistant.tool_call_delta",
    "assistant.turn_start",
    "assistant.turn_end",
    "assistant.streaming_delta",
    "model.call_start",
    "model.call_finished",
    "session.background_tasks_changed",
    "tool.execution_partial_result",
    "tool.execution_progress",
    "tool.shell_output",
];

/// The adapter of one session of Copilot.
#[derive(Debug, Default)]
pub(super) struct Copilot {
    session: Session,
    /// The exit code in the `result` line.
    exit_code: Option<i64>,
    aborted: bool,
}

impl Adapter for Copilot {
    fn session(&self) -> &Session {
        &self.session
    }

    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Some(parsed) = wire::object::<Line<'_>>(line) else {
            return wire::emit_unparsed(line, sink);
        };
        let kind = parsed.kind.as_str();
        if SILENT.contains(&kind) {
            return;
        }
        if kind == "result" {
            if let Some(id) = &parsed.session_id {
                self.session.set_id(id.as_str());
            }
            self.exit_code = parsed.exit_code;
            self.session.open_tools.clear();
            let ok = self.exit_code == Some(0) && !self.aborted;
            let reason = self.aborted.then_some(Cow::Borrowed("abort"));
            return self.session.report_completed(ok, reason, sink);
        }
        let Some(data) = wire::read::<Data<'_>>(parsed.data) else {
            return wire::emit_unparsed(line, sink);
        };
        match kind {
            "assistant.message" => {
                // Empty if the message only calls tools, which are events of their own.
                if let Some(text) = data.content.filter(|text| !text.as_str().is_empty()) {
                    let is_main = data.parent_tool_call_id.is_none();
                    self.session.message(text.0, is_main, sink);
                }
            }
            "assistant.reasoning" => match data.content {
                Some(text) => sink(Event::Reasoning { text: text.0 }),
                None => wire::emit_unparsed(line, sink),
            },
            "tool.execution_start" => {
                let (Some(id), Some(tool)) = (data.tool_call_id, data.tool_name) else {
                    return wire::emit_unparsed(line, sink);
                };
                self.session.clear_fault();
                self.session.open_tool(id.0, tool.0, data.arguments, sink);
            }
            "tool.execution_complete" => {
                let Some(id) = data.tool_call_id else {
                    return wire::emit_unparsed(line, sink);
                };
                self.session.open_tools.close(id.as_str());
                self.session.set_activity("thinking");
                if data
                    .error
                    .as_ref()
                    .and_then(|error| error.code.as_ref())
                    .is_some_and(|c| c.as_str() == "denied")
                {
                    sink(Event::Approval {
                        by: None,
                        tool: data.tool_name.map_or(Cow::Borrowed(""), |tool| tool.0),
                        decision: Cow::Borrowed("denied"),
                        detail: Some(id.0.clone()),
                    });
                }
                let output = data.result.and_then(|result| result.content);
                let error = data.error.and_then(|error| error.message);
                let exit_code = data.shell_execution.and_then(|shell| shell.exit_code);
                sink(Event::ToolResult {
                    call_id: id.0,
                    is_error: data.success == Some(false) || exit_code.is_some_and(|code| code != 0),
                    exit_code,
                    output: wire::output(output.or(error)),
                });
            }
            "model.call_failure" => {
                // Copilot retries; `session.error` reports when it gives up.
                let message = data.error_message.or(data.message);
                let message = message.map_or(Cow::Borrowed("the model call failed"), |text| text.0);
                self.session.error(message, false, None, data.status_code, sink);
            }
            "session.error" => {
                let message = data
                    .message
                    .map_or(Cow::Borrowed("the session failed"), |text| text.0);
                // The line before has the provider's error; Copilot's text may hide it.
                let earlier = self.session.fault.as_ref().and_then(|fault| fault.class);
                self.session.error(message, true, None, data.status_code, sink);
                if let Some(fault) = &mut self.session.fault {
                    fault.class = fault.class.or(earlier);
                }
            }
            "abort" | "agent.interrupted" => {
                self.aborted = true;
                self.session.open_tools.clear();
                let reason = data.reason.map_or("interrupted", |_| "aborted");
                self.session.error(Cow::Borrowed(reason), false, None, None, sink);
            }
            "assistant.idle" => {
                self.aborted |= data.aborted == Some(true);
                self.session.set_activity("idle");
            }
            _ => wire::emit_unparsed(line, sink),
        }
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        self.session.open_tools.clear();
        if self.exit_code == Some(0) && !self.aborted && exit.is_zero() {
            return self.session.succeeded();
        }
        let otherwise = match self.exit_code {
            None => "Copilot ended without a result",
            Some(_) => "Copilot failed",
        };
        self.session.failed(exit, stderr_tail, otherwise)
    }
}
