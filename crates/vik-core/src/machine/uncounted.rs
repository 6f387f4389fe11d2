//! Attempts that end without counting as attempts, and must not repeat forever.

use crate::attempt::{AttemptResult, StopReason};
use crate::outcome::Outcome;

/// After this many consecutive lost attempts the stage of the issue is parked.
pub(super) const MOST_LOST_IN_A_ROW: u32 = 5;

/// After this many consecutive attempts that were lost because of their worker, the stage of the
/// issue is parked.
pub const MOST_WORKERS_LOST_IN_A_ROW: u32 = 10;

/// After this many consecutive internal failures of a stage it is parked.
pub(super) const MOST_INTERNAL_IN_A_ROW: u32 = 3;

/// After this many consecutive attempts of a run that asked a question, its stage is parked.
pub const MOST_ASKED_IN_A_ROW: u32 = 10;

/// The consecutive attempts of a stage that ended without counting as attempts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InARow {
    /// Lost attempts, over all stages of the issue.
    pub lost: u32,
    /// Attempts that were lost because of their worker, over all stages of the issue.
    pub workers_lost: u32,
    /// Failures of Vik itself in attempts of the stage.
    pub internal: u32,
    /// Attempts of the run whose `before_run` asked to be tried again later. Their number is not
    /// limited, only their waits grow.
    pub later: u32,
    /// Attempts of the run that ended with a question.
    pub asked: u32,
}

/// Returns whether the attempt was stopped for a reason that has nothing to do with it: Vik was
/// stopped, or a person took the issue over.
pub(super) fn is_uncounted_stop(report: &AttemptResult, stopped: Option<&StopReason>) -> bool {
    report.outcome == Outcome::Cancelled && matches!(stopped, None | Some(StopReason::TakenOver))
}
