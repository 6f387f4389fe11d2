//! What an agent that is listened to says between its lines: that it asks, and what it waits for.
//!
//! Such an agent reads its standard input to its end. What Vik tells it there follows from what it printed, and nothing
//! else: from the same lines come the same words, in the same order. So whoever reads them again knows what was told.

use std::path::Path;

use vik_core::approval::Call;

/// What an agent wants of Vik.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentRequest {
    /// This line belongs on its standard input.
    Send(String),
    /// It waits for a verdict on a call.
    Approval(ApprovalRequest),
    /// It waits for that verdict no more.
    Withdraw {
        /// The [`Ask`]'s.
        id: String,
    },
    /// It has done its work: its input ends.
    Close,
    /// It cannot be held to what it was told: it must be stopped.
    ProtocolError(String),
}

/// A call that waits for a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The agent's name of the question.
    pub id: String,
    /// What it is about to do, with paths as the agent wrote them.
    pub call: Call,
    /// Whether the paths of the call are to be changed; a scope says nothing on those that are only read.
    pub writes: bool,
    /// How each line begins that answers this and nothing else: where one stands, there is an answer.
    pub answer_prefix: String,
}

/// What is said to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It goes on as if nobody had been asked. No permission that it needs beside is given.
    Allow,
    /// It does not run, and the model is told this.
    Refuse(&'a str),
}

/// What an agent must be told before it begins, where that is done on its standard input.
#[derive(Clone, Copy, Debug)]
pub struct InitialInput<'a> {
    /// The prompt.
    pub prompt: &'a str,
    /// The issue workspace.
    pub workdir: &'a Path,
    /// The conversation to resume, where it is one.
    pub resume: Option<&'a str>,
    /// Whether the process runs in Vik's sandbox.
    pub in_sandbox: bool,
}

/// A JSON string.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
