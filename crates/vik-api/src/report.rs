//! `vik report --json` and `GET /api/v1/report`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{AgentName, StageName};

use crate::SpendView;

/// What was done in a span of time, and what it cost.
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
    /// Issues of which a run succeeded in the span, and none is parked at its end.
    pub issues_succeeded: u64,
    /// What all attempts cost, per succeeded issue; `null` where none succeeded or nothing has a cost.
    pub cost_per_succeeded_issue_usd: Option<f64>,
    /// By stage, in alphabetical order.
    pub stages: Vec<StageFigures>,
    /// By agent profile, in alphabetical order.
    pub agents: Vec<AgentFigures>,
    /// The span in equal parts, oldest first.
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
    /// How long attempts took together, from start to end.
    pub duration_ms: u64,
    /// How long half of them took at most; `null` where none ended.
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
