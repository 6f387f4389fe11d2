//! The adapter of `codex exec`.

use std::borrow::Cow;

use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Usage};
use vik_core::workflow::AgentProfile;

use super::line::{Item, Line, TurnError};
use super::message;
use crate::state::{Session, note};
use crate::wire::{self, Kind, Text};
use crate::{Adapter, Conclusion, Exit, PreviousTotal, Sink, flags};

/// How the last turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// No turn has ended, or another one has started.
    Open,
    Completed,
    Failed,
}

/// The adapter of one session of Codex.
#[derive(Debug)]
pub(crate) struct Codex {
    pub(super) session: Session,
    turn: Turn,
    /// The usage of the thread before this attempt.
    previous_usage: Usage,
    /// Whether `--output-schema` asks for a structured answer, which Codex does not validate.
    wants_result: bool,
}

impl Codex {
    pub(crate) fn new(profile: &AgentProfile, previous_total: Option<PreviousTotal>) -> Self {
        Self {
            session: Session::default(),
            turn: Turn::Open,
            previous_usage: previous_total.unwrap_or_default().usage,
            wants_result: flags::has_flag(profile, &["output-schema"]),
        }
    }

    fn parsed<'a>(&mut self, line: &'a str, parsed: Line<'a>, sink: &mut Sink<'_>) {
        match (parsed.kind.as_str(), parsed.item) {
            ("item.completed", Some(item)) => self.item_completed(line, *item, sink),
            ("item.started", Some(item)) => self.item_started(line, &item, sink),
            ("thread.started", _) => self.on_thread_started(parsed.thread_id.map(|id| id.0), sink),
            ("turn.started", _) => {
                // The line says only that there is a turn.
                self.on_turn_started();
            }
            ("turn.completed", _) => {
                if let Some(usage) = parsed.usage {
                    self.record_usage(usage.into(), sink);
                }
                self.completed(sink);
            }
            ("turn.failed", _) => {
                let message = wire::read::<TurnError<'_>>(parsed.error)
                    .map(|error| error.message.0)
                    .or_else(|| wire::text(parsed.error))
                    .or(parsed.message.map(|text| text.0))
                    .unwrap_or(Cow::Borrowed("the turn failed"));
                self.failed(&message, None, sink);
            }
            ("error", _) => {
                let text = parsed
                    .message
                    .map(|text| text.0)
                    .or_else(|| wire::text(parsed.error));
                let Some(text) = text else {
                    return wire::emit_unparsed(line, sink);
                };
                self.session.error(text, false, None, None, sink);
            }
            _ => wire::emit_unparsed(line, sink),
        }
    }

    /// Handles the start of the thread.
    pub(super) fn on_thread_started(&mut self, id: Option<Cow<'_, str>>, sink: &mut Sink<'_>) {
        self.session.start(id, None, None, sink);
    }

    /// Handles the start of a turn.
    pub(super) fn on_turn_started(&mut self) {
        self.turn = Turn::Open;
        self.session.set_activity("thinking");
    }

    /// Handles the end of a turn that Vik stopped for a message, which starts another one.
    pub(super) fn on_interrupted(&mut self, sink: &mut Sink<'_>) {
        self.turn = Turn::Failed;
        self.session.open_tools.clear();
        self.session
            .record_fault("the turn was stopped for a message", None, None);
        sink(note("the current step was stopped for a message".into()));
    }

    /// Records the total usage of the thread.
    pub(super) fn record_usage(&mut self, total: Usage, sink: &mut Sink<'_>) {
        // A total below the previous one belongs to another thread.
        let fresh = total.input_tokens < self.previous_usage.input_tokens
            || total.output_tokens < self.previous_usage.output_tokens;
        self.session.usage = if fresh {
            total
        } else {
            total.since(self.previous_usage)
        };
        self.session.report_usage(sink);
    }

    /// Handles the successful end of the turn.
    pub(super) fn completed(&mut self, sink: &mut Sink<'_>) {
        self.turn = Turn::Completed;
        self.session.open_tools.clear();
        self.session.set_activity("done");
        self.session
            .report_completed(true, Some("turn.completed".into()), sink);
    }

    /// Handles the failed end of the turn, with the class if Codex reported one.
    pub(super) fn failed(&mut self, message: &str, class: Option<FailureClass>, sink: &mut Sink<'_>) {
        self.turn = Turn::Failed;
        self.session.open_tools.clear();
        self.session.set_activity("failed");
        self.session
            .report_failed(message, class, Some("turn.failed".into()), sink);
    }

    pub(super) fn item_started<'a>(&mut self, line: &'a str, item: &Item<'a>, sink: &mut Sink<'_>) {
        match tool(item) {
            Some(tool) => self.on_tool_opened(item, tool, sink),
            None => wire::emit_unparsed(line, sink),
        }
    }

    fn on_tool_opened<'a>(&mut self, item: &Item<'a>, tool: Cow<'a, str>, sink: &mut Sink<'_>) {
        self.session.clear_fault();
        self.session.open_tool(id(item), tool, input(item), sink);
    }

    pub(super) fn item_completed<'a>(&mut self, line: &'a str, item: Item<'a>, sink: &mut Sink<'_>) {
        match (item.kind.as_str(), item.text, item.message) {
            ("agent_message", Some(text), _) => {
                self.session.message(text.0, true, sink);
            }
            ("reasoning", Some(text), _) => {
                self.session.set_activity("thinking");
                sink(Event::Reasoning { text: text.0 });
            }
            // A warning of Codex itself, for example that it has no data about a model. The run
            // continues, so this is not the reason of a failure.
            ("error", _, Some(message)) => sink(note(message.0)),
            (_, text, message) => {
                let item = Item {
                    text,
                    message,
                    ..item
                };
                let Some(tool) = tool(&item) else {
                    return wire::emit_unparsed(line, sink);
                };
                if !self.session.open_tools.close(&id(&item)) {
                    self.on_tool_opened(&item, tool, sink);
                    self.session.open_tools.close(&id(&item));
                }
                self.session.set_activity("thinking");
                sink(Event::ToolResult {
                    call_id: id(&item),
                    is_error: is_error(&item),
                    exit_code: item.exit_code,
                    output: output(&item),
                });
            }
        }
    }

    /// Handles a line whose fields do not match its kind. A line that ends a turn must still end
    /// it.
    fn on_malformed(&mut self, line: &str, sink: &mut Sink<'_>) {
        match wire::object::<Kind<'_>>(line)
            .as_ref()
            .map(|kind| kind.kind.as_str())
        {
            Some("turn.completed") => {
                self.turn = Turn::Completed;
                self.session.open_tools.clear();
            }
            Some("turn.failed") => self.failed("the turn failed", None, sink),
            _ => {}
        }
        wire::emit_unparsed(line, sink);
    }
}

