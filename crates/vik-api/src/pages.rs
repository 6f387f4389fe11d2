//! Lists in pages.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use vik_core::ids::IssueId;
use vik_core::workflow::Setting;

use crate::{DecisionView, Explanation, PullView, RunView, WorkflowView};

/// `GET /api/v1/issues`: the status of issues, in the order of their ids.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct IssuesPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The issues.
    pub issues: Vec<Explanation>,
    /// The value of `after` for the next page; `null` on the last page.
    pub next: Option<IssueId>,
    /// The total number on all pages.
    pub total: usize,
}

/// `GET /api/v1/runs`: the latest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunsPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The runs.
    pub runs: Vec<RunView>,
    /// Whether there are older entries beyond `limit`.
    pub more: bool,
}

/// `GET /api/v1/pulls`: the latest first, since the daemon started.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PullsPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The pulls, up to 200.
    pub pulls: Vec<PullView>,
}

/// `GET /api/v1/workflow`: the workflow that is in force.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The workflow file.
    pub path: PathBuf,
    /// When it was read, and the state of a newer edit, as in the status.
    pub workflow: Option<WorkflowView>,
    /// All values, also defaults.
    pub settings: Vec<Setting>,
}

/// `GET /api/v1/decisions`: the latest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DecisionsPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The decisions.
    pub decisions: Vec<Decided>,
    /// Whether there are older entries beyond `limit`.
    pub more: bool,
}

/// One recorded decision and its issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decided {
    /// The issue; `null` for all issues.
    pub issue_id: Option<IssueId>,
    /// The decision.
    #[serde(flatten)]
    pub decision: DecisionView,
}

/// `GET /api/v1/sessions/{id}/events`: events of a session log, in order.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventsPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The attempt.
    pub session_id: String,
    /// The events as they are in the log, each with its `seq`.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub events: Vec<Box<RawValue>>,
    /// The `seq` up to which the log was searched: the `after` of the next page. Less than
    /// `last_seq` if more events may match.
    #[serde(default)]
    pub scanned_to: u64,
    /// The `seq` of the last event in the log; 0 if there is none.
    pub last_seq: u64,
    /// Whether the log is complete, so that no event will follow.
    pub ended: bool,
}

/// `GET /api/v1/sessions/{id}/stderr`: the end of the agent's stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StderrTail {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// The number of bytes that are omitted before the text.
    pub left_out: u64,
}

/// `GET /healthz`, `GET /readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Whether the check succeeded.
    pub ok: bool,
    /// The reason if the check failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The end of the last successful pull.
    #[schemars(with = "Option<String>")]
    pub last_good_pull_at: Option<Timestamp>,
    /// The time since then.
    pub last_good_pull_age_ms: Option<u64>,
}
