//! Lists in pages.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use vik_core::ids::IssueId;

use crate::{DecisionView, Explanation, RunView};

/// `GET /api/v1/issues`: where issues stand, in the order of their ids.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct IssuesPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The issues.
    pub issues: Vec<Explanation>,
    /// What to give as `after` for the next page; `null` on the last one.
    pub next: Option<IssueId>,
    /// How many there are on all pages.
    pub total: usize,
}

/// `GET /api/v1/runs`: the latest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RunsPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The runs.
    pub runs: Vec<RunView>,
    /// Whether there are older ones than `limit` let through.
    pub more: bool,
}

/// `GET /api/v1/decisions`: the latest first.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DecisionsPage {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The decisions.
    pub decisions: Vec<Decided>,
    /// Whether there are older ones than `limit` let through.
    pub more: bool,
}

/// One recorded decision, and the issue it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decided {
    /// The issue; `null`: all.
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
    /// The events as they stand in the log, each with its `seq`.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    pub events: Vec<Box<RawValue>>,
    /// The `seq` of the last event in the log now; 0 where there is none.
    pub last_seq: u64,
    /// Whether the last event is in the log: none will follow.
    pub ended: bool,
}

/// `GET /api/v1/sessions/{id}/stderr`: the end of what the agent printed to stderr.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StderrTail {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The text; bytes that are not UTF-8 are replaced.
    pub text: String,
    /// How many bytes before it are left out.
    pub left_out: u64,
}

/// `GET /healthz`, `GET /readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// Whether it is.
    pub ok: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When the last good pull ended.
    #[schemars(with = "Option<String>")]
    pub last_good_pull_at: Option<Timestamp>,
    /// How long ago that was.
    pub last_good_pull_age_ms: Option<u64>,
}
