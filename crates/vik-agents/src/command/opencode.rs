//! opencode (`run --format json`): `step_start`, `text`, `tool_use` (after the call),
//! `step_finish`, `error`; `sessionID` on every line.
//!
//! No line marks the end: the reason of the last step says whether more follows. After an error
//! opencode exits with 1, even if it continued (for example by compacting a long conversation).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Usage};

use crate::state::{Fault, Session};
use crate::wire::{self, Count, Text};
use crate::{Adapter, Conclusion, Exit, Sink};

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    #[serde(rename = "sessionID")]
    session_id: Option<Text<'a>>,
    part: Option<Part<'a>>,
    error: Option<Failure<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Part<'a> {
    text: Option<Text<'a>>,
    synthetic: Option<bool>,
    tool: Option<Text<'a>>,
    #[serde(rename = "callID")]
    call_id: Option<Text<'a>>,
    state: Option<State<'a>>,
    reason: Option<Text<'a>>,
    tokens: Option<Tokens>,
    cost: Option<f64>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct State<'a> {
    status: Option<Text<'a>>,
    input: Option<&'a RawValue>,
    output: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Metadata {
    exit: Option<i64>,
}

/// Input excludes cached tokens, output excludes reasoning.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input: Count,
    output: Count,
    reasoning: Count,
    cache: Cache,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: Count,
    write: Count,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Failure<'a> {
    name: Option<Text<'a>>,
    message: Option<Text<'a>>,
    data: Option<FailureData<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
struct FailureData<'a> {
    message: Option<Text<'a>>,
    status_code: Option<u16>,
}

/// The adapter of one session of opencode.
#[derive(Debug, Default)]
pub(super) struct OpenCode {
    session: Session,
    /// Whether the last step was final.
    finished: bool,
    /// The last error of the session: it leads to exit code 1, whatever follows.
    error: Option<Fault>,
}

impl OpenCode {
    /// Handles a tool call, which opencode reports when it is over.
    fn tool<'a>(&mut self, line: &'a str, part: Part<'a>, sink: &mut Sink<'_>) {
        let (Some(id), Some(tool), Some(state)) = (part.call_id, part.tool, part.state) else {
            return wire::emit_unparsed(line, sink);
        };
        let status = state.status.as_ref().map_or("", Text::as_str);
        self.session.set_tool_activity(tool.as_str(), state.input);
        sink(Event::ToolCall {
            call_id: id.0.clone(),
            tool: tool.0,
            input: wire::present(state.input).map(Into::into),
        });
        if let "pending" | "running" = status {
            self.session.open_tools.open(id.as_str());
            return;
        }
        self.session.open_tools.close(id.as_str());
        let exit_code = wire::read::<Metadata>(state.metadata).and_then(|metadata| metadata.exit);
        sink(Event::ToolResult {
            call_id: id.0,
            is_error: status == "error" || exit_code.is_some_and(|code| code != 0),
            exit_code,
            output: wire::output(state.output.or(state.error)),
        });
    }
}

impl Adapter for OpenCode {
    fn session(&self) -> &Session {
        &self.session
    }

    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Some(parsed) = wire::object::<Line<'_>>(line) else {
            return wire::emit_unparsed(line, sink);
        };
        if let Some(id) = parsed.session_id
            && self.session.set_id(id.as_str())
        {
            self.session.start(Some(id.0), None, None, sink);
        }
        match (parsed.kind.as_str(), parsed.part, parsed.error) {
            ("step_start", ..) => {
                self.finished = false;
                self.session.set_activity("thinking");
            }
            (
                "text",
                Some(Part {
                    text: Some(text),
                    synthetic,
                    ..
                }),
                _,
            ) => {
                // A synthetic text is input from opencode to the model.
                self.session.message(text.0, synthetic != Some(true), sink);
            }
            ("reasoning", Some(Part { text: Some(text), .. }), _) => sink(Event::Reasoning { text: text.0 }),
            ("tool_use", Some(part), _) => self.tool(line, part, sink),
            ("step_finish", Some(part), _) => {
                if let Some(tokens) = part.tokens {
                    let (read, written) = (tokens.cache.read.0, tokens.cache.write.0);
                    self.session.usage = self.session.usage.plus(Usage {
                        input_tokens: tokens.input.0.saturating_add(read).saturating_add(written),
                        cached_input_tokens: read,
                        cache_write_input_tokens: written,
                        output_tokens: tokens.output.0.saturating_add(tokens.reasoning.0),
                    });
                }
                if let Some(cost) = part.cost {
                    self.session.cost_usd = Some(self.session.cost_usd.unwrap_or(0.0) + cost);
                }
                self.session.report_usage(sink);
                let reason = part.reason.as_ref().map_or("", Text::as_str);
                self.finished = !matches!(reason, "" | "tool-calls" | "error" | "length" | "content-filter");
                if self.finished {
                    let reason = part.reason.map(|reason| reason.0);
                    self.session.report_completed(true, reason, sink);
                }
            }
            ("error", _, Some(failure)) => {
                let name = failure.name.as_ref().map_or("", Text::as_str).to_owned();
                let (detail, http_status) = failure
                    .data
                    .map_or((None, None), |data| (data.message, data.status_code));
                let message = detail
                    .or(failure.message)
                    .map_or(Cow::Owned(name.clone()), |text| text.0);
                let failure_class = match name.as_str() {
                    "ContextOverflowError" => Some(FailureClass::Context),
                    "ProviderAuthError" => Some(FailureClass::Auth),
                    "ProviderModelNotFoundError" => Some(FailureClass::Model),
                    _ => None,
                };
                self.finished = false;
                self.session
                    .error(message, true, failure_class, http_status, sink);
                self.error = self.session.fault.clone();
                self.session.set_activity("failed");
            }
            _ => wire::emit_unparsed(line, sink),
        }
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        self.session.open_tools.clear();
        if self.finished && exit.is_zero() {
            return self.session.succeeded();
        }
        let otherwise = if self.finished {
            "opencode exited with an error"
        } else {
            "opencode ended before it finished its work"
        };
        self.session.fault = self.error.take();
        self.session.failed(exit, stderr_tail, otherwise)
    }
}
