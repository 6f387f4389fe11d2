//! How much a tree may use.

use serde::{Deserialize, Serialize};

/// How many tasks a tree may have for each process that it may: threads are tasks too.
const TASKS_PER_PROCESS: u64 = 16;

/// How much a tree may use; `None` is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// Resident memory of the whole tree, in bytes.
    pub memory: Option<u64>,
    /// How many processes it may have, with those that have ended and that nobody has waited for.
    pub processes: Option<u32>,
    /// How much it may take of a file system that it writes to; with any, it may also take half of the files that this
    /// has room for.
    #[serde(default)]
    pub disk: Option<DiskLimit>,
}

/// How much a tree may take of each file system that it writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskLimit {
    /// So many bytes.
    Bytes(u64),
    /// Half of what is free when it starts.
    HalfOfFree,
}

impl SandboxLimits {
    /// Whether there is any.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// How many tasks it may have, threads among them.
    pub(crate) fn tasks(&self) -> u64 {
        self.processes.map_or(u64::MAX, |processes| {
            u64::from(processes).saturating_mul(TASKS_PER_PROCESS)
        })
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
    /// Processes and threads: more than the limit of processes allows for, or than this system can spare.
    Tasks {
        /// How many.
        used: u64,
        /// How many are allowed.
        limit: u64,
    },
    /// Of a file system.
    Disk {
        /// In bytes.
        used: u64,
        /// In bytes.
        limit: u64,
    },
    /// Of a file system that has next to nothing left.
    Space {
        /// In bytes.
        used: u64,
        /// What was left, in bytes.
        free: u64,
    },
    /// Files of a file system, whatever they hold.
    Files {
        /// How many.
        used: u64,
        /// How many are allowed.
        limit: u64,
    },
}
