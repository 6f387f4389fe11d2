//! The event types. Their JSON is public: `docs/reference/vex-events.schema.json` is generated from
//! them, and later versions only add to it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::ExitReason;
use crate::conversation::Usage;
use crate::plan::Step;
use crate::skills::SkillOrigin;

/// What the run did.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Evidence {
    /// The changed files, relative to the workspace: written by tools, or part of a commit.
    pub files_changed: Vec<String>,
    /// Commits made during the run, oldest first.
    pub commits: Vec<Commit>,
    /// Commands that were run.
    pub commands: Vec<CommandRun>,
}

/// A commit made during the run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Commit {
    /// Its id.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
}

/// A command that was run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CommandRun {
    /// The shell command.
    pub command: String,
    /// The exit code; absent if it was stopped.
    pub exit_code: Option<i32>,
}

/// A run of the command of `--verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerifyRun {
    /// Which run it is, from 1.
    pub attempt: u32,
    /// The shell command.
    pub command: String,
    /// Whether it passed.
    pub ok: bool,
    /// The exit code; absent if it was stopped.
    pub exit_code: Option<i32>,
}

/// The setup of the run, for `session_start`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SessionStart<'a> {
    /// The id of the session, with which it can be resumed.
    pub session_id: &'a str,
    /// The model.
    pub model: &'a str,
    /// The version of vex.
    pub version: &'a str,
    /// The provider.
    pub provider: &'a str,
    /// The workspace.
    pub cwd: &'a str,
    /// The permission in force.
    pub permission: &'a str,
    /// The sandbox of commands: `landlock`, or `none: REASON`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<&'a str>,
    /// The session that was resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<&'a str>,
    /// The session that this one branched off from: `ID` or `ID@TURN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<&'a str>,
}

/// A skill that the model can load, for `skills`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListedSkill<'a> {
    /// Its name.
    pub name: &'a str,
    /// Who chose it.
    pub origin: SkillOrigin,
    /// Its folder.
    pub path: String,
    /// The SHA-256 of its SKILL.md, in hex.
    pub sha256: &'a str,
}

/// A call that waits for an answer on stdin, for `ask`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Question {
    /// The id, which the answer repeats.
    #[serde(rename = "ask")]
    pub id: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The command line, if the call runs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The paths of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Whether the tool changes files.
    pub writes: bool,
}

/// The size of a conversation before and after it was shortened, for `compaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Compacted {
    /// The approximate number of tokens of the request before.
    pub before_tokens: u64,
    /// The approximate number of tokens of the request after.
    pub after_tokens: u64,
    /// The number of messages that the summary replaced.
    pub dropped_messages: u64,
    /// The number of shortened tool results.
    pub shortened_results: u64,
    /// Whether the model wrote a part of the summary.
    pub by_model: bool,
}

/// What a `delta` is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum DeltaKind {
    /// A part of a message.
    Text,
    /// A part of the thinking of the model.
    Thinking,
}

