//! What a person in front of the daemon is told as it happens.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use vik_core::approval::Request;
use vik_core::ids::{IssueId, RunId, StageName};
use vik_core::issue::{FieldWarning, Issue, Skipped};
use vik_core::limits::LimitHit;
use vik_core::machine::{ParkReason, RunEvent};
use vik_core::scheduler::Start;
use vik_core::workflow::{Edit, Workflow};

use crate::session::{AttemptEnd, Live};

/// One thing that happened.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A pull brought a list.
    Pulled {
        /// Good items.
        issues: usize,
        /// Bad ones.
        skipped: &'a [Skipped],
        /// Fields of issues that are not of their type.
        warnings: &'a BTreeSet<FieldWarning>,
    },
    /// A pull failed.
    PullFailed {
        /// Why.
        error: &'a str,
    },
    /// Something is most likely not as it is meant.
    Warning {
        /// What, in one line.
        text: &'a str,
    },
    /// An attempt started.
    Started(&'a Start, &'a Live),
    /// An attempt ended.
    Ended(&'a Start, &'a AttemptEnd),
    /// A run moved on.
    Note(&'a IssueId, &'a RunEvent),
    /// An issue is parked; told beside the note that says so.
    Parked(&'a Parked<'a>),
    /// Something waits for a person; told beside the note that says so.
    Awaiting(&'a Awaiting<'a>),
    /// What may be spent today is spent; told once a day.
    DayLimit {
        /// The day (UTC).
        day: Date,
        /// The limit.
        hit: LimitHit,
    },
    /// The workflow was edited.
    Reloaded {
        /// How.
        edits: &'a [Edit],
        /// What is in force now.
        workflow: &'a Arc<Workflow>,
    },
    /// The workflow was edited and is not valid: the one before it stays.
    EditRejected {
        /// The first thing that is wrong with it.
        first: &'a str,
    },
    /// Nothing can be kept any more: the daemon is ending.
    LedgerFailed {
        /// Why.
        error: &'a str,
    },
    /// The daemon is ending what runs.
    Stopping {
        /// Attempts under way.
        running: usize,
        /// Without grace.
        force: bool,
    },
}

/// What rests until a person or a change of its issue says so.
#[derive(Clone, Copy, Debug)]
pub struct Parked<'a> {
    /// The issue, as it was last seen.
    pub issue: &'a Issue,
    /// The run.
    pub run: RunId,
    /// Its stage.
    pub stage: &'a StageName,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub reason: ParkReason,
    /// The same in a person's words.
    pub detail: &'a str,
    /// The issues that wait for this one, over others too.
    pub dependents: &'a [IssueId],
}

/// What waits for a person's word.
#[derive(Clone, Copy, Debug)]
pub struct Awaiting<'a> {
    /// The issue, as it was last seen.
    pub issue: &'a Issue,
    /// The run.
    pub run: RunId,
    /// Its stage.
    pub stage: &'a StageName,
    /// What is asked.
    pub request: &'a Request,
}

/// Is told what happens.
pub trait Observer: Send {
    /// It happened.
    fn on(&mut self, progress: &Progress<'_>);
}

/// Tells nobody.
#[derive(Debug)]
pub struct Silent;

impl Observer for Silent {
    fn on(&mut self, _: &Progress<'_>) {}
}
