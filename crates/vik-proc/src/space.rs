//! The free space of a file system.

use std::path::Path;

use nix::sys::statvfs::statvfs;

/// The largest reserve of a file system, whatever its size.
const MOST_RESERVED: u64 = 256 * 1024 * 1024;

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The bytes that are free for this user.
    pub free: u64,
    pub total: u64,
}

impl Space {
    /// Returns the space of the file system that holds a file or folder; `None` if it cannot be
    /// determined, or the file system has no size.
    pub fn of(path: &Path) -> Option<Self> {
        Self::with_files(path).map(|(space, _)| space)
    }

    /// Also returns how many files this user can still create; 0 if the file system does not count
    /// them.
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "the types differ between systems"
    )]
    pub(crate) fn with_files(path: &Path) -> Option<(Self, u64)> {
        let facts = statvfs(path).ok()?;
        let fragment = u64::try_from(facts.fragment_size()).unwrap_or(0);
        let space = Self {
            free: u64::from(facts.blocks_available()).saturating_mul(fragment),
            total: u64::from(facts.blocks()).saturating_mul(fragment),
        };
        (facts.blocks() > 0).then(|| (space, u64::from(facts.files_available())))
    }

    /// Returns how many bytes should stay free for records that must be written: 256 MiB, or a
    /// twentieth of a small file system.
    pub fn reserve(&self) -> u64 {
        (self.total / 20).min(MOST_RESERVED)
    }

    /// Returns whether less space is free than [`reserve`](Self::reserve).
    pub fn is_scarce(&self) -> bool {
        self.free < self.reserve()
    }
}
