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

impl From<Problem> for ErrorBody {
    fn from(problem: Problem) -> Self {
        Self {
            code: problem.code,
            message: problem.detail,
            hint: problem.hint,
        }
    }
}
