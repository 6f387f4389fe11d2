//! Tables of the settings without a module of their own.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What commands may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxSettings {
    /// Folders outside of the workspace that commands may write to.
    pub write: Vec<PathBuf>,
    /// Whether to stop at once where the kernel cannot hold commands to that.
    pub require: bool,
}

/// How full the context may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ContextSettings {
    /// From this share on, in percent, older parts are made shorter with care.
    pub soft: u8,
    /// From this share on, in percent, they are made shorter at once.
    pub hard: u8,
}

impl Default for ContextSettings {
    fn default() -> Self {
        Self { soft: 70, hard: 90 }
    }
}
