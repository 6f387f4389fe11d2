//! Errors as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error for a script: the same stable code on the command line, in `--json` and on the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// Stable, snake case.
    pub code: String,
    /// For people: what failed, then why, from the outside in.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
