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
    /// What kind of agent it is: `codex`, `claude_code`, `vex`, `command`.
    pub runtime: String,
    /// The model, where the profile names one.
    pub model: Option<String>,
    /// How it went.
    pub attempt: AttemptView,
    /// What it does now; `null` where it is over.
    pub live: Option<SessionView>,
    /// The prompt the agent was given; `null` where it came to none.
    pub prompt: Option<Excerpt>,
    /// What Vik ran around the agent, and what that printed, in the order of a run.
    pub scripts: Vec<ScriptView>,
}

/// A hook, `verify`, or the commands of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptView {
    /// `after_create`, `before_run`, `verify`, `after_run`, ….
    pub name: String,
    /// Whether it came to its end; `null`: it was begun, and its end is not known.
    pub ok: Option<bool>,
    /// Why it failed.
    pub reason: Option<String>,
    /// What it printed.
    pub output: Option<Excerpt>,
}

/// A text that may be very long: its end, for what is printed; its start, for what is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Excerpt {
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// How many bytes are left out.
    pub left_out: u64,
}

/// `GET /api/v1/sessions/{id}/diff`: what the issue's workspace has that the commit it began with does not.
///
/// The workspace is looked at now, not as it was when the attempt ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiffView {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The commit it is compared with; `null` where there is no diff.
    pub base: Option<String>,
    /// The files, by path.
    pub files: Vec<FileDiff>,
    /// How many more files there are than are shown.
    pub files_left_out: usize,
    /// Why there is no diff, or only a part of it.
    pub note: Option<String>,
}

/// How one file changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDiff {
    /// Its path in the repository; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// What happened to it.
    pub change: FileChange,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
    /// The hunks of a unified diff, from the first `@@` on; `null` where the file is binary or too large.
    pub patch: Option<String>,
}

/// What happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// It is new, and git is told of it or not.
    Added,
    /// Its content or mode is another.
    Modified,
    /// It is gone.
    Deleted,
}

/// A thing that the feed tells of: `GET /api/v1/events`, each as the `data` of one event of its `type`.
///
/// The feed tells *that* something changed. What it is now stands under `state`, `issues/{id}` and `sessions/{id}`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Fact {
    /// Something was missed, or nothing can be told of what was before: load everything anew.
    Reset,
    /// What the daemon is doing, what is paused, or the workflow changed: load the state anew.
    State,
    /// A pull ended.
    Pulled {
        /// Whether it brought a list.
        ok: bool,
        /// Good items.
        issues: usize,
    },
    /// An attempt is under way, or does something new. At most a few times a second for each.
    Session(Box<SessionView>),
    /// An attempt ended.
    SessionEnded {
        /// The attempt.
        session_id: String,
        /// The issue.
        issue_id: IssueId,
        /// The stage.
        stage: StageName,
        /// How: `succeeded`, `failed`, ….
        outcome: String,
        /// In a person's words.
        reason: Option<String>,
    },
    /// A run moved on: it is parked, freed, waits, or is over.
    Issue {
        /// The issue.
        issue_id: IssueId,
        /// What happened, in a person's words.
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
