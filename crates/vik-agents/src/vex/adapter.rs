//! The adapter of vex.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Usage};

use super::approvals::{self, Approvals};
use crate::request::{AgentRequest, ApprovalRequest, Verdict};
use crate::state::Session;
use crate::wire::{self, Count, Kind, Text};
use crate::{Adapter, Conclusion, Exit, Sink, classify};

/// Any line but `usage` and `end`. Which fields are there depends on `kind`.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    session_id: Option<Text<'a>>,
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    version: Option<Text<'a>>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
    #[serde(borrow)]
    call_id: Option<Text<'a>>,
    #[serde(borrow)]
    tool: Option<Text<'a>>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    is_error: Option<bool>,
    exit_code: Option<i64>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<Text<'a>>,
    fatal: Option<bool>,
    #[serde(borrow)]
    class: Option<Text<'a>>,
    http_status: Option<u16>,
    attempt: Option<u32>,
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    ok: Option<bool>,
    #[serde(borrow)]
    steps: Option<&'a RawValue>,
    before_tokens: Option<Count>,
    after_tokens: Option<Count>,
}

/// A step of a plan.
#[derive(Deserialize)]
struct Step<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
}

/// The totals of the run so far, in a `usage` or an `end` line.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct Figures {
    input_tokens: Count,
    cached_input_tokens: Count,
    cache_write_input_tokens: Count,
    output_tokens: Count,
    cost_usd: Option<f64>,
}

impl From<Figures> for Usage {
    fn from(figures: Figures) -> Self {
        Self {
            input_tokens: figures.input_tokens.0,
            cached_input_tokens: figures.cached_input_tokens.0,
            cache_write_input_tokens: figures.cache_write_input_tokens.0,
            output_tokens: figures.output_tokens.0,
        }
    }
}

/// The `end` line. Each field is decoded on its own, so that an unexpected shape of one does not
/// lose the others.
#[derive(Deserialize)]
struct End<'a> {
    #[serde(borrow)]
    ok: Option<&'a RawValue>,
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    exit_code: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    cost_usd: Option<&'a RawValue>,
    #[serde(borrow)]
    class: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    evidence: Option<&'a RawValue>,
}

/// The content of the `end` line.
#[derive(Debug)]
struct FinalResult {
    ok: bool,
    exit_code: Option<i32>,
    result: Option<Box<RawValue>>,
}

/// The adapter of one session of vex.
#[derive(Debug, Default)]
pub(crate) struct Vex {
    session: Session,
    final_result: Option<FinalResult>,
    /// Present in an interactive session.
    approvals: Option<Approvals>,
}

impl Vex {
    /// Creates the adapter of a session that asks before each call and reads its prompt from stdin.
    pub(crate) fn interactive(prompt: &str) -> Self {
        Self {
            approvals: Some(Approvals::new(prompt)),
            ..Self::default()
        }
    }

