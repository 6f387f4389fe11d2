//! The limit on the disk space of the files that Vik keeps of an agent.
//!
//! The shim enforces it while the agent is alive ([`vik_proc::ShimSpec::kept`]). But an agent may
//! print many short lines and exit at once: its session log, which is many times larger, is written
//! afterwards.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use vik_proc::{Overrun, Space};
use vik_workspace::fs as private;

/// The files that are kept of an agent, and their limit.
#[derive(Clone, Debug)]
pub struct KeptOutput {
    /// The files; one that does not exist has size 0.
    pub files: Vec<PathBuf>,
    /// The maximum number of bytes of all files; `None`: half of the space that would be free
    /// without them.
    pub limit: Option<u64>,
    /// The file whose length is made the number of bytes that do not count.
    pub discount: PathBuf,
}

impl KeptOutput {
    /// Writes down for the shim that at least so many bytes do not count. `file` is the opened file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn write_discount(&self, bytes: u64, file: &mut Option<File>) -> io::Result<()> {
        let known = self.discount.symlink_metadata().map_or(0, |facts| facts.len());
        if bytes <= known {
            // An earlier daemon has found more, which is found again.
            return Ok(());
        }
        let file = match file {
            Some(file) => file,
            None => file.insert(private::create_private(&self.discount)?),
        };
        file.set_len(bytes)
    }

    /// Returns the overrun if the files exceed their limit by more than the bytes that do not count.
    /// These are bounded by the limit, because an agent can print lines that only look like parts.
    pub(super) fn overrun(&self, discount: u64) -> Option<Overrun> {
        let sizes = self.files.iter().filter_map(|file| file.symlink_metadata().ok());
        let used: u64 = sizes.map(|facts| facts.blocks().saturating_mul(512)).sum();
        let limit = match self.limit {
            Some(limit) => limit,
            None => {
                let free = Space::of(self.files.first()?)?.free;
                used.saturating_add(free) / 2
            }
        };
        let used = used.saturating_sub(discount.min(limit));
        (used > limit).then_some(Overrun::Disk { used, limit })
    }
}
