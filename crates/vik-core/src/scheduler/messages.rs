//! The inputs and effects of the scheduler.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Recalled;
use crate::approval::{self, Request};
use crate::attempt::{AttemptResult, HandOverFailure, Start, StopReason};
use crate::ids::{AttemptId, IssueId, MessageId, StageName};
use crate::issue::Issue;
use crate::limits::{LimitHit, Spend};
use crate::machine::{Answered, RunEvent};
use crate::message::{Message, MessageRefusal, NewMessage, Withdrawal};
use crate::question::{AnswerRefusal, NewAnswer};
use crate::turn::{EndedTurn, GrantedTurn};
use crate::worker::Workers;
use crate::workflow::Workflow;

/// An input of the scheduler.
#[derive(Clone, Debug)]
pub enum Input {
    /// A pull started. A pull that fails has no further input: it changes nothing.
    PullStarted,
    /// The last started pull succeeded.
    Pulled {
        /// The issues, in pull order.
        issues: Vec<Issue>,
        /// What the ledger has of those that
        /// [`Scheduler::unknown`](super::Scheduler::unknown) names. One that is missing here is
        /// left to the next pull.
        recalled: Recalled,
    },
    /// The last started pull succeeded and returned the same as the successful one before it.
    /// Allowed only where
    /// [`Scheduler::can_skip_unchanged_pull`](super::Scheduler::can_skip_unchanged_pull) returns
    /// true: it has the effect of [`Input::Pulled`] at almost no cost.
    PulledUnchanged,
    /// An attempt ended: its process tree has exited.
    Ended {
        /// The issue of the attempt.
        issue: IssueId,
        attempt_id: AttemptId,
        report: AttemptResult,
    },
    /// The response to [`Effect::HandOver`].
    HandOverEnded {
        issue: IssueId,
        /// The attempt that did the work.
        attempt_id: AttemptId,
        result: Result<(), HandOverFailure>,
    },
    /// The running total of what an attempt has spent.
    Spent {
        /// The issue of the attempt.
        issue: IssueId,
        attempt_id: AttemptId,
        /// The total so far.
        spend: Spend,
    },
    /// An attempt waits for a person, or no longer does.
    ApprovalPending {
        /// The issue of the attempt.
        issue: IssueId,
        attempt_id: AttemptId,
        request: Option<Box<Request>>,
    },
    /// The agent of an attempt has taken these messages. Ids of other messages are ignored.
    MessagesTaken {
        /// The issue of the attempt.
        issue: IssueId,
        attempt_id: AttemptId,
        messages: Vec<MessageId>,
    },
    /// The agent of an attempt came to the end of a turn and waits for input; answered by
    /// [`Effect::GrantTurn`] or [`Effect::RefuseTurn`]. A recovered attempt may repeat it.
    TurnEnded {
        /// The issue of the attempt.
        issue: IssueId,
        attempt_id: AttemptId,
        ended: EndedTurn,
    },
    /// The response to [`Effect::LookUp`].
    LookupFinished {
        issue: IssueId,
        result: LookupResult,
        /// What the ledger has of the issue, if
        /// [`Scheduler::is_unknown`](super::Scheduler::is_unknown).
        recalled: Recalled,
    },
    /// The issues that have a workspace on disk; sent once, at the start.
    Workspaces(Vec<IssueId>),
    /// The response to [`Effect::RemoveWorkspace`]. A workspace that was kept is not removed until
    /// the issue changes.
    WorkspaceRemoved {
        issue: IssueId,
        /// Whether the workspace was removed.
        removed: bool,
    },
    /// Data is older than the workflow keeps it; [`Effect::RemoveWorkspace`] or
    /// [`Effect::RemoveExpired`] follows, unless something still uses it.
    Expired(Expired),
    /// The response to [`Effect::RemoveExpired`].
    ExpiredRemoved(Expired),
    /// A person had the issue moved back to the state of a stage, so that the stage runs again.
    MovedBack {
        issue: IssueId,
        stage: StageName,
        from: String,
        to: String,
        by: Actor,
    },
    /// The number of sessions for which the process may open files. Without this input, their
    /// number is not limited.
    MaxSessions(u32),
    /// The present list of workers, complete each time. From the first one on, attempts run only on
    /// workers; it is sent before the first pull, even if no worker is known yet.
    Workers(Workers),
    /// The machine is too busy to start more, with the reason; `None` if it is not.
    Pressure(Option<String>),
    /// The workflow was edited, and the new one is valid.
    Reloaded(Arc<Workflow>),
    /// A command of a person; [`Effect::CommandResult`] carries the same number.
    Command(u64, Command, Actor),
    Tick,
    /// Vik is stopping: start nothing more.
    Drain,
}

