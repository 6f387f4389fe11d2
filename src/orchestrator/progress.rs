//! What a person in front of the daemon is told as it happens.

use vik_core::ids::IssueId;
use vik_core::issue::Skipped;
use vik_core::machine::Note;
use vik_core::scheduler::Start;
use vik_core::workflow::Edit;

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
    },
    /// A pull failed.
    PullFailed {
        /// Why.
        error: &'a str,
    },
    /// An attempt started.
    Started(&'a Start, &'a Live),
    /// An attempt ended.
    Ended(&'a Start, &'a AttemptEnd),
    /// A run moved on.
    Note(&'a IssueId, &'a Note),
    /// The workflow was edited.
    Reloaded {
        /// How.
        edits: &'a [Edit],
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
