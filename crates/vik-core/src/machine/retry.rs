//! What follows an attempt whose issue stayed where it was: another one and when, or none.

use std::time::Duration;

use jiff::SignedDuration;

use super::{MOST_LOST_IN_A_ROW, ParkReason, Report};
use crate::backoff;
use crate::ids::SessionId;
use crate::limits::LimitScope;
use crate::outcome::{FailureClass, Outcome};
use crate::scheduler::StopWhy;
use crate::time::Now;
use crate::workflow::Retry;

/// A provider that names a later time than this is not believed: no quota window is longer than a week.
const LONGEST_QUOTA_WAIT: Duration = Duration::from_secs(8 * 24 * 60 * 60);

/// All who wait for a quota window wait for the same moment: they are spread over this much.
const QUOTA_SPREAD: Duration = Duration::from_secs(30);

/// What decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<'a> {
    /// How the last attempt ended.
    pub report: &'a Report,
    /// Which it was.
    pub session: SessionId,
    /// What Vik stopped it for.
    pub stopped: Option<&'a StopWhy>,
    /// Attempts of the run that count.
    pub attempts: u32,
    /// How many there may be.
    pub allowed: u32,
    /// Attempts of the issue that were lost in a row.
    pub lost_in_a_row: u32,
    /// Whether the issue has used up what it may in its whole life.
    pub life_used_up: bool,
    /// The stage's policy.
    pub retry: &'a Retry,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Nothing, until a person does something.
    Park(ParkReason),
    /// Another attempt, so long after the end of the last one.
    After(Duration),
    /// Another attempt, so long from now: the provider's quota window opens then.
    Quota(Duration),
}

/// What parks at once, without asking whether another attempt is left: a further one would end the same way, or run
/// beside something that still lives.
pub(super) fn at_once(report: &Report, stopped: Option<&StopWhy>) -> Option<ParkReason> {
    if report.failure_class == Some(FailureClass::UnprovenEnd) {
        return Some(ParkReason::UnprovenEnd);
    }
    if stopped == Some(&StopWhy::Cancelled) {
        return Some(ParkReason::Cancelled);
    }
    if report.outcome != Outcome::Failed {
        return None;
    }
    match report.failure_class? {
        FailureClass::Auth => Some(ParkReason::Auth),
        FailureClass::Usage | FailureClass::Model => Some(ParkReason::Config),
        // A workspace that could not be made is made anew, in a clean folder.
        FailureClass::Hook if !report.preparing => Some(ParkReason::Hook),
        _ => None,
    }
}

impl Case<'_> {
    /// The retry table.
    pub(super) fn next(&self, now: Now) -> Next {
        let report = self.report;
        let backoff = |nth: u32| {
            Next::After(backoff::jittered(
                backoff::wait_after(nth, self.retry),
                self.session,
            ))
        };
        if report.outcome == Outcome::Lost {
            return match self.lost_in_a_row {
                MOST_LOST_IN_A_ROW.. => Next::Park(ParkReason::Lost),
                // What was cut off goes on at once; a second time, or what never began, is given time.
                0..=1 if report.ran => Next::After(Duration::ZERO),
                nth => backoff(nth),
            };
        }
        let scope = match self.stopped {
            Some(StopWhy::OverBudget(hit)) => Some(hit.scope),
            _ => None,
        };
        match scope {
            Some(LimitScope::Attempt) => return Next::Park(ParkReason::OverBudget),
            Some(LimitScope::Issue) => return Next::Park(ParkReason::IssueLimit),
            Some(LimitScope::Day) | None => {}
        }
        if self.attempts >= self.allowed {
            return Next::Park(if report.outcome == Outcome::Succeeded {
                ParkReason::NoProgress
            } else {
                ParkReason::AttemptsUsedUp
            });
        }
        if self.life_used_up {
            return Next::Park(ParkReason::IssueLimit);
        }
        // It was drained: that says nothing against going on.
        if report.outcome == Outcome::Cancelled && self.stopped.is_none() {
            return Next::After(Duration::ZERO);
        }
        match self.quota_wait(now) {
            Some(wait) => Next::Quota(wait),
            None => backoff(self.attempts),
        }
    }

    fn quota_wait(&self, now: Now) -> Option<Duration> {
        let is_quota = self.report.failure_class == Some(FailureClass::RateLimit);
        let opens = self.report.resets_at.filter(|_| is_quota)?;
        let wait = Duration::try_from(SignedDuration::try_from(opens - now.wall).ok()?).ok()?;
        let spread = QUOTA_SPREAD.mul_f64(backoff::fraction(self.session));
        (!wait.is_zero()).then(|| wait.min(LONGEST_QUOTA_WAIT) + spread)
    }
}

/// Whether the conversation of an attempt that ended like this is worth going on with: it was cut off, not finished.
pub(super) fn is_resumable(report: &Report) -> bool {
    match report.outcome {
        Outcome::TimedOut | Outcome::Stalled | Outcome::Lost | Outcome::Cancelled | Outcome::OverBudget => {
            true
        }
        Outcome::Failed => report.failure_class == Some(FailureClass::RateLimit),
        Outcome::Succeeded => false,
    }
}
