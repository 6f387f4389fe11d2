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
    /// The cron pattern.
    pub cron: String,
    /// The time zone.
    pub time_zone: String,
    /// Whether it runs a command; otherwise it only pulls.
    pub command: bool,
    /// The next due time; `null` for never.
    #[schemars(with = "Option<String>")]
    pub next_due: Option<Timestamp>,
    /// The last run; `null` if there was none.
    pub last: Option<LastRun>,
    /// The last time when it was due and did not run; `null` if there was none.
    pub skipped: Option<SkippedRun>,
}

/// A run of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastRun {
    /// When it was due.
    #[schemars(with = "String")]
    pub due_at: Timestamp,
    /// The start time.
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// The end time; `null` if it is running or its end is unknown.
    #[schemars(with = "Option<String>")]
    pub ended_at: Option<Timestamp>,
    /// The result.
    pub result: ScheduleResult,
    /// Details, such as the end of its output.
    pub detail: Option<String>,
}

/// The result of a run of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleResult {
    /// It is running.
    Running,
    /// It succeeded, and a pull was requested.
    Ok,
    /// It failed.
    Failed,
    /// It took too long and was stopped.
    TimedOut,
    /// It was stopped with the daemon, or the daemon died while it ran.
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
