//! The events of a session, in one form for all agents.
//!
//! Events borrow from the line they were parsed from, because the daemon maps millions of them.
//! Events that are read back from a log ([`LogLine`]) own their content.

mod kind;
mod log_line;
mod raw_json;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::kind::EventKind;
pub use self::log_line::{LogLine, LoggedEvent, OtherEvent};
pub use self::raw_json::RawJson;

use crate::ended::Ended;
use crate::ids::{AttemptId, MessageId};
use crate::limits::LimitHit;
use crate::outcome::{FailureClass, Usage};

/// One event of a session log, without its `seq` and `at`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The agent opened (or resumed) a conversation.
    SessionStarted {
        /// The provider's id of the conversation, to resume it.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_session_id: Option<Cow<'a, str>>,
        /// The agent's version, if reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_version: Option<Cow<'a, str>>,
        /// The model, if reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<Cow<'a, str>>,
    },
    /// Text of the agent.
    Message { text: Cow<'a, str> },
    /// Reasoning text of the model.
    Reasoning { text: Cow<'a, str> },
    /// A tool call was opened.
    ToolCall {
        /// Connects the call with its result.
        call_id: Cow<'a, str>,
        /// The tool, as named by the agent (`Bash`, `command_execution`, `file_change`,
        /// `mcp__srv__tool`).
        tool: Cow<'a, str>,
        /// The input as the agent printed it.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<RawJson<'a>>,
    },
    /// A tool call was closed.
    ToolResult {
        /// The call that it answers.
        call_id: Cow<'a, str>,
        /// Whether the tool failed or was refused.
        is_error: bool,
        /// The exit code, where the tool is a command.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i64>,
        /// The output, as text or as the agent printed it.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<ToolOutput<'a>>,
    },
    /// A sub-agent or background task of the agent changed its state.
    Subagent {
        /// The agent's id of the sub-agent.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        /// `started`, `updated`, `completed`, … as named by the agent.
        status: Cow<'a, str>,
        /// The description of its task.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<Cow<'a, str>>,
    },
    /// The usage of this attempt so far, as far as the agent reports it. Always a running total,
    /// never a difference.
    TokenUsage {
        /// The total of this attempt so far.
        usage: Usage,
        /// The cost of this attempt so far, where reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// The provider reported a rate limit.
    RateLimit {
        /// The provider's status, such as `allowed_warning` or `rejected`.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<Cow<'a, str>>,
        /// When the window resets, in seconds since the Unix epoch.
        #[serde(skip_serializing_if = "Option::is_none")]
        resets_at_unix: Option<i64>,
        /// The used part of the window, 0 to 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        utilization: Option<f64>,
    },
    /// A call of the agent waits for a permission, was allowed, or was denied.
    Approval {
        /// Who decided, in an event of Vik: `vik`, `scope`, `time limit`, or a person. Absent in an
        /// event of an agent.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Cow<'a, str>>,
        /// The tool that needs the permission.
        tool: Cow<'a, str>,
        decision: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<Cow<'a, str>>,
    },
    /// The agent reports an error.
    Error {
        message: Cow<'a, str>,
        /// Whether the agent gave up because of the error. A transient error (`Reconnecting...
        /// 2/5`) is not fatal.
        fatal: bool,
        /// The class, if certain.
        #[serde(skip_serializing_if = "Option::is_none")]
        failure_class: Option<FailureClass>,
        /// The HTTP status, if reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        http_status: Option<u16>,
    },
    /// A line of JSON that the adapter does not know. It is never dropped.
    Unknown { raw: RawJson<'a> },
    /// A line that is not JSON although JSON was expected, or that is too long. It does not end the
    /// attempt.
    Malformed {
        /// The line, or the start of a too long one; invalid UTF-8 is replaced.
        line: Cow<'a, str>,
        /// The length of a too long line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// The offset of a too long line in the raw file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    },
    /// The adapter's view of the end of the agent's work: evidence, not the end itself.
    Completed {
        /// Whether the agent reports success.
        ok: bool,
        /// The agent's last message, or its reason.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Cow<'a, str>>,
        /// The structured result, where the agent prints one.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<RawJson<'a>>,
        /// The reason for the end, as given by the provider.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Cow<'a, str>>,
    },
    /// The attempt resumes an earlier conversation; written by Vik.
    Resumed {
        /// The attempt that held the conversation.
        resumed_from: AttemptId,
        /// The provider's id of the conversation.
        provider_session_id: Cow<'a, str>,
    },
    /// The earlier conversation could not be resumed; written by Vik.
    ResumeFailed {
        /// The attempt that held the conversation.
        resumed_from: AttemptId,
        reason: Cow<'a, str>,
    },
    /// A limit is near, or reached; written by Vik.
    Limit {
        /// The limit and what was spent: money in millionths of a US dollar.
        #[serde(flatten)]
        hit: LimitHit,
        /// The used part in percent.
        percent: u64,
    },
    /// The result of an output that the agent requested; written by Vik.
    Output {
        /// `comment`, `label`, `state`, `pull_request` or `issue`; "" if the line is no output.
        output: Cow<'a, str>,
        /// `applied`; `skipped`: an earlier attempt of the run applied it; `failed`; `unknown`: it
        /// may have been applied; `refused`: it is not allowed, and no output of the attempt is
        /// applied.
        status: Cow<'a, str>,
        /// A one-line summary of the output.
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<Cow<'a, str>>,
        /// The key of the output.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<Cow<'a, str>>,
        /// The reason why it was not applied.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Cow<'a, str>>,
    },
    /// A message of a person to the agent; written by Vik.
    PersonMessage {
        id: MessageId,
        /// The person and the way they used.
        by: Cow<'a, str>,
        /// The text; "" in an event `taken` or `rejected`, which follows one with the text.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        text: Cow<'a, str>,
        /// When the person sent it.
        sent_at: Timestamp,
        /// `prompt`: the prompt of the attempt contains it; `sent`: it is in the input of the agent;
        /// `taken`: the next request to the model contains it; `rejected`: the agent refused it.
        state: Cow<'a, str>,
    },
    /// Another turn of the conversation in the same process; written by Vik when it sends the prompt.
    Turn {
        /// The number of the turn within the conversation, from 2.
        number: u32,
        /// The number of turns that the conversation may have.
        of: u32,
        /// The reason: `verify_failed` or `state_unchanged`.
        why: Cow<'a, str>,
        prompt: Cow<'a, str>,
    },
    /// The question with which the agent ended its turn; written by Vik.
    Question {
        question: Cow<'a, str>,
        /// The answers that the agent suggests.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<Cow<'a, str>>,
        /// The answer that the agent assumes if nobody answers in time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<Cow<'a, str>>,
    },
    /// The answer to a question of an earlier attempt, which the prompt contains; written by Vik.
    Answer {
        /// The attempt that asked.
        asked_by: AttemptId,
        question: Cow<'a, str>,
        answer: Cow<'a, str>,
        /// The person and the way they used, or the time limit.
        by: Cow<'a, str>,
        answered_at: Timestamp,
    },
    /// The last line of a session log; written by Vik.
    Ended(Ended),
}

impl Event<'_> {
    /// Returns whether the event shows that the model has answered.
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Message { .. } | Self::Reasoning { .. } | Self::ToolCall { .. } => true,
            Self::TokenUsage { usage, .. } => usage.total() > 0,
            _ => false,
        }
    }

    /// Creates a message of Vik that does not end the attempt.
    pub fn note(message: String) -> Self {
        Self::Error {
            message: message.into(),
            fatal: false,
            failure_class: None,
            http_status: None,
        }
    }
}

/// The output of a tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolOutput<'a> {
    Text(Cow<'a, str>),
    /// A value as the agent printed it.
    Raw(RawJson<'a>),
}
