//! JSON Lines of no known dialect: obvious lines are understood, all others are passed through.
//!
//! `type`, `event` or `kind` gives the topic of a line: a message (`message`, `text`, `assistant`),
//! reasoning, a tool call and its result, usage (totals so far), an error, or the end (`result`,
//! `end`, `done`, `completed`). Without one, a line is a message if it has a text or a `role` of
//! `assistant`, and an error if it has an `error`.

mod line;

use std::borrow::Cow;

use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::outcome::Usage;

use crate::state::Session;
use crate::wire;
use crate::{Adapter, Conclusion, Exit, Sink};

use line::{Figures, Line, Topic, call_id, line_text, nested_text, reported_success, session_id, topic_of};

/// The adapter of one session of an unknown command.
#[derive(Debug, Default)]
pub(super) struct Generic {
    session: Session,
    succeeded: Option<bool>,
    result: Option<Box<RawValue>>,
}

impl Generic {
    fn message<'a>(&mut self, line: &Line<'a>, sink: &mut Sink<'_>) -> bool {
        let Some(text) = line_text(line) else { return false };
        self.session.message(text, true, sink);
        true
    }

    fn tool_call<'a>(&mut self, line: &Line<'a>, sink: &mut Sink<'_>) -> bool {
        let Some(tool) = wire::text(line.tool)
            .or_else(|| wire::text(line.tool_name))
            .or_else(|| wire::text(line.name))
        else {
            return false;
        };
        let call_id = call_id(line);
        let input = wire::present(line.input.or(line.arguments).or(line.args).or(line.parameters));
        self.session.clear_fault();
        if !call_id.is_empty() {
            // A call without an id could never be closed.
            self.session.open_tools.open(&call_id);
        }
        self.session.set_tool_activity(&tool, input);
        sink(Event::ToolCall {
            call_id,
            tool,
            input: input.map(Into::into),
        });
        true
    }

    fn tool_result<'a>(&mut self, line: &Line<'a>, sink: &mut Sink<'_>) -> bool {
        let call_id = call_id(line);
        self.session.open_tools.close(&call_id);
        let exit_code = wire::read::<i64>(line.exit_code);
        let is_error = reported_success(line) == Some(false) || exit_code.is_some_and(|code| code != 0);
        let output = wire::output(
            line.output
                .or(line.result)
                .or(line.content)
                .or(line.error)
                .or(line.text),
        );
        sink(Event::ToolResult {
            call_id,
            is_error,
            exit_code,
            output,
        });
        true
    }

    /// Records usage, which is under `usage` or on the line itself.
    fn figures(&mut self, line: &Line<'_>, raw: Option<&str>, sink: &mut Sink<'_>) -> bool {
        let figures = wire::read::<Figures>(line.usage).or_else(|| serde_json::from_str(raw?).ok());
        let usage = figures
            .map(Usage::from)
            .filter(|usage| *usage != Usage::default());
        let cost = wire::read::<f64>(line.cost_usd.or(line.total_cost_usd));
        if usage.is_none() && cost.is_none() {
            return false;
        }
        self.session.usage = usage.unwrap_or(self.session.usage);
        self.session.cost_usd = cost.or(self.session.cost_usd);
        self.session.report_usage(sink);
        true
    }

    fn error<'a>(&mut self, line: &Line<'a>, sink: &mut Sink<'_>) -> bool {
        let Some(message) = nested_text(line.error, 0).or_else(|| line_text(line)) else {
            return false;
        };
        let fatal = wire::read::<bool>(line.fatal).unwrap_or(false);
        self.session.error(message, fatal, None, None, sink);
        true
    }

    fn start<'a>(&mut self, line: &Line<'a>, sink: &mut Sink<'_>) -> bool {
        let Some(id) = session_id(line) else { return false };
        let (version, model) = (wire::text(line.version), wire::text(line.model));
        self.session.start(Some(id), version, model, sink);
        true
    }

    fn end<'a>(&mut self, kind: &str, line: &Line<'a>, sink: &mut Sink<'_>) {
        if let Some(id) = session_id(line) {
            self.session.set_id(&id);
        }
        self.figures(line, None, sink);
        self.session.open_tools.clear();
        let ok = !kind.contains("fail") && reported_success(line).unwrap_or(true);
        self.succeeded = Some(ok);
        let message = line_text(line).or_else(|| wire::text(line.result));
        if ok {
            self.session.fault = None;
            if let Some(text) = &message {
                self.session.set_last_message(text);
            }
        } else {
            let error_text = nested_text(line.error, 0).or_else(|| message.clone());
            let error_text =
                error_text.unwrap_or(Cow::Borrowed("the command reported a failure without a reason"));
            self.session.record_fault(&error_text, None, None);
        }
        let result = line.result.filter(|raw| raw.get().starts_with(['{', '[']));
        self.result = result.map(ToOwned::to_owned);
        sink(Event::Completed {
            ok,
            message,
            result: result.map(Into::into),
            reason: wire::text(line.reason).or(wire::text(line.status)),
        });
    }
}

impl Adapter for Generic {
    fn session(&self) -> &Session {
        &self.session
    }

    fn read_line(&mut self, raw: &str, sink: &mut Sink<'_>) {
        let Some(line) = &wire::object::<Line<'_>>(raw) else {
            return wire::emit_unparsed(raw, sink);
        };
        let kind = wire::text(line.kind_type)
            .or_else(|| wire::text(line.event))
            .or_else(|| wire::text(line.kind));
        let role = wire::text(line.role);
        let topic = match &kind {
            Some(kind) => topic_of(kind),
            None if wire::present(line.error).is_some() => Some(Topic::Error),
            None if line_text(line).is_some() => Some(Topic::Message),
            None => None,
        };
        let known = match topic {
            Some(Topic::Message) => {
                !matches!(role.as_deref(), Some("user" | "system")) && self.message(line, sink)
            }
            Some(Topic::Reasoning) => match line_text(line) {
                Some(text) => {
                    sink(Event::Reasoning { text });
                    true
                }
                None => false,
            },
            Some(Topic::ToolCall) => self.tool_call(line, sink),
            Some(Topic::ToolResult) => self.tool_result(line, sink),
            Some(Topic::Usage) => self.figures(line, Some(raw), sink),
            Some(Topic::Error) => self.error(line, sink),
            Some(Topic::Start) => self.start(line, sink),
            Some(Topic::End) => {
                self.end(kind.as_deref().unwrap_or(""), line, sink);
                true
            }
            None => false,
        };
        if !known {
            wire::emit_unparsed(raw, sink);
        }
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        self.session.open_tools.clear();
        let ok = self.succeeded.unwrap_or(self.session.fault.is_none()) && exit.is_zero();
        let mut conclusion = if ok {
            self.session.succeeded()
        } else {
            self.session.failed(exit, stderr_tail, "the command failed")
        };
        conclusion.result = self.result.take();
        conclusion
    }
}
