//! `vik explain --json`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{IssueId, StageName};
use vik_core::intent::{Clause, Intent};
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::trust::Trust;

use crate::{Daemon, DayView, LifeView, RunView};

/// All that is known about one issue: where it stands, and what led there.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// Who answered: a running daemon, or, where none runs, the ledger it left.
    pub daemon: Daemon,
    /// The issue.
    pub issue_id: IssueId,
    /// Where it stands; `null` where only its past is known.
    pub now: Option<Explanation>,
    /// What was decided, oldest first.
    pub decisions: Vec<DecisionView>,
    /// Its runs, oldest first.
    pub runs: Vec<RunView>,
}

/// Where an issue stands, and what holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The issue.
    pub issue_id: IssueId,
    /// Its title.
    pub issue_title: String,
    /// Its state when it was last seen.
    pub issue_state: String,
    /// Where people see it (`http` or `https`), where the pull tells.
    #[serde(default)]
    pub issue_url: Option<String>,
    /// Its labels, where the pull tells them.
    #[serde(default)]
    pub labels: Vec<String>,
    /// What its text may do (`trust`).
    #[serde(default)]
    pub trust: TrustView,
    /// Whether the last good pull brought it.
    pub present: bool,
    /// Whether a person paused it.
    pub paused: bool,
    /// What holds it as a whole, where no stage matches or none could start.
    pub hold: Option<HoldView>,
    /// Its stages that match or that have a run, in file order.
    pub stages: Vec<StageView>,
    /// Its whole life.
    pub life: LifeView,
    /// Today.
    pub day: Option<DayView>,
}

/// One stage of an issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageView {
    /// The stage.
    pub stage: StageName,
    /// Where it stands.
    pub state: StageState,
    /// The run, where one has begun.
    pub run_id: Option<String>,
    /// The attempt under way.
    pub session_id: Option<String>,
    /// How its last attempt ended.
    pub last_outcome: Option<Outcome>,
    /// Why that one failed.
    pub last_class: Option<FailureClass>,
    /// Attempts used in this run.
    pub attempts: u32,
    /// Attempts that a run may have.
    pub max_attempts: u32,
    /// What holds it.
    pub hold: Option<HoldView>,
    /// What it is to do, and where; `null` where that cannot be followed.
    #[serde(default)]
    pub intent: Option<StageIntentView>,
}

/// What an attempt is to do, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageIntentView {
    /// Lists of globs, each of which must take a path that may be changed; `null`: no path is forbidden.
    pub scope: Option<Vec<Vec<String>>>,
    /// What must hold while it is done.
    pub constraints: Vec<String>,
    /// What must hold when it is done.
    pub acceptance: Vec<String>,
}

/// What the text of an issue may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrustView {
    /// It is read as it is.
    #[default]
    Trusted,
    /// It stands in prompts as data, in a fence.
    Fenced,
    /// It starts nothing.
    Held,
}

impl From<Trust> for TrustView {
    fn from(trust: Trust) -> Self {
        match trust {
            Trust::Trusted => Self::Trusted,
            Trust::Fenced => Self::Fenced,
            Trust::Held => Self::Held,
        }
    }
}

impl From<&Intent> for StageIntentView {
    fn from(intent: &Intent) -> Self {
        let texts = |clauses: &[Clause]| clauses.iter().map(|clause| clause.text.clone()).collect();
        Self {
            scope: intent.scope.clone().map(Into::into),
            constraints: texts(&intent.constraints),
            acceptance: texts(&intent.acceptance),
        }
    }
}

/// Where a stage stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// An attempt is under way.
    Running,
    /// It starts at once.
    Ready,
    /// It will start by itself.
    Waiting,
    /// It will not start by itself.
    Held,
}

/// What holds a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HoldView {
    /// Stable, snake case.
    pub reason: String,
    /// For people.
    pub detail: String,
    /// Since when, where that is known.
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// Until when, where that is known.
    #[schemars(with = "Option<String>")]
    pub until: Option<Timestamp>,
    /// What would free it, where time does not.
    pub freed_by: Option<String>,
    /// For `blocked`: the parked issue that all of it waits for in the end, where there is one.
    #[serde(default)]
    pub root_cause: Option<RootCauseView>,
}

/// A parked issue that others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RootCauseView {
    /// The issue.
    pub issue_id: IssueId,
    /// Its stage that is parked.
    pub stage: StageName,
    /// Why, as in `parked`.
    pub reason: String,
}

/// One recorded decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DecisionView {
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The stage.
    pub stage: Option<StageName>,
    /// The run.
    pub run_id: Option<String>,
    /// The attempt.
    pub session_id: Option<String>,
    /// Stable, snake case.
    pub kind: String,
    /// For people.
    pub detail: String,
}
