//! The adapter of vex.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::message::Message;
use vik_core::outcome::FailureClass;

use super::approvals::{self, Approvals};
use crate::request::{ApprovalRequest, Outbox, Verdict};
use crate::state::{Session, note};
use crate::wire::{self, Count, Kind, Text, TokenCounts};
use crate::{Adapter, Arriving, Conclusion, Exit, Sink, classify};

/// Any line but `end`. Which fields are there depends on `kind`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: Text<'a>,
    session_id: Option<Text<'a>>,
    model: Option<Text<'a>>,
    version: Option<Text<'a>>,
    text: Option<Text<'a>>,
    call_id: Option<Text<'a>>,
    tool: Option<Text<'a>>,
    input: Option<&'a RawValue>,
    is_error: Option<bool>,
    exit_code: Option<i64>,
    output: Option<&'a RawValue>,
    message: Option<Text<'a>>,
    fatal: Option<bool>,
    class: Option<Text<'a>>,
    http_status: Option<u16>,
    attempt: Option<u32>,
    reason: Option<Text<'a>>,
    command: Option<&'a RawValue>,
    ok: Option<bool>,
    steps: Option<&'a RawValue>,
    skills: Option<&'a RawValue>,
    before_tokens: Option<Count>,
    after_tokens: Option<Count>,
    cost_usd: Option<f64>,
    /// What a `delta` is a part of: `text` or `thinking`.
    #[serde(rename = "kind")]
    part: Option<Text<'a>>,
    context_used: Option<Count>,
    context_window: Option<Count>,
}

/// A skill that the model can load.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct ListedSkill<'a> {
    name: Text<'a>,
    origin: Text<'a>,
    sha256: Text<'a>,
}

/// A step of a plan.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct Step<'a> {
    text: Text<'a>,
    status: Text<'a>,
}

/// The `end` line. Each field is decoded on its own, so that an unexpected shape of one does not
/// lose the others.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
struct End<'a> {
    ok: Option<&'a RawValue>,
    reason: Option<&'a RawValue>,
    message: Option<&'a RawValue>,
    exit_code: Option<&'a RawValue>,
    usage: Option<&'a RawValue>,
    cost_usd: Option<&'a RawValue>,
    class: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
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
    /// Present in a session whose input stays open.
    approvals: Option<Approvals>,
}

impl Vex {
    /// Creates the adapter of a session whose input stays open.
    pub(crate) fn interactive(prompt: &str) -> Self {
        Self {
            approvals: Some(Approvals::new(prompt)),
            ..Self::default()
        }
    }

