//! The adapter of Claude Code.

mod result;
mod system;

use std::borrow::Cow;

use jiff::Timestamp;
use vik_core::event::Event;
use vik_core::message::Message as PersonMessage;
use vik_core::outcome::{FailureClass, Usage};
use vik_core::workflow::AgentProfile;

use super::control::{self, Control};
use super::errors::{class_of_code, exit_code};
use super::line::{Block, Content, Line, Message, StreamDelta, StreamLine};
use super::requests::RequestUsages;
use crate::request::{ApprovalRequest, InitialInput, Outbox, Verdict};
use crate::state::Session;
use crate::wire::{self, Kind, Text};
use crate::{Adapter, Conclusion, Exit, PreviousTotal, Sink, flags};
use result::FinalResult;

/// The adapter of one session of Claude Code.
#[derive(Debug)]
pub(crate) struct ClaudeCode {
    session: Session,
    final_result: Option<FinalResult>,
    requests: RequestUsages,
    /// The usage of the conversation before this session.
    previous: PreviousTotal,
    /// Usage of the main conversation, summed over `result` lines.
    results: Usage,
    /// The usage at the last result line, and the sum over the requests at that time.
    reported: Option<(Usage, Usage)>,
    /// Whether an API failure was already reported as a fatal error.
    fatal_reported: bool,
    /// Whether the provider rejected the last request because of a rate limit.
    rejected: bool,
    /// When the rate limit resets.
    resets_at: Option<Timestamp>,
    /// Whether `--json-schema` asks for a structured answer; without one the exit code may be 0.
    wants_result: bool,
    /// Present in a session whose input stays open.
    control: Option<Control>,
}

impl ClaudeCode {
    pub(crate) fn new(profile: &AgentProfile, previous_total: Option<PreviousTotal>) -> Self {
        Self {
            previous: previous_total.unwrap_or_default(),
            session: Session::default(),
            final_result: None,
            requests: RequestUsages::default(),
            results: Usage::default(),
            reported: None,
            fatal_reported: false,
            rejected: false,
            resets_at: None,
            wants_result: flags::has_flag(profile, &["json-schema"]),
            control: None,
        }
    }

    /// Creates the adapter of a session whose input stays open.
    pub(crate) fn interactive(
        profile: &AgentProfile,
        previous_total: Option<PreviousTotal>,
        input: &InitialInput<'_>,
    ) -> Self {
        Self {
            control: Some(Control::new(input)),
            ..Self::new(profile, previous_total)
        }
    }

