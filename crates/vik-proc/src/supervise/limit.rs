//! Process settings that a daemon changes for itself and restores for its agents: the limit on open
//! files, and the umask.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

static ORIGINAL: OnceLock<u64> = OnceLock::new();
static ORIGINAL_UMASK: OnceLock<u32> = OnceLock::new();

/// Makes every file that this process creates from now on accessible to its user only. Agents and
/// hooks still get the original umask.
#[allow(clippy::useless_conversion, reason = "a mode has 16 bits on macOS")]
pub fn keep_files_private() {
    let original = umask(Mode::S_IRWXG | Mode::S_IRWXO);
    ORIGINAL_UMASK.get_or_init(|| original.bits().into());
}

/// Returns the umask before [`keep_files_private`].
pub(super) fn original_umask() -> Option<u32> {
    ORIGINAL_UMASK.get().copied()
}

/// Returns the highest limit on open files that this process can set for itself, or `None` if that
/// cannot be determined.
pub fn highest_file_limit() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    // macOS reports "infinity" but accepts no more than this.
    let highest = if cfg!(target_os = "macos") {
        hard.min(10_240)
    } else {
        hard
    };
    Some(highest.max(soft))
}

/// Raises this process's soft limit on open files to the highest possible, because each session
/// needs several. Returns the limit that is in force afterwards, or `None` if it cannot be
/// determined. Agents still get the original limit.
pub fn raise_file_limit() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let highest = highest_file_limit()?;
    if soft == highest || setrlimit(Resource::RLIMIT_NOFILE, highest, hard).is_err() {
        return Some(soft);
    }
    ORIGINAL.get_or_init(|| soft);
    Some(highest)
}

/// Returns the soft limit before it was raised.
pub(super) fn original() -> Option<u64> {
    ORIGINAL.get().copied()
}
