//! The limits on the resources of a tree.

use serde::{Deserialize, Serialize};

/// How many tasks a tree may have for each process that it may have: threads are tasks too.
const TASKS_PER_PROCESS: u64 = 16;

/// The limits on the resources of a tree; `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLimits {
    /// The limit on resident memory of the whole tree, in bytes.
    pub memory: Option<u64>,
    /// The limit on the number of processes, including zombies.
    pub processes: Option<u32>,
    /// The limit on the disk space in each file system that the tree writes to. With any such
    /// limit, the tree may also create at most half of the files for which the file system has
    /// room.
    #[serde(default)]
    pub disk: Option<DiskLimit>,
}

/// A limit on the disk space of a tree in each file system that it writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskLimit {
    /// A number of bytes.
    Bytes(u64),
    /// Half of the space that is free when the tree starts.
    HalfOfFree,
}

impl SandboxLimits {
    /// Returns whether any limit is set.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// Returns how many tasks the tree may have, threads included.
    pub(crate) fn tasks(&self) -> u64 {
        self.processes.map_or(u64::MAX, |processes| {
            u64::from(processes).saturating_mul(TASKS_PER_PROCESS)
        })
    }
}

/// The limit that a tree exceeded, and its usage. The tree was killed for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overrun {
    Memory {
        used: u64,
        limit: u64,
    },
    Processes {
        used: u32,
        limit: u32,
    },
    /// Processes and threads: more than the limit on processes allows, or more than this system can
    /// spare.
    Tasks {
        used: u64,
        limit: u64,
    },
    /// The disk space of a file system.
    Disk {
        used: u64,
        limit: u64,
    },
    /// The space of a file system that is nearly full.
    Space {
        used: u64,
        /// The bytes that were left.
        free: u64,
    },
    /// The files of a file system, whatever their size.
    Files {
        used: u64,
        limit: u64,
    },
}
