//! What a person may request of a daemon, and the bodies of these requests over HTTP.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::approval::Answer;
use vik_core::ids::{IssueId, StageName};
use vik_core::scheduler::Command;

/// A request that changes what a daemon does: the same for the command line, `vik top` and the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Check the workflow file and the issues now.
    Refresh,
    /// Stop gracefully. The response is sent at once; the daemon releases its lock when it has
    /// ended.
    Stop {
        /// Leave the agents to their shims, for the next daemon.
        keep_sessions: bool,
    },
    /// Move the issue back to the state of a stage whose run has ended, so that the stage runs
    /// again.
    RunAgain { issue: IssueId, stage: StageName },
    /// Record what a person changed in the workspace of an issue that they had taken over, and end
    /// their hold on it.
    HandBack {
        issue: IssueId,
        /// The person's message to the agent.
        message: Option<String>,
    },
    /// A command that the scheduler decides.
    Command(Command),
}

impl Action {
    /// Returns the issue that the action is about; `None` for all issues.
    pub fn issue(&self) -> Option<&IssueId> {
        match self {
            Self::Command(command) => command.issue(),
            Self::RunAgain { issue, .. } | Self::HandBack { issue, .. } => Some(issue),
            Self::Refresh | Self::Stop { .. } => None,
        }
    }

    /// Returns the command of `vik` that requests the action.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refresh => "refresh",
            Self::Stop { .. } => "stop",
            Self::RunAgain { .. } => "run again",
            Self::HandBack { .. } | Self::Command(Command::HandBack(_)) => "handback",
            Self::Command(Command::TakeOver(_)) => "takeover",
            Self::Command(Command::Pause(_)) => "pause",
            Self::Command(Command::Resume(_)) => "resume",
            Self::Command(Command::Cancel(_)) => "cancel",
            Self::Command(Command::Retry(_)) => "retry",
            Self::Command(Command::Answer(reply)) => match reply.answer {
                Answer::Approve { .. } => "approve",
                Answer::Deny { .. } | Answer::Instruct { .. } => "deny",
            },
            Self::Command(Command::AnswerQuestion(_)) => "answer",
            Self::Command(Command::SendMessage(_)) => "message",
            Self::Command(Command::WithdrawMessage(_)) => "withdraw message",
            Self::Command(Command::Drain) => "drain",
        }
    }
}

impl From<Command> for Action {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

/// `POST /api/v1/stop`, on the control socket only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// Leave the agents to their shims, for the next daemon.
    #[serde(default)]
    pub keep_sessions: bool,
}

/// `POST /api/v1/pause`, `POST /api/v1/resume`: pause or resume one issue or all issues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhichIssue {
    /// The issue; `null` or absent for all issues.
    #[serde(default)]
    pub issue_id: Option<IssueId>,
}

/// `POST /api/v1/issues/{id}/retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The only stage to retry; every parked one if absent.
    #[serde(default)]
    pub stage: Option<StageName>,
    /// Allow at least this many more attempts.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(max = 4_294_967_295_u32))]
    pub attempts: Option<u32>,
    /// Run the agent again although its work is done and only the hand-over failed.
    #[serde(default)]
    pub agent: bool,
}

/// `POST /api/v1/issues/{id}/run-again`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunAgain {
    /// The stage to run again.
    pub stage: StageName,
}

/// `POST /api/v1/issues/{id}/take-over`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TakeOver {
    /// The stage whose conversation the person continues; if absent, the one that runs or ran last.
    #[serde(default)]
    pub stage: Option<StageName>,
    /// Let running attempts end first, instead of stopping them.
    #[serde(default)]
    pub wait: bool,
}

/// `POST /api/v1/issues/{id}/hand-back`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandBack {
    /// A message for the next attempt: at most 64 KiB, without control characters other than line
    /// ends and tabs.
    #[serde(default)]
    #[schemars(length(max = 65_536), regex(pattern = r"^[^\x00-\x08\x0B-\x1F\x7F-\x9F]*$"))]
    pub message: Option<String>,
}

/// `POST /api/v1/issues/{id}/approve`, `POST /api/v1/issues/{id}/deny`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Opinion")]
pub struct ApprovalDecision {
    /// The stage; if absent, the only one with a pending request.
    #[serde(default)]
    pub stage: Option<StageName>,
    /// The `id` of the request that the person has seen; if absent, the pending one.
    #[serde(default)]
    pub request: Option<String>,
    /// A message for the agent. With a denial: what to do instead.
    #[serde(default)]
    pub message: Option<String>,
}

/// The result of a control request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Steered {
    /// The number of affected attempts, runs or issues.
    pub count: usize,
    /// The reason if there was nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
}

/// Deserialises a whole number in any JSON form: `3.0` is one too.
pub(crate) fn whole<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let exact = number.as_u64().and_then(|whole| u32::try_from(whole).ok());
    let float = || {
        let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
        // The text of a float without a fraction is that of the whole number.
        format!("{float:.0}").parse().ok()
    };
    let found = exact.or_else(float);
    found.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!("`{number}` is not a whole number from 0 to {}", u32::MAX))
    })
}
