//! Adapters: how to start each agent, and how to interpret its output.
//!
//! Each runtime has a [`Driver`]. It builds a [`Launch`] from a [`LaunchContext`], and creates the
//! [`Adapter`] of a session, which maps output lines to [`Event`]s and at the end builds a
//! [`Conclusion`] from them and from the exit of the process.
//!
//! Both are pure: they spawn no process, read no file and no clock.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod classify;
mod claude_code;
mod codex;
mod command;
mod driver;
mod environment;
mod error;
mod extensions;
mod flags;
mod launch;
mod live;
mod login;
mod request;
mod reset;
mod state;
#[cfg(test)]
mod testing;
mod vex;
mod wire;

use std::fmt;

use jiff::Timestamp;
use serde_json::value::RawValue;
use vik_core::event::Event;
use vik_core::ids::MessageId;
use vik_core::message::Message;
use vik_core::outcome::{FailureClass, Usage};
use vik_core::workflow::Runtime;

pub use driver::Driver;
pub use environment::{COMMON, COMMON_PREFIXES, common_variables};
pub use error::LaunchError;
pub use extensions::{Extensions, LaunchFile};
pub use launch::{InputMode, Launch, LaunchContext};
pub use live::{AgentLive, Arriving, RateLimit};
pub use login::LoginSign;
pub use request::{AgentRequest, ApprovalRequest, InitialInput, Verdict};
pub use reset::reset_time;

use request::Outbox;
use state::Session;

/// Returns the driver of the agents with this runtime.
pub fn driver(runtime: Runtime) -> &'static dyn Driver {
    match runtime {
        Runtime::Codex => &codex::CodexDriver,
        Runtime::ClaudeCode => &claude_code::ClaudeCodeDriver,
        Runtime::Vex => &vex::VexDriver,
        Runtime::Command => &command::CommandDriver,
    }
}

/// How the process of the agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    /// Returns whether the process exited with code 0.
    pub fn is_zero(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "it exited with code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal} ended it"),
        }
    }
}

/// The result of a whole session.
#[derive(Clone, Debug, Default)]
pub struct Conclusion {
    /// Whether the work succeeded, from the final event *and* the exit code.
    pub ok: bool,
    /// Always `Some` if `ok` is false.
    pub failure_class: Option<FailureClass>,
    /// The reason of the failure for people: the agent's error, or the tail of stderr.
    pub reason: Option<String>,
    pub last_message: Option<String>,
    /// The structured result, if there is one.
    pub result: Option<Box<RawValue>>,
    /// Tokens of this attempt.
    pub usage: Usage,
    /// The cost that the agent itself reported.
    pub cost_usd: Option<f64>,
    /// The provider's id of the conversation.
    pub provider_session_id: Option<String>,
    /// Whether a cost or turn limit of the agent's own ended it (outcome `over_budget`).
    pub over_budget: bool,
    /// When the exhausted quota resets, if the agent reported it as a number.
    pub resets_at: Option<Timestamp>,
}

/// Receives the events of a line.
pub type Sink<'s> = dyn FnMut(Event<'_>) + 's;

/// Maps the output of one agent in one session.
pub trait Adapter: Send {
    /// Returns the state that every adapter has.
    fn session(&self) -> &Session;

    /// Maps one line, which is trimmed and not empty. Malformed lines become
    /// [`Event::Malformed`], unknown ones [`Event::Unknown`].
    fn read_line(&mut self, line: &str, sink: &mut Sink<'_>);

    /// Maps one output line (without its newline).
    fn line(&mut self, line: &[u8], sink: &mut Sink<'_>) {
        let text = wire::line_text(line);
        if !text.is_empty() {
            self.read_line(&text, sink);
        }
    }

    /// Builds the conclusion after the last line.
    ///
    /// `stderr_tail` is the end of what the process wrote to stderr.
    fn conclude(&mut self, exit: Exit, stderr_tail: &str) -> Conclusion;

    /// Returns the number of open tool calls. During a call, silence does not count as a stall.
    fn open_tools(&self) -> usize {
        self.session().open_tools.len()
    }

    /// Returns the usage and the cost of this attempt so far.
    fn usage(&self) -> (Usage, Option<f64>) {
        (self.session().usage, self.session().cost_usd)
    }

    /// Returns a short text for a status line about what the agent is doing.
    fn activity(&self) -> Option<&str> {
        self.session().activity()
    }

    /// Returns what the agent is doing right now.
    fn live(&self) -> AgentLive {
        self.session().live
    }

    /// Returns whether a line is only a part of an answer that a later line has as a whole: without
    /// it, the output maps to the same events.
    fn is_partial(&self, _: &str) -> bool {
        false
    }

    /// Returns the requests of an interactive session.
    fn outbox(&mut self) -> Option<&mut Outbox> {
        None
    }

    /// Returns the requests of the agent since the last call. Called before the first line and
    /// after each one.
    fn take_requests(&mut self) -> Vec<AgentRequest> {
        self.outbox().map(Outbox::take).unwrap_or_default()
    }

    /// Returns the lines that answer an approval request. At least the last one starts with
    /// [`ApprovalRequest::answer_prefix`].
    fn answer(&self, _: &ApprovalRequest, _: Verdict<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Returns the lines that send a message of a person; `None` while the agent cannot take one.
    /// The last line contains the id of the message.
    fn message_lines(&self, _: &Message) -> Option<Vec<String>> {
        None
    }

    /// Handles that these lines were sent, which carry a message with this id.
    fn on_message_sent(&mut self, _: MessageId, _: &[String]) {}

    /// Returns the protocol request of Vik to which the agent has not responded yet. An agent with a
    /// protocol responds to each at once, long before the work is done.
    fn unanswered_request(&self) -> Option<UnansweredRequest> {
        None
    }
}

/// A protocol request of Vik to which an agent has not responded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnansweredRequest {
    /// The message that it carries or interrupts for; `None` for a request that starts the session.
    pub message: Option<MessageId>,
    pub method: &'static str,
}

/// The usage of a conversation before the attempt that resumes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PreviousTotal {
    pub usage: Usage,
    /// The cost, as far as the agent reported it.
    pub cost_usd: f64,
}
