//! The output of a run: events as JSONL or as text for a person, and always one `end`.
//!
//! All emitted text is redacted: results of tools when the tool returns them, all other text here.

mod deltas;
mod exit;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod text;
mod types;

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::{Timestamp, Unit};
use serde_json::Value;

use deltas::Deltas;
pub use exit::ExitReason;
use text::Text;
pub use types::{
    CommandRun, Commit, Compacted, Evidence, ListedSkill, Question, SessionStart, VerifyRun, json_schema,
};
use types::{DeltaKind, End, Envelope, Event};

use crate::conversation::{Arguments, ToolCall, ToolResult, Usage};
use crate::plan::Step;
use crate::provider::Progress;
use crate::redact::{redact, redact_json};

/// The minimum time from any event to an `activity` event: a long answer must not flood the output.
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(250);

/// The destination of events. Clones write to the same destination.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<Inner>>);

/// The format of the output.
enum OutputFormat {
    /// JSON lines on stdout.
    Json,
    /// Progress on stderr, the final message on stdout.
    Text {
        text: Text,
        /// Whether the final message is not already visible on this terminal.
        repeat_last: bool,
    },
}

struct Inner {
    form: OutputFormat,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    start: Instant,
    /// When the last event was written.
    last_event: Instant,
    deltas: Deltas,
    seq: u64,
    usage: Usage,
    cost_usd: Option<f64>,
    turns: u64,
    repaired_calls: u64,
    last_message: Option<String>,
    class: Option<String>,
    result: Option<Value>,
    evidence: Evidence,
    verify: Vec<VerifyRun>,
    ended: Option<ExitReason>,
    closed: bool,
}

impl Journal {
    /// Writes events as JSON lines to stdout, or as text: progress to stderr, the final message to
    /// stdout.
    pub fn stdio(json: bool) -> Self {
        let form = if json {
            OutputFormat::Json
        } else {
            OutputFormat::Text {
                text: Text::of_stderr(),
                // On one terminal the last message would appear twice.
                repeat_last: !(std::io::stdout().is_terminal() && std::io::stderr().is_terminal()),
            }
        };
        Self::write_to(form, Box::new(std::io::stdout()), Box::new(std::io::stderr()))
    }

    /// Like [`Journal::stdio`], with other destinations, which are not terminals.
    #[cfg(test)]
    pub(crate) fn new(json: bool, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        let form = if json {
            OutputFormat::Json
        } else {
            OutputFormat::Text {
                text: Text::plain(),
                repeat_last: true,
            }
        };
        Self::write_to(form, out, err)
    }

