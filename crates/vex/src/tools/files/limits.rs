//! Limits for rewriting files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits for rewriting an existing file as a whole, in lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WriteLimits {
    /// Above this size, the result recommends an edit.
    pub prefer_edit_lines: usize,
    /// Above this size, the call is refused.
    pub max_lines: usize,
}

impl Default for WriteLimits {
    fn default() -> Self {
        Self {
            prefer_edit_lines: 200,
            max_lines: 2000,
        }
    }
}
