//! Hooks: programs of the user that are run before and after a call. They decide about it; a hook
//! without a valid answer denies.

mod run;

use serde::{Deserialize, Serialize};

use super::rules::ToolName;

pub(super) use run::HookSubject;

/// The default time limit of a hook.
const DEFAULT_TIMEOUT_MS: u64 = 10_000;

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// Before the call: the hook can allow it, deny it, or replace the arguments.
    PreTool,
    /// After the call: the hook can allow it, deny it, or replace the output.
    PostTool,
}

/// A hook.
///
/// It gets JSON on stdin (`event`, `tool`, `call_id`, `cwd`, `input`, and after the call `output` and `is_error`) and
/// answers with JSON on stdout: `{"decision": "allow" | "deny" | "replace", "code", "message", "input" | "output"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// When it runs.
    pub event: HookEvent,
    /// The tools for which it runs; all if the list is empty.
    #[serde(default)]
    pub tools: Vec<ToolName>,
    /// The shell command, which runs in the workspace.
    pub command: String,
    /// The time limit, in milliseconds.
    #[serde(default = "default_timeout")]
    pub timeout_ms: u64,
}

fn default_timeout() -> u64 {
    DEFAULT_TIMEOUT_MS
}

impl Hook {
    fn concerns(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|name| name.matches(tool))
    }
}
