//! What a daemon changes for itself and its agents get back as it was: the limit of open files, and the umask.

use std::sync::OnceLock;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

static ORIGINAL: OnceLock<u64> = OnceLock::new();
static ORIGINAL_UMASK: OnceLock<u32> = OnceLock::new();

/// From here on every file that this process makes is its user's alone. Agents and hooks still get the umask that this
/// process had before.
pub fn keep_files_private() {
    let original = umask(Mode::S_IRWXG | Mode::S_IRWXO);
    ORIGINAL_UMASK.get_or_init(|| original.bits());
}

/// The umask before [`keep_files_private`].
pub(super) fn original_umask() -> Option<u32> {
    ORIGINAL_UMASK.get().copied()
}

/// Lifts this process's soft limit of open files to the hard one (each session needs about four descriptors) and
/// gives the limit that is in force now (0 if it cannot be known). Agents still get the limit that this process had
/// before.
pub fn raise_file_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 0;
    };
    // macOS reports "infinity" but accepts no more than this.
    let wanted = if cfg!(target_os = "macos") {
        hard.min(10_240)
    } else {
        hard
    };
    if soft >= wanted || setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_err() {
        return soft;
    }
    ORIGINAL.get_or_init(|| soft);
    wanted
}

/// The soft limit before it was lifted.
pub(super) fn original() -> Option<u64> {
    ORIGINAL.get().copied()
}
