//! Issues that a person takes over and hands back, as the command line prints them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_core::ids::{IssueId, StageName};

/// `vik takeover --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TakeoverView {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The issue that the person holds.
    pub issue_id: IssueId,
    /// The id of the person's session, also in the trace.
    pub session_id: String,
    /// The person, and the way they used.
    pub by: String,
    /// When the issue was taken over.
    #[schemars(with = "String")]
    pub since: Timestamp,
    /// The stage whose agent was stopped, or ran last.
    pub stage: Option<StageName>,
    /// The workspace of the issue; `null` if no attempt has created it.
    pub workdir: Option<String>,
    /// The agent's conversation that the command continues; `null` if it starts a new one.
    pub conversation: Option<String>,
    /// The program and the arguments of the agent's own session, or a shell; empty without a
    /// workspace or a record of an attempt.
    pub argv: Vec<String>,
    /// The variables that the command needs in addition.
    pub env: BTreeMap<String, String>,
    /// The files and settings of the workspace that can start programs outside of the sandbox.
    pub planted: Vec<String>,
}

/// `vik handback --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandbackView {
    /// [`SCHEMA`](crate::SCHEMA).
    pub schema: u32,
    /// The issue, which nobody holds any more.
    pub issue_id: IssueId,
}