    fn parsed<'a>(&mut self, line: &'a str, mut parsed: Line<'a>, sink: &mut Sink<'_>) {
        match (parsed.kind.as_str(), parsed.text.take(), parsed.call_id.take()) {
            ("message", Some(text), _) => {
                self.session.message(text.0, true, sink);
            }
            ("reasoning", Some(text), _) => {
                self.session.set_activity("thinking");
                sink(Event::Reasoning { text: text.0 });
            }
            ("delta", Some(text), _) => {
                let kind = match parsed.part.as_ref().map(Text::as_str) {
                    Some("thinking") => Arriving::Thinking,
                    _ => Arriving::Text,
                };
                self.session.live.count_partial_line(line);
                self.session.arrived(kind, text.as_str());
            }
            // The line itself is the information: the answer follows, and the log needs no more.
            ("activity", ..) => self.session.set_activity("writing"),
            ("tool_call", _, Some(id)) => {
                let tool = parsed.tool.map_or(Cow::Borrowed(""), |tool| tool.0);
                self.session.clear_fault();
                self.session.open_tool(id.0, tool, parsed.input, sink);
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
                let version = parsed.version.map(|version| version.0);
                let model = parsed.model.map(|model| model.0);
                self.session.start(id, version, model, sink);
            }
            ("usage", ..) => match serde_json::from_str(line) {
                Ok(counts) => {
                    let live = &mut self.session.live;
                    live.context_used = parsed.context_used.map(|count| count.0);
                    live.context_window = parsed.context_window.map(|count| count.0);
                    self.record_usage(counts, parsed.cost_usd, sink);
                }
                Err(_) => wire::emit_unparsed(line, sink),
            },
            ("error", ..) => {
                let Some(message) = parsed.message else {
                    return wire::emit_unparsed(line, sink);
                };
                let reported = parsed.class.and_then(|class| class_by_name(class.as_str()));
                let fatal = parsed.fatal.unwrap_or(false);
                self.session
                    .error(message.0, fatal, reported, parsed.http_status, sink);
            }
            ("end", ..) => self.end(line, sink),
            ("ask", ..) if self.approvals.is_some() => {
                if let Some(approvals) = &mut self.approvals {
                    approvals.on_ask(line);
                }
            }
            ("message_taken", ..) if self.approvals.is_some() => {
                let taken = self.approvals.as_mut().and_then(|input| input.on_taken(line));
                if taken.is_none() {
                    wire::emit_unparsed(line, sink);
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
            "fallback" => {
                let model = line.model.as_ref()?.as_str();
                sink(note(format!("switched to the fallback model {model}").into()));
            }
            "warning" | "guard" => {
                let message = line.message.as_ref()?.as_str();
                sink(note(format!("{kind}: {message}").into()));
            }
            "compaction" => {
                let (before, after) = (line.before_tokens?.0, line.after_tokens?.0);
                sink(Event::Reasoning {
                    text: format!("Context compacted: about {before} tokens before, {after} after.").into(),
                });
            }
            "skills" => {
                let skills: Vec<ListedSkill<'_>> = wire::read(line.skills)?;
                let skills = skills.iter().map(|skill| {
                    format!(
                        "{} ({}, sha256 {})",
                        skill.name.as_str(),
                        skill.origin.as_str(),
                        skill.sha256.as_str()
                    )
                });
                let skills = skills.collect::<Vec<_>>().join(", ");
                sink(note(format!("skills: {skills}").into()));
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

    /// Records the totals of the run so far.
    fn record_usage(&mut self, counts: TokenCounts, cost_usd: Option<f64>, sink: &mut Sink<'_>) {
        self.session.usage = counts.into();
        self.session.cost_usd = cost_usd.or(self.session.cost_usd);
        self.session.report_usage(sink);
    }

    fn end(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Ok(end) = serde_json::from_str::<End<'_>>(line) else {
            return wire::emit_unparsed(line, sink);
        };
        self.session.open_tools.clear();
        if let Some(approvals) = &mut self.approvals {
            approvals.outbox().close();
        }
        let cost_usd = wire::read::<f64>(end.cost_usd);
        match wire::read::<TokenCounts>(end.usage) {
            Some(counts) => self.record_usage(counts, cost_usd, sink),
            None => self.session.cost_usd = cost_usd.or(self.session.cost_usd),
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
    fn session(&self) -> &Session {
        &self.session
    }

    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>) {
        match wire::object::<Line<'_>>(line) {
            Some(parsed) => self.parsed(line, parsed, sink),
            None => match wire::object::<Kind<'_>>(line) {
                Some(kind) if kind.kind.as_str() == "end" => self.end(line, sink),
                Some(kind) if kind.kind.as_str() == "ask" && self.approvals.is_some() => {
                    if let Some(approvals) = &mut self.approvals {
                        approvals.on_ask(line);
                    }
                }
                _ => wire::emit_unparsed(line, sink),
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

    fn is_partial(&self, line: &str) -> bool {
        // The order of the fields is vex's own.
        line.starts_with(r#"{"v":"#)
            && line.contains(r#","type":"delta","#)
            && wire::object::<Kind<'_>>(line).is_some_and(|kind| kind.kind.as_str() == "delta")
    }

    fn outbox(&mut self) -> Option<&mut Outbox> {
        self.approvals.as_mut().map(Approvals::outbox)
    }

    fn answer(&self, approval: &ApprovalRequest, verdict: Verdict<'_>) -> Vec<String> {
        vec![approvals::answer(approval, verdict)]
    }

    fn message_lines(&self, message: &Message) -> Option<Vec<String>> {
        self.approvals.as_ref()?;
        Some(vec![approvals::message_line(message)])
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
