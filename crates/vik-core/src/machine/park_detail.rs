//! Why a run is parked, as a sentence.

use super::uncounted::{MOST_INTERNAL_IN_A_ROW, MOST_WORKERS_LOST_IN_A_ROW};
use super::{ParkReason, Run};
use crate::attempt::{AttemptResult, StopReason};
use crate::limits::LimitHit;
use crate::outcome::{FailureClass, Outcome};
use crate::plural::count;

impl Run {
    /// Returns how the last attempt ended, as text.
    fn last_failure(&self) -> String {
        let last = self.last.as_ref();
        let outcome = last.map_or("failed", |report| report.outcome.as_str());
        let why = last.and_then(|report| report.reason.as_deref());
        let why = shortened(why.unwrap_or("unknown reason"));
        format!("last attempt {outcome}: {why}")
    }

    /// Returns the reason as a sentence.
    pub(super) fn park_detail(&self, reason: ParkReason, used_up: Option<LimitHit>) -> String {
        let attempts = count(self.attempts, "attempt");
        let turns = match self.turns {
            0 | 1 => String::new(),
            turns => format!(" (the last one after {turns} of {} turns)", self.max_turns),
        };
        let last = self.last.as_ref();
        match reason {
            ParkReason::NoProgress => {
                format!("{attempts} succeeded{turns}, but the issue is still in the same state")
            }
            ParkReason::HandOver => {
                let hand_over = self.hand_over.as_ref();
                let tries = count(hand_over.map_or(1, |hand_over| hand_over.tries), "time");
                let failure = hand_over.map(|hand_over| shortened(&hand_over.failure.to_string()));
                format!(
                    "the work is done, but its hand-over failed {tries}: {}",
                    failure.unwrap_or_default()
                )
            }
            ParkReason::Cancelled => StopReason::Cancelled.to_string(),
            ParkReason::Denied
                if last.is_none_or(|last| last.failure_class != Some(FailureClass::Denied)) =>
            {
                "the start was denied".to_owned()
            }
            ParkReason::IssueLimit => {
                let stopped = match &self.last_stopped {
                    Some(StopReason::OverBudget(hit)) => Some(*hit),
                    _ => None,
                };
                used_up.or(stopped).map_or_else(
                    || "the issue has reached a limit of its life".to_owned(),
                    |hit| StopReason::OverBudget(hit).to_string(),
                )
            }
            ParkReason::Questions => {
                let asked = count(self.asked_in_a_row, "attempt");
                format!("{asked} in a row ended with a question; {}", self.last_failure())
            }
            ParkReason::Internal => {
                let attempts = count(MOST_INTERNAL_IN_A_ROW, "attempt");
                format!(
                    "{attempts} in a row failed because of Vik itself; {}",
                    self.last_failure()
                )
            }
            // A stage that other lost attempts park was itself lost last.
            ParkReason::Lost
                if last.is_none_or(|last| last.outcome != Outcome::Lost || last.has_lost_worker()) =>
            {
                let attempts = count(MOST_WORKERS_LOST_IN_A_ROW, "attempt");
                let detail = format!("{attempts} in a row lost their worker");
                match last.is_some_and(AttemptResult::has_lost_worker) {
                    true => format!("{detail}; {}", self.last_failure()),
                    false => detail,
                }
            }
            _ => format!("{attempts}{turns}; {}", self.last_failure()),
        }
    }
}

/// Returns a text of an agent or a hook, cut to a readable length.
fn shortened(text: &str) -> String {
    text.chars().take(500).collect()
}
