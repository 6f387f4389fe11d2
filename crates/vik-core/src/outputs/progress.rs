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
pub enum Next {
    /// Its command can run.
    Run,
    /// Its check must tell first whether it is done.
    Look,
    /// It is done.
    Skip,
    /// It may be done, and nothing tells: it is left as it is.
    Leave,
}

/// How its command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// Well.
    Well,
    /// By itself, and said that it failed.
    Failed,
    /// It was cut off: nobody can tell how far it came.
    CutOff,
}

/// What its check said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looked {
    /// It is done: the check exited with 0.
    Done,
    /// It is not done: the check exited with 1.
    NotDone,
    /// The check could not tell.
    CannotTell,
}

/// What to do, by the last record of an earlier try.
pub fn next(last: Option<Progress>, has_check: bool) -> Next {
    match (last, has_check) {
        (None, _) | (Some(Progress::Failed), false) => Next::Run,
        (Some(Progress::Applied), _) => Next::Skip,
        (Some(Progress::Failed | Progress::Applying | Progress::Unknown), true) => Next::Look,
        (Some(Progress::Applying | Progress::Unknown), false) => Next::Leave,
    }
}

/// What follows a look before the command: its end, or `None`: the command can run.
pub fn after_look(looked: Looked) -> Option<Progress> {
    match looked {
        Looked::Done => Some(Progress::Applied),
        Looked::NotDone => None,
        Looked::CannotTell => Some(Progress::Unknown),
    }
}

/// How a try has ended. `looked` is what the check said behind the command; `None` where there is none, or it did not come to
/// that.
pub fn after_run(ran: Ran, looked: Option<Looked>) -> Progress {
    match (ran, looked) {
        (Ran::Well, None | Some(Looked::Done)) => Progress::Applied,
        (Ran::Well, Some(Looked::NotDone)) | (Ran::Failed, _) => Progress::Failed,
        (Ran::Well, Some(Looked::CannotTell)) | (Ran::CutOff, _) => Progress::Unknown,
    }
}
