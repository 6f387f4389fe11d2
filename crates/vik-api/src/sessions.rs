//! One attempt, for clients.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{AgentName, IssueId, StageName};

use crate::{AttemptView, SessionView};

/// `GET /api/v1/sessions/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SessionDetail {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The run.
    pub run_id: String,
    /// The issue.
    pub issue_id: IssueId,
    /// Its title when the attempt started.
    pub issue_title: String,
    /// The stage.
    pub stage: StageName,
    /// The agent profile.
    pub agent: AgentName,
    /// The runtime of the agent: `codex`, `claude_code`, `vex`, `command`.
    pub runtime: String,
    /// The model, if the profile names one.
    pub model: Option<String>,
    /// The result.
    pub attempt: AttemptView,
    /// The live status; `null` after its end.
    pub live: Option<SessionView>,
    /// The prompt of the agent; `null` if none was rendered.
    pub prompt: Option<Excerpt>,
    /// The scripts that Vik ran before and after the agent, with their output, in the order of a
    /// run.
    pub scripts: Vec<ScriptView>,
}

/// A hook, `verify`, or the commands of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptView {
    /// `after_create`, `before_run`, `verify`, `after_run`, ….
    pub name: String,
    /// Whether it succeeded; `null` if it started and its end is unknown.
    pub ok: Option<bool>,
    /// The reason of the failure.
    pub reason: Option<String>,
    /// How long it took, in milliseconds; `null` until its end is recorded.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// Its output.
    pub output: Option<Excerpt>,
}

/// A part of a text that can be very long: the end of an output, or the start of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The number of omitted bytes.
    pub left_out: u64,
}

/// `GET /api/v1/sessions/{id}/diff`: what the attempt changed, also after its workspace was removed.
/// `GET /api/v1/issues/{id}/diff`: the branch of the issue against the commit at which it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffView {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The commit that is compared; `null` without git. The changes of an attempt can be compared
    /// with more than that: with the files that its agent found.
    pub base: Option<String>,
    /// The branch that is checked out, if it is known: `vik/7`.
    #[serde(default)]
    pub branch: Option<String>,
    /// The commits since the base, oldest first; of more than 100, the latest.
    #[serde(default)]
    pub commits: Vec<CommitView>,
    /// The number of commits that are not shown.
    #[serde(default)]
    pub commits_left_out: usize,
    /// The files, by path.
    pub files: Vec<FileDiff>,
    /// The number of files that are not shown.
    pub files_left_out: usize,
    /// The reason why there is no diff, or only a part of it.
    pub note: Option<String>,
}

/// A commit, as git has it. Its author and time are claims of whoever created it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitView {
    /// The object id, in hexadecimal digits.
    pub id: String,
    /// The first line of its message.
    pub subject: String,
    /// The name of its author.
    pub author: String,
    /// The time of its author.
    #[schemars(with = "String")]
    pub at: Timestamp,
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// Its path in the repository; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The kind of change.
    pub change: FileChange,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// The hunks of a unified diff, from the first `@@`; empty if only the mode changed. `null` if
    /// the file is binary or too large, or its content is no longer stored.
    pub patch: Option<String>,
}

/// The kind of change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// The file is new, tracked by git or not.
    Added,
    /// Its content or mode changed.
    Modified,
    /// The file was deleted.
    Deleted,
}

/// A fact on the feed (`GET /api/v1/events`): the `data` of one event of its `type`.
///
/// The feed reports *that* something changed. Get the new values from `state`, `issues/{id}` and
/// `sessions/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Fact {
    /// Events were missed or are no longer available: load everything again.
    Reset,
    /// The status of the daemon, the pauses or the workflow changed: load the state again.
    State,
    /// A pull ended.
    Pulled {
        /// Whether it returned a list.
        ok: bool,
        /// Valid items.
        issues: usize,
    },
    /// A running attempt has new activity. Sent at most a few times per second for each attempt.
    Session(Box<SessionView>),
    /// An attempt ended.
    SessionEnded {
        /// The attempt.
        session_id: String,
        /// The issue.
        issue_id: IssueId,
        /// The stage.
        stage: StageName,
        /// The outcome: `succeeded`, `failed`, ….
        outcome: String,
        /// A text for people.
        reason: Option<String>,
    },
    /// The status of a run changed: it was parked or freed, waits, or ended.
    Issue {
        /// The issue.
        issue_id: IssueId,
        /// What happened, as a text for people.
        #[serde(rename = "what")]
        description: String,
    },
}

/// One event of the feed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FeedEvent {
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub fact: Fact,
}
