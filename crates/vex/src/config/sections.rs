//! Tables of the settings without a module of their own.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sandbox of commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSettings {
    /// Folders outside of the workspace to which commands may write.
    pub write: Vec<PathBuf>,
    /// Whether the run fails if the kernel does not support the sandbox.
    pub require: bool,
}

/// The fill levels of the context at which it is shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextSettings {
    /// The fill level, in percent, from which on older parts are shortened with care.
    pub soft: u8,
    /// The fill level, in percent, from which on older parts are shortened at once.
    pub hard: u8,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self { soft: 70, hard: 90 }
    }
}
