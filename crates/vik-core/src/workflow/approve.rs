//! `issue.stages.S.approve`: the approvals of a stage.

use serde::{Deserialize, Serialize};

use crate::approval::{Call, OnTimeout};
use crate::duration::Span;
use crate::scope::Scope;

/// The default time limit of a request.
const TIMEOUT: Span = Span::secs(24 * 60 * 60);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovePolicy {
    pub before: bool,
    pub after: bool,
    pub calls: Vec<CallRule>,
    pub timeout: Span,
    pub on_timeout: OnTimeout,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRule {
    pub tool: Vec<String>,
    /// `command`; empty: any, or none.
    pub command: Vec<String>,
    pub path: Option<Scope>,
}

impl Default for ApprovePolicy {
    fn default() -> Self {
        Self {
            before: false,
            after: false,
            calls: Vec::new(),
            timeout: TIMEOUT,
            on_timeout: OnTimeout::Deny,
        }
    }
}

impl ApprovePolicy {
    /// Returns the rule by which a call waits for approval.
    pub fn rule_for(&self, call: &Call) -> Option<&CallRule> {
        self.calls.iter().find(|rule| rule.matches(call))
    }
}
