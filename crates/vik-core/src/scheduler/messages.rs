//! What the scheduler is told, and what it asks for.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::approval::{self, Request};
use crate::ids::{AttemptId, IssueId, RunId, StageName};
use crate::intent::Intent;
use crate::issue::Issue;
use crate::limits::{Limit, LimitHit, Spend};
use crate::machine::{Answered, AttemptResult, RunEvent};
use crate::money::MicroUsd;
use crate::outcome::Usage;
use crate::workflow::{Stage, Workflow};

/// What the scheduler is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A pull begins. A pull that fails has no other input: it changes nothing.
    PullStarted,
    /// The pull that began last ended well and brought these issues, in pull order.
    Pulled(Vec<Issue>),
    /// The pull that began last ended well and brought what the good one before it did. Only where
    /// [`Scheduler::knows_pull`](super::Scheduler::knows_pull): it is the same as [`Input::Pulled`], for next to nothing.
    PulledUnchanged,
    /// An attempt ended: its process tree is gone.
    Ended {
        /// The issue it was for.
        issue: IssueId,
        /// The attempt.
        attempt_id: AttemptId,
        /// How.
        report: AttemptResult,
    },
    /// An attempt has spent this much so far: a running total of the attempt.
    Spent {
        /// The issue it is for.
        issue: IssueId,
        /// The attempt.
        attempt_id: AttemptId,
        /// The total so far.
        spend: Spend,
    },
    /// An attempt waits for a person, or does no longer.
    ApprovalPending {
        /// The issue it is for.
        issue: IssueId,
        /// The attempt.
        attempt_id: AttemptId,
        /// With what.
        request: Option<Box<Request>>,
    },
    /// The answer to [`Effect::Show`].
    LookupFinished {
        /// The issue.
        issue: IssueId,
        /// What was seen.
        result: LookupResult,
    },
    /// These issues have a workspace on disk; told once, at the start.
    Workspaces(Vec<IssueId>),
    /// The answer to [`Effect::RemoveWorkspace`]: whether it is gone. One that stays is not asked for again until the
    /// issue changes.
    WorkspaceRemoved {
        /// The issue.
        issue: IssueId,
        /// Whether it is gone.
        removed: bool,
    },
    /// The machine is too busy to start more, and why; `None`: it is not.
    Pressure(Option<String>),
    /// The workflow was edited, and the new one is good.
    Reloaded(Arc<Workflow>),
    /// A person asks for something; [`Effect::Answer`] carries the same number.
    Command(u64, Command, Actor),
    /// Time has passed.
    Tick,
    /// Start nothing more: Vik is stopping.
    Drain,
}

/// What a look at one issue showed.
#[derive(Clone, Debug)]
pub enum LookupResult {
    /// It is there.
    Snapshot(Box<Issue>),
    /// The tracker does not have it any more.
    Missing,
    /// The look failed: nothing is known.
    Unknown,
}

/// Who asks, as decisions tell it: "a person", with how they came where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(Box<str>);

impl Actor {
    /// A person who came this way, as in `vik cancel, user 1000`.
    pub fn person(via: &str) -> Self {
        Self(format!("a person ({via})").into())
    }

    /// A part of Vik itself.
    pub fn component(name: &str) -> Self {
        Self(name.into())
    }
}

impl Default for Actor {
    fn default() -> Self {
        Self("a person".into())
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a person can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start nothing for this issue, or at all. What runs goes on.
    Pause(Option<IssueId>),
    /// Take that back.
    Resume(Option<IssueId>),
    /// Stop what runs for the issue, and end its runs: they begin anew when the issue changes or is unparked.
    Cancel(IssueId),
    /// Free what is parked, and allow this many attempts more (`None`: one more run of the stage).
    Unpark(IssueId, Option<u32>),
    /// Answer what waits for a person.
    Answer(ApprovalReply),
    /// Start nothing more, and end when nothing runs.
    Drain,
}

/// A person's answer to what waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalReply {
    /// The issue.
    pub issue: IssueId,
    /// The stage; `None`: the only one that waits.
    pub stage: Option<StageName>,
    /// The request that the person has seen; `None`: whichever it is.
    pub request: Option<String>,
    /// What is said.
    pub answer: approval::Answer,
}

