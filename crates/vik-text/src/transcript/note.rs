//! Events as finished lines.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use vik_core::duration::Span;
use vik_core::ended::Ended;
use vik_core::event::OtherEvent;
use vik_core::limits::LimitHit;
use vik_core::outcome::{FailureClass, Outcome, Usage};

use super::Mark;
use crate::TextStyle::{Dim, Green, Plain, Red, Yellow};
use crate::{Line, TextStyle, attempt_cost, cost, one_line, short};

/// The maximum length of a text on one line, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// The used share of a provider's window from which it is shown.
const NEAR_LIMIT: f64 = 0.8;

/// An entry of finished lines.
#[derive(Debug)]
pub struct Note {
    pub mark: Mark,
    pub lines: Vec<Line>,
    pub importance: Importance,
}

/// How important an entry is for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// Shown only in full: other entries imply it.
    Detail,
    /// Left out of an overview.
    Minor,
    Normal,
}

impl Note {
    fn of(mark: Mark, lines: Vec<Line>) -> Self {
        Self {
            mark,
            lines,
            importance: Importance::Normal,
        }
    }

    fn line(style: TextStyle, mark: char, text: &str) -> Self {
        Self::of((style, mark), vec![Line::of(style, text)])
    }

    fn with_importance(self, importance: Importance) -> Self {
        Self { importance, ..self }
    }
}

pub(super) fn session_started(parts: [Option<&str>; 3]) -> Note {
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    let text = format!("session {}", parts.join(" · "));
    Note::of((Plain, ' '), vec![Line::of(Dim, &text)])
}

pub(super) fn resumed(conversation: &str) -> Note {
    Note::line(Dim, '·', &format!("resumed session {conversation}"))
}

/// Returns the note of a message of a person. Its text comes with the first event.
pub(super) fn person_message(by: &str, text: &str, state: &str) -> Note {
    if text.is_empty() {
        return Note::line(Dim, '»', &format!("message of {by}: {state}")).with_importance(Importance::Minor);
    }
    let mut lines = vec![Line::of(Dim, &format!("{by} ({state}):"))];
    lines.extend(Line::block(Plain, text));
    Note::of((Green, '»'), lines)
}

/// Returns the note of another turn of the conversation, with its prompt.
pub(super) fn turn(number: u32, of: u32, why: &str, prompt: &str) -> Note {
    let why = match why {
        "verify_failed" => "`verify` failed",
        "state_unchanged" => "the issue is still in the state of the stage",
        other => other,
    };
    let mut lines = vec![Line::of(Dim, &format!("turn {number} of {of}: {why}"))];
    lines.extend(Line::block(Plain, prompt));
    Note::of((Plain, '»'), lines)
}

