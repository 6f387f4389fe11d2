//! What happens in a session, in words that are the same for every agent.
//!
//! Events borrow from the line they were read from: the daemon maps millions of them.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::ids::AttemptId;
use crate::limits::LimitHit;
use crate::outcome::{CostSource, FailureClass, Outcome, Usage};

/// One event of a session log, without its `seq` and `at`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The agent opened (or resumed) a conversation.
    SessionStarted {
        /// The provider's id of the conversation, to resume it.
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_session_id: Option<Cow<'a, str>>,
        /// The agent's own version, where it tells.
        #[serde(skip_serializing_if = "Option::is_none")]
        agent_version: Option<Cow<'a, str>>,
        /// The model that is used, where it tells.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<Cow<'a, str>>,
    },
    /// Text the agent says.
    Message {
        /// The text.
        text: Cow<'a, str>,
    },
    /// Text the model thinks.
    Reasoning {
        /// The text.
        text: Cow<'a, str>,
    },
    /// A tool call was opened.
    ToolCall {
        /// Joins it with its result.
        call_id: Cow<'a, str>,
        /// The tool, in the agent's own words (`Bash`, `command_execution`, `file_change`, `mcp__srv__tool`).
        tool: Cow<'a, str>,
        /// Its input as the agent printed it.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<&'a RawValue>,
    },
    /// A tool call was closed.
    ToolResult {
        /// The call it answers.
        call_id: Cow<'a, str>,
        /// Whether the tool failed or was refused.
        is_error: bool,
        /// The exit code, where the tool is a command.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i64>,
        /// What it gave, as text or as the agent printed it.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<ToolOutput<'a>>,
    },
    /// A sub-agent or background task of the agent changed its state.
    Subagent {
        /// The agent's id of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<Cow<'a, str>>,
        /// `started`, `updated`, `completed`, … in the agent's own words.
        status: Cow<'a, str>,
        /// What it is for.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<Cow<'a, str>>,
    },
    /// The usage of this attempt so far, as far as the agent reports it. Always a running total, never a delta.
    TokenUsage {
        /// The total of this attempt so far.
        usage: Usage,
        /// The cost of this attempt so far, where reported.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// The provider told about a rate limit.
    RateLimit {
        /// In the provider's words, as `allowed_warning` or `rejected`.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<Cow<'a, str>>,
        /// When the window resets, in seconds since the Unix epoch.
        #[serde(skip_serializing_if = "Option::is_none")]
        resets_at_unix: Option<i64>,
        /// How much of the window is used, 0 to 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        utilization: Option<f64>,
    },
    /// A call of the agent waits for a permission, has it, or was refused.
    Approval {
        /// Who says so, where it is Vik's line: `vik`, `scope`, `time limit`, or a person. Absent where an agent told it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Cow<'a, str>>,
        /// The tool that asked.
        tool: Cow<'a, str>,
        /// `requested`, `denied`, `approved`.
        decision: Cow<'a, str>,
        /// More about it.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<Cow<'a, str>>,
    },
    /// The agent reports an error.
    Error {
        /// The agent's words.
        message: Cow<'a, str>,
        /// Whether the agent gave up because of it. A transient error (`Reconnecting... 2/5`) is not fatal.
        fatal: bool,
        /// Its class, where it is sure.
        #[serde(skip_serializing_if = "Option::is_none")]
        failure_class: Option<FailureClass>,
        /// The HTTP status behind it, where told.
        #[serde(skip_serializing_if = "Option::is_none")]
        http_status: Option<u16>,
    },
    /// A line of JSON that the adapter does not know. Never lost.
    Unknown {
        /// The whole value.
        raw: &'a RawValue,
    },
    /// A line that is not JSON where JSON was expected, or that is too long to be read. It ends nothing.
    Malformed {
        /// The line, or the start of one that is too long; bytes that are not UTF-8 are replaced.
        line: Cow<'a, str>,
        /// The length of a line that is too long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// Where a line that is too long begins in the raw file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    },
    /// The adapter's view of how the agent's work ended. Evidence, not the end.
    Completed {
        /// Whether the agent says it succeeded.
        ok: bool,
        /// The agent's last message, or its reason.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Cow<'a, str>>,
        /// The structured result, where the agent gives one.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        /// The provider's reason for the end, in its own words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Cow<'a, str>>,
    },
    /// The attempt goes on with an earlier conversation; written by Vik.
    Resumed {
        /// The attempt whose conversation it is.
        resumed_from: AttemptId,
        /// The provider's id of the conversation.
        provider_session_id: Cow<'a, str>,
    },
    /// The earlier conversation could not be gone on with; written by Vik.
    ResumeFailed {
        /// The attempt whose conversation it was.
        resumed_from: AttemptId,
        /// Why.
        reason: Cow<'a, str>,
    },
    /// A limit is near, or reached; written by Vik.
    Limit {
        /// The limit and what was spent: money in millionths of a US dollar.
        #[serde(flatten)]
        hit: LimitHit,
        /// How much of it is used, in percent.
        percent: u64,
    },
    /// What became of something that the agent asked for; written by Vik.
    Output {
        /// `comment`, `label`, `state`, `pull_request` or `issue`; "" where its line is none.
        output: Cow<'a, str>,
        /// `applied`; `skipped`: an earlier attempt of the run had it done; `failed`; `unknown`: it may be done, and nobody can
        /// tell; `refused`: it is not allowed, and none of the attempt's is done.
        status: Cow<'a, str>,
        /// What tells it from others, in one line.
        #[serde(skip_serializing_if = "Option::is_none")]
        summary: Option<Cow<'a, str>>,
        /// By what it is known again.
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<Cow<'a, str>>,
        /// Why it is not done.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Cow<'a, str>>,
    },
    /// Always the last line of a session log; written by Vik.
    Ended(Ended),
}

impl Event<'_> {
    /// Whether the event shows that the agent's model has answered.
    pub fn is_answer(&self) -> bool {
        match self {
            Self::Message { .. } | Self::Reasoning { .. } | Self::ToolCall { .. } => true,
            Self::TokenUsage { usage, .. } => usage.total() > 0,
            _ => false,
        }
    }

    /// Something that Vik has to say, which ended nothing.
    pub fn note(message: String) -> Self {
        Self::Error {
            message: message.into(),
            fatal: false,
            failure_class: None,
            http_status: None,
        }
    }
}

/// The kinds of events that Vik writes on its own account; all others tell what the agent printed.
pub const OWN_KINDS: [&str; 5] = ["resumed", "resume_failed", "limit", "output", "ended"];

/// What a tool gave back.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum ToolOutput<'a> {
    /// Plain text.
    Text(Cow<'a, str>),
    /// A value as the agent printed it.
    Raw(&'a RawValue),
}

/// How an attempt ended; the last line of its session log.
#[derive(Clone, Debug, PartialEq, Serialize, serde::Deserialize)]
pub struct Ended {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, where it failed.
    pub failure_class: Option<FailureClass>,
    /// The agent's exit code, where it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended the agent, where one did.
    pub signal: Option<i32>,
    /// From the start of the attempt to the proven end of its process tree, in milliseconds.
    pub duration_ms: u64,
    /// Tokens of this attempt.
    pub usage: Usage,
    /// Cost of this attempt in USD, where known.
    pub cost_usd: Option<f64>,
    /// Where the cost comes from.
    pub cost_source: CostSource,
    /// In a person's words: why it failed, with what it printed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The agent's last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
    /// The provider's id of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_session_id: Option<String>,
    /// Whether a commit or a file of the workspace changed during the attempt; absent where it could not be told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_changed: Option<bool>,
    /// How the end of the process tree was proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}
