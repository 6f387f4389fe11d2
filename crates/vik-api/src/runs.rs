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
    /// Where it stands.
    pub state: RunState,
    /// How its last attempt ended.
    pub outcome: Option<Outcome>,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptView>,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// An attempt is under way.
    Running,
    /// The next attempt waits.
    Waiting,
    /// Parked.
    Parked,
    /// Over.
    Ended,
}

/// One attempt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Its number within the run.
    pub attempt: u32,
    /// Its id.
    pub session_id: String,
    /// How it ended; `null` while it runs.
    pub outcome: Option<Outcome>,
    /// Why it failed.
    pub failure_class: Option<FailureClass>,
    /// For people.
    pub reason: Option<String>,
    /// The agent's exit code.
    pub exit_code: Option<i32>,
    /// When it started.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// When it ended.
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Timestamp>,
    /// Its duration.
    pub duration_ms: Option<u64>,
    /// Its tokens.
    pub usage: Usage,
    /// Its cost.
    pub cost_usd: Option<f64>,
    /// Where the cost comes from.
    #[serde(default)]
    pub cost_source: CostSource,
    /// What it counts against the limits; `null` while it runs, and where the ledger does not have it.
    #[serde(default)]
    pub charged: Option<SpendView>,
    /// The session whose conversation it went on with.
    #[serde(default)]
    pub resumed_from: Option<String>,
    /// How the end of its processes is known.
    #[serde(default)]
    pub proof: Option<String>,
    /// Hooks that ran twice, since a death fell between the start of the hook and the record of its end.
    #[serde(default)]
    pub hooks_run_twice: Vec<String>,
    /// What it asked for, and what became of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<OutputView>,
    /// Its log.
    pub log: PathBuf,
}

/// Something that an agent asked Vik to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputView {
    /// `comment`, `label`, `state`, `pull_request` or `issue`.
    pub kind: String,
    /// `applying`, `applied`, `failed`, or `unknown`: it may be done.
    pub progress: String,
    /// By what it is known again within its run.
    pub key: String,
    /// What tells it from others, in one line.
    pub summary: String,
    /// Why it is not done, or why nobody can tell.
    #[serde(default)]
    pub detail: Option<String>,
}
