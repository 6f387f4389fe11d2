//! The event types. Their JSON is public: `docs/reference/vex-events.schema.json` is generated from
//! them, and later versions only add to it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::ExitReason;
use crate::conversation::Usage;
use crate::tools::plan::Step;

/// What the run really did.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Evidence {
    /// Paths below the workspace: written by tools, or part of a commit.
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
    /// Its exit code; absent where it was stopped.
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
    /// Its exit code; absent where it was stopped.
    pub exit_code: Option<i32>,
}

/// How the run is set up, for `session_start`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SessionStart<'a> {
    /// The id of the session, which can go on under it.
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
    /// What holds commands to the permission: `landlock`, or `none: REASON`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<&'a str>,
    /// The session that goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<&'a str>,
    /// The session that this one branched off from: `ID` or `ID@TURN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<&'a str>,
}

/// A call that waits for an answer on stdin, for `ask`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Question {
    /// Joins it with its answer.
    #[serde(rename = "ask")]
    pub id: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// The line for the shell, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The paths that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Whether the tool changes files.
    pub writes: bool,
}

/// How much of a conversation was left out, for `compaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Compacted {
    /// Tokens of the request before, about.
    pub before_tokens: u64,
    /// Tokens of the request after, about.
    pub after_tokens: u64,
    /// Messages that are now told by the summary.
    pub dropped_messages: u64,
    /// Tool results that are now shorter.
    pub shortened_results: u64,
    /// Whether the model wrote a part of the summary.
    pub by_model: bool,
}

/// What happens in a run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// The run begins.
    SessionStart(&'a SessionStart<'a>),
    /// The model said something.
    Message {
        /// The words.
        text: &'a str,
    },
    /// The model thought something.
    Reasoning {
        /// The words, or their summary.
        text: &'a str,
    },
    /// An answer is arriving: text, thinking or the arguments of a tool call. Written while it streams, at most four
    /// times a second; the answer itself follows when it is whole.
    Activity {
        /// How much of the answer arrived so far, in bytes.
        received_bytes: u64,
    },
    /// A tool is about to run.
    ToolCall {
        /// Joins it with its result.
        call_id: &'a str,
        /// The tool.
        tool: &'a str,
        /// Its arguments as they came; a text where they are no JSON.
        input: &'a Value,
        /// Whether the call was mended before it ran.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repaired: bool,
    },
    /// A tool gave something back.
    ToolResult {
        /// The call it answers.
        call_id: &'a str,
        /// Whether it failed: refused, not found, or a command that did not exit with 0.
        is_error: bool,
        /// The exit code, where a command ran.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Whether the permission, a rule or a hook refused it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied: bool,
        /// What it gave, bounded.
        output: &'a str,
    },
    /// With `--ask`: a call is about to be made, and waits for `{"ask": ID, "decision": "allow"}` on stdin, or `deny` with a
    /// `message` for the model.
    Ask(&'a Question),
    /// Tokens and cost of the run so far: totals, never deltas.
    Usage {
        /// The tokens.
        #[serde(flatten)]
        usage: Usage,
        /// The cost in USD, where it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
    },
    /// The plan is another one.
    Plan {
        /// Its steps.
        steps: &'a [Step],
    },
    /// A request is tried again.
    Retry {
        /// Which try comes next, from 2.
        attempt: u32,
        /// How long is waited before it, in milliseconds.
        delay_ms: u64,
        /// Why.
        reason: &'a str,
    },
    /// The fallback model answers from now on.
    Fallback {
        /// Its name.
        model: &'a str,
    },
    /// Older parts of the conversation were made shorter.
    Compaction(Compacted),
    /// The command of `--verify` ran.
    Verify {
        /// How it went.
        #[serde(flatten)]
        run: &'a VerifyRun,
        /// The end of its output, where it failed.
        #[serde(default, skip_serializing_if = "str::is_empty")]
        output: &'a str,
    },
    /// The model went in circles or stopped too early, and was told so.
    Guard {
        /// What was seen: `same_call`, `same_error`, `ping_pong`, `no_change`, `empty_answer`, …
        kind: &'a str,
        /// What the model is told.
        message: &'a str,
    },
    /// Something that a person should know; the run goes on.
    Warning {
        /// What.
        message: &'a str,
    },
    /// Something went wrong.
    Error {
        /// What.
        message: &'a str,
        /// Whether the run ends because of it.
        fatal: bool,
        /// A failure class of Vik, where it is sure: `rate_limit`, `overloaded`, `auth`, `model`, `context`, `network`,
        /// `usage`, `verify`.
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<&'a str>,
    },
    /// The run ended. Always there, once, and last.
    End(Box<End<'a>>),
}

/// How a run ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct End<'a> {
    /// Whether it is done.
    pub(super) ok: bool,
    /// How it ended.
    pub(super) reason: ExitReason,
    /// The last message, or why it failed.
    pub(super) message: Option<&'a str>,
    /// The exit code.
    pub(super) exit_code: u8,
    /// Tokens of this process.
    pub(super) usage: Usage,
    /// Cost in USD of this process, where it is known.
    pub(super) cost_usd: Option<f64>,
    /// A failure class of Vik, where it failed and that is sure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) class: Option<&'a str>,
    /// The final answer, where it had to fit a schema and does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<&'a Value>,
    /// What it really did.
    pub(super) evidence: &'a Evidence,
    /// Runs of the command of `--verify`.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(super) verify: &'a [VerifyRun],
    /// Answers of the model.
    pub(super) turns: u64,
    /// Tool calls that were mended.
    pub(super) repaired_calls: u64,
    /// From the start to the end, in milliseconds.
    pub(super) duration_ms: u64,
}

/// One line of the output of `vex exec --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Envelope<'a> {
    /// The version of these events: 1.
    pub(super) v: u32,
    /// The number of the event, from 1, without gaps.
    pub(super) seq: u64,
    /// What happened.
    #[serde(flatten)]
    pub(super) event: &'a Event<'a>,
}

/// Returns the JSON Schema of a line of `vex exec --json`.
pub fn json_schema() -> Value {
    schemars::schema_for!(Envelope<'static>).to_value()
}
