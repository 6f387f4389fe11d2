//! Updates that an attempt sends while it runs.

use vik_core::approval::Request;
use vik_core::ids::{AttemptId, IssueId};
use vik_core::limits::Spend;

/// An update that an attempt sends to the scheduler while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptUpdate {
    pub issue: IssueId,
    pub attempt_id: AttemptId,
    pub kind: AttemptUpdateKind,
}

/// The content of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptUpdateKind {
    /// The total spend of the attempt so far.
    Spent(Spend),
    /// The request with which the attempt waits for a person; `None` if it no longer waits.
    Awaits(Option<Box<Request>>),
}
