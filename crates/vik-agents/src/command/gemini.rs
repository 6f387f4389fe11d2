//! Gemini CLI (`-o stream-json`): `init`, `message`, `tool_use`, `tool_result`, `error`, `result
//! {status, stats}`.
//!
//! Messages arrive in parts (`delta: true`). The exit code of a failure is the HTTP status modulo
//! 256.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::outcome::Usage;

use crate::state::Session;
use crate::wire::{self, Count, Text};
use crate::{Adapter, Conclusion, Exit, Sink, classify};

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    session_id: Option<Text<'a>>,
    model: Option<Text<'a>>,
    role: Option<Text<'a>>,
    content: Option<Text<'a>>,
    delta: Option<bool>,
    tool_name: Option<Text<'a>>,
    tool_id: Option<Text<'a>>,
    parameters: Option<&'a RawValue>,
    status: Option<Text<'a>>,
    output: Option<&'a RawValue>,
    error: Option<Failure<'a>>,
    message: Option<Text<'a>>,
    stats: Option<Stats>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Failure<'a> {
    message: Option<&'a RawValue>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Stats {
    input_tokens: Count,
    output_tokens: Count,
    cached: Count,
}

/// The adapter of one session of Gemini.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    session: Session,
    /// The parts of the current message.
    partial_text: String,
    ok: Option<bool>,
}

impl Adapter for Gemini {
    fn session(&self) -> &Session {
        &self.session
    }

    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Some(parsed) = wire::object::<Line<'_>>(line) else {
            return wire::emit_unparsed(line, sink);
        };
        let kind = parsed.kind.as_str();
        if kind != "message" {
            self.partial_text.clear();
        }
        match (kind, parsed.tool_id) {
            ("init", _) => {
                let id = parsed.session_id.map(|id| id.0);
                let model = parsed.model.map(|model| model.0);
                self.session.start(id, None, model, sink);
            }
            ("message", _) => match (parsed.role.as_ref().map(Text::as_str), parsed.content) {
                (Some("assistant" | "model"), Some(text)) => {
                    if parsed.delta != Some(true) {
                        self.partial_text.clear();
                    }
                    self.partial_text.push_str(text.as_str());
                    self.session.set_last_message(&self.partial_text);
                    self.session.set_activity("writing");
                    sink(Event::Message { text: text.0 });
                }
                // An echo of the prompt.
                (Some("user"), Some(_)) => {}
                _ => wire::emit_unparsed(line, sink),
            },
            ("tool_use", Some(id)) => {
                let tool = parsed.tool_name.map_or(Cow::Borrowed(""), |tool| tool.0);
                self.session.open_tool(id.0, tool, parsed.parameters, sink);
            }
            ("tool_result", Some(id)) => {
                self.session.open_tools.close(id.as_str());
                self.session.set_activity("thinking");
                let output = parsed.output.or(parsed.error.and_then(|error| error.message));
                sink(Event::ToolResult {
                    call_id: id.0,
                    is_error: parsed.status.is_none_or(|status| status.as_str() != "success"),
                    exit_code: None,
                    output: wire::output(output),
                });
            }
            ("error", _) => {
                let detail = parsed.error.and_then(|error| wire::text(error.message));
                let Some(message) = parsed.message.map(|text| text.0).or(detail) else {
                    return wire::emit_unparsed(line, sink);
                };
                self.session.error(message, false, None, None, sink);
            }
            ("result", _) => {
                let ok = parsed
                    .status
                    .as_ref()
                    .is_some_and(|status| status.as_str() == "success");
                self.ok = Some(ok);
                self.session.open_tools.clear();
                if let Some(stats) = parsed.stats {
                    self.session.usage = Usage {
                        input_tokens: stats.input_tokens.0,
                        cached_input_tokens: stats.cached.0,
                        cache_write_input_tokens: 0,
                        output_tokens: stats.output_tokens.0,
                    };
                    self.session.report_usage(sink);
                }
                let reason = parsed.status.map(|status| status.0);
                if ok {
                    return self.session.report_completed(ok, reason, sink);
                }
                let detail = parsed.error.and_then(|error| wire::text(error.message));
                let message = detail.unwrap_or(Cow::Borrowed("Gemini reported a failure without a reason"));
                self.session.report_failed(&message, None, reason, sink);
            }
            _ => wire::emit_unparsed(line, sink),
        }
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        self.session.open_tools.clear();
        if self.ok == Some(true) {
            self.session.fault = None;
            if exit.is_zero() {
                return self.session.succeeded();
            }
        }
        let otherwise = if self.ok.is_none() {
            "Gemini ended without a result"
        } else {
            "Gemini failed"
        };
        if let (Some(fault), Exit::Code(code)) = (&mut self.session.fault, exit)
            && fault.class.is_none()
        {
            // Gemini's own exit codes are small, so among the statuses above 511 only 529 is
            // recognised.
            fault.class = match code {
                17 => classify::class_of_status(529),
                144..=255 => u16::try_from(code + 256).ok().and_then(classify::class_of_status),
                _ => None,
            };
        }
        self.session.failed(exit, stderr_tail, otherwise)
    }
}
