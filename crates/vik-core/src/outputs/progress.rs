//! The progress of outputs, and the next step: an output is repeated only if it is certain that it
//! was not carried out.

use serde::{Deserialize, Serialize};

/// The recorded progress of one output. Each record is on disk before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Progress {
    /// The command is about to run. Without a later record its end is unknown.
    Applying,
    Applied,
    /// The command failed, or the check found that the output was not carried out.
    Failed,
    /// It is unknown whether the output was carried out.
    Unknown,
}

impl Progress {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The next step of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    Run,
    /// Check first whether the output was carried out.
    Check,
    Skip,
    /// The output may have been carried out and cannot be checked: leave it.
    Leave,
}

/// What can be done if it is unknown whether an output was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// A check finds out.
    Check,
    /// The command can be repeated, since it recognizes what it has done by the key.
    Repeat,
    /// Only a person can find out.
    Person,
}

/// The result of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunResult {
    Well,
    /// The command exited with a failure.
    Failed,
    /// The command was interrupted, so its effect is unknown.
    CutOff,
}

/// The result of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The output was carried out: the check exited with 0.
    Done,
    /// The output was not carried out: the check exited with 1.
    NotDone,
    /// The check failed to find out.
    Unclear,
}

/// Returns the next step, by the last record of an earlier try.
pub fn next(last: Option<Progress>, recovery: Recovery) -> NextStep {
    match (last, recovery) {
        (None, _) | (Some(Progress::Failed), Recovery::Person) => NextStep::Run,
        (Some(Progress::Applied), _) => NextStep::Skip,
        (Some(_), Recovery::Check) => NextStep::Check,
        (Some(_), Recovery::Repeat) => NextStep::Run,
        (Some(Progress::Applying | Progress::Unknown), Recovery::Person) => NextStep::Leave,
    }
}

/// Returns the final progress after a check before the command, or `None` if the command can run.
pub fn after_check(checked: CheckResult) -> Option<Progress> {
    match checked {
        CheckResult::Done => Some(Progress::Applied),
        CheckResult::NotDone => None,
        CheckResult::Unclear => Some(Progress::Unknown),
    }
}

/// Returns the final progress after the command. `checked` is the result of the check after it;
/// `None` if there is no check, or if it did not run.
pub fn after_run(ran: RunResult, checked: Option<CheckResult>) -> Progress {
    match (ran, checked) {
        (RunResult::Well, None | Some(CheckResult::Done)) => Progress::Applied,
        (RunResult::Well, Some(CheckResult::NotDone)) | (RunResult::Failed, _) => Progress::Failed,
        (RunResult::Well, Some(CheckResult::Unclear)) | (RunResult::CutOff, _) => Progress::Unknown,
    }
}