    fn parsed<'a>(&mut self, line: &'a str, parsed: Line<'a>, sink: &mut Sink<'_>) {
        match parsed.kind.as_str() {
            "assistant" => match parsed.message {
                Some(message) => {
                    let main = parsed.parent_tool_use_id.is_none();
                    self.assistant(line, message, main, wire::text(parsed.error), sink);
                }
                None => wire::emit_unparsed(line, sink),
            },
            "user" if parsed.is_replay == Some(true) => {
                if let Some(control) = &mut self.control {
                    control.on_replay(parsed.uuid.as_ref().map(Text::as_str));
                }
            }
            "user" => match parsed.message {
                Some(message) => self.user(line, message, sink),
                None => wire::emit_unparsed(line, sink),
            },
            "system" => self.system(line, &parsed, sink),
            "result" => self.result(line, sink),
            "rate_limit_event" => self.rate_limit(line, sink),
            kind if kind.starts_with("control_") => match &mut self.control {
                Some(control) => control.on_line(kind, line),
                None => self.control(line, sink),
            },
            // Parts of a message that follows as a whole.
            "stream_event" => self.stream_event(line, parsed.parent_tool_use_id.is_none()),
            "keep_alive" => self.session.live.heartbeats += 1,
            // The states of an input line with an id.
            "command_lifecycle" => {}
            _ => wire::emit_unparsed(line, sink),
        }
    }

    /// Counts a part of a message.
    fn stream_event(&mut self, line: &str, main: bool) {
        self.session.live.count_partial_line(line);
        let Ok(StreamLine { event }) = serde_json::from_str(line) else {
            return;
        };
        match event.kind.as_str() {
            "ping" => self.session.live.heartbeats += 1,
            // A sub-agent writes beside the main conversation.
            "content_block_delta" if main => {
                if let Some((kind, text)) = event.delta.as_ref().and_then(StreamDelta::content) {
                    self.session.arrived(kind, text);
                }
            }
            _ => {}
        }
    }

    fn assistant<'a>(
        &mut self,
        line: &'a str,
        message: Message<'a>,
        main: bool,
        error: Option<Cow<'a, str>>,
        sink: &mut Sink<'_>,
    ) {
        if let Some(class) = error {
            return self.api_failure(line, &message, &class, sink);
        }
        if let (Some(id), Some(usage)) = (&message.id, message.usage)
            && self.requests.record(id.as_str(), usage.into())
        {
            let (reported, before) = self.reported.unwrap_or_default();
            self.session.usage = reported.plus(self.requests.sum().since(before));
            if main {
                let usage = Usage::from(usage);
                let used = usage.input_tokens.saturating_add(usage.output_tokens);
                self.session.live.context_used = Some(used);
            }
            self.session.report_usage(sink);
        }
        match message.content {
            Content::None => wire::emit_unparsed(line, sink),
            Content::Text(text) => self.on_text(text.0, main, sink),
            Content::Blocks(blocks) => {
                // A message without content gives no event, so the line is passed through.
                let mut strange = blocks.is_empty();
                for block in blocks {
                    strange |= !self.block(block, main, sink);
                }
                if strange {
                    wire::emit_unparsed(line, sink);
                }
            }
        }
    }

    fn on_text(&mut self, text: Cow<'_, str>, main: bool, sink: &mut Sink<'_>) {
        self.session.message(text, main, sink);
    }

    /// Returns whether the kind of the block is known.
    fn block(&mut self, block: Block<'_>, main: bool, sink: &mut Sink<'_>) -> bool {
        match (block.kind.as_str(), block.text, block.thinking) {
            ("text", Some(text), _) => self.on_text(text.0, main, sink),
            ("thinking", _, Some(thinking)) => {
                self.session.set_activity("thinking");
                sink(Event::Reasoning { text: thinking.0 });
            }
            ("tool_use" | "server_tool_use" | "mcp_tool_use", ..) => {
                let (Some(id), Some(name)) = (block.id, block.name) else {
                    return false;
                };
                self.session.clear_fault();
                self.session.open_tool(id.0, name.0, block.input, sink);
            }
            (kind, ..) if kind.ends_with("tool_result") => {
                let Some(id) = block.tool_use_id else { return false };
                self.session.open_tools.close(id.as_str());
                let is_error = block.is_error.unwrap_or(false);
                if let Some(control) = &mut self.control
                    && kind == "tool_result"
                {
                    control.on_tool_result(id.as_str(), is_error, block.content);
                }
                sink(Event::ToolResult {
                    call_id: id.0,
                    is_error,
                    exit_code: if is_error { exit_code(block.content) } else { None },
                    output: wire::output(block.content),
                });
            }
            _ => return false,
        }
        true
    }

    /// Handles a line that the CLI wrote in place of the model: the API request failed permanently.
    fn api_failure(&mut self, line: &str, message: &Message<'_>, class: &str, sink: &mut Sink<'_>) {
        let text = match &message.content {
            Content::Text(text) => text.as_str(),
            Content::Blocks(blocks) => blocks
                .iter()
                .find_map(|block| block.text.as_ref().map(Text::as_str))
                .unwrap_or(class),
            Content::None => class,
        };
        let failure_class = class_of_code(class, None, text);
        self.session
            .error(Cow::Borrowed(text), true, failure_class, None, sink);
        self.session.set_activity("failed");
        self.fatal_reported = true;
        if text == class {
            wire::emit_unparsed(line, sink);
        }
    }

    fn user<'a>(&mut self, line: &'a str, message: Message<'a>, sink: &mut Sink<'_>) {
        let Content::Blocks(blocks) = message.content else {
            return wire::emit_unparsed(line, sink);
        };
        let mut strange = blocks.is_empty();
        for block in blocks {
            // Text on a user line is input of the agent, not its output. In a session with messages
            // it says that a step was stopped, which the result says too.
            let is_note = self.control.is_some() && block.kind.as_str() == "text";
            let is_result = block.kind.as_str().ends_with("tool_result");
            strange |= !(is_note || is_result && self.block(block, true, sink));
        }
        self.session.set_activity("thinking");
        if strange {
            wire::emit_unparsed(line, sink);
        }
    }

    /// Handles a line whose fields do not match its kind. A result must still end the session.
    fn on_malformed(&mut self, line: &str, sink: &mut Sink<'_>) {
        match wire::object::<Kind<'_>>(line) {
            Some(kind) if kind.kind.as_str() == "result" => self.result(line, sink),
            Some(kind) if kind.kind.as_str().starts_with("control_") && self.control.is_some() => {
                if let Some(control) = &mut self.control {
                    control.on_line(kind.kind.as_str(), line);
                }
            }
            _ => wire::emit_unparsed(line, sink),
        }
    }
}

impl Adapter for ClaudeCode {
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
        let Some(final_result) = self.final_result.take() else {
            return self
                .session
                .failed(exit, stderr_tail, "Claude Code ended without a result");
        };
        let mut conclusion = if !final_result.ok || !exit.is_zero() {
            self.session.failed(
                exit,
                stderr_tail,
                "Claude Code reported a result, but exited with an error",
            )
        } else if self.wants_result && final_result.structured.is_none() {
            self.session.record_fault(
                "Claude Code returned no structured output, although `json-schema` requires it",
                None,
                None,
            );
            self.session.failed(exit, stderr_tail, "")
        } else {
            self.session.succeeded()
        };
        conclusion.over_budget = final_result.over_budget;
        if conclusion.failure_class == Some(FailureClass::RateLimit) {
            conclusion.resets_at = self.resets_at;
        }
        conclusion.result = final_result.structured;
        conclusion
    }

    fn is_partial(&self, line: &str) -> bool {
        line.contains("stream_event")
            && wire::object::<Kind<'_>>(line).is_some_and(|kind| kind.kind.as_str() == "stream_event")
    }

    fn outbox(&mut self) -> Option<&mut Outbox> {
        self.control.as_mut().map(Control::outbox)
    }

    fn answer(&self, approval: &ApprovalRequest, verdict: Verdict<'_>) -> Vec<String> {
        vec![control::answer(approval, verdict)]
    }

    fn message_lines(&self, message: &PersonMessage) -> Option<Vec<String>> {
        self.control.as_ref()?.message_lines(message)
    }
}
