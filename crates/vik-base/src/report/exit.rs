//! Exit codes of the `vik` command line.

use std::process::ExitCode;

/// How a `vik` process ends. If several conditions are true, the first of this list wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    Bug,
    /// A signal stopped the process.
    Interrupted,
    /// The command line was wrong.
    Usage,
    /// The workflow is invalid.
    Workflow,
    NoDaemon,
    /// A daemon already runs.
    AlreadyRunning,
    /// The timeout of the verb expired.
    TimedOut,
    /// A budget stopped the work.
    Budget,
    Failed,
    /// No pull succeeded, or a named issue was not found.
    NotFound,
    /// A tracker has no such issue, as the tracker protocol reports it.
    NoIssue,
    /// A tracker cannot answer now, as the tracker protocol reports it.
    TryLater,
    /// Work waits, for example for a person or a back-off.
    Waiting,
    /// Runs succeeded, but nothing changed.
    NoProgress,
    Done,
}

impl Exit {
    const ALL: [Self; 15] = [
        Self::Bug,
        Self::Interrupted,
        Self::Usage,
        Self::Workflow,
        Self::NoDaemon,
        Self::AlreadyRunning,
        Self::TimedOut,
        Self::Budget,
        Self::Failed,
        Self::NotFound,
        Self::NoIssue,
        Self::TryLater,
        Self::Waiting,
        Self::NoProgress,
        Self::Done,
    ];

    /// Returns the exit with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| exit.code() == code)
    }

    /// Returns the exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Bug => 70,
            Self::Interrupted => 130,
            Self::Usage => 2,
            Self::Workflow => 3,
            Self::NoDaemon => 4,
            Self::AlreadyRunning => 5,
            Self::TimedOut => 6,
            Self::Budget => 7,
            Self::Failed => 1,
            Self::NotFound => 8,
            Self::NoIssue => 66,
            Self::TryLater => 75,
            Self::Waiting => 10,
            Self::NoProgress => 9,
            Self::Done => 0,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
