//! How much a tree may use.

use serde::{Deserialize, Serialize};

/// How much a tree may use; `None` is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// Resident memory of the whole tree, in bytes.
    pub memory: Option<u64>,
    /// How many processes it may have.
    pub processes: Option<u32>,
}

impl SandboxLimits {
    /// Whether there is any.
    pub fn any(&self) -> bool {
        self.memory.is_some() || self.processes.is_some()
    }
}

/// Which limit a tree was over, and by what: for this it was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overrun {
    /// Resident memory.
    Memory {
        /// In bytes.
        used: u64,
        /// In bytes.
        limit: u64,
    },
    /// Processes.
    Processes {
        /// How many.
        used: u32,
        /// How many are allowed.
        limit: u32,
    },
}
