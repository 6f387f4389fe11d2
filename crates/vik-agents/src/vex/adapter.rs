//! The translator of vex's lines.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Usage};

use super::asking::{self, Asking};
use crate::ask::{Ask, Verdict as Said, Word};
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

/// The figures of a `usage` line or an `end` line: totals of the run so far.
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

/// The `end` line. Each field is read on its own, so that none in a new shape costs the others.
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

/// What the `end` line said.
#[derive(Debug)]
struct Verdict {
    ok: bool,
    exit_code: Option<i32>,
    result: Option<Box<RawValue>>,
}

/// The translator of one session of vex.
#[derive(Debug, Default)]
pub(crate) struct Vex {
    session: Session,
    verdict: Option<Verdict>,
    /// There where it asks before each call.
    asking: Option<Asking>,
}

impl Vex {
    /// A session that asks before each call, and is told its prompt on its standard input.
    pub(crate) fn asking(prompt: &str) -> Self {
        Self {
            asking: Some(Asking::new(prompt)),
            ..Self::default()
        }
    }

    fn parsed<'a>(&mut self, line: &'a str, mut parsed: Line<'a>, sink: &mut Sink<'_>) {
        match (parsed.kind.as_str(), parsed.text.take(), parsed.call_id.take()) {
            ("message", Some(text), _) => {
                self.session.progress();
                self.session.say(text.as_str());
                self.session.does("writing");
                sink(Event::Message { text: text.0 });
            }
            ("reasoning", Some(text), _) => {
                self.session.does("thinking");
                sink(Event::Reasoning { text: text.0 });
            }
            // That the line came is all it says: the answer itself follows, and the log needs no more of it.
            ("activity", ..) => self.session.does("writing"),
            ("tool_call", _, Some(id)) => {
                let tool = parsed.tool.map_or(Cow::Borrowed(""), |tool| tool.0);
                self.session.progress();
                self.session.open.open(id.as_str());
                self.session.does_tool(&tool, parsed.input);
                sink(Event::ToolCall {
                    call_id: id.0,
                    tool,
                    input: wire::present(parsed.input),
                });
            }
            ("tool_result", _, Some(id)) => {
                self.session.open.close(id.as_str());
                self.session.does("thinking");
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
                    self.session.identify(id);
                }
                sink(Event::SessionStarted {
                    provider_session_id: id,
                    agent_version: parsed.version.map(|version| version.0),
                    model: parsed.model.map(|model| model.0),
                });
            }
            ("usage", ..) => match serde_json::from_str::<Figures>(line) {
                Ok(figures) => self.account(figures, sink),
                Err(_) => wire::keep(line, sink),
            },
            ("error", ..) => {
                let Some(message) = parsed.message else {
                    return wire::keep(line, sink);
                };
                let told = parsed.class.and_then(|class| class_named(class.as_str()));
                let failure_class = told.or_else(|| classify::error(parsed.http_status, message.as_str()));
                self.session
                    .fault(message.as_str(), failure_class, parsed.http_status);
                sink(Event::Error {
                    message: message.0,
                    fatal: parsed.fatal.unwrap_or(false),
                    failure_class,
                    http_status: parsed.http_status,
                });
            }
            ("end", ..) => self.end(line, sink),
            ("ask", ..) if self.asking.is_some() => {
                if let Some(asking) = &mut self.asking {
                    asking.hear(line);
                }
            }
            (kind, ..) => match self.aside(kind, &parsed, sink) {
                Some(()) => {}
                None => wire::keep(line, sink),
            },
        }
    }

    /// What is no word of the model and no tool, yet tells how the run fares.
    fn aside(&mut self, kind: &str, line: &Line<'_>, sink: &mut Sink<'_>) -> Option<()> {
        let note = |message: String| Event::Error {
            failure_class: None,
            message: message.into(),
            fatal: false,
            http_status: None,
        };
        match kind {
            "retry" => {
                let reason = line.reason.as_ref()?.as_str();
                self.session.does("waiting for the provider");
                match classify::error(None, reason) {
                    Some(FailureClass::RateLimit) => sink(Event::RateLimit {
                        status: Some(reason.into()),
                        resets_at_unix: None,
                        utilization: None,
                    }),
                    class => sink(Event::Error {
                        message: format!("try {}: {reason}", line.attempt?).into(),
                        fatal: false,
                        failure_class: class,
                        http_status: None,
                    }),
                }
            }
            "fallback" => sink(note(format!(
                "{} answers from now on",
                line.model.as_ref()?.as_str()
            ))),
            "warning" | "guard" => sink(note(format!("{kind}: {}", line.message.as_ref()?.as_str()))),
            "compaction" => {
                let (before, after) = (line.before_tokens?.0, line.after_tokens?.0);
                sink(Event::Reasoning {
                    text: format!(
                        "The context was made shorter: about {before} tokens before, {after} after."
                    )
                    .into(),
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
                self.session.does("checking");
                sink(Event::ToolCall {
                    call_id: call_id.clone().into(),
                    tool: "verify".into(),
                    input: line.command,
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

    fn account(&mut self, figures: Figures, sink: &mut Sink<'_>) {
        self.session.usage = figures.into();
        self.session.cost_usd = figures.cost_usd.or(self.session.cost_usd);
        sink(Event::TokenUsage {
            usage: self.session.usage,
            cost_usd: self.session.cost_usd,
        });
    }

    fn end(&mut self, line: &str, sink: &mut Sink<'_>) {
        let Ok(end) = serde_json::from_str::<End<'_>>(line) else {
            return wire::keep(line, sink);
        };
        self.session.open.clear();
        if let Some(asking) = &mut self.asking {
            asking.done();
        }
        if let Some(figures) = wire::read::<Figures>(end.usage) {
            let cost_usd = wire::read::<f64>(end.cost_usd).or(figures.cost_usd);
            self.account(Figures { cost_usd, ..figures }, sink);
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
            self.session.does("done");
            if let Some(message) = &message {
                self.session.say(message);
            }
        } else {
            let words = message
                .as_deref()
                .filter(|text| !text.trim().is_empty())
                .or(reason.as_deref());
            let words = words.unwrap_or("vex says it failed, not why");
            let told = wire::text(end.class).and_then(|class| class_named(&class));
            let earlier = self.session.fault.as_ref().and_then(|fault| fault.class);
            self.session
                .fault(words, told.or(earlier).or_else(|| class_of_exit(exit_code)), None);
            self.session.does("failed");
        }
        self.verdict = Some(Verdict {
            ok,
            exit_code,
            result: result.map(ToOwned::to_owned),
        });
        sink(Event::Completed {
            ok,
            message,
            result,
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
                Some(kind) if kind.kind.as_str() == "ask" && self.asking.is_some() => {
                    if let Some(asking) = &mut self.asking {
                        asking.hear(&text);
                    }
                }
                _ => wire::keep(&text, sink),
            },
        }
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        self.session.open.clear();
        let code = match exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(_) => None,
        };
        let verdict = self.verdict.take();
        let mut conclusion = match &verdict {
            Some(verdict) if verdict.ok && exit.is_zero() => self.session.succeeded(),
            Some(_) => self
                .session
                .failed(exit, stderr_tail, "vex said how it ended, yet did not end well"),
            None => {
                let told = self.session.fault.as_ref().and_then(|fault| fault.class);
                let mut conclusion = self
                    .session
                    .failed(exit, stderr_tail, "vex ended without a result");
                conclusion.failure_class = told.or_else(|| class_of_exit(code)).or(conclusion.failure_class);
                conclusion
            }
        };
        let told = verdict.as_ref().and_then(|verdict| verdict.exit_code);
        conclusion.over_budget = !conclusion.ok && (code == Some(5) || told == Some(5));
        conclusion.result = verdict.and_then(|verdict| verdict.result);
        conclusion
    }

    fn open_tools(&self) -> usize {
        self.session.open.len()
    }

    fn usage(&self) -> (Usage, Option<f64>) {
        (self.session.usage, self.session.cost_usd)
    }

    fn activity(&self) -> Option<&str> {
        self.session.activity()
    }

    fn words(&mut self) -> Vec<Word> {
        self.asking.as_mut().map(Asking::take).unwrap_or_default()
    }

    fn answer(&self, ask: &Ask, verdict: Said<'_>) -> Vec<String> {
        vec![asking::answer(ask, verdict)]
    }
}

/// A failure class by its name in JSON.
fn class_named(name: &str) -> Option<FailureClass> {
    use serde::de::value::{Error, StrDeserializer};
    FailureClass::deserialize(StrDeserializer::<Error>::new(name)).ok()
}

/// What an exit code of vex's says on its own.
fn class_of_exit(code: Option<i32>) -> Option<FailureClass> {
    match code? {
        2 | 3 => Some(FailureClass::Usage),
        4 => Some(FailureClass::Auth),
        _ => None,
    }
}
