//! `vik runs --json`.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{IssueId, StageName};
use vik_core::outcome::{CostSource, FailureClass, Outcome, Usage};

use crate::SpendView;

/// The pursuit of one stage of one issue.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunView {
    /// Its id.
    pub run_id: String,
    /// The issue.
    pub issue_id: IssueId,
    /// The issue's title when the last attempt started.
    pub issue_title: String,
    /// The stage.
    pub stage: StageName,
    /// The current status.
    pub state: RunState,
    /// The outcome of its last attempt.
    pub outcome: Option<Outcome>,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptView>,
}

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// An attempt is running.
    Running,
    /// The next attempt is waiting.
    Waiting,
    /// The work is done. Its hand-over failed and is repeated, without another attempt.
    HandingOver,
    /// Parked.
    Parked,
    /// The run has ended.
    Ended,
}

/// One attempt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Its number within the run.
    pub attempt: u32,
    /// Its id.
    pub session_id: String,
    /// The number of its last turn within the conversation, in a stage with `turns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The outcome; `null` while it is running.
    pub outcome: Option<Outcome>,
    /// The reason of the failure.
    pub failure_class: Option<FailureClass>,
    /// A text for people.
    pub reason: Option<String>,
    /// Why the work is not handed over, if the attempt succeeded and an output or `after_run`
    /// failed.
    #[serde(default)]
    pub hand_over_failure: Option<String>,
    /// The agent's exit code.
    pub exit_code: Option<i32>,
    /// When it started.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// When it ended.
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Timestamp>,
    /// The time from its start to the proven end of its agent's processes.
    pub duration_ms: Option<u64>,
    /// Its tokens.
    pub usage: Usage,
    /// Its cost.
    pub cost_usd: Option<f64>,
    /// The source of the cost.
    #[serde(default)]
    pub cost_source: CostSource,
    /// The charge against the limits; `null` while it is running, or if the ledger has none.
    #[serde(default)]
    pub charged: Option<SpendView>,
    /// The session whose conversation it resumed.
    #[serde(default)]
    pub resumed_from: Option<String>,
    /// The proof that its processes have ended.
    #[serde(default)]
    pub proof: Option<String>,
    /// Hooks that ran twice, because the daemon died after the hook started and before its end was
    /// recorded.
    #[serde(default)]
    pub hooks_run_twice: Vec<String>,
    /// The requested outputs and their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputView>,
    /// The skills that its agent got.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<SkillView>,
    /// Its log.
    pub log: PathBuf,
    /// Whether its files were removed, by `vik prune` or because of their age. The log does not exist
    /// any more, and what only the files had is missing here.
    #[serde(default)]
    pub files_removed: bool,
}

/// A skill that an agent got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillView {
    /// The name of its folder.
    pub name: String,
    /// The SHA-256 of its files, in hexadecimal.
    pub sha256: String,
}

/// An output that an agent requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputView {
    /// `comment`, `label`, `state`, `pull_request` or `issue`.
    pub kind: String,
    /// `applying`, `applied`, `failed`, or `unknown` (it may have been applied).
    pub progress: String,
    /// The key that identifies it within its run.
    pub key: String,
    /// A one-line summary.
    pub summary: String,
    /// The reason for `failed` or `unknown`.
    #[serde(default)]
    pub detail: Option<String>,
}
