//! How much of the disk is taken by what Vik keeps of an agent.
//!
//! The shim holds a living agent to its share ([`vik_proc::ShimSpec::kept`]). But one may print a lot of short lines and end
//! at once: its session log, which takes many times as much, is written afterwards.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use vik_proc::{Overrun, Space};

/// The files, and what they may take.
#[derive(Clone, Debug)]
pub struct KeptOutput {
    /// The files; those that are not there take nothing.
    pub files: Vec<PathBuf>,
    /// The most bytes that they may take; `None`: half of what would be free without them.
    pub limit: Option<u64>,
}

impl KeptOutput {
    /// Whether they take more than they may.
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
