//! Errors as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error for a script: the same stable code on the command line, in `--json` and on the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// A stable code in snake case.
    pub code: String,
    /// A text for people: the failure, followed by its causes.
    pub message: String,
    /// A hint on how to solve the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
