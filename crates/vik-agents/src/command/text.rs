//! Plain text: each line is a message.

use std::borrow::Cow;
use std::collections::VecDeque;

use vik_core::event::Event;

use crate::state::{Session, head};
use crate::{Adapter, Conclusion, Exit, Sink};

/// The maximum number of lines in the last message.
const MAX_KEPT_LINES: usize = 20;
/// The maximum number of bytes kept of each line.
const MAX_LINE_BYTES: usize = 2000;

/// The adapter of one session of a command that prints text.
#[derive(Debug, Default)]
pub(crate) struct Text {
    session: Session,
    last_lines: VecDeque<String>,
}

impl Adapter for Text {
    fn session(&self) -> &Session {
        &self.session
    }

    /// Keeps the spaces of the line, and skips it if it has nothing else.
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let text = String::from_utf8_lossy(line);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        if !text.trim().is_empty() {
            self.read_line(text, sink);
        }
    }

    fn read_line(&mut self, text: &str, sink: &mut Sink<'_>) {
        let mut kept = if self.last_lines.len() == MAX_KEPT_LINES {
            self.last_lines.pop_front()
        } else {
            None
        }
        .unwrap_or_default();
        kept.clear();
        kept.push_str(head(text, MAX_LINE_BYTES));
        self.session.set_activity(head(text.trim(), 96));
        self.last_lines.push_back(kept);
        sink(Event::Message {
            text: Cow::Borrowed(text),
        });
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        let lines: Vec<&str> = self.last_lines.iter().map(String::as_str).collect();
        self.session.set_last_message(&lines.join("\n"));
        if exit.is_zero() {
            self.session.succeeded()
        } else {
            self.session.failed(exit, stderr_tail, "the command failed")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::events;

    #[test]
    fn text_lines_are_messages_and_the_exit_code_decides() {
        let mut text = Text::default();
        let seen = events(&mut text, &["one", "", "  ", "two\r"]);
        assert_eq!(
            seen,
            [
                r#"{"kind":"message","text":"one"}"#,
                r#"{"kind":"message","text":"two"}"#
            ]
        );
        let good = text.conclude(Exit::Code(0), "noise");
        assert!(good.ok);
        assert_eq!(good.last_message.as_deref(), Some("one\ntwo"));
        let bad = Text::default().conclude(Exit::Code(3), "it broke");
        assert!(!bad.ok && bad.failure_class.is_some());
        assert_eq!(
            bad.reason.as_deref(),
            Some("the command failed; it exited with code 3:\nit broke")
        );
    }
}