impl Adapter for Codex {
    fn is_partial(&self, line: &str) -> bool {
        // The file that shows that this was the app-server exists only while it runs.
        message::is_partial_line(line)
    }

    fn session(&self) -> &Session {
        &self.session
    }

    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        match wire::object::<Line<'_>>(line) {
            Some(parsed) => self.parsed(line, parsed, sink),
            None => self.on_malformed(line, sink),
        }
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        self.session.open_tools.clear();
        if self.turn != Turn::Completed || !exit.is_zero() {
            let stderr = stderr_tail
                .trim_start()
                .trim_start_matches("Reading prompt from stdin...");
            let otherwise = match self.turn {
                Turn::Completed => "Codex finished its turn, but exited with an error",
                Turn::Failed => "Codex failed its turn",
                Turn::Open => "Codex ended without finishing its turn",
            };
            if self.turn == Turn::Completed {
                // An error before a completed turn is not the reason of a later failure.
                self.session.fault = None;
            }
            let mut conclusion = self.session.failed(exit, stderr, otherwise);
            if exit == Exit::Code(2) && self.session.id.is_none() {
                // The exit code of a refused command line, whatever stderr says.
                conclusion.failure_class = Some(FailureClass::Usage);
            }
            return conclusion;
        }
        let mut conclusion = self.session.succeeded();
        if self.wants_result {
            let result = self
                .session
                .last_message()
                .and_then(|text| RawValue::from_string(text.to_owned()).ok());
            if result.is_none() {
                self.session.record_fault(
                    "Codex's last message is not JSON, although `output-schema` requires it",
                    None,
                    None,
                );
                return self.session.failed(exit, stderr_tail, "");
            }
            conclusion.result = result;
        }
        conclusion
    }
}

fn id<'a>(item: &Item<'a>) -> Cow<'a, str> {
    item.id.as_ref().map_or(Cow::Borrowed(""), |id| id.0.clone())
}

/// Returns the tool's name if the item is a tool call: of a known kind, or of an unknown kind with
/// a status.
pub(super) fn tool<'a>(item: &Item<'a>) -> Option<Cow<'a, str>> {
    match item.kind.as_str() {
        "command_execution" | "file_change" | "web_search" => Some(item.kind.0.clone()),
        "mcp_tool_call" => {
            let part =
                |part: &Option<Text<'_>>| part.as_ref().map_or(String::new(), |text| text.0.to_string());
            Some(Cow::Owned(format!(
                "mcp__{}__{}",
                part(&item.server),
                part(&item.tool)
            )))
        }
        "collab_tool_call" => Some(
            item.tool
                .as_ref()
                .map_or(item.kind.0.clone(), |tool| tool.0.clone()),
        ),
        "todo_list" | "agent_message" | "reasoning" | "error" => None,
        _ => match item.status.as_ref().map(Text::as_str) {
            Some("in_progress" | "completed" | "failed" | "declined") => Some(item.kind.0.clone()),
            _ => None,
        },
    }
}

fn input<'a>(item: &Item<'a>) -> Option<&'a RawValue> {
    wire::present(
        item.command
            .or(item.changes)
            .or(item.arguments)
            .or(item.query)
            .or(item.prompt),
    )
}

fn output<'a>(item: &Item<'a>) -> Option<vik_core::event::ToolOutput<'a>> {
    wire::output(item.aggregated_output)
        .or_else(|| wire::output(item.error))
        .or_else(|| wire::output(item.result))
        .or_else(|| wire::output(item.changes))
}

fn is_error(item: &Item<'_>) -> bool {
    let failed = matches!(
        item.status.as_ref().map(Text::as_str),
        Some("failed" | "declined" | "cancelled")
    );
    failed || wire::present(item.error).is_some() || item.exit_code.is_some_and(|code| code != 0)
}