pub(super) fn question(question: &str, choices: &[Cow<'_, str>], default: Option<&str>) -> Note {
    let mut lines = vec![Line::of(Yellow, "the agent asks:")];
    lines.extend(Line::block(Plain, question));
    for (at, choice) in choices.iter().enumerate() {
        lines.push(Line::of(Plain, &format!("  {}. {choice}", at + 1)));
    }
    if let Some(default) = default {
        lines.push(Line::of(Dim, &format!("without an answer: {default}")));
    }
    Note::of((Yellow, '?'), lines)
}

pub(super) fn answer(question: &str, answer: &str, by: &str) -> Note {
    let question = one_line(question, MAX_TEXT_CHARS);
    let mut lines = vec![Line::of(Dim, &format!("{by} answered `{question}`:"))];
    lines.extend(Line::block(Plain, answer));
    Note::of((Green, '»'), lines)
}

pub(super) fn resume_failed(reason: &str) -> Note {
    let text = format!("cannot resume the earlier session: {reason}");
    Note::of((Yellow, '!'), Line::block(Yellow, &text))
}

pub(super) fn limit(hit: LimitHit, percent: u64) -> Note {
    Note::line(Yellow, '!', &format!("{hit} ({percent} %)"))
}

pub(super) fn approval(tool: &str, decision: &str, detail: &str) -> Note {
    let line = Line::of(Yellow, &format!("{decision} {tool}"))
        .and(Plain, "  ")
        .and(Plain, &one_line(detail, MAX_TEXT_CHARS));
    Note::of((Yellow, '?'), vec![line])
}

pub(super) fn subagent(status: &str, task: &str) -> Note {
    let task = one_line(task, MAX_TEXT_CHARS);
    let gap = if task.is_empty() { "" } else { ": " };
    Note::line(Dim, '·', &format!("task {status}{gap}{task}"))
}

/// Returns the line of the usage so far.
pub(super) fn usage(usage: Usage, cost_usd: Option<f64>) -> Line {
    let mut text = format!("{} tokens so far {}", short(usage.total()), in_and_out(usage));
    if cost_usd.is_some() {
        text.push_str(&format!(", {}", cost(cost_usd)));
    }
    Line::of(Dim, &text)
}

fn in_and_out(usage: Usage) -> String {
    format!(
        "({} in, {} out)",
        short(usage.input_tokens),
        short(usage.output_tokens)
    )
}

pub(super) fn error(
    message: &str,
    fatal: bool,
    class: Option<FailureClass>,
    http_status: Option<u16>,
) -> Note {
    let style = if fatal { Red } else { Yellow };
    let mut lines = Line::block(style, message);
    let mut remarks: Vec<String> = class
        .map(|class| class.to_string())
        .into_iter()
        .chain(http_status.map(|status| format!("HTTP {status}")))
        .collect();
    // Anything else that is not fatal can also be a note of Vik.
    if !remarks.is_empty() {
        if !fatal {
            remarks.push("not fatal".to_owned());
        }
        lines.push(Line::of(Dim, &format!("({})", remarks.join(", "))));
    }
    Note::of((style, '!'), lines)
}

/// Formats a requested output and its result.
pub(super) fn output(output: &str, status: &str, summary: &str, reason: &str) -> Note {
    let (style, mark) = match status {
        "applied" => (Green, '✓'),
        "skipped" => (Dim, '·'),
        _ => (Red, '✗'),
    };
    let kind = output.replace('_', " ");
    let kind = if kind.is_empty() { "output" } else { &kind };
    let line = Line::of(style, &format!("{kind} {status}"))
        .and(Plain, "  ")
        .and(Plain, &one_line(summary, MAX_TEXT_CHARS));
    let mut lines = vec![line];
    if !reason.is_empty() {
        lines.extend(Line::block(style, reason));
    }
    Note::of((style, mark), lines)
}

pub(super) fn rate_limit(status: &str, resets_at_unix: Option<i64>, utilization: Option<f64>) -> Note {
    let is_normal =
        (status.is_empty() || status == "allowed") && utilization.is_none_or(|used| used < NEAR_LIMIT);
    let mut text = format!("rate limit {status}");
    if let Some(used) = utilization {
        text.push_str(&format!(", {:.0} % used", used * 100.0));
    }
    if let Some(at) = resets_at_unix.and_then(|at| Timestamp::from_second(at).ok()) {
        text.push_str(&format!(", resets at {at}"));
    }
    let (style, importance) = if is_normal {
        (Dim, Importance::Detail)
    } else {
        (Yellow, Importance::Normal)
    };
    Note::of((Yellow, '!'), vec![Line::of(style, &text)]).with_importance(importance)
}

/// Formats the end of an agent's work. The last message and the end of the attempt imply success.
pub(super) fn completed(ok: bool, reason: &str) -> Note {
    let reason = one_line(reason, MAX_TEXT_CHARS);
    if ok {
        Note::line(Dim, '·', &format!("done {reason}")).with_importance(Importance::Detail)
    } else {
        Note::line(Yellow, '!', &format!("not done {reason}"))
    }
}

/// Formats output that no adapter knows, as the agent printed it.
pub(super) fn unknown(raw: &str) -> Note {
    Note::line(Dim, '?', &one_line(raw, MAX_TEXT_CHARS)).with_importance(Importance::Minor)
}

pub(super) fn malformed(line: &str, bytes: Option<u64>) -> Note {
    let cut = bytes.map(|bytes| format!("{bytes} bytes, cut: "));
    let start = one_line(line, MAX_TEXT_CHARS);
    Note::line(Dim, '?', &(cut.unwrap_or_default() + &start))
}

/// Formats an event of another version of Vik.
pub(super) fn other(event: &OtherEvent) -> Note {
    let fields = serde_json::to_string(&event.fields).unwrap_or_default();
    let text = format!(
        "{} {}",
        one_line(&event.kind, 40),
        one_line(&fields, MAX_TEXT_CHARS)
    );
    Note::line(Dim, '·', &text).with_importance(Importance::Minor)
}

pub(super) fn ended(ended: &Ended) -> Note {
    let result = &ended.result;
    let style = match result.outcome {
        Outcome::Succeeded => Green,
        Outcome::Cancelled => Yellow,
        _ => Red,
    };
    let mut outcome = result.outcome.to_string();
    if let Some(class) = result.failure_class {
        outcome.push_str(&format!(" ({class})"));
    }
    let mut details = format!(" in {}", Span(Duration::from_millis(ended.duration_ms)));
    match (result.exit_code, ended.signal) {
        (_, Some(signal)) => details.push_str(&format!(", signal {signal}")),
        (Some(code), None) if code != 0 => details.push_str(&format!(", exit {code}")),
        _ => {}
    }
    if result.usage.total() > 0 {
        let total = short(result.usage.total());
        details.push_str(&format!(" · {total} tokens {}", in_and_out(result.usage)));
    }
    if let Some(usd) = ended.cost_usd {
        details.push_str(&format!(" · {}", attempt_cost(Some(usd), ended.cost_source)));
    }
    let mut lines = vec![Line::of(style, &outcome).and(Plain, &details)];
    if let Some(reason) = &result.reason {
        lines.extend(Line::block(style, reason));
    }
    Note::of((style, '■'), lines)
}
