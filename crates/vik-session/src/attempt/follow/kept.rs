//! The limit on the disk space of the files that Vik keeps of an agent.
//!
//! The shim enforces it while the agent is alive ([`vik_proc::ShimSpec::kept`]). But an agent may
//! print many short lines and exit at once: its session log, which is many times larger, is written
//! afterwards.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use vik_proc::{Overrun, Space};

/// The files that are kept of an agent, and their limit.
#[derive(Clone, Debug)]
pub struct KeptOutput {
    /// The files; one that does not exist has size 0.
    pub files: Vec<PathBuf>,
    /// The maximum number of bytes of all files; `None`: half of the space that would be free
    /// without them.
    pub limit: Option<u64>,
}

impl KeptOutput {
    /// Returns the overrun if the files exceed their limit.
    pub(super) fn overrun(&self) -> Option<Overrun> {
        let sizes = self.files.iter().filter_map(|file| file.symlink_metadata().ok());
        let used: u64 = sizes.map(|facts| facts.blocks().saturating_mul(512)).sum();
        let limit = match self.limit {
            Some(limit) => limit,
            None => {
                let free = Space::of(self.files.first()?)?.free;
                used.saturating_add(free) / 2
            }
        };
        (used > limit).then_some(Overrun::Disk { used, limit })
    }
}
