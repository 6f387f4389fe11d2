//! The changes that must be on disk before their effects are carried out.
//!
//! The scheduler collects [`Changes`] while it decides. The ledger commits them in one transaction,
//! and only then are the effects carried out. At the next start the ledger returns [`Stored`].

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::attempt::AttemptResult;
use crate::decision_kind::DecisionKind;
use crate::ids::{AgentName, AttemptId, IssueId, RunId, StageName};
use crate::limits::{Charges, Spend};
use crate::machine::IssueMachine;
use crate::outcome::CostSource;
use crate::outputs::OutputNote;

/// The changes of one or more decisions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// The complete new machines: lifetime counters, runs, claims and parked stages follow from
    /// them.
    pub machines: Vec<IssueMachine>,
    /// The attempts that were started. Each is a claim until it has ended.
    pub started: Vec<StartedAttempt>,
    pub ended: Vec<EndedAttempt>,
    /// The runs that ended; their machines no longer contain them.
    pub runs_over: Vec<RunOver>,
    /// The sums of the changed days.
    pub days: Vec<(Date, Charges)>,
    /// Whether everything is paused, if that changed.
    pub paused: Option<bool>,
    /// The decisions, for `vik explain`.
    pub decisions: Vec<Decision>,
    /// What became known of outputs that a hub carries out, by their runs. No decision has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<(RunId, OutputNote)>,
}

/// An attempt that was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartedAttempt {
    /// The id of the attempt, also of its session log.
    #[serde(rename = "session")]
    pub attempt_id: AttemptId,
    pub run: RunId,
    pub issue: IssueId,
    pub stage: StageName,
    pub agent: AgentName,
    /// The number of the attempt within the run, from 1.
    pub attempt: u32,
    /// The attempt whose conversation it resumes.
    pub resumed_from: Option<AttemptId>,
    pub at: Timestamp,
}

/// An attempt that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedAttempt {
    #[serde(rename = "session")]
    pub attempt_id: AttemptId,
    pub at: Timestamp,
    pub report: AttemptResult,
    pub charged: Spend,
    /// The source of the charge.
    pub source: CostSource,
}

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOver {
    pub run: RunId,
    pub issue: IssueId,
    /// Whether its last attempt succeeded.
    pub succeeded: bool,
    pub at: Timestamp,
}

/// A decision as `vik explain` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub at: Timestamp,
    /// The issue; `None` for a decision about all issues.
    pub issue: Option<IssueId>,
    pub stage: Option<StageName>,
    pub run: Option<RunId>,
    #[serde(rename = "session")]
    pub attempt_id: Option<AttemptId>,
    pub kind: DecisionKind,
    pub detail: String,
}

/// The contents of the ledger from which a scheduler starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// The issues in use. The others stay in the ledger until a pull or a lookup returns one; see
    /// [`Recalled`](crate::scheduler::Recalled).
    pub machines: Vec<IssueMachine>,
    /// The sums of the latest days, newest last.
    pub days: Vec<(Date, Charges)>,
    /// Whether everything is paused.
    pub paused: bool,
}
