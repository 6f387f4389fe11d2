//! The part that adapters have in common: one [`Session`], and a line at a time.

use std::borrow::Cow;

use vik_core::ids::MessageId;
use vik_core::message::Message;
use vik_core::outcome::Usage;

use crate::request::Outbox;
use crate::state::Session;
use crate::{
    Adapter, AgentLive, AgentRequest, ApprovalRequest, Conclusion, Exit, Sink, UnansweredRequest, Verdict,
    wire,
};

/// An adapter with the usual state.
pub(crate) trait LineReader: Send {
    fn session(&self) -> &Session;

    /// Maps a line. It is trimmed and not empty.
    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>);

    /// Builds the conclusion after the last line.
    fn conclusion(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion;

    /// Returns whether a later line has this one's content ([`Adapter::is_partial`]).
    fn is_partial_line(&self, _: &str) -> bool {
        false
    }

    /// Returns the requests of an interactive session.
    fn outbox(&mut self) -> Option<&mut Outbox> {
        None
    }

    /// Returns the lines that answer an approval request.
    fn verdict_lines(&self, _: &ApprovalRequest, _: Verdict<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Returns the lines that send a message of a person.
    fn lines_of(&self, _: &Message) -> Option<Vec<String>> {
        None
    }

    /// Returns the request without a response ([`Adapter::unanswered_request`]).
    fn pending_request(&self) -> Option<UnansweredRequest> {
        None
    }

    /// Handles lines that were sent ([`Adapter::on_message_sent`]).
    fn on_lines_sent(&mut self, _: MessageId, _: &[String]) {}
}

impl<R: LineReader> Adapter for R {
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let text: Cow<'_, str> = wire::line_text(line);
        if !text.is_empty() {
            self.read_line(&text, sink);
        }
    }

    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion {
        self.conclusion(exit, stderr_tail)
    }

    fn open_tools(&self) -> usize {
        self.session().open_tools.len()
    }

    fn usage(&self) -> (Usage, Option<f64>) {
        (self.session().usage, self.session().cost_usd)
    }

    fn activity(&self) -> Option<&str> {
        self.session().activity()
    }

    fn live(&self) -> AgentLive {
        self.session().live
    }

    fn is_partial(&self, line: &str) -> bool {
        self.is_partial_line(line)
    }

    fn take_requests(&mut self) -> Vec<AgentRequest> {
        self.outbox().map(Outbox::take).unwrap_or_default()
    }

    fn answer(&self, approval: &ApprovalRequest, verdict: Verdict<'_>) -> Vec<String> {
        self.verdict_lines(approval, verdict)
    }

    fn message_lines(&self, message: &Message) -> Option<Vec<String>> {
        self.lines_of(message)
    }

    fn on_message_sent(&mut self, id: MessageId, lines: &[String]) {
        self.on_lines_sent(id, lines);
    }

    fn unanswered_request(&self) -> Option<UnansweredRequest> {
        self.pending_request()
    }
}
