//! Progress events, for a person who watches the daemon.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use vik_core::approval::Request;
use vik_core::attempt::Start;
use vik_core::ids::{IssueId, RunId, StageName};
use vik_core::issue::{FieldWarning, Issue, Skipped};
use vik_core::limits::LimitHit;
use vik_core::machine::{ParkReason, RunEvent};
use vik_core::question::PendingQuestion;
use vik_core::workflow::{Edit, Workflow};
use vik_session::attempt::{AttemptEnd, Live};

#[derive(Debug)]
pub enum Progress<'a> {
    /// A pull returned a list of issues.
    Pulled {
        /// The number of valid items.
        issues: usize,
        skipped: &'a [Skipped],
        /// Fields of issues that have the wrong type.
        warnings: &'a BTreeSet<FieldWarning>,
    },
    PullFailed {
        error: &'a str,
        /// The time until the next pull.
        wait: Duration,
    },
    /// Something probably differs from what the user intended.
    Warning {
        text: &'a str,
    },
    Started(&'a Start, &'a Live),
    Ended(&'a Start, &'a AttemptEnd),
    /// A run changed its status.
    Note(&'a IssueId, &'a RunEvent),
    /// The messages that wait for an agent of the issue changed.
    Messages(&'a IssueId),
    /// An issue is parked. Sent in addition to the note about it.
    Parked(&'a Parked<'a>),
    /// A request waits for a person. Sent in addition to the note about it.
    Awaiting(&'a Awaiting<'a>),
    /// A question of an agent waits for a person. Sent in addition to the note about it.
    Asked(&'a Asked<'a>),
    /// The day's limit is reached. Sent once a day.
    DayLimit {
        day: Date,
        hit: LimitHit,
    },
    /// The workflow was edited.
    Reloaded {
        edits: &'a [Edit],
        /// The workflow that is now in force.
        workflow: &'a Arc<Workflow>,
    },
    /// The edited workflow is not valid: the previous one stays in force.
    EditRejected {
        first: &'a str,
    },
    /// Nothing can be stored any more: the daemon is ending.
    LedgerFailed {
        error: &'a str,
    },
    /// The daemon is ending the running attempts.
    Stopping {
        /// The number of running attempts.
        running: usize,
        /// Whether the attempts end without grace.
        force: bool,
    },
}

/// A run that does not start again until its issue changes or a person unparks it.
#[derive(Clone, Copy, Debug)]
pub struct Parked<'a> {
    /// The latest known snapshot of the issue.
    pub issue: &'a Issue,
    pub run: RunId,
    pub stage: &'a StageName,
    pub since: Timestamp,
    pub reason: ParkReason,
    /// The reason, for a person.
    pub detail: &'a str,
    /// The issues that this issue blocks, directly or through others.
    pub dependents: &'a [IssueId],
}

/// A request that waits for a person's approval.
#[derive(Clone, Copy, Debug)]
pub struct Awaiting<'a> {
    /// The latest known snapshot of the issue.
    pub issue: &'a Issue,
    pub run: RunId,
    pub stage: &'a StageName,
    pub request: &'a Request,
}

/// A question of an agent that waits for a person.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The latest known snapshot of the issue.
    pub issue: &'a Issue,
    pub run: RunId,
    pub stage: &'a StageName,
    pub question: &'a PendingQuestion,
}

pub trait Observer: Send {
    fn on_progress(&mut self, progress: &Progress<'_>);
}

/// Ignores all progress events.
#[derive(Debug)]
pub struct Silent;

impl Observer for Silent {
    fn on_progress(&mut self, _: &Progress<'_>) {}
}
