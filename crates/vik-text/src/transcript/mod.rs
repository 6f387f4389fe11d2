//! The events of a session log as the entries of a transcript.
//!
//! ```
//! use vik_core::event::LogLine;
//! use vik_text::transcript::Entry;
//!
//! let line: LogLine = serde_json::from_str(r#"{"seq":1,"kind":"message","text":"Hello"}"#)?;
//! assert!(matches!(Entry::of(line.event), Entry::Message(text) if text == "Hello"));
//! # Ok::<(), serde_json::Error>(())
//! ```

mod body;
mod note;
#[cfg(test)]
mod tests;
mod tool;

use vik_core::event::{Event, LoggedEvent};

use crate::{Line, TextStyle};
use body::shortened;
pub use note::{Importance, Note};
pub use tool::{ToolCall, ToolResult};

/// How many lines of reasoning are shown: the first and the last ones.
const REASONING_LINES: (usize, usize) = (10, 2);

/// The mark before an entry.
pub type Mark = (TextStyle, char);

/// An event as it is shown.
#[derive(Debug)]
pub enum Entry {
    /// Text of the agent; may be hostile.
    Message(String),
    /// Reasoning text of the model; may be hostile.
    Reasoning(String),
    Call(ToolCall),
    Result(ToolResult),
    /// The usage so far. Most readers show only large changes.
    Usage {
        /// Input and output tokens together.
        tokens: u64,
        line: Line,
    },
    Note(Note),
}

impl Entry {
    /// Creates the entry of an event.
    pub fn of(event: LoggedEvent) -> Self {
        let event = match event {
            LoggedEvent::Known(event) => event,
            LoggedEvent::Other(other) => return Self::Note(note::other(&other)),
        };
        match event {
            Event::Message { text } => Self::Message(text.into_owned()),
            Event::Reasoning { text } => Self::Reasoning(text.into_owned()),
            Event::ToolCall { call_id, tool, input } => Self::Call(ToolCall::new(
                call_id.into_owned(),
                tool.into_owned(),
                input.as_ref(),
            )),
            Event::ToolResult {
                call_id,
                is_error,
                exit_code,
                output,
            } => Self::Result(ToolResult::new(
                call_id.into_owned(),
                is_error,
                exit_code,
                output.as_ref(),
            )),
            Event::TokenUsage { usage, cost_usd } => Self::Usage {
                tokens: usage.total(),
                line: note::usage(usage, cost_usd),
            },
            Event::SessionStarted {
                provider_session_id,
                agent_version,
                model,
            } => Self::Note(note::session_started([
                model.as_deref(),
                agent_version.as_deref(),
                provider_session_id.as_deref(),
            ])),
            Event::Subagent {
                id,
                status,
                description,
            } => Self::Note(note::subagent(&status, &description.or(id).unwrap_or_default())),
            Event::RateLimit {
                status,
                resets_at_unix,
                utilization,
            } => Self::Note(note::rate_limit(
                &status.unwrap_or_default(),
                resets_at_unix,
                utilization,
            )),
            Event::Approval {
                tool,
                decision,
                detail,
                ..
            } => Self::Note(note::approval(&tool, &decision, &detail.unwrap_or_default())),
            Event::Error {
                message,
                fatal,
                failure_class,
                http_status,
            } => Self::Note(note::error(&message, fatal, failure_class, http_status)),
            Event::Unknown { raw } => Self::Note(note::unknown(raw.get())),
            Event::Malformed { line, bytes, .. } => Self::Note(note::malformed(&line, bytes)),
            Event::Completed { ok, reason, .. } => {
                Self::Note(note::completed(ok, &reason.unwrap_or_default()))
            }
            Event::Resumed {
                provider_session_id, ..
            } => Self::Note(note::resumed(&provider_session_id)),
            Event::ResumeFailed { reason, .. } => Self::Note(note::resume_failed(&reason)),
            Event::Limit { hit, percent } => Self::Note(note::limit(hit, percent)),
            Event::Output {
                output,
                status,
                summary,
                reason,
                ..
            } => Self::Note(note::output(
                &output,
                &status,
                &summary.unwrap_or_default(),
                &reason.unwrap_or_default(),
            )),
            Event::Turn {
                number,
                of,
                why,
                prompt,
            } => Self::Note(note::turn(number, of, &why, &prompt)),
            Event::PersonMessage { by, text, state, .. } => {
                Self::Note(note::person_message(&by, &text, &state))
            }
            Event::Question {
                question,
                choices,
                default,
            } => Self::Note(note::question(&question, &choices, default.as_deref())),
            Event::Answer {
                question, answer, by, ..
            } => Self::Note(note::answer(&question, &answer, &by)),
            Event::Ended(ended) => Self::Note(note::ended(&ended)),
        }
    }

    /// Cuts long texts, for readers that keep many entries.
    pub fn truncate(&mut self, max_bytes: usize) {
        match self {
            Self::Message(text) | Self::Reasoning(text) => truncate(text, max_bytes),
            Self::Call(call) => call.truncate(max_bytes),
            Self::Result(result) => result.truncate(max_bytes),
            Self::Usage { .. } | Self::Note(_) => {}
        }
    }
}

/// Returns the lines of reasoning, shortened unless `full` is set.
pub fn reasoning(text: &str, full: bool) -> Vec<Line> {
    let lines: Vec<_> = text
        .trim_end()
        .lines()
        .map(|line| (TextStyle::Dim, line.to_owned()))
        .collect();
    shortened(&lines, REASONING_LINES, full)
}

/// Returns the lines of the output of a program, shortened unless `full` is set. More of the end is
/// kept if the program failed.
pub fn program_output(text: &str, has_failed: bool, full: bool) -> Vec<Line> {
    let lines = text.trim_end().lines();
    let lines: Vec<_> = lines.map(|line| (TextStyle::Dim, line.to_owned())).collect();
    let ends = if has_failed { tool::FAILURE } else { tool::OUTPUT };
    shortened(&lines, ends, full)
}

fn truncate(text: &mut String, max_bytes: usize) {
    if text.len() > max_bytes {
        text.truncate(text.floor_char_boundary(max_bytes));
        text.push('…');
    }
}
