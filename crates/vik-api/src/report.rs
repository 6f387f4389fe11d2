//! `vik report --json` and `GET /api/v1/report`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{AgentName, StageName};
use vik_core::outcome::{FailureClass, Outcome};

use crate::SpendView;

/// The work of a period of time and its cost.
///
/// All figures cover the same attempts: those that started in the period. Attempts that ended after
/// it count as running. Therefore stages and parts of the series add up to the total, and so do
/// agents, except for `runs` (a run can have two agents).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportView {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The start of the period.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// The end of the period.
    #[schemars(with = "String")]
    pub until: Timestamp,
    /// The totals.
    pub total: Figures,
    /// The number of issues with an attempt.
    pub issues: u64,
    /// The number of these issues that were finished successfully at the end of the period: the
    /// last run of the issue succeeded, and none is open or parked.
    pub issues_succeeded: u64,
    /// The charge of all attempts per succeeded issue; `null` if none succeeded or no cost is
    /// known.
    pub cost_per_succeeded_issue_usd: Option<f64>,
    /// By stage, in alphabetical order.
    pub stages: Vec<StageFigures>,
    /// By agent profile, in alphabetical order.
    pub agents: Vec<AgentFigures>,
    /// The outcomes of attempts, most frequent first.
    #[serde(default)]
    pub ends: Vec<EndFigures>,
    /// The period in equal parts, oldest first; the first and the last part may extend beyond it.
    /// Whole hours, days and weeks are aligned to UTC.
    pub series: Vec<Part>,
    /// The duration of each part of the series.
    pub part_ms: u64,
}

/// Totals of the attempts that started in a period of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Runs that had an attempt.
    pub runs: u64,
    /// Attempts.
    pub attempts: u64,
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts with any other outcome.
    pub failed: u64,
    /// Attempts that ended with a question, which is no failure.
    #[serde(default)]
    pub asked: u64,
    /// The charge of these attempts.
    pub spent: SpendView,
    /// The total duration of the ended attempts, each from its start to its end: with hooks, `verify`
    /// and waits for an approval.
    pub duration_ms: u64,
    /// The median of these durations; `null` if no attempt ended.
    pub median_duration_ms: Option<u64>,
}

/// The figures of one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageFigures {
    /// The stage.
    pub stage: StageName,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The figures of one agent profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentFigures {
    /// The profile.
    pub agent: AgentName,
    /// The figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The number of attempts with one outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndFigures {
    /// The outcome.
    pub outcome: Outcome,
    /// The failure class, if they failed.
    pub failure_class: Option<FailureClass>,
    /// The number of attempts.
    pub attempts: u64,
}

/// One part of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// The start of the part.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Attempts that started in it.
    pub started: u64,
    /// Attempts that succeeded in it.
    pub succeeded: u64,
    /// Attempts that ended in it with any other outcome.
    pub failed: u64,
    /// Attempts that ended in it with a question.
    #[serde(default)]
    pub asked: u64,
    /// The charge of the attempts that ended in it.
    pub spent: SpendView,
}