    fn write_to(form: OutputFormat, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            form,
            out,
            err,
            start: Instant::now(),
            last_event: Instant::now(),
            deltas: Deltas::default(),
            seq: 0,
            usage: Usage::default(),
            cost_usd: None,
            turns: 0,
            repaired_calls: 0,
            last_message: None,
            class: None,
            result: None,
            evidence: Evidence::default(),
            verify: Vec::new(),
            ended: None,
            closed: false,
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the output was closed by its reader.
    pub fn is_closed(&self) -> bool {
        self.inner().closed
    }

    /// Returns the result of the run: the final answer if it had to fit a schema, else the last
    /// message of the model.
    pub fn final_text(&self) -> Option<String> {
        let inner = self.inner();
        inner
            .result
            .as_ref()
            .map(Value::to_string)
            .or_else(|| inner.last_message.clone())
    }

    /// Emits the start of the run.
    pub fn session_start(&self, start: &SessionStart<'_>) {
        self.inner().emit(&Event::SessionStart(start));
    }

    /// Emits the skills that the model can load.
    pub fn skills(&self, skills: &[ListedSkill<'_>]) {
        self.inner().emit(&Event::Skills { skills });
    }

    /// Emits a message of the model.
    pub fn message(&self, text: &str) {
        let text = redact(text);
        let mut inner = self.inner();
        inner.emit(&Event::Message { text: &text });
        inner.last_message = Some(text.into_owned());
    }

    /// Emits thinking of the model.
    pub fn reasoning(&self, text: &str) {
        self.inner().emit(&Event::Reasoning { text: &redact(text) });
    }

    /// Reports progress while an answer streams.
    pub fn progress(&self, progress: &Progress<'_>) {
        match progress {
            Progress::Text { block, text } => self.inner().delta(DeltaKind::Text, *block, text),
            Progress::Thinking { block, text } => self.inner().delta(DeltaKind::Thinking, *block, text),
            // It is counted with its usage.
            Progress::Empty(_) => {}
            Progress::Received { bytes } => self.inner().activity(*bytes as u64),
            Progress::Retry {
                attempt,
                delay_ms,
                reason,
            } => self.inner().emit(&Event::Retry {
                attempt: *attempt,
                delay_ms: *delay_ms,
                reason: &redact(reason),
            }),
            Progress::Fallback { model } => self.inner().emit(&Event::Fallback { model }),
        }
    }

    /// Emits a call of `tool` that is about to run.
    pub fn tool_call(&self, call: &ToolCall, tool: &str) {
        let input = match &call.input {
            Arguments::Json(input) => redact_json(input),
            Arguments::Broken { raw, .. } => Cow::Owned(Value::String(redact(raw).into_owned())),
        };
        let mut inner = self.inner();
        inner.repaired_calls += u64::from(call.repaired);
        inner.emit(&Event::ToolCall {
            call_id: &call.call_id,
            tool: &redact(tool),
            input: &input,
            repaired: call.repaired,
        });
    }

    /// Emits the result of a call.
    pub fn tool_result(&self, result: &ToolResult) {
        self.inner().emit(&Event::ToolResult {
            call_id: &result.call_id,
            is_error: result.is_error,
            exit_code: result.exit_code,
            denied: result.denied,
            output: &result.output,
        });
    }

    /// Emits the question about a call that needs an approval.
    pub fn ask(&self, mut question: Question) {
        let texts = [&mut question.tool].into_iter().chain(&mut question.command);
        for text in texts.chain(&mut question.paths) {
            *text = redact(text).into_owned();
        }
        self.inner().emit(&Event::Ask(&question));
    }

    /// Emits a changed plan.
    pub fn plan(&self, steps: &[Step]) {
        let mut steps = steps.to_vec();
        for step in &mut steps {
            step.text = redact(&step.text).into_owned();
        }
        self.inner().emit(&Event::Plan { steps: &steps });
    }

    /// Emits that the next request to the model contains a message of a person.
    pub fn message_taken(&self, id: &str) {
        self.inner().emit(&Event::MessageTaken { id: &redact(id) });
    }

    pub fn compaction(&self, compacted: Compacted) {
        self.inner().emit(&Event::Compaction(compacted));
    }

    /// Emits a run of the command of `--verify`.
    pub fn verify(&self, command: &str, result: &ToolResult) {
        let mut inner = self.inner();
        let run = VerifyRun {
            attempt: u32::try_from(inner.verify.len() + 1).unwrap_or(u32::MAX),
            command: redact(command).into_owned(),
            ok: !result.is_error,
            exit_code: result.exit_code,
        };
        let output = if run.ok { "" } else { result.output.as_str() };
        inner.emit(&Event::Verify { run: &run, output });
        inner.verify.push(run);
    }

    /// Emits a correction of the model.
    pub fn guard(&self, kind: &str, message: &str) {
        self.inner().emit(&Event::Guard {
            kind,
            message: &redact(message),
        });
    }

    pub fn warning(&self, message: &str) {
        self.inner().emit(&Event::Warning {
            message: &redact(message),
        });
    }

    /// Adds the tokens and cost of a turn, and emits the totals. The context window is in tokens.
    pub fn add_usage(&self, usage: Usage, cost_usd: Option<f64>, context_window: Option<u64>) {
        let mut inner = self.inner();
        inner.usage.add(usage);
        inner.turns += 1;
        if let Some(cost) = cost_usd {
            inner.cost_usd = Some(inner.cost_usd.unwrap_or(0.0) + cost);
        }
        let event = Event::Usage {
            usage: inner.usage,
            cost_usd: inner.cost_usd,
            context_used: usage.input_tokens.saturating_add(usage.output_tokens),
            context_window,
        };
        inner.emit(&event);
    }

    pub fn error(&self, message: &str, fatal: bool, class: Option<&str>) {
        let mut inner = self.inner();
        if fatal {
            inner.class = class.map(str::to_owned);
        }
        inner.emit(&Event::Error {
            message: &redact(message),
            fatal,
            class,
        });
    }

    /// Updates the evidence of the run.
    pub fn evidence(&self, change: impl FnOnce(&mut Evidence)) {
        change(&mut self.inner().evidence);
    }

    /// Stores the final answer that fits its schema.
    pub fn set_result(&self, result: &Value) {
        self.inner().result = Some(redact_json(result).into_owned());
    }

    /// Ends the run; only the first call has an effect. `message` is the reason of a failure, else
    /// the last message.
    pub fn end(&self, reason: ExitReason, message: Option<&str>) -> ExitReason {
        self.inner().end(reason, message)
    }

    /// Like [`Journal::end`], but gives up instead of waiting for a blocked writer.
    pub fn try_end(&self, reason: ExitReason, message: Option<&str>) {
        if let Ok(mut inner) = self.0.try_lock() {
            inner.end(reason, message);
        }
    }
}

impl Inner {
    /// Reports that an answer is arriving, unless an event was written a moment ago.
    fn activity(&mut self, received_bytes: u64) {
        // People see the answer when it is complete.
        if matches!(self.form, OutputFormat::Json) && self.last_event.elapsed() >= ACTIVITY_INTERVAL {
            self.emit(&Event::Activity { received_bytes });
        }
    }

    /// Adds a part of an answer, and emits what is due.
    fn delta(&mut self, kind: DeltaKind, block: usize, text: &str) {
        self.deltas.push(kind, block as u64, text);
        if let Some(due) = self.deltas.take_due() {
            self.emit_event(&Event::Delta {
                kind: due.kind,
                block: due.block,
                text: &due.text,
            });
        }
    }

    fn emit(&mut self, event: &Event<'_>) {
        if !matches!(event, Event::Activity { .. }) {
            self.end_answer();
        }
        self.emit_event(event);
    }

    /// Ends the parts of an answer that are arriving. People see their ends at once; in JSON the
    /// whole text follows.
    fn end_answer(&mut self) {
        let remaining = self.deltas.finish();
        if matches!(self.form, OutputFormat::Json) {
            return;
        }
        for delta in remaining {
            self.emit_event(&Event::Delta {
                kind: delta.kind,
                block: delta.block,
                text: &delta.text,
            });
        }
    }

    fn emit_event(&mut self, event: &Event<'_>) {
        if self.ended.is_some() {
            return;
        }
        self.seq += 1;
        self.last_event = Instant::now();
        let written = match &mut self.form {
            OutputFormat::Json => {
                let envelope = Envelope {
                    v: 1,
                    seq: self.seq,
                    at: now(),
                    event,
                };
                let line = serde_json::to_vec(&envelope);
                line.map_err(std::io::Error::from).and_then(|mut line| {
                    line.push(b'\n');
                    self.out.write_all(&line).and_then(|()| self.out.flush())
                })
            }
            OutputFormat::Text { text, .. } => text.write(&mut *self.err, event),
        };
        self.closed |= written.is_err();
    }

    fn end(&mut self, reason: ExitReason, message: Option<&str>) -> ExitReason {
        if let Some(earlier) = self.ended {
            return earlier;
        }
        let mut evidence = std::mem::take(&mut self.evidence);
        for run in &mut evidence.commands {
            run.command = redact(&run.command).into_owned();
        }
        for commit in &mut evidence.commits {
            commit.subject = redact(&commit.subject).into_owned();
        }
        let message = message.map(redact);
        let (last, class, result) = (self.last_message.take(), self.class.take(), self.result.take());
        let verify = std::mem::take(&mut self.verify);
        let ok = reason == ExitReason::Done;
        self.emit(&Event::End(Box::new(End {
            ok,
            reason,
            message: message.as_deref().or(last.as_deref()),
            exit_code: reason.code(),
            usage: self.usage,
            cost_usd: self.cost_usd,
            class: class.as_deref().filter(|_| !ok),
            result: result.as_ref().filter(|_| ok),
            evidence: &evidence,
            verify: &verify,
            turns: self.turns,
            repaired_calls: self.repaired_calls,
            duration_ms: u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX),
        })));
        if let (
            OutputFormat::Text {
                repeat_last: true, ..
            },
            true,
            Some(last),
        ) = (&self.form, ok, &last)
        {
            let written = writeln!(self.out, "{}", text::clean(last)).and_then(|()| self.out.flush());
            self.closed |= written.is_err();
        }
        self.ended = Some(reason);
        reason
    }
}

/// Returns the current time to the millisecond.
fn now() -> Timestamp {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now)
}
