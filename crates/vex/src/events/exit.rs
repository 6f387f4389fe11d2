//! Exit reasons and codes.

use schemars::JsonSchema;
use serde::Serialize;

/// How a run ended; determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// 0: the agent reported that it is done, did or answered something, and every check passed.
    Done,
    /// 1: the run failed.
    Failed,
    /// 2: the command line is invalid.
    Usage,
    /// 3: the settings are invalid.
    Config,
    /// 4: the login or the model was refused.
    Refused,
    /// 5: a limit (turns, tokens, USD, time) was reached.
    Limit,
    /// 6: the agent stopped without a result, or repeated itself.
    NoProgress,
    /// 7: the last tool call was denied, and no check shows that the work is done.
    Denied,
    /// 130: a signal ended the run.
    Interrupted,
}

impl ExitReason {
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Config => 3,
            Self::Refused => 4,
            Self::Limit => 5,
            Self::NoProgress => 6,
            Self::Denied => 7,
            Self::Interrupted => 130,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Config => "config",
            Self::Refused => "refused",
            Self::Limit => "limit",
            Self::NoProgress => "no_progress",
            Self::Denied => "denied",
            Self::Interrupted => "interrupted",
        }
    }
}
