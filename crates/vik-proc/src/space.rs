//! How much room a file system has.

use std::path::Path;

use nix::sys::statvfs::statvfs;

/// The most that is kept free of a file system, whatever its size.
const MOST_RESERVED: u64 = 256 * 1024 * 1024;

/// The room of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What is free for this user.
    pub free: u64,
    /// Its size.
    pub total: u64,
}

impl Space {
    /// The room of the file system of a file or folder; `None` where that cannot be found out, or where it has no size.
    pub fn of(path: &Path) -> Option<Self> {
        Self::with_files(path).map(|(space, _)| space)
    }

    /// Returns also how many files this user can still make; 0 where the file system does not count them.
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

    /// How much of it should stay free, so that what must be written down has room: 256 MiB, or a twentieth of a small
    /// file system.
    pub fn reserve(&self) -> u64 {
        (self.total / 20).min(MOST_RESERVED)
    }

    /// Whether less is free than should be.
    pub fn is_scarce(&self) -> bool {
        self.free < self.reserve()
    }
}
