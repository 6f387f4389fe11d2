//! Errors over HTTP (RFC 9457).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ErrorBody;

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Why a request failed: a problem document with the codes of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`: the code tells more.
    #[serde(rename = "type")]
    pub kind: String,
    /// The HTTP status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// For people: what failed, then why, from the outside in.
    pub detail: String,
    /// Stable, snake case; the same as on the command line and on the control socket.
    pub code: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// An error as the answer with this status.
    pub fn new(status: u16, title: &str, error: ErrorBody) -> Self {
        Self {
            kind: "about:blank".to_owned(),
            title: title.to_owned(),
            status,
            detail: error.message,
            code: error.code,
            hint: error.hint,
        }
    }
}

/// `POST /api/v1/pause`, `POST /api/v1/continue`: of one issue, or of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhichIssue {
    /// The issue; `null` or absent: everything.
    #[serde(default)]
    pub issue_id: Option<vik_core::ids::IssueId>,
}

/// `POST /api/v1/issues/{id}/unpark`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Unpark {
    /// Allow at least so many attempts more.
    #[serde(default)]
    pub attempts: Option<u32>,
}

/// What came of a request that steers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Steered {
    /// How many attempts, runs or issues it touched.
    pub count: usize,
    /// Why there was nothing to do, where there was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
}
