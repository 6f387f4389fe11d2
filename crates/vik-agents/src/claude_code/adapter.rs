//! The adapter of Claude Code.

use std::borrow::Cow;
use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Usage};
use vik_core::workflow::AgentProfile;

use super::control::{self, Control};
use super::errors::{class_of_code, exit_code, failure_text};
use super::line::{
    Block, Content, ControlLine, Denial, Line, Message, ModelUsage, RateLimitLine, RequestUsage, ResultLine,
    System, Task,
};
use super::requests::RequestUsages;
use crate::reader::LineReader;
use crate::request::{ApprovalRequest, Outbox, Verdict};
use crate::state::Session;
use crate::wire::{self, Kind, Text};
use crate::{Conclusion, Exit, PreviousTotal, Sink, classify, flags};

/// The content of the last `result` line.
#[derive(Clone, Debug, Default)]
struct FinalResult {
    ok: bool,
    over_budget: bool,
    structured: Option<Box<RawValue>>,
}

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
    /// Whether a result line has reported the usage.
    usage_reported: bool,
    /// Whether an API failure was already reported as a fatal error.
    fatal_reported: bool,
    /// Whether the provider rejected the last request because of a rate limit.
    rejected: bool,
    /// When the rate limit resets.
    resets_at: Option<Timestamp>,
    /// Whether `--json-schema` asks for a structured answer; without one the exit code may be 0.
    wants_result: bool,
    /// Present in an interactive session.
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
            usage_reported: false,
            fatal_reported: false,
            rejected: false,
            resets_at: None,
            wants_result: flags::has_flag(profile, &["json-schema"]),
            control: None,
        }
    }

    /// Creates the adapter of a session that asks before each call and reads its prompt from stdin.
    pub(crate) fn interactive(
        profile: &AgentProfile,
        previous_total: Option<PreviousTotal>,
        prompt: &str,
    ) -> Self {
        Self {
            control: Some(Control::new(prompt)),
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
            // Parts of a message that follows as a whole, and keep-alives.
            "stream_event" | "keep_alive" => {}
            _ => wire::emit_unparsed(line, sink),
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
            && !self.usage_reported
            && self.requests.record(id.as_str(), usage.into())
        {
            self.session.usage = self.requests.sum();
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
            // Text on a user line is input of the agent, not its output.
            let is_result = block.kind.as_str().ends_with("tool_result");
            strange |= !(is_result && self.block(block, true, sink));
        }
        self.session.set_activity("thinking");
        if strange {
            wire::emit_unparsed(line, sink);
        }
    }

    fn system<'a>(&mut self, line: &'a str, parsed: &Line<'a>, sink: &mut Sink<'_>) {
        let subtype = parsed.subtype.as_ref().map_or("", Text::as_str);
        if let "status" | "thinking_tokens" | "permission_denied" | "vcs_state_changed" = subtype {
            // Keep-alives, and lines whose content is repeated by the result of the call.
            return;
        }
        let Ok(system) = serde_json::from_str::<System<'a>>(line) else {
            return wire::emit_unparsed(line, sink);
        };
        match subtype {
            // The lines of each task repeat this.
            "background_tasks_changed" => {
                let tasks = wire::read::<Vec<Task<'_>>>(system.tasks).unwrap_or_default();
                let agents = tasks
                    .iter()
                    .filter(|task| task.task_type.as_str() == "local_agent");
                if let Some(control) = &mut self.control {
                    control.set_background_agents(agents.count());
                }
            }
            "init" => {
                // Every message of a longer conversation repeats this line.
                let id = parsed.session_id.as_ref().map(|id| id.0.clone());
                let version = system.claude_code_version.map(|version| version.0);
                let model = system.model.map(|model| model.0);
                self.session.set_activity("thinking");
                self.session.start(id, version, model, sink);
            }
            "api_retry" => {
                let class = system.error.as_ref().map_or("unknown", Text::as_str);
                let mut message = format!("the model API failed ({class}");
                if let Some(status) = system.error_status {
                    let _ = write!(message, ", HTTP {status}");
                }
                let _ = write!(
                    message,
                    "); retry {} of {} in {:.0} ms",
                    system.attempt.unwrap_or(0),
                    system.max_retries.unwrap_or(0),
                    system.retry_delay_ms.unwrap_or(0.0)
                );
                let failure_class = class_of_code(class, system.error_status, "");
                if !self.fatal_reported {
                    self.session
                        .record_fault(&message, failure_class, system.error_status);
                }
                sink(Event::Error {
                    message: Cow::Owned(message),
                    fatal: false,
                    failure_class,
                    http_status: system.error_status,
                });
            }
            "model_fallback" | "model_refusal_no_fallback" => {
                let refused = subtype != "model_fallback";
                let message = system.content.map(|text| text.0).filter(|text| !text.is_empty());
                let otherwise = if refused {
                    "the model refused the request"
                } else {
                    "the model was changed"
                };
                let failure_class = if refused { Some(FailureClass::Model) } else { None };
                let message = message.unwrap_or(Cow::Borrowed(otherwise));
                if refused {
                    self.session.record_fault(&message, failure_class, None);
                }
                sink(Event::Error {
                    message,
                    fatal: false,
                    failure_class,
                    http_status: None,
                });
            }
            subtype if subtype.starts_with("task_") => {
                let patched = system.patch.and_then(|patch| patch.status);
                let event = Cow::Borrowed(subtype.trim_start_matches("task_"));
                let status = system.status.or(patched).map_or(event, |status| status.0);
                sink(Event::Subagent {
                    id: system.task_id.map(|id| id.0),
                    status,
                    description: system.description.or(system.summary).map(|text| text.0),
                });
            }
            _ => wire::emit_unparsed(line, sink),
        }
    }

    fn rate_limit(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Ok(RateLimitLine {
            rate_limit_info: info,
        }) = serde_json::from_str(line)
        else {
            return wire::emit_unparsed(line, sink);
        };
        self.rejected = info
            .status
            .as_ref()
            .is_some_and(|status| status.as_str() == "rejected");
        if self.rejected {
            let resets_at = info
                .resets_at
                .and_then(|at| Timestamp::from_second(at as i64).ok());
            self.resets_at = resets_at;
        }
        sink(Event::RateLimit {
            status: info.status.map(|status| status.0),
            resets_at_unix: info.resets_at.map(|at| at as i64),
            utilization: info.utilization,
        });
    }

    fn control(&mut self, line: &str, sink: &mut Sink<'_>) {
        match serde_json::from_str::<ControlLine<'_>>(line) {
            Ok(ControlLine { request }) if request.subtype.as_str() == "can_use_tool" => {
                sink(Event::Approval {
                    by: None,
                    tool: request.tool_name.map_or(Cow::Borrowed(""), |tool| tool.0),
                    decision: Cow::Borrowed("requested"),
                    detail: wire::present(request.input).map(|input| Cow::Borrowed(input.get())),
                });
            }
            _ => wire::emit_unparsed(line, sink),
        }
    }

    fn result(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Ok(result) = serde_json::from_str::<ResultLine<'_>>(line) else {
            return wire::emit_unparsed(line, sink);
        };
        if let Some(id) = wire::text(result.session_id) {
            self.session.set_id(&id);
        }
        self.session.open_tools.clear();
        self.record_usage(&result, sink);
        if let Some(control) = &mut self.control {
            control.on_turn_end();
        }
        for denial in wire::read::<Vec<Denial<'_>>>(result.permission_denials).unwrap_or_default() {
            let id = wire::text(denial.tool_use_id).unwrap_or_default();
            if self.control.as_ref().is_some_and(|c| c.is_refused(&id)) {
                continue;
            }
            sink(Event::Approval {
                by: None,
                tool: denial.tool_name.0,
                decision: Cow::Borrowed("denied"),
                detail: wire::present(denial.tool_input).map(|input| Cow::Borrowed(input.get())),
            });
        }

        let subtype = wire::text(result.subtype).unwrap_or(Cow::Borrowed(""));
        let terminal = wire::text(result.terminal_reason).unwrap_or(Cow::Borrowed(""));
        let status = wire::read::<u16>(result.api_error_status);
        // `subtype` is `success` for API failures too; an interrupt may come without `is_error`.
        let ok = subtype == "success"
            && wire::read::<bool>(result.is_error) == Some(false)
            && wire::present(result.api_error_status).is_none()
            && !terminal.starts_with("aborted");
        let over_budget = matches!(&*subtype, "error_max_turns" | "error_max_budget_usd");
        let stop = wire::text(result.stop_reason).unwrap_or(Cow::Borrowed(""));
        let text = wire::text(result.result);
        let structured = wire::present(result.structured_output);
        let reasons = if ok || subtype == "success" {
            [&terminal, &stop, &subtype]
        } else {
            [&subtype, &terminal, &stop]
        };
        let reason = reasons
            .into_iter()
            .find(|reason| !reason.is_empty())
            .map(|reason| Cow::Borrowed(&**reason));
        if ok {
            if let Some(text) = &text {
                self.session.set_last_message(text);
            }
            self.session.fault = None;
            self.session.set_activity("done");
            let message = self.session.last_message().map(Cow::Borrowed);
            sink(Event::Completed {
                ok,
                message,
                result: structured.map(Into::into),
                reason,
            });
        } else {
            let message = failure_text(&result, text.as_deref(), &subtype);
            let class = self.failure_class(status, &message, &terminal, &stop, &subtype);
            self.session.record_fault(&message, class, status);
            self.session.set_activity("failed");
            if !self.fatal_reported {
                let message = Cow::Borrowed(&*message);
                sink(Event::Error {
                    message,
                    fatal: true,
                    failure_class: class,
                    http_status: status,
                });
            }
            let message = Some(Cow::Borrowed(&*message));
            sink(Event::Completed {
                ok,
                message,
                result: structured.map(Into::into),
                reason,
            });
        }
        self.fatal_reported = false;
        let structured = structured.map(ToOwned::to_owned);
        self.final_result = Some(FinalResult {
            ok,
            over_budget,
            structured,
        });
    }

    /// Records the usage and the cost of a result line.
    fn record_usage(&mut self, result: &ResultLine<'_>, sink: &mut Sink<'_>) {
        // `modelUsage` covers the whole process so far, `usage` one message each. The result
        // replaces the sum over the requests, even if it is lower.
        let main = wire::read::<RequestUsage>(result.usage).map(Usage::from);
        let models = wire::read::<ModelUsage>(result.model_usage).and_then(|usage| usage.0);
        self.results = self.results.plus(main.unwrap_or_default());
        let before = models
            .filter(|total| {
                self.requests
                    .total_includes_previous(*total, self.results, self.previous.usage)
            })
            .map(|_| self.previous)
            .unwrap_or_default();
        if let Some(figures) = models.or(main.map(|_| self.results)) {
            self.session.usage = figures.since(before.usage);
            self.usage_reported = true;
        }
        if let Some(cost) = wire::read::<f64>(result.total_cost_usd) {
            self.session.cost_usd = Some((cost - before.cost_usd).max(0.0));
        }
        self.session.report_usage(sink);
    }

    fn failure_class(
        &self,
        status: Option<u16>,
        message: &str,
        terminal: &str,
        stop: &str,
        subtype: &str,
    ) -> Option<FailureClass> {
        if terminal == "prompt_too_long" {
            return Some(FailureClass::Context);
        }
        if subtype.starts_with("error_max") {
            // A limit of the agent's own.
            return Some(FailureClass::Agent);
        }
        // After the status, the class that the CLI gave on the line before is the most reliable
        // one.
        let reported = self
            .session
            .fault
            .as_ref()
            .filter(|_| self.fatal_reported)
            .and_then(|fault| fault.class);
        let class = match status {
            Some(_) => classify::class_of_error(status, message).or(reported),
            None => reported.or_else(|| classify::class_of_error(None, message)),
        };
        class
            .or_else(|| (stop == "refusal").then_some(FailureClass::Model))
            .or_else(|| self.rejected.then_some(FailureClass::RateLimit))
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

impl LineReader for ClaudeCode {
    fn session(&self) -> &Session {
        &self.session
    }

    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        match wire::object::<Line<'_>>(line) {
            Some(parsed) => self.parsed(line, parsed, sink),
            None => self.on_malformed(line, sink),
        }
    }

    fn conclusion(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
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

    fn outbox(&mut self) -> Option<&mut Outbox> {
        self.control.as_mut().map(Control::outbox)
    }

    fn verdict_lines(&self, approval: &ApprovalRequest, verdict: Verdict<'_>) -> Vec<String> {
        vec![control::answer(approval, verdict)]
    }
}
