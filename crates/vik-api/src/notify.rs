//! The content of notifications.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{IssueId, StageName};

use crate::ReportView;

/// One notification, as a command gets it on its standard input and a webhook as its body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notification {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The id of the notification. It is the same for each delivery attempt, also after a restart,
    /// so that receivers can detect duplicates.
    pub delivery_id: String,
    /// The name of the notifier.
    pub notifier: String,
    /// `parked`, `failed`, `over_budget`, `waiting_for_person`, `trouble` or `daily_summary`;
    /// `several` if the items have more than one kind; `test`.
    pub event: String,
    /// The time when it was created.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The workflow file.
    pub workflow_path: PathBuf,
    /// A one-line summary of the events.
    pub title: String,
    /// The full notification as plain text, starting with the title.
    pub text: String,
    /// The events in chronological order.
    pub items: Vec<NotifiedItem>,
    /// The number of events that are not listed.
    #[serde(default)]
    pub more: u64,
    /// The number of events that were dropped because there were too many at once or delivery
    /// failed.
    #[serde(default)]
    pub lost: u64,
    /// For `daily_summary`: the report of the day.
    #[serde(default)]
    pub summary: Option<Box<ReportView>>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotifiedItem {
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The kind of event.
    pub event: String,
    /// All kinds that apply.
    pub events: Vec<String>,
    /// The issue, if the event concerns one.
    pub issue_id: Option<IssueId>,
    /// Its title.
    #[serde(default)]
    pub issue_title: String,
    /// The stage.
    pub stage: Option<StageName>,
    /// The run.
    pub run_id: Option<String>,
    /// The reason as a stable code.
    pub reason: String,
    /// The reason as a text for people.
    pub detail: String,
    /// The actions that free it.
    pub freed_by: Option<String>,
}

/// The status of a notifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotifierView {
    /// Its name.
    pub name: String,
    /// The number of undelivered notifications.
    pub undelivered: usize,
    /// The number of failed delivery attempts since the last successful one.
    pub failures_in_a_row: u32,
    /// The time since which deliveries fail; `null` if they succeed.
    #[schemars(with = "Option<String>")]
    pub failing_since: Option<Timestamp>,
    /// The error of the last one.
    pub error: Option<String>,
    /// The number of notifications that were dropped since the daemon started.
    pub given_up: u64,
}