    fn parsed<'a>(&mut self, line: &'a str, mut parsed: Line<'a>, sink: &mut Sink<'_>) {
        match (parsed.kind.as_str(), parsed.text.take(), parsed.call_id.take()) {
            ("message", Some(text), _) => {
                self.session.clear_fault();
                self.session.set_last_message(text.as_str());
                self.session.set_activity("writing");
                sink(Event::Message { text: text.0 });
            }
            ("reasoning", Some(text), _) => {
                self.session.set_activity("thinking");
                sink(Event::Reasoning { text: text.0 });
            }
            // The line itself is the information: the answer follows, and the log needs no more.
            ("activity", ..) => self.session.set_activity("writing"),
            ("tool_call", _, Some(id)) => {
                let tool = parsed.tool.map_or(Cow::Borrowed(""), |tool| tool.0);
                self.session.clear_fault();
                self.session.open_tools.open(id.as_str());
                self.session.set_tool_activity(&tool, parsed.input);
                sink(Event::ToolCall {
                    call_id: id.0,
                    tool,
                    input: wire::present(parsed.input).map(Into::into),
                });
            }
            ("tool_result", _, Some(id)) => {
                self.session.open_tools.close(id.as_str());
                self.session.set_activity("thinking");
                sink(Event::ToolResult {
                    call_id: id.0,
                    is_error: parsed.is_error.unwrap_or(false),
                    exit_code: parsed.exit_code,
                    output: wire::output(parsed.output),
                });
            }
            ("session_start", ..) => {
                let id = parsed.session_id.map(|id| id.0);
                if let Some(id) = &id {
                    self.session.set_id(id);
                }
                sink(Event::SessionStarted {
                    provider_session_id: id,
                    agent_version: parsed.version.map(|version| version.0),
                    model: parsed.model.map(|model| model.0),
                });
            }
            ("usage", ..) => match serde_json::from_str::<Figures>(line) {
                Ok(figures) => self.record_usage(figures, sink),
                Err(_) => wire::emit_unparsed(line, sink),
            },
            ("error", ..) => {
                let Some(message) = parsed.message else {
                    return wire::emit_unparsed(line, sink);
                };
                let reported = parsed.class.and_then(|class| class_by_name(class.as_str()));
                let failure_class =
                    reported.or_else(|| classify::class_of_error(parsed.http_status, message.as_str()));
                self.session
                    .record_fault(message.as_str(), failure_class, parsed.http_status);
                sink(Event::Error {
                    message: message.0,
                    fatal: parsed.fatal.unwrap_or(false),
                    failure_class,
                    http_status: parsed.http_status,
                });
            }
            ("end", ..) => self.end(line, sink),
            ("ask", ..) if self.approvals.is_some() => {
                if let Some(approvals) = &mut self.approvals {
                    approvals.on_ask(line);
                }
            }
            (kind, ..) => match self.side_event(kind, &parsed, sink) {
                Some(()) => {}
                None => wire::emit_unparsed(line, sink),
            },
        }
    }

    /// Handles events that are neither messages nor tool calls but show the progress of the run.
    fn side_event(&mut self, kind: &str, line: &Line<'_>, sink: &mut Sink<'_>) -> Option<()> {
        let note = |message: String| Event::Error {
            failure_class: None,
            message: message.into(),
            fatal: false,
            http_status: None,
        };
        match kind {
            "retry" => {
                let reason = line.reason.as_ref()?.as_str();
                self.session.set_activity("waiting for the provider");
                match classify::class_of_error(None, reason) {
                    Some(FailureClass::RateLimit) => sink(Event::RateLimit {
                        status: Some(reason.into()),
                        resets_at_unix: None,
                        utilization: None,
                    }),
                    class => sink(Event::Error {
                        message: format!("attempt {}: {reason}", line.attempt?).into(),
                        fatal: false,
                        failure_class: class,
                        http_status: None,
                    }),
                }
            }
            "fallback" => sink(note(format!(
                "switched to the fallback model {}",
                line.model.as_ref()?.as_str()
            ))),
            "warning" | "guard" => sink(note(format!("{kind}: {}", line.message.as_ref()?.as_str()))),
            "compaction" => {
                let (before, after) = (line.before_tokens?.0, line.after_tokens?.0);
                sink(Event::Reasoning {
                    text: format!("Context compacted: about {before} tokens before, {after} after.").into(),
                });
            }
            "plan" => {
                let steps: Vec<Step<'_>> = wire::read(line.steps)?;
                let steps = steps.iter().map(|step| {
                    let mark = match step.status.as_str() {
                        "done" => 'x',
                        "in_progress" => '>',
                        _ => ' ',
                    };
                    format!("[{mark}] {}", step.text.as_str())
                });
                sink(Event::Reasoning {
                    text: steps.collect::<Vec<_>>().join("\n").into(),
                });
            }
            "verify" => {
                let call_id = format!("verify_{}", line.attempt?);
                self.session.set_activity("checking");
                sink(Event::ToolCall {
                    call_id: call_id.clone().into(),
                    tool: "verify".into(),
                    input: line.command.map(Into::into),
                });
                sink(Event::ToolResult {
                    call_id: call_id.into(),
                    is_error: !line.ok?,
                    exit_code: line.exit_code,
                    output: wire::output(line.output),
                });
            }
            _ => return None,
        }
        Some(())
    }

    fn record_usage(&mut self, figures: Figures, sink: &mut Sink<'_>) {
        self.session.usage = figures.into();
        self.session.cost_usd = figures.cost_usd.or(self.session.cost_usd);
        sink(Event::TokenUsage {
            usage: self.session.usage,
            cost_usd: self.session.cost_usd,
        });
    }

    fn end(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Ok(end) = serde_json::from_str::<End<'_>>(line) else {
            return wire::emit_unparsed(line, sink);
        };
        self.session.open_tools.clear();
        if let Some(approvals) = &mut self.approvals {
            approvals.close_input();
        }
        if let Some(figures) = wire::read::<Figures>(end.usage) {
            let cost_usd = wire::read::<f64>(end.cost_usd).or(figures.cost_usd);
            self.record_usage(Figures { cost_usd, ..figures }, sink);
        } else if let Some(cost) = wire::read::<f64>(end.cost_usd) {
            self.session.cost_usd = Some(cost);
        }
        let ok = wire::read::<bool>(end.ok) == Some(true);
        let exit_code = wire::read::<i32>(end.exit_code);
        let message = wire::text(end.message);
        let reason = wire::text(end.reason);
        let result = wire::present(end.result).or(wire::present(end.evidence));
        if ok {
            self.session.fault = None;
            self.session.set_activity("done");
            if let Some(message) = &message {
                self.session.set_last_message(message);
            }
        } else {
            let failure = message
                .as_deref()
                .filter(|text| !text.trim().is_empty())
                .or(reason.as_deref());
            let failure = failure.unwrap_or("vex reported a failure without a reason");
            let reported = wire::text(end.class).and_then(|class| class_by_name(&class));
            let earlier = self.session.fault.as_ref().and_then(|fault| fault.class);
            self.session.record_fault(
                failure,
                reported.or(earlier).or_else(|| class_of_exit(exit_code)),
                None,
            );
            self.session.set_activity("failed");
        }
        self.final_result = Some(FinalResult {
            ok,
            exit_code,
            result: result.map(ToOwned::to_owned),
        });
        sink(Event::Completed {
            ok,
            message,
            result: result.map(Into::into),
            reason,
        });
    }
}

