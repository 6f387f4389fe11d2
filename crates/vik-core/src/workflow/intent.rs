//! `issue.stages.S.intent`, `issue.scope_conflicts` and `trust`: what attempts may change, and
//! whose text is trusted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vik_scope::Scope;

/// `on_violation`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnViolation {
    /// The attempt fails.
    #[default]
    Fail,
    /// Out-of-scope changes are reverted.
    Revert,
}

/// `issue.scope_conflicts`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScopeConflicts {
    /// Two issues with overlapping scopes do not run at the same time.
    #[default]
    Serialize,
    /// They may run at the same time.
    Allow,
}

/// `trust.untrusted`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Untrusted {
    /// The issue does not start.
    #[default]
    Hold,
    /// The text of the issue is fenced.
    Fence,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StageIntent {
    pub scope: Option<Scope>,
    pub constraints: Vec<String>,
    pub acceptance: Vec<String>,
    pub on_violation: OnViolation,
    pub from_issue: bool,
}

impl Default for StageIntent {
    fn default() -> Self {
        Self {
            scope: None,
            constraints: Vec::new(),
            acceptance: Vec::new(),
            on_violation: OnViolation::Fail,
            from_issue: true,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustPolicy {
    pub authors: Vec<String>,
    pub labels: Vec<String>,
    pub untrusted: Untrusted,
}
