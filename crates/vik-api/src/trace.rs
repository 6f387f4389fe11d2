//! The output of `vik trace … --json`. `vik trace export` uses the schema of Agent Trace instead.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{AgentName, AttemptId, IssueId, RunId, StageName};

/// An attempt that changed files, or a person who did so after they had taken the issue over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedAttempt {
    /// Its position in the trace, from 1.
    pub seq: u64,
    /// When it was recorded.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The issue.
    pub issue_id: IssueId,
    /// The title of the issue.
    pub intent: String,
    /// The stage.
    pub stage: StageName,
    /// The run.
    #[schemars(with = "String")]
    pub run_id: RunId,
    /// Its number in its run.
    pub attempt: u32,
    /// Its session.
    #[schemars(with = "String")]
    pub session_id: AttemptId,
    /// The agent's profile.
    pub agent: AgentName,
    /// The person who made the changes after they had taken the issue over from the agent; absent
    /// for changes of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The agent.
    pub runtime: String,
    /// The model, if the profile names one.
    pub model: Option<String>,
    /// The commit that was checked out at its end.
    pub revision: Option<String>,
}

/// The changes of one attempt: an entry of `vik trace log --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceEntry {
    /// The attempt.
    #[serde(flatten)]
    pub attempt: TracedAttempt,
    /// The hash of the record.
    pub hash: String,
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
    /// The files.
    pub files: Vec<TracedFile>,
    /// Paths that could not be read; changes below them are unknown.
    pub unseen: Vec<String>,
}

/// A file that an attempt changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedFile {
    /// Its path; a path that is not UTF-8 is quoted as in git.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed` or `type_changed`.
    pub change: String,
    /// Its previous path, if it was renamed.
    pub from: Option<String>,
    /// The number of added lines.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
    /// Whether its lines are unknown because it is binary, a link or too large.
    pub whole: bool,
    /// `RENAME`, `FORMATTING`, `AST_REFACTOR` or `INTENT_EVOLUTION`, if known.
    pub class: Option<String>,
}

/// Who wrote a file: `vik trace blame --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlameView {
    /// The version of this format.
    pub schema: u32,
    /// The file's path in the workspace.
    pub path: String,
    /// The issue whose workspace was read.
    pub issue_id: Option<IssueId>,
    /// Its lines, grouped by author. Empty if the lines are unknown.
    pub lines: Vec<BlamedLines>,
    /// The last author, if the lines are unknown.
    pub whole: Option<Author>,
}

/// Some lines of one author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlamedLines {
    /// The first one, from 1.
    pub start: u64,
    /// The last one.
    pub end: u64,
    /// Who wrote them.
    #[serde(flatten)]
    pub author: Author,
}

/// Who wrote something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "author", rename_all = "snake_case")]
pub enum Author {
    /// An attempt.
    Attempt(Box<TracedAttempt>),
    /// Not an attempt: it existed before, or a hook or a person wrote it.
    Outside,
    /// Unknown, because a required snapshot is no longer stored.
    Unknown,
}

/// The result of `vik trace verify --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceCheck {
    /// The version of this format.
    pub schema: u32,
    /// Whether the trace is intact.
    pub ok: bool,
    /// The number of intact records, from the first one in the file.
    pub records: u64,
    /// The number of records before it, which `retention.trace` removed.
    #[serde(default)]
    pub removed: u64,
    /// The hash of the last of them.
    pub head: Option<String>,
    /// The first invalid record, if any.
    pub broken: Option<BrokenRecord>,
    /// Whether the last append was interrupted; the next append removes the remainder.
    pub cut_off: bool,
}

/// An invalid record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenRecord {
    /// Its line in the file, from 1.
    pub line: u64,
    /// The error.
    #[serde(rename = "what")]
    pub problem: String,
}

/// The changes for one issue: an entry of `vik trace map --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntentView {
    /// The issue.
    pub issue_id: IssueId,
    /// The title of the issue.
    pub intent: String,
    /// The number of attempts that changed files.
    pub attempts: u64,
    /// The agents of these attempts.
    pub agents: Vec<AgentName>,
    /// The models, if known.
    pub models: Vec<String>,
    /// The files.
    pub files: Vec<IntentFile>,
}

/// The changes of one file for an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntentFile {
    /// Its path after the last attempt.
    pub path: String,
    /// The number of attempts that changed it.
    pub changes: u64,
    /// The number of added lines in all attempts.
    pub added: u64,
    /// The number of removed lines.
    pub removed: u64,
    /// The number of changes of each class; `null` for those of unknown class.
    pub classes: BTreeMap<String, u64>,
    /// Whether the file was deleted at the end.
    pub deleted: bool,
}
