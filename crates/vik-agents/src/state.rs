//! What every adapter remembers of its session.

use std::fmt::Write as _;

use serde_json::value::RawValue;
use vik_core::outcome::{FailureClass, Usage};

use crate::{Conclusion, Exit, classify};

/// The longest message that is kept for the conclusion, in bytes.
const MESSAGE_MAX: usize = 256 * 1024;
/// The longest activity line, in bytes.
const ACTIVITY_MAX: usize = 96;
/// The most open tool calls that are remembered.
const OPEN_MAX: usize = 1024;
/// The longest id that is remembered, of a tool call or of a conversation, in bytes.
const ID_MAX: usize = 1024;
/// The longest tail of stderr in a reason, in bytes.
const STDERR_MAX: usize = 2000;

/// An error that the agent reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) class: Option<FailureClass>,
    pub(crate) status: Option<u16>,
}

/// The tool calls that are open now. Few at a time, so a scan from the newest is the quickest map.
#[derive(Debug, Default)]
pub(crate) struct OpenTools(Vec<String>);

impl OpenTools {
    pub(crate) fn open(&mut self, id: &str) {
        let id = head(id, ID_MAX);
        if self.0.len() < OPEN_MAX && !self.0.iter().rev().any(|open| open == id) {
            self.0.push(id.to_owned());
        }
    }

    /// Whether it was open.
    pub(crate) fn close(&mut self, id: &str) -> bool {
        let id = head(id, ID_MAX);
        match self.0.iter().rposition(|open| open == id) {
            Some(at) => {
                self.0.swap_remove(at);
                true
            }
            None => false,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// What every adapter remembers of its session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The provider's id of the conversation.
    pub(crate) id: Option<String>,
    pub(crate) open: OpenTools,
    pub(crate) usage: Usage,
    pub(crate) cost_usd: Option<f64>,
    /// The last error, transient or not.
    pub(crate) fault: Option<Fault>,
    message: String,
    activity: String,
}

impl Session {
    pub(crate) fn set_last_message(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.message.clear();
            self.message.push_str(head(text, MESSAGE_MAX));
        }
    }

    pub(crate) fn last_message(&self) -> Option<&str> {
        Some(self.message.as_str()).filter(|text| !text.is_empty())
    }

    pub(crate) fn record_fault(&mut self, message: &str, class: Option<FailureClass>, status: Option<u16>) {
        self.fault = Some(Fault {
            message: head(message, 16 * 1024).to_owned(),
            class,
            status,
        });
    }

    /// Forgets the last error: the agent went on after it, so it explains no end.
    pub(crate) fn clear_fault(&mut self) {
        self.fault = None;
    }

    /// Remembers the id of the conversation; says whether it is new.
    pub(crate) fn set_id(&mut self, id: &str) -> bool {
        let id = head(id, ID_MAX);
        if self.id.as_deref() == Some(id) {
            return false;
        }
        self.id = Some(id.to_owned());
        true
    }

    /// Shows a few fixed words as what the agent does now.
    pub(crate) fn set_activity(&mut self, activity: &str) {
        self.activity.clear();
        self.activity.push_str(activity);
    }

    /// Shows a tool call as what the agent does now.
    pub(crate) fn set_tool_activity(&mut self, tool: &str, input: Option<&RawValue>) {
        self.activity.clear();
        self.activity.push_str(head(tool, ACTIVITY_MAX));
        if let Some(input) = input {
            self.activity.push(' ');
            one_line(input.get(), ACTIVITY_MAX, &mut self.activity);
        }
    }

    pub(crate) fn activity(&self) -> Option<&str> {
        Some(self.activity.as_str()).filter(|text| !text.is_empty())
    }

    /// The conclusion of a session that succeeded.
    pub(crate) fn succeeded(&self) -> Conclusion {
        Conclusion {
            ok: true,
            last_message: self.last_message().map(str::to_owned),
            usage: self.usage,
            cost_usd: self.cost_usd,
            provider_session_id: self.id.clone(),
            ..Conclusion::default()
        }
    }

    /// The conclusion of a session that failed: its last error, else the tail of stderr, else how it ended.
    pub(crate) fn failed(&self, exit: Exit, stderr_tail: &str, default_reason: &str) -> Conclusion {
        let (class, reason) = match &self.fault {
            Some(fault) => (
                fault
                    .class
                    .or_else(|| classify::class_of_error(fault.status, &fault.message)),
                fault.message.clone(),
            ),
            None => {
                let tail = tail(stderr_tail, STDERR_MAX);
                let class = if matches!(exit, Exit::Signal(_)) {
                    None
                } else {
                    classify::class_of_stderr(tail)
                };
                let mut reason = format!("{default_reason}; {exit}");
                if !tail.is_empty() {
                    let _ = write!(reason, ":\n{tail}");
                }
                (class, reason)
            }
        };
        Conclusion {
            ok: false,
            failure_class: Some(class.unwrap_or(FailureClass::Agent)),
            reason: Some(reason),
            ..self.succeeded()
        }
    }
}

/// The first bytes of a text, whole characters only.
pub(crate) fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// The last bytes of a text, whole lines where possible, whole characters always.
pub(crate) fn tail(text: &str, max: usize) -> &str {
    let text = text.trim();
    if text.len() <= max {
        return text;
    }
    let cut = &text[text.ceil_char_boundary(text.len() - max)..];
    match cut.split_once('\n') {
        Some((_, lines)) if !lines.trim().is_empty() => lines.trim_start(),
        _ => cut,
    }
}

/// Appends the start of a JSON value on one line: a string without its quotes and escapes, anything else as it is.
fn one_line(json: &str, max: usize, into: &mut String) {
    let end = into.len() + max;
    let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    let mut chars = inner.unwrap_or(json).chars();
    while let Some(c) = chars.next() {
        if into.len() >= end {
            into.push('…');
            return;
        }
        match c {
            '\\' if inner.is_some() => match chars.next() {
                Some('n' | 'r' | 't') => into.push(' '),
                Some(escaped @ ('"' | '\\' | '/')) => into.push(escaped),
                Some(other) => into.extend(['\\', other]),
                None => {}
            },
            c if c.is_control() => into.push(' '),
            c => into.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_open_once_and_close_once() {
        let mut open = OpenTools::default();
        open.open("a");
        open.open("b");
        open.open("a");
        assert_eq!(open.len(), 2);
        assert!(open.close("a"));
        assert!(!open.close("a"));
        assert_eq!(open.len(), 1);
        open.clear();
        assert_eq!(open.len(), 0);
    }

    #[test]
    fn activity_is_one_short_line() {
        let mut session = Session::default();
        let raw: Box<RawValue> = serde_json::from_str(r#""echo \"a\"\n\tb""#).unwrap();
        session.set_tool_activity("Bash", Some(&raw));
        assert_eq!(session.activity(), Some(r#"Bash echo "a"  b"#));
        let long = format!("\"{}\"", "ä".repeat(200));
        let raw: Box<RawValue> = RawValue::from_string(long).unwrap();
        session.set_tool_activity("Bash", Some(&raw));
        assert!(session.activity().unwrap().len() < 2 * ACTIVITY_MAX);
    }

    #[test]
    fn tail_keeps_whole_lines() {
        assert_eq!(tail("one\ntwo\nthree\n", 8), "three");
        assert_eq!(tail("ääää", 3), "ä");
        assert_eq!(tail("short", 100), "short");
    }
}
