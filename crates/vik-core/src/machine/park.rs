//! The reasons why a stage of an issue is parked.

use serde::{Deserialize, Serialize};

use super::Run;
use super::uncounted::MOST_INTERNAL_IN_A_ROW;
use crate::attempt::StopReason;
use crate::ids::{IssueId, StageName};
use crate::limits::LimitHit;
use crate::outcome::FailureClass;
use crate::plural::count;

/// Why a stage of an issue is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ParkReason {
    /// All allowed attempts succeeded, but the issue kept its state.
    NoProgress,
    /// All attempts are used up, and the last one failed.
    AttemptsUsedUp,
    /// Several consecutive attempts were lost: the shim died, or another process tree held the
    /// workspace.
    Lost,
    /// The end of an agent's process tree could not be proven.
    UnprovenEnd,
    /// The provider refused the login or the key.
    Auth,
    /// The agent does not know its model, or refused its command line.
    Config,
    /// A hook or the prompt failed.
    Hook,
    /// The work is done, but it could not be handed over to the tracker or the remote.
    HandOver,
    /// Several consecutive attempts failed because of Vik itself.
    Internal,
    /// An attempt crossed its stage's limit.
    OverBudget,
    /// The issue has reached a limit of its whole life.
    IssueLimit,
    /// A person cancelled it.
    Cancelled,
    /// A person, or the time limit of an approval, denied it.
    Denied,
    /// Several consecutive attempts asked a question.
    Questions,
}

impl ParkReason {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the actions that free the stage, as text.
    pub fn freed_by(self) -> &'static str {
        match self {
            Self::IssueLimit => "`vik retry`, or higher `issue.limits`",
            Self::UnprovenEnd => {
                "a check for remaining processes (`vik doctor --orphans`), then `vik retry`, or a change of the issue's title \
                 or description"
            }
            Self::Auth => {
                "a valid login or API key, then `vik retry`, or a change of the issue's title or description"
            }
            Self::Config => {
                "a corrected `agents` section, then `vik retry`, or a change of the issue's title or description"
            }
            Self::Hook => {
                "a corrected hook or prompt, then `vik retry`, or a change of the issue's title or description"
            }
            Self::HandOver => {
                "`vik retry`, which repeats only the hand-over, or `vik retry --agent`, which runs the agent again"
            }
            Self::Internal => {
                "a Vik without this bug (please report it), then `vik retry`, or a change of the issue's title or description"
            }
            Self::OverBudget => {
                "higher `limits` of the stage, then `vik retry`, or a change of the issue's title or description"
            }
            Self::NoProgress
            | Self::AttemptsUsedUp
            | Self::Lost
            | Self::Cancelled
            | Self::Denied
            | Self::Questions => "a change of the issue's title or description, or `vik retry`",
        }
    }

    /// Returns whether a change of the issue frees the stage.
    pub fn is_freed_by_a_change(self) -> bool {
        !matches!(self, Self::IssueLimit | Self::HandOver)
    }
}

/// A parked issue that blocks others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootCause {
    pub issue: IssueId,
    pub stage: StageName,
    pub reason: ParkReason,
}

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
            _ => format!("{attempts}{turns}; {}", self.last_failure()),
        }
    }
}

/// Returns a text of an agent or a hook, cut to a readable length.
fn shortened(text: &str) -> String {
    text.chars().take(500).collect()
}
