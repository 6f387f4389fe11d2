//! The output of `vik trace … --json`. `vik trace export` uses the schema of Agent Trace instead.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{AgentName, AttemptId, IssueId, RunId, StageName};

/// An attempt that changed something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedAttempt {
    /// Its place in the trace, from 1.
    pub seq: u64,
    /// When it was recorded.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The issue.
    pub issue_id: IssueId,
    /// What was wanted: the issue's title.
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
    /// The agent.
    pub runtime: String,
    /// The model, where the profile names one.
    pub model: Option<String>,
    /// The commit that was checked out when it had ended.
    pub revision: Option<String>,
}

/// What an attempt changed: one of `vik trace log --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceEntry {
    /// The attempt.
    #[serde(flatten)]
    pub attempt: TracedAttempt,
    /// The hash of the record.
    pub hash: String,
    /// Lines that came.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// The files.
    pub files: Vec<TracedFile>,
    /// What could not be looked at: what changed below is not known.
    pub unseen: Vec<String>,
}

/// A file that an attempt changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedFile {
    /// Its path; one that is no UTF-8 is quoted as git does.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed` or `type_changed`.
    pub change: String,
    /// Its path before, where it was renamed.
    pub from: Option<String>,
    /// Lines that came.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// Whether no lines can be told of it: it is binary, a link, or too big.
    pub whole: bool,
    /// `RENAME`, `FORMATTING`, `AST_REFACTOR` or `INTENT_EVOLUTION`, where that can be told.
    pub class: Option<String>,
}

/// Who wrote a file: `vik trace blame --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlameView {
    /// The version of this format.
    pub schema: u32,
    /// The file's path in the workspace.
    pub path: String,
    /// The issue in whose workspace it was looked at.
    pub issue_id: Option<IssueId>,
    /// Its lines, those of one author together. Empty where no lines can be told.
    pub lines: Vec<BlamedLines>,
    /// Who changed it last, where no lines can be told of it.
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
    /// Nobody that Vik ran: it was there before, or a hook or a person wrote it.
    Outside,
    /// It cannot be told: a content that would tell is not kept any more.
    Unknown,
}

/// Whether the trace holds: `vik trace verify --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceCheck {
    /// The version of this format.
    pub schema: u32,
    /// Whether it does.
    pub ok: bool,
    /// How many records hold, from the first one.
    pub records: u64,
    /// The hash of the last of them.
    pub head: Option<String>,
    /// The first that does not, if any.
    pub broken: Option<BrokenRecord>,
    /// Whether the last append was cut off by a death; the next one clears that away.
    pub cut_off: bool,
}

/// A record that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokenRecord {
    /// Its line in the file, from 1.
    pub line: u64,
    /// What is wrong.
    #[serde(rename = "what")]
    pub problem: String,
}

/// What was changed for an issue: one of `vik trace map --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntentView {
    /// The issue.
    pub issue_id: IssueId,
    /// What was wanted: its title.
    pub intent: String,
    /// How many attempts changed something.
    pub attempts: u64,
    /// The agents that did.
    pub agents: Vec<AgentName>,
    /// The models, where they are known.
    pub models: Vec<String>,
    /// The files.
    pub files: Vec<IntentFile>,
}

/// What was changed in a file for an issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IntentFile {
    /// Its path, as the last attempt left it.
    pub path: String,
    /// In how many attempts it was changed.
    pub changes: u64,
    /// Lines that came, over all of them.
    pub added: u64,
    /// Lines that went.
    pub removed: u64,
    /// How often each class of change was told; `null` stands for those that could not be told.
    pub classes: BTreeMap<String, u64>,
    /// Whether it was gone at last.
    pub deleted: bool,
}
