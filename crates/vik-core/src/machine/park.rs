//! The reasons why a stage of an issue is parked.

use serde::{Deserialize, Serialize};

use crate::ids::{IssueId, StageName};

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
    /// Several consecutive attempts were lost: the shim died, another process tree held the
    /// workspace, or their workers did not finish them.
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

    /// Returns whether a comment for the agent frees a stage with rounds: it may be what the agent
    /// lacked.
    pub fn is_freed_by_a_comment(self) -> bool {
        matches!(self, Self::NoProgress | Self::AttemptsUsedUp | Self::Questions)
    }
}

/// A parked issue that blocks others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootCause {
    pub issue: IssueId,
    pub stage: StageName,
    pub reason: ParkReason,
}
