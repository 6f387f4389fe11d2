//! Why a stage of an issue rests until a person does something.

use serde::{Deserialize, Serialize};

/// Why an (issue, stage) is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParkReason {
    /// Every attempt that was allowed succeeded, yet the issue kept its state.
    NoProgress,
    /// The attempts are used up, and the last one failed.
    AttemptsUsedUp,
    /// Attempt after attempt was lost: its shim died, or its workspace was held by another process tree.
    Lost,
    /// The end of an agent's process tree could not be proven.
    UnprovenEnd,
    /// The provider refused the login or the key.
    Auth,
    /// The agent does not know its model, or refused its command line.
    Config,
    /// A hook or the prompt failed.
    Hook,
    /// An attempt crossed its stage's limit.
    OverBudget,
    /// The issue has used what it may use in its whole life.
    IssueLimit,
    /// A person cancelled it.
    Cancelled,
    /// A person, or the time limit of an approval, said no.
    Denied,
}

impl ParkReason {
    /// The name used in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoProgress => "no_progress",
            Self::AttemptsUsedUp => "attempts_used_up",
            Self::Lost => "lost",
            Self::UnprovenEnd => "unproven_end",
            Self::Auth => "auth",
            Self::Config => "config",
            Self::Hook => "hook",
            Self::OverBudget => "over_budget",
            Self::IssueLimit => "issue_limit",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
        }
    }

    /// What would free it, for people.
    pub fn freed_by(self) -> &'static str {
        match self {
            Self::IssueLimit => "`vik unpark`, or higher `issue.limits`",
            Self::UnprovenEnd => {
                "a look at what still runs (`vik doctor --orphans`), then `vik unpark`, or a change of the issue's title \
                 or description"
            }
            Self::Auth => {
                "a login or key that works, then `vik unpark`, or a change of the issue's title or description"
            }
            Self::Config => {
                "a corrected `agents` section, then `vik unpark`, or a change of the issue's title or description"
            }
            Self::Hook => {
                "a corrected hook or prompt, then `vik unpark`, or a change of the issue's title or description"
            }
            Self::OverBudget => {
                "higher `limits` of the stage, then `vik unpark`, or a change of the issue's title or description"
            }
            Self::NoProgress | Self::AttemptsUsedUp | Self::Lost | Self::Cancelled | Self::Denied => {
                "a change of the issue's title or description, or `vik unpark`"
            }
        }
    }

    /// Whether a change of the issue frees it.
    pub fn is_freed_by_a_change(self) -> bool {
        self != Self::IssueLimit
    }
}
