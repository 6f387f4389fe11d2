//! The state that every adapter keeps of its session.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::outcome::{FailureClass, Usage};

use crate::{AgentLive, Arriving, Conclusion, Exit, Sink, classify, wire};

/// The maximum bytes of the message in the conclusion.
const MESSAGE_MAX: usize = 256 * 1024;
/// The maximum bytes of an activity text.
const ACTIVITY_MAX: usize = 96;
/// The maximum number of remembered open tool calls.
const OPEN_MAX: usize = 1024;
/// The maximum bytes of a remembered id of a tool call or a conversation.
const ID_MAX: usize = 1024;
/// The maximum bytes of stderr in a reason.
const STDERR_MAX: usize = 2000;

/// An error that the agent reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) class: Option<FailureClass>,
    pub(crate) status: Option<u16>,
}

/// The open tool calls. There are few at a time, so a linear scan from the newest is fast.
#[derive(Debug, Default)]
pub(crate) struct OpenTools(Vec<String>);

impl OpenTools {
    pub(crate) fn open(&mut self, id: &str) {
        let id = head(id, ID_MAX);
        if self.0.len() < OPEN_MAX && !self.0.iter().rev().any(|open| open == id) {
            self.0.push(id.to_owned());
        }
    }

    /// Closes a call and returns whether it was open.
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

/// The state of one session.
#[derive(Debug, Default)]
pub struct Session {
    /// The provider's id of the conversation.
    pub(crate) id: Option<String>,
    pub(crate) open_tools: OpenTools,
    pub(crate) usage: Usage,
    pub(crate) cost_usd: Option<f64>,
    /// The last error, transient or not.
    pub(crate) fault: Option<Fault>,
    pub(crate) live: AgentLive,
    message: String,
    activity: String,
}

impl Session {
    /// Counts a part of an answer that a later line has as a whole.
    pub(crate) fn arrived(&mut self, kind: Arriving, text: &str) {
        if self.live.arriving != Some(kind) {
            self.set_activity(match kind {
                Arriving::Text => "writing",
                Arriving::Thinking => "thinking",
                Arriving::ToolInput => "writing a tool call",
            });
        }
        self.live.arrived(kind, text);
    }

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

    /// Clears the last error: the agent continued after it, so it is not the reason of a failure.
    pub(crate) fn clear_fault(&mut self) {
        self.fault = None;
    }

    /// Sets the id of the conversation and returns whether it is new.
    pub(crate) fn set_id(&mut self, id: &str) -> bool {
        let id = head(id, ID_MAX);
        if self.id.as_deref() == Some(id) {
            return false;
        }
        self.id = Some(id.to_owned());
        true
    }

    /// Sets the activity to a fixed text.
    pub(crate) fn set_activity(&mut self, activity: &str) {
        self.live.arriving = None;
        self.activity.clear();
        self.activity.push_str(activity);
    }

    /// Sets the activity to a tool call.
    pub(crate) fn set_tool_activity(&mut self, tool: &str, input: Option<&RawValue>) {
        self.live.arriving = None;
        self.activity.clear();
        self.activity.push_str(head(tool, ACTIVITY_MAX));
        if let Some(input) = input {
            self.activity.push(' ');
            one_line(input.get(), ACTIVITY_MAX, &mut self.activity);
        }
    }

    /// Reports the start of a session, with the provider's id, the version of the agent and the
    /// model.
    pub(crate) fn start(
        &mut self,
        id: Option<Cow<'_, str>>,
        agent_version: Option<Cow<'_, str>>,
        model: Option<Cow<'_, str>>,
        sink: &mut Sink<'_>,
    ) {
        if let Some(id) = &id {
            self.set_id(id);
        }
        sink(Event::SessionStarted {
            provider_session_id: id,
            agent_version,
            model,
        });
    }

    /// Reports a message of the agent. One of a sub-agent (`is_main` is false) is never the last
    /// message of the session.
    pub(crate) fn message(&mut self, text: Cow<'_, str>, is_main: bool, sink: &mut Sink<'_>) {
        self.clear_fault();
        if is_main {
            self.set_last_message(&text);
        }
        self.set_activity("writing");
        sink(Event::Message { text });
    }

    /// Reports the start of a tool call.
    pub(crate) fn open_tool(
        &mut self,
        call_id: Cow<'_, str>,
        tool: Cow<'_, str>,
        input: Option<&RawValue>,
        sink: &mut Sink<'_>,
    ) {
        self.open_tools.open(&call_id);
        self.set_tool_activity(&tool, input);
        let input = wire::present(input).map(Into::into);
        sink(Event::ToolCall { call_id, tool, input });
    }

    /// Records and reports an error. One that is not fatal does not, or not yet, end the session.
    /// Without a class that the agent reported, it is classified by its status and text.
    pub(crate) fn error(
        &mut self,
        message: Cow<'_, str>,
        fatal: bool,
        failure_class: Option<FailureClass>,
        http_status: Option<u16>,
        sink: &mut Sink<'_>,
    ) {
        let failure_class = failure_class.or_else(|| classify::class_of_error(http_status, &message));
        self.record_fault(&message, failure_class, http_status);
        sink(Event::Error {
            message,
            fatal,
            failure_class,
            http_status,
        });
    }

    /// Reports the end of a turn without a structured result.
    pub(crate) fn report_completed(&self, ok: bool, reason: Option<Cow<'_, str>>, sink: &mut Sink<'_>) {
        sink(Event::Completed {
            ok,
            message: self.last_message().map(Cow::Borrowed),
            result: None,
            reason,
        });
    }

    /// Reports an error that ends the turn, and the end.
    pub(crate) fn report_failed(
        &mut self,
        message: &str,
        class: Option<FailureClass>,
        reason: Option<Cow<'_, str>>,
        sink: &mut Sink<'_>,
    ) {
        self.error(Cow::Borrowed(message), true, class, None, sink);
        sink(Event::Completed {
            ok: false,
            message: Some(Cow::Borrowed(message)),
            result: None,
            reason,
        });
    }

    /// Reports the usage and the cost so far.
    pub(crate) fn report_usage(&self, sink: &mut Sink<'_>) {
        sink(Event::TokenUsage {
            usage: self.usage,
            cost_usd: self.cost_usd,
        });
    }

    pub(crate) fn activity(&self) -> Option<&str> {
        Some(self.activity.as_str()).filter(|text| !text.is_empty())
    }

    /// Returns the conclusion of a successful session.
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

    /// Returns the conclusion of a failed session. The reason is the last error, else the tail of
    /// stderr, else the exit.
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

/// Returns a note of the agent about itself, which is never the reason of a failure.
pub(crate) fn note(message: Cow<'_, str>) -> Event<'_> {
    Event::Error {
        message,
        fatal: false,
        failure_class: None,
        http_status: None,
    }
}

/// Returns at most the first `max` bytes of a text, in whole characters.
pub(crate) fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Returns at most the last `max` bytes of a text, in whole lines if possible and always in whole
/// characters.
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

/// Appends the start of a JSON value on one line: a string without its quotes and escapes, anything
/// else verbatim.
fn one_line(json: &str, max: usize, into: &mut String) {
    let end = into.len() + max;
    let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"'));
    let mut remaining = inner.unwrap_or(json);
    loop {
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b'\\';
        let room = end.saturating_sub(into.len());
        let plain = remaining.bytes().take(room).take_while(is_plain).count();
        into.push_str(&remaining[..plain]);
        let mut chars = remaining[plain..].chars();
        let Some(c) = chars.next() else {
            return;
        };
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
        remaining = chars.as_str();
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
