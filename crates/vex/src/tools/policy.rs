//! The policy of a run: its permission, and what the user added to it.

use std::path::PathBuf;

use super::files::WriteLimits;
use super::hooks::Hook;
use super::permission::Permission;
use super::rules::{Rule, Rules, ToolName};
use crate::ask::CallApprover;
use crate::skills::Skills;

/// Everything that decides what a run may do. It comes from the command line, the environment and
/// the user's own files, never from the workspace.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub permission: Permission,
    /// The tools of the model; all if empty.
    pub tools: Vec<ToolName>,
    /// Rules beyond the profile.
    pub rules: Rules,
    /// Hooks before and after each call.
    pub hooks: Vec<Hook>,
    /// Approves each call that all other checks have allowed.
    pub asker: Option<CallApprover>,
    /// Limits for rewriting whole files.
    pub write: WriteLimits,
    /// Additional paths that commands may write to.
    pub sandbox_write: Vec<PathBuf>,
    /// Whether commands are refused if the system has no sandbox.
    pub sandbox_required: bool,
    /// Variables hidden from commands, beside the keys of the built-in providers.
    pub hide_env: Vec<String>,
    /// Exceptions from the hidden variables.
    pub pass_env: Vec<String>,
    /// The skills that the model can load.
    pub skills: Skills,
}

impl Policy {
    /// Returns the names in rules and hooks that keep calls from being made.
    pub(super) fn restricted(&self) -> impl Iterator<Item = &ToolName> {
        let denied = self.rules.deny.iter().map(Rule::tool);
        denied.chain(self.hooks.iter().flat_map(|hook| &hook.tools))
    }

    /// Returns whether the model gets this tool.
    pub(super) fn gives(&self, tool: &str) -> bool {
        self.tools.is_empty() || self.tools.iter().any(|name| name.matches(tool))
    }
}

impl From<Permission> for Policy {
    fn from(permission: Permission) -> Self {
        Self {
            permission,
            ..Self::default()
        }
    }
}
