//! The limit of open files.

use std::io;
use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

static ORIGINAL: OnceLock<u64> = OnceLock::new();

/// Lifts this process's soft limit of open files to the hard one (each session needs about four descriptors) and
/// gives the new limit. Agents still get the limit that this process had before.
pub fn raise_file_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // macOS reports "infinity" but accepts no more than this.
    let wanted = if cfg!(target_os = "macos") { hard.min(10_240) } else { hard };
    if soft < wanted {
        ORIGINAL.get_or_init(|| soft);
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
        return Ok(wanted);
    }
    Ok(soft)
}

/// The soft limit before it was lifted.
pub(super) fn original() -> Option<u64> {
    ORIGINAL.get().copied()
}