/// An event of a run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// The run started.
    SessionStart(&'a SessionStart<'a>),
    /// Skills that the model can load. Follows `session_start`, if there are any.
    Skills {
        /// The skills, in the order of their origin and name.
        skills: &'a [ListedSkill<'a>],
    },
    /// The model sent text.
    Message {
        /// The text.
        text: &'a str,
    },
    /// The model sent its thinking.
    Reasoning {
        /// The text, or its summary.
        text: &'a str,
    },
    /// A part of an answer that is arriving, at most ten times a second. The whole text follows as `message` or
    /// `reasoning`, and only there is it complete: the end of a part may be missing here. A `retry` discards what
    /// arrived of its answer.
    Delta {
        /// Whether the part belongs to the answer or to the reasoning.
        kind: DeltaKind,
        /// The number of the part of the answer, from 0.
        block: u64,
        /// The text since the last `delta` of this part.
        text: &'a str,
    },
    /// An answer is arriving: text, thinking or the arguments of a tool call. Emitted at most four times a second; the
    /// answer itself follows when it is complete.
    Activity {
        /// The number of bytes that have arrived so far.
        received_bytes: u64,
    },
    /// A tool is about to run.
    ToolCall {
        /// The id of the call, which its result repeats.
        call_id: &'a str,
        /// The tool.
        tool: &'a str,
        /// The arguments as they arrived; a string if they are not JSON.
        input: &'a Value,
        /// Whether the call was repaired before it ran.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repaired: bool,
    },
    /// A tool returned a result.
    ToolResult {
        /// The id of the call.
        call_id: &'a str,
        /// Whether it failed: refused, not found, or a command that did not exit with 0.
        is_error: bool,
        /// The exit code, if a command ran.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Whether the permission, a rule or a hook refused it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied: bool,
        /// The output, with a limited length.
        output: &'a str,
    },
    /// With `--ask`: a call waits for `{"ask": ID, "decision": "allow"}` on stdin, or for `deny` with a `message` for the
    /// model.
    Ask(&'a Question),
    /// With `--messages`: the next request to the model contains a message of a person.
    MessageTaken {
        /// The id of the message, as the controlling program gave it.
        id: &'a str,
    },
    /// Tokens and cost of the run so far: totals, never deltas.
    Usage {
        /// The tokens.
        #[serde(flatten)]
        usage: Usage,
        /// The cost in USD, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The tokens of the last request and its answer: what the conversation takes of the context.
        context_used: u64,
        /// The maximum tokens of a request and its answer, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        context_window: Option<u64>,
    },
    /// The plan changed.
    Plan {
        /// The steps.
        steps: &'a [Step],
    },
    /// A request is retried.
    Retry {
        /// The number of the next try, from 2.
        attempt: u32,
        /// The wait before it, in milliseconds.
        delay_ms: u64,
        /// The reason.
        reason: &'a str,
    },
    /// The fallback model answers from now on.
    Fallback {
        /// The name of the model.
        model: &'a str,
    },
    /// Older parts of the conversation were shortened.
    Compaction(Compacted),
    /// The command of `--verify` ran.
    Verify {
        /// The result.
        #[serde(flatten)]
        run: &'a VerifyRun,
        /// The end of its output, if it failed.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        output: &'a str,
    },
    /// The model repeated itself or stopped too early, and got a correction.
    Guard {
        /// The finding: `same_call`, `same_error`, `ping_pong`, `no_change`, `empty_answer`, …
        kind: &'a str,
        /// The reason, or the message to the model.
        message: &'a str,
    },
    /// A warning; the run continues.
    Warning {
        /// The message.
        message: &'a str,
    },
    /// An error occurred.
    Error {
        /// The message.
        message: &'a str,
        /// Whether the run ends because of it.
        fatal: bool,
        /// The failure class of Vik, if it is certain: `rate_limit`, `overloaded`, `auth`, `model`, `context`, `network`,
        /// `usage`, `verify`.
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<&'a str>,
    },
    /// The run ended. Emitted exactly once, as the last event.
    End(Box<End<'a>>),
}

/// How a run ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct End<'a> {
    /// Whether the run succeeded.
    pub(super) ok: bool,
    /// The exit reason.
    pub(super) reason: ExitReason,
    /// The last message, or the reason for the failure.
    pub(super) message: Option<&'a str>,
    /// The exit code.
    pub(super) exit_code: u8,
    /// Tokens of this process.
    pub(super) usage: Usage,
    /// Cost in USD of this process, if it is known.
    pub(super) cost_usd: Option<f64>,
    /// The failure class of Vik, if the run failed and the class is certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<&'a str>,
    /// The final answer, if an output schema is set and the answer matches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<&'a Value>,
    /// What the run did.
    pub(super) evidence: &'a Evidence,
    /// Runs of the command of `--verify`.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(super) verify: &'a [VerifyRun],
    /// The number of answers of the model.
    pub(super) turns: u64,
    /// The number of repaired tool calls.
    pub(super) repaired_calls: u64,
    /// The duration of the run, in milliseconds.
    pub(super) duration_ms: u64,
}

/// One line of the output of `vex exec --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Envelope<'a> {
    /// The version of these events: 1.
    pub(super) v: u32,
    /// The number of the event, from 1, without gaps.
    pub(super) seq: u64,
    /// When it happened, in UTC, to the millisecond.
    #[schemars(with = "String")]
    pub(super) at: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub(super) event: &'a Event<'a>,
}

/// Returns the JSON Schema of a line of `vex exec --json`.
pub fn json_schema() -> Value {
    schemars::schema_for!(Envelope<'static>).to_value()
}
