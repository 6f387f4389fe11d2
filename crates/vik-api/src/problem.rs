//! Errors over HTTP (RFC 9457).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ErrorBody;

/// The media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// The error of a request: a problem document with the error codes of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`; see the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the HTTP status.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A text for people: the failure, followed by its causes.
    pub detail: String,
    /// A stable code in snake case, the same as on the command line and on the control socket.
    pub code: String,
    /// A hint on how to solve the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// Creates a problem with this status from an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_api::{ErrorBody, Problem};
    ///
    /// let error = ErrorBody {
    ///     code: "unknown_issue".to_owned(),
    ///     message: "unknown issue `7`".to_owned(),
    ///     hint: None,
    /// };
    /// let problem = serde_json::to_value(Problem::new(404, "Not Found", error))?;
    /// assert_eq!(problem["status"], 404);
    /// assert_eq!(problem["detail"], "unknown issue `7`");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
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

/// `POST /api/v1/pause`, `POST /api/v1/resume`: pause or resume one issue or all issues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WhichIssue {
    /// The issue; `null` or absent for all issues.
    #[serde(default)]
    pub issue_id: Option<vik_core::ids::IssueId>,
}

/// `POST /api/v1/issues/{id}/retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The only stage to retry; every parked one if absent.
    #[serde(default)]
    pub stage: Option<vik_core::ids::StageName>,
    /// Allow at least this many more attempts.
    #[serde(default, deserialize_with = "whole")]
    #[schemars(range(max = 4_294_967_295_u32))]
    pub attempts: Option<u32>,
}

/// `POST /api/v1/issues/{id}/approve`, `POST /api/v1/issues/{id}/deny`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Opinion")]
pub struct ApprovalDecision {
    /// The stage; if absent, the only one with a pending request.
    #[serde(default)]
    pub stage: Option<vik_core::ids::StageName>,
    /// The `id` of the request that the person has seen; if absent, the pending one.
    #[serde(default)]
    pub request: Option<String>,
    /// A message for the agent. With a denial: what to do instead.
    #[serde(default)]
    pub message: Option<String>,
}

/// The result of a control request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Steered {
    /// The number of affected attempts, runs or issues.
    pub count: usize,
    /// The reason if there was nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
}

/// Deserialises a whole number in any JSON form: `3.0` is one too.
fn whole<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let exact = number.as_u64().and_then(|whole| u32::try_from(whole).ok());
    let float = || {
        let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
        // The text of a float without a fraction is that of the whole number.
        format!("{float:.0}").parse().ok()
    };
    let found = exact.or_else(float);
    found.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!("`{number}` is not a whole number from 0 to {}", u32::MAX))
    })
}
