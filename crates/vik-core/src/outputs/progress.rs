//! How far an output has come, and what may follow: nothing is done twice of which it cannot be told that it was not done.

use serde::{Deserialize, Serialize};

/// What is on record of one output. Each is on disk before what follows from it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Its command is about to run. Without a later record nobody saw how it ended.
    Applying,
    /// It is done.
    Applied,
    /// Its command said that it failed, or its check that it is not done.
    Failed,
    /// Nobody can tell whether it is done.
    Unknown,
}

impl Progress {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Applying => "applying",
            Self::Applied => "applied",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// What to do about an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Its command can run.
    Run,
    /// Its check must tell first whether it is done.
    Check,
    /// It is done.
    Skip,
    /// It may be done, and nothing tells: it is left as it is.
    Leave,
}

/// How its command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunResult {
    /// Well.
    Well,
    /// By itself, and said that it failed.
    Failed,
    /// It was cut off: nobody can tell how far it came.
    CutOff,
}

/// What its check said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// It is done: the check exited with 0.
    Done,
    /// It is not done: the check exited with 1.
    NotDone,
    /// The check could not tell.
    Unclear,
}

/// What to do, by the last record of an earlier try.
pub fn next(last: Option<Progress>, has_check: bool) -> NextStep {
    match (last, has_check) {
        (None, _) | (Some(Progress::Failed), false) => NextStep::Run,
        (Some(Progress::Applied), _) => NextStep::Skip,
        (Some(Progress::Failed | Progress::Applying | Progress::Unknown), true) => NextStep::Check,
        (Some(Progress::Applying | Progress::Unknown), false) => NextStep::Leave,
    }
}

/// What follows a look before the command: its end, or `None`: the command can run.
pub fn after_check(checked: CheckResult) -> Option<Progress> {
    match checked {
        CheckResult::Done => Some(Progress::Applied),
        CheckResult::NotDone => None,
        CheckResult::Unclear => Some(Progress::Unknown),
    }
}

/// How a try has ended. `looked` is what the check said behind the command; `None` where there is none, or it did not come to
/// that.
pub fn after_run(ran: RunResult, checked: Option<CheckResult>) -> Progress {
    match (ran, checked) {
        (RunResult::Well, None | Some(CheckResult::Done)) => Progress::Applied,
        (RunResult::Well, Some(CheckResult::NotDone)) | (RunResult::Failed, _) => Progress::Failed,
        (RunResult::Well, Some(CheckResult::Unclear)) | (RunResult::CutOff, _) => Progress::Unknown,
    }
}
