//! What an interactive agent asks of Vik between its output lines.
//!
//! Such an agent keeps its stdin open. What Vik sends depends only on what the agent printed: the
//! same lines give the same requests in the same order. So a daemon that reads them again knows
//! what was sent.

use std::path::Path;

use vik_core::approval::Call;
use vik_core::ids::MessageId;

/// A request of an agent to Vik.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentRequest {
    /// Send this line to the agent's stdin.
    Send(String),
    /// A call waits for a verdict.
    Approval(ApprovalRequest),
    /// The agent no longer waits for that verdict.
    Withdraw {
        /// The id of the [`ApprovalRequest`].
        id: String,
    },
    /// A call has run without an approval request, although the agent was to ask before each call.
    Unasked(Call),
    /// The agent has read a message of a person. It takes part in the next request to the model.
    MessageTaken { id: MessageId },
    /// The agent rejected a message of a person, and does not read it.
    MessageRejected { id: MessageId, why: String },
    /// The agent has finished a turn, and waits for input: close its stdin unless a message or
    /// another turn follows.
    TurnEnded {
        /// Whether the turn came to its end as the agent meant it: without an error, and not stopped.
        succeeded: bool,
    },
    /// The agent takes no more input: close its stdin.
    Close,
    /// The agent violated the protocol and must be stopped.
    ProtocolError(String),
}

/// The requests that an adapter has not handed over yet.
#[derive(Debug, Default)]
pub struct Outbox {
    requests: Vec<AgentRequest>,
    is_closed: bool,
}

impl Outbox {
    /// Creates an outbox with a line for the agent's stdin.
    pub(crate) fn starting_with(line: String) -> Self {
        Self {
            requests: vec![AgentRequest::Send(line)],
            is_closed: false,
        }
    }

    pub(crate) fn push(&mut self, request: AgentRequest) {
        self.requests.push(request);
    }

    /// Sends a line to the agent's stdin.
    pub(crate) fn send(&mut self, line: impl Into<String>) {
        self.push(AgentRequest::Send(line.into()));
    }

    /// Closes the agent's stdin.
    pub(crate) fn close(&mut self) {
        if !self.is_closed {
            self.is_closed = true;
            self.push(AgentRequest::Close);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<AgentRequest> {
        std::mem::take(&mut self.requests)
    }
}

/// A call that waits for a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The id that the agent gave the request.
    pub id: String,
    /// The call, with paths as the agent wrote them.
    pub call: Call,
    /// Whether the call changes its paths. A scope does not restrict paths that are only read.
    pub writes: bool,
    /// The prefix of every line that answers this request. A line with it means that there is an
    /// answer.
    pub answer_prefix: String,
}

/// The answer to an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The call continues as without approval. The verdict grants no further permission.
    Allow,
    /// The call does not run, and the model gets this message.
    Refuse(&'a str),
}

/// The input that an interactive agent gets on stdin before it starts.
#[derive(Clone, Copy, Debug)]
pub struct InitialInput<'a> {
    pub prompt: &'a str,
    pub workdir: &'a Path,
    /// The conversation to resume.
    pub resume: Option<&'a str>,
    /// Whether the process runs in Vik's sandbox.
    pub in_sandbox: bool,
    /// Whether the agent asks before each call; see [`InputMode`](crate::InputMode).
    pub asks: bool,
}

/// The prefix of the ids of requests that carry a message of a person.
const MESSAGE: &str = "vik-message-";
/// The prefix of the ids of requests that stop the current step of an agent.
const INTERRUPT: &str = "vik-interrupt-";

/// Returns the id of the request that carries a message.
pub(crate) fn message_request_id(id: MessageId) -> String {
    format!("{MESSAGE}{id}")
}

/// Returns the message that a request with this id carried.
pub(crate) fn message_of_request(id: &str) -> Option<MessageId> {
    message_id(id.strip_prefix(MESSAGE)?)
}

/// Returns the id of the request that stops the current step of the agent for a message.
pub(crate) fn interrupt_request_id(id: MessageId) -> String {
    format!("{INTERRUPT}{id}")
}

/// Returns whether a request with this id stopped the current step of the agent.
pub(crate) fn is_interrupt_request(id: &str) -> bool {
    id.starts_with(INTERRUPT)
}

/// Parses the id of a message.
pub(crate) fn message_id(text: &str) -> Option<MessageId> {
    uuid::Uuid::try_parse(text).ok().map(MessageId)
}

/// Returns a JSON string.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
