//! `vik explain --json`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{IssueId, StageName};
use vik_core::intent::{Clause, Intent};
use vik_core::outcome::{FailureClass, Outcome};
use vik_core::trust::Trust;
use vik_core::turn::TurnOfMax;

use crate::{Daemon, DayView, LifeView, RunView};

/// The current status and the history of one issue.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The source of the answer: the running daemon, or the ledger if no daemon is running.
    pub daemon: Daemon,
    /// The issue.
    pub issue_id: IssueId,
    /// The title that the issue last had, also if only the history is known; empty if no title is
    /// known.
    #[serde(default)]
    pub issue_title: String,
    /// Its text; `null` if only the history is known.
    #[serde(default)]
    pub issue: Option<IssueDetails>,
    /// The current status; `null` if only the history is known.
    pub now: Option<Explanation>,
    /// The decisions, oldest first.
    pub decisions: Vec<DecisionView>,
    /// Its runs, oldest first.
    pub runs: Vec<RunView>,
}

/// The text of an issue as the tracker last had it. It is data of whoever wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IssueDetails {
    /// The description, at most 64 KiB of it.
    pub description: String,
    /// Whether the description is longer.
    pub is_cut: bool,
    /// The author, if the pull returned one.
    pub author: Option<String>,
    /// The time at which it was created, if the pull returned it.
    #[schemars(with = "Option<String>")]
    pub created_at: Option<Timestamp>,
}

/// The current status of an issue and its hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The issue.
    pub issue_id: IssueId,
    /// Its title.
    pub issue_title: String,
    /// Its state when it was last seen.
    pub issue_state: String,
    /// The address of the issue for people (`http` or `https`), if the pull returned one.
    #[serde(default)]
    pub issue_url: Option<String>,
    /// The labels, if the pull returned them.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The trust level of its text (`trust`).
    #[serde(default)]
    pub trust: Trust,
    /// Whether the last successful pull returned it.
    pub present: bool,
    /// Whether it is paused.
    pub paused: bool,
    /// The hold of the issue as a whole, if no stage matches or none can start.
    pub hold: Option<HoldView>,
    /// Its stages that match or that have a run, in file order.
    pub stages: Vec<StageView>,
    /// The totals of the issue's life.
    pub life: LifeView,
    /// Today.
    pub day: Option<DayView>,
    /// Why the workspace exists although the issue is finished or no longer listed.
    #[serde(default)]
    pub workspace: Option<String>,
    /// The number of messages of people that no agent has taken.
    #[serde(default)]
    pub messages_waiting: usize,
}

/// One stage of an issue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageView {
    /// The stage.
    pub stage: StageName,
    /// The current status.
    pub state: StageState,
    /// The run, if one has started.
    pub run_id: Option<String>,
    /// The running attempt.
    pub session_id: Option<String>,
    /// The turn of the conversation that the running attempt is in, in a stage with `turns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnOfMax>,
    /// The outcome of its last attempt.
    pub last_outcome: Option<Outcome>,
    /// The failure class of its last attempt.
    pub last_class: Option<FailureClass>,
    /// Attempts used in this run.
    pub attempts: u32,
    /// The maximum number of attempts of a run.
    pub max_attempts: u32,
    /// The hold. A running attempt has one while it waits for a person.
    pub hold: Option<HoldView>,
    /// The intent; `null` if it is invalid.
    #[serde(default)]
    pub intent: Option<StageIntentView>,
}

/// The scope, constraints and acceptance criteria of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageIntentView {
    /// Lists of globs; a path may be changed if each list matches it. `null` if all paths may be
    /// changed.
    pub scope: Option<Vec<Vec<String>>>,
    /// The constraints.
    pub constraints: Vec<String>,
    /// The acceptance criteria.
    pub acceptance: Vec<String>,
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

/// The status of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// An attempt is running.
    Running,
    /// It starts immediately.
    Ready,
    /// It will start automatically.
    Waiting,
    /// It will not start automatically.
    Held,
}

impl StageView {
    /// Returns the state in the words of `vik explain` and `vik top`: what a person can free is
    /// parked, unless it is taken over.
    pub fn state_label(&self) -> &'static str {
        match (self.state, &self.hold) {
            (StageState::Running, _) => "running",
            (StageState::Ready, _) => "ready",
            (StageState::Waiting, _) => "waiting",
            (StageState::Held, Some(hold)) if hold.reason == "taken_over" => "taken over",
            (StageState::Held, Some(hold)) if hold.freed_by.is_some() => "parked",
            (StageState::Held, _) => "held",
        }
    }
}

/// The reason why a stage does not start now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HoldView {
    /// A stable code in snake case.
    pub reason: String,
    /// A text for people.
    pub detail: String,
    /// The time since which it applies, if known.
    #[schemars(with = "Option<String>")]
    pub since: Option<Timestamp>,
    /// The time until which it applies, if known.
    #[schemars(with = "Option<String>")]
    pub until: Option<Timestamp>,
    /// The actions that end the hold, if time does not.
    pub freed_by: Option<String>,
    /// For `blocked`: the parked issue at the root of the chain of blockers, if any.
    #[serde(default)]
    pub root_cause: Option<RootCauseView>,
}

/// A parked issue that others wait for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RootCauseView {
    /// The issue.
    pub issue_id: IssueId,
    /// The parked stage.
    pub stage: StageName,
    /// The reason, as in `parked`.
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
    /// A stable code in snake case.
    pub kind: String,
    /// A text for people.
    pub detail: String,
}