/// Why a workspace is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemovalCause {
    /// The issue is finished: `issue.remove_workspace` applies.
    Finished,
    /// No pull has listed the issue for the time of `issue.unlisted`. Unsaved work is kept.
    Unlisted,
}

/// Data that is older than the workflow keeps it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expired {
    /// The workspace of an issue that pulls no longer list (`issue.unlisted`).
    Workspace(IssueId),
    /// The scratch folder of an issue (`retention.scratch`).
    Scratch(IssueId),
    /// The session files of an issue (`retention.sessions`).
    Sessions(IssueId),
    /// Ended attempts in the ledger (`retention.ledger`).
    History,
    /// The oldest records of the trace (`retention.trace`).
    Trace,
}

impl Input {
    /// Returns the input for a pull of issues that the ledger does not have.
    pub fn pulled_new(issues: Vec<Issue>) -> Self {
        let recalled = Recalled::new(issues.iter().map(|issue| issue.id.clone()), Vec::new());
        Self::Pulled { issues, recalled }
    }
}

/// The result of looking up one issue.
#[derive(Clone, Debug)]
pub enum LookupResult {
    Snapshot(Box<Issue>),
    /// The tracker no longer has the issue.
    Missing,
    /// The lookup failed: nothing is known.
    Unknown,
}

/// Who issued a command, as decisions record it: "a person", with the way they used where that is
/// known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Actor(Box<str>);

impl Actor {
    /// Returns a person who used this way, as in `vik cancel, user 1000`.
    pub fn person(via: &str) -> Self {
        Self(format!("a person ({via})").into())
    }

    /// Returns the same on another host.
    #[must_use]
    pub fn on(&self, host: &str) -> Self {
        Self(format!("{self} on {host}").into())
    }

    /// Returns a component of Vik itself.
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

/// A command of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Start nothing for this issue, or for all. Running attempts continue.
    Pause(Option<IssueId>),
    Resume(Option<IssueId>),
    /// Stop the attempts of the issue, and park its runs until the issue changes or is retried.
    Cancel(IssueId),
    Retry(RetryRequest),
    /// Answer an approval request.
    Answer(ApprovalReply),
    /// Answer the question of an agent.
    AnswerQuestion(NewAnswer),
    /// Send a message to the agent of the issue: the running one, or the next one.
    SendMessage(NewMessage),
    /// Withdraw a message that no agent has taken.
    WithdrawMessage(Withdrawal),
    /// Hold the issue for a person: nothing of it starts.
    TakeOver(TakeOver),
    /// End the hold of a person on the issue.
    HandBack(HandBack),
    /// Start nothing more, and exit when nothing runs.
    Drain,
}

impl Command {
    /// Returns the issue of the command; `None` if it is about all issues.
    pub fn issue(&self) -> Option<&IssueId> {
        match self {
            Self::Pause(issue) | Self::Resume(issue) => issue.as_ref(),
            Self::Cancel(issue) => Some(issue),
            Self::Retry(request) => Some(&request.issue),
            Self::Answer(reply) => Some(&reply.issue),
            Self::AnswerQuestion(answer) => Some(&answer.issue),
            Self::SendMessage(message) => Some(&message.issue),
            Self::WithdrawMessage(withdrawal) => Some(&withdrawal.issue),
            Self::TakeOver(request) => Some(&request.issue),
            Self::HandBack(request) => Some(&request.issue),
            Self::Drain => None,
        }
    }
}

