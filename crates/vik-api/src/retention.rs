//! What Vik keeps and removes, for `vik status --json`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::IssueId;

/// How long Vik keeps what it stores, and what it has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetentionView {
    /// The age at which a workspace of an issue that pulls no longer list is removed, or `keep`.
    pub unlisted: String,
    /// The value of `retention.ledger`.
    pub ledger: String,
    /// The value of `retention.trace`.
    pub trace: String,
    /// The value of `retention.scratch`.
    pub scratch: String,
    /// The value of `retention.sessions`.
    pub sessions: String,
    /// When the daemon last searched for data that is too old; `null` if it has not searched yet.
    #[schemars(with = "Option<String>")]
    pub last_scan_at: Option<Timestamp>,
    /// What the last search could not read.
    pub problems: Vec<String>,
    /// The number of issues that have a workspace and that pulls no longer list.
    pub unlisted_issues: usize,
    /// What was removed since the daemon started.
    pub removed: RemovedView,
    /// The data that could not be removed; only the first ones if there are very many.
    pub kept: Vec<KeptView>,
    /// The number of those that are not listed.
    pub kept_more: usize,
}

/// Removed data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedView {
    /// Workspaces of finished and of unlisted issues.
    pub workspaces: u64,
    /// Scratch folders that were removed before their workspace.
    pub scratch: u64,
    /// Issues whose session files were removed.
    pub sessions: u64,
    /// Attempts in the ledger.
    pub attempts: u64,
    /// Records of the trace.
    pub trace_records: u64,
    /// The freed space on disk, without that in the ledger.
    pub bytes: u64,
}

/// Data that could not be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptView {
    /// The issue; `null` for data of all issues.
    pub issue_id: Option<IssueId>,
    /// `workspace`, `scratch`, `sessions`, `ledger` or `trace`.
    pub data: String,
    /// The reason.
    pub reason: String,
    /// When this was found. It is tried again a day later.
    #[schemars(with = "String")]
    pub at: Timestamp,
}