/// What came of an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// It is done: so many attempts, runs or issues were touched.
    Done(usize),
    /// No such issue is known.
    UnknownIssue,
    /// There was nothing to do, and why.
    NoEffect(&'static str),
}

/// What the scheduler asks for.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Start this attempt. The slot is already taken.
    Start(Box<Start>),
    /// Stop this attempt.
    Stop {
        /// The attempt.
        attempt_id: AttemptId,
        /// Why.
        why: StopReason,
    },
    /// Tell this attempt what a person says to what it waits with.
    DeliverAnswer {
        /// The attempt.
        attempt_id: AttemptId,
        /// To which request, and what.
        answered: Answered,
    },
    /// A limit is near (80 %): say so in the attempt's log.
    Warn {
        /// The attempt.
        attempt_id: AttemptId,
        /// The limit.
        limit: LimitHit,
    },
    /// Look at this issue again; answered by [`Input::Shown`].
    LookUp(IssueId),
    /// Its work is over: remove its workspace as the workflow says; answered by [`Input::WorkspaceRemoved`].
    RemoveWorkspace(Box<Issue>),
    /// The answer to an [`Input::Ask`].
    CommandResult(u64, CommandResult),
    /// Pull soon: something ended, and what it did is to be seen.
    Pull,
    /// Something happened to a run of this issue.
    RunEvent(IssueId, RunEvent),
}

/// Why an attempt is stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The issue left the stage's state (`on_state_change: cancel`).
    StateChanged,
    /// The issue is in a terminal state, and the grace is over.
    Terminal,
    /// The tracker does not have the issue any more.
    #[serde(rename = "gone")]
    Missing,
    /// A person asked for it.
    Cancelled,
    /// A limit was crossed: the outcome is `over_budget`.
    OverBudget(LimitHit),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StateChanged => f.write_str("the issue left the state of the stage"),
            Self::Terminal => f.write_str("the issue is done with"),
            Self::Missing => f.write_str("the tracker does not have the issue any more"),
            Self::Cancelled => f.write_str("a person cancelled it"),
            Self::OverBudget(limit) => write!(f, "over budget: {limit}"),
        }
    }
}

/// The conversation that an attempt goes on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// The attempt that it was.
    #[serde(rename = "session")]
    pub attempt_id: AttemptId,
    /// The provider's id of it, as that attempt told. It is text from an agent: checked before use.
    pub provider_session_id: String,
    /// What the conversation had used, in all attempts before this one.
    pub total: Usage,
    /// What it had cost in them, as far as the agent reported it.
    #[serde(default)]
    pub cost: MicroUsd,
}

/// All that is needed to start an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The snapshot it is started from.
    pub issue: Issue,
    /// The stage; an attempt keeps the one it started with.
    pub stage: Stage,
    /// The run.
    pub run: RunId,
    /// The attempt's own id, also the name of its session log.
    #[serde(rename = "session")]
    pub attempt_id: AttemptId,
    /// Its number within the run, from 1.
    pub attempt: u32,
    /// How the attempt before it ended.
    pub previous: Option<AttemptResult>,
    /// The conversation it goes on with.
    #[serde(default)]
    pub resume: Option<Resume>,
    /// What may be spent at most, by the limits of attempt, issue and day together: for agents that keep a limit
    /// themselves.
    #[serde(default)]
    pub budget: Limit,
    /// What it is to do, and where, as it was when it started.
    #[serde(default)]
    pub intent: Intent,
    /// Whether the issue's text stands in its prompt in a fence.
    #[serde(default)]
    pub fenced: bool,
    /// What the person who let it start says to the agent.
    #[serde(default)]
    pub message: Option<String>,
}

/// Restricts what may start (`--issue`, `--stage`); empty lists allow all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Issues that may start.
    pub issues: Vec<IssueId>,
    /// Stages that may start.
    pub stages: Vec<StageName>,
}

impl Filter {
    pub(super) fn allows(&self, issue: &IssueId, stage: &StageName) -> bool {
        (self.issues.is_empty() || self.issues.contains(issue))
            && (self.stages.is_empty() || self.stages.contains(stage))
    }
}
