//! The schedule, for `vik schedule`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `vik schedule --json`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleView {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The entries of the workflow, by name.
    pub entries: Vec<ScheduledView>,
}

/// One entry of the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduledView {
    /// Its name.
    pub name: String,
    /// When it is due.
    pub cron: String,
    /// By which clock.
    pub time_zone: String,
    /// Whether it runs a command; else it is only a pull.
    pub command: bool,
    /// When it is due next; `null`: never again.
    #[schemars(with = "Option<String>")]
    pub next_due: Option<Timestamp>,
    /// Its last run; `null`: none yet.
    pub last: Option<LastRun>,
    /// The last time that it was due and did not run; `null`: there was none.
    pub skipped: Option<SkippedRun>,
}

/// A run of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastRun {
    /// When it was due.
    #[schemars(with = "String")]
    pub due_at: Timestamp,
    /// When it began.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// When it ended; `null`: it runs, or nobody saw its end.
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Timestamp>,
    /// How it went.
    pub result: ScheduleResult,
    /// More about that, such as the end of what it printed.
    pub detail: Option<String>,
}

/// How a run of an entry went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleResult {
    /// It runs.
    Running,
    /// It ended well, and a pull was asked for.
    Ok,
    /// It failed.
    Failed,
    /// It took too long and was stopped.
    TimedOut,
    /// It was stopped with the daemon, or the daemon died under it.
    Stopped,
}

/// A time at which an entry was due and did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedRun {
    /// When it was due.
    #[schemars(with = "String")]
    pub due_at: Timestamp,
    /// Why it did not run.
    pub why: String,
}
