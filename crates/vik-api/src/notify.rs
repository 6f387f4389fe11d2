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
    /// The same for each try of one notification, also after a restart: whoever gets it twice knows it by this.
    pub delivery_id: String,
    /// The name of the notifier.
    pub notifier: String,
    /// `parked`, `failed`, `over_budget`, `waiting_for_person`, `trouble`, `daily_summary`; `several` where the items
    /// are of more than one kind; `test`.
    pub event: String,
    /// When it was made.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// The workflow file.
    pub workflow_path: PathBuf,
    /// What happened, on one line.
    pub title: String,
    /// All of it as plain text, the title first.
    pub text: String,
    /// What happened, in that order.
    pub items: Vec<NotifiedItem>,
    /// How many more there were than are listed.
    #[serde(default)]
    pub more: u64,
    /// How much happened that could not be told: too much came at once, or it could not be delivered.
    #[serde(default)]
    pub lost: u64,
    /// For `daily_summary`: what was done.
    #[serde(default)]
    pub summary: Option<Box<ReportView>>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotifiedItem {
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// What it is told as.
    pub event: String,
    /// All that it is.
    pub events: Vec<String>,
    /// The issue, where it is about one.
    pub issue_id: Option<IssueId>,
    /// Its title.
    #[serde(default)]
    pub issue_title: String,
    /// The stage.
    pub stage: Option<StageName>,
    /// The run.
    pub run_id: Option<String>,
    /// Why, as a stable word.
    pub reason: String,
    /// Why, in a person's words.
    pub detail: String,
    /// What would free it.
    pub freed_by: Option<String>,
}

/// How a notifier does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotifierView {
    /// Its name.
    pub name: String,
    /// What is yet to be delivered.
    pub undelivered: usize,
    /// Tries that failed since the last one that did not.
    pub failures_in_a_row: u32,
    /// Since when they fail; `null`: they do not.
    #[schemars(with = "Option<String>")]
    pub failing_since: Option<Timestamp>,
    /// Why the last one failed.
    pub error: Option<String>,
    /// Notifications that were given up since the daemon started.
    pub given_up: u64,
}
