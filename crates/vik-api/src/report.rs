//! `vik report --json` and `GET /api/v1/report`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{AgentName, StageName};
use vik_core::outcome::{FailureClass, Outcome};

use crate::SpendView;

/// What was done in a span of time, and what it cost.
///
/// All figures are of the same attempts: those that were started in the span. What ended after it counts as under way.
/// So stages and parts of the series sum up to the total, and agents do but for `runs` (a run may have had two).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReportView {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// From when.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// Until when.
    #[schemars(with = "String")]
    pub until: Timestamp,
    /// All together.
    pub total: Figures,
    /// Issues that were worked on.
    pub issues: u64,
    /// Those of them that were done with well at its end: the last run of the issue succeeded, and none is open or parked.
    pub issues_succeeded: u64,
    /// What all attempts were charged, per succeeded issue; `null` where none succeeded or nothing has a cost.
    pub cost_per_succeeded_issue_usd: Option<f64>,
    /// By stage, in alphabetical order.
    pub stages: Vec<StageFigures>,
    /// By agent profile, in alphabetical order.
    pub agents: Vec<AgentFigures>,
    /// How attempts ended, the most frequent first.
    #[serde(default)]
    pub ends: Vec<EndFigures>,
    /// The span in equal parts, oldest first; the first and the last one may reach beyond it. Whole hours, days and weeks
    /// begin where they do in UTC.
    pub series: Vec<Part>,
    /// How long each part of the series is.
    pub part_ms: u64,
}

/// Sums over attempts that started in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Runs that had an attempt.
    pub runs: u64,
    /// Attempts.
    pub attempts: u64,
    /// Attempts that succeeded.
    pub succeeded: u64,
    /// Attempts that ended otherwise.
    pub failed: u64,
    /// What they were charged.
    pub spent: SpendView,
    /// How long those that ended took together, from start to end.
    pub duration_ms: u64,
    /// How long half of those that ended took at most; `null` where none ended.
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

/// How many attempts ended in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EndFigures {
    /// How.
    pub outcome: Outcome,
    /// Why, where they failed.
    pub failure_class: Option<FailureClass>,
    /// How many.
    pub attempts: u64,
}

/// One part of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// When it begins.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Attempts that started in it.
    pub started: u64,
    /// Attempts that ended well in it.
    pub succeeded: u64,
    /// Attempts that ended otherwise in it.
    pub failed: u64,
    /// What the attempts that ended in it were charged.
    pub spent: SpendView,
}
