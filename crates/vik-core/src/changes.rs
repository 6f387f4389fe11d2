//! What must be on disk before what was decided is done.
//!
//! The scheduler gathers [`Changes`] while it decides; the ledger commits them in one transaction, and only then are the
//! effects carried out. What the ledger gives back at the next start is [`Stored`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::ids::{AgentName, AttemptId, IssueId, RunId, StageName};
use crate::limits::Spend;
use crate::machine::{AttemptResult, IssueMachine};
use crate::outcome::CostSource;

/// Everything that one or more decisions changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// Machines as they now are, whole: life counters, runs, claims and parked entries follow from them.
    pub machines: Vec<IssueMachine>,
    /// Attempts that were decided on. Each is a claim until it has ended.
    pub started: Vec<StartedAttempt>,
    /// Attempts that ended.
    pub ended: Vec<EndedAttempt>,
    /// Runs that are over; their machines do not have them any more.
    pub runs_over: Vec<RunOver>,
    /// What was spent on these days so far, in all.
    pub days: Vec<(Date, Spend)>,
    /// Whether everything is paused, where that changed.
    pub paused: Option<bool>,
    /// Why, for `vik explain`.
    pub decisions: Vec<Decision>,
}

/// An attempt that was decided on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedAttempt {
    /// The attempt, which is also its session log's id.
    #[serde(rename = "session")]
    pub attempt_id: AttemptId,
    /// Its run.
    pub run: RunId,
    /// The issue.
    pub issue: IssueId,
    /// The stage.
    pub stage: StageName,
    /// The agent profile.
    pub agent: AgentName,
    /// Its number within the run, from 1.
    pub attempt: u32,
    /// The attempt whose conversation it goes on with.
    pub resumed_from: Option<AttemptId>,
    /// When.
    pub at: Timestamp,
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedAttempt {
    /// The attempt.
    #[serde(rename = "session")]
    pub attempt_id: AttemptId,
    /// When.
    pub at: Timestamp,
    /// What was told.
    pub report: AttemptResult,
    /// What it was charged.
    pub charged: Spend,
    /// Where the charge comes from.
    pub source: CostSource,
}

/// A run that is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOver {
    /// The run.
    pub run: RunId,
    /// The issue.
    pub issue: IssueId,
    /// Whether its last attempt succeeded.
    pub succeeded: bool,
    /// When.
    pub at: Timestamp,
}

/// One decision, in words that `vik explain` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub at: Timestamp,
    /// The issue; `None` is about all of them.
    pub issue: Option<IssueId>,
    /// The stage it is about.
    pub stage: Option<StageName>,
    /// The run it is about.
    pub run: Option<RunId>,
    /// The attempt it is about.
    #[serde(rename = "session")]
    pub attempt_id: Option<AttemptId>,
    /// What was decided: a stable name in snake case, such as `started`, `parked`, `backing_off`.
    pub kind: String,
    /// Why, for people.
    pub detail: String,
}

/// What the ledger knew when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// Every machine that was ever stored.
    pub machines: Vec<IssueMachine>,
    /// What was spent on the latest days, newest last.
    pub days: Vec<(Date, Spend)>,
    /// The parts of all charges that are estimates.
    pub estimates: Estimates,
    /// Whether everything is paused.
    pub paused: bool,
}

/// Sums of the parts of charges that are estimates. They follow from the attempts that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimates {
    /// By day (UTC).
    pub days: BTreeMap<Date, Spend>,
    /// By issue, in its whole life.
    pub issues: BTreeMap<IssueId, Spend>,
}