/// A request to free the parked stages of an issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryRequest {
    pub issue: IssueId,
    /// The only stage to free; `None` for every parked one.
    pub stage: Option<StageName>,
    /// The minimum number of further attempts; `None` for as many as a run of the stage has.
    pub attempts: Option<u32>,
    /// Whether finished work that could not be handed over is done again, instead of being handed
    /// over.
    pub agent: bool,
}

/// A request to hold an issue for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeOver {
    pub issue: IssueId,
    /// The stage whose conversation the person continues; `None` for the one that runs or ran last.
    pub stage: Option<StageName>,
    /// Whether running attempts may end first, instead of being stopped.
    pub wait: bool,
}

/// A request to end the hold of a person on an issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandBack {
    pub issue: IssueId,
    /// The person's message to the agent.
    pub message: Option<String>,
    /// The paths of the files that changed meanwhile.
    pub files: Vec<String>,
}

/// A person's answer to an approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalReply {
    pub issue: IssueId,
    /// The stage; `None` for the only one that waits.
    pub stage: Option<StageName>,
    /// The request that the person has seen; `None` for any.
    pub request: Option<String>,
    pub answer: approval::Answer,
}

/// The result of a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandResult {
    /// The command was applied to this many attempts, runs or issues.
    Done(usize),
    /// The issue is unknown.
    UnknownIssue,
    /// Neither the workflow nor a run of the issue has this stage.
    UnknownStage {
        stage: StageName,
        /// The stages of the workflow.
        known: Vec<StageName>,
    },
    /// There was nothing to do, with the reason.
    NoEffect(&'static str),
    /// The message is sent: it waits until an agent takes it.
    Sent(Box<Message>),
    /// The message was not sent, or not withdrawn.
    Refused(MessageRefusal),
    /// The answer to a question was not accepted.
    AnswerRefused(AnswerRefusal),
}

/// An effect that the scheduler requests.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Start this attempt, on the worker that it names. The slot is already taken.
    Start(Box<Start>),
    Stop {
        attempt_id: AttemptId,
        why: StopReason,
    },
    /// Carry out the outputs of this attempt that are not done, and then its `after_run`; answered
    /// by [`Input::HandOverEnded`]. It needs no slot.
    HandOver(Box<Start>),
    /// Deliver a person's answer to this attempt.
    DeliverAnswer {
        attempt_id: AttemptId,
        /// The request and its answer.
        answered: Answered,
    },
    /// Deliver a person's message to this attempt. It waits until [`Input::MessagesTaken`].
    DeliverMessage {
        attempt_id: AttemptId,
        message: Message,
    },
    /// Give the agent of this attempt the prompt of another turn.
    GrantTurn {
        attempt_id: AttemptId,
        granted: GrantedTurn,
    },
    /// End the input of the agent of this attempt: nothing follows this turn in its process.
    RefuseTurn {
        attempt_id: AttemptId,
        /// The number of the turn that has ended.
        turn: u32,
    },
    /// A limit is near (80 %): write a warning to the attempt's log.
    Warn {
        attempt_id: AttemptId,
        limit: LimitHit,
    },
    /// Look up this issue; answered by [`Input::LookupFinished`].
    LookUp(IssueId),
    /// Remove the workspace of the issue as the workflow says; answered by
    /// [`Input::WorkspaceRemoved`].
    RemoveWorkspace(Box<Issue>, RemovalCause),
    /// Remove data that was last used before this time; answered by [`Input::ExpiredRemoved`].
    RemoveExpired(Expired, Timestamp),
    /// The response to [`Input::Command`].
    CommandResult(u64, CommandResult),
    /// Pull soon: an attempt ended, and its changes must be seen.
    Pull,
    /// An event of a run of this issue.
    RunEvent(IssueId, RunEvent),
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