impl Adapter for Vex {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let text = wire::line_text(line);
        if text.is_empty() {
            return;
        }
        match wire::object::<Line<'_>>(&text) {
            Some(parsed) => self.parsed(&text, parsed, sink),
            None => match wire::object::<Kind<'_>>(&text) {
                Some(kind) if kind.kind.as_str() == "end" => self.end(&text, sink),
                Some(kind) if kind.kind.as_str() == "ask" && self.approvals.is_some() => {
                    if let Some(approvals) = &mut self.approvals {
                        approvals.on_ask(&text);
                    }
                }
                _ => wire::emit_unparsed(&text, sink),
            },
        }
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        self.session.open_tools.clear();
        let code = match exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) => None,
        };
        let final_result = self.final_result.take();
        let mut conclusion = match &final_result {
            Some(final_result) if final_result.ok && exit.is_zero() => self.session.succeeded(),
            Some(_) => self.session.failed(
                exit,
                stderr_tail,
                "vex reported its result, but exited with an error",
            ),
            None => {
                let reported = self.session.fault.as_ref().and_then(|fault| fault.class);
                let mut conclusion = self
                    .session
                    .failed(exit, stderr_tail, "vex ended without a result");
                conclusion.failure_class = reported
                    .or_else(|| class_of_exit(code))
                    .or(conclusion.failure_class);
                conclusion
            }
        };
        let reported = final_result
            .as_ref()
            .and_then(|final_result| final_result.exit_code);
        conclusion.over_budget = !conclusion.ok && (code == Some(5) || reported == Some(5));
        conclusion.result = final_result.and_then(|final_result| final_result.result);
        conclusion
    }

    fn open_tools(&self) -> usize {
        self.session.open_tools.len()
    }

    fn usage(&self) -> (Usage, Option<f64>) {
        (self.session.usage, self.session.cost_usd)
    }

    fn activity(&self) -> Option<&str> {
        self.session.activity()
    }

    fn take_requests(&mut self) -> Vec<AgentRequest> {
        self.approvals
            .as_mut()
            .map(Approvals::take_requests)
            .unwrap_or_default()
    }

    fn answer(&self, approval: &ApprovalRequest, verdict: Verdict<'_>) -> Vec<String> {
        vec![approvals::answer(approval, verdict)]
    }
}

/// Returns the failure class with this name in JSON.
fn class_by_name(name: &str) -> Option<FailureClass> {
    use serde::de::value::{Error, StrDeserializer};
    FailureClass::deserialize(StrDeserializer::<Error>::new(name)).ok()
}

/// Returns the failure class of an exit code of vex.
fn class_of_exit(code: Option<i32>) -> Option<FailureClass> {
    match code? {
        2 | 3 => Some(FailureClass::Usage),
        4 => Some(FailureClass::Auth),
        _ => None,
    }
}
