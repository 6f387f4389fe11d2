//! The calls of Landlock.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::libc;

/// Returns the version of Landlock that the kernel offers.
#[allow(unsafe_code)]
pub(crate) fn landlock_abi() -> io::Result<i64> {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: with this flag, a null attribute and size 0 the call only returns a number.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    Ok(Errno::result(abi)?)
}

/// Confines the calling thread and all its descendants by these rules. Safe between `fork` and
/// `exec`.
#[allow(unsafe_code)]
pub(crate) fn landlock_restrict(rules: RawFd) -> io::Result<()> {
    // SAFETY: plain numbers; both calls only take rights away from this thread.
    let done = unsafe {
        Errno::result(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        libc::syscall(libc::SYS_landlock_restrict_self, rules, 0)
    };
    Ok(Errno::result(done).map(drop)?)
}

/// Allows these kinds of access to a file, or below a folder.
#[allow(unsafe_code)]
pub(crate) fn landlock_allow(rules: &OwnedFd, place: BorrowedFd<'_>, access: u64) -> io::Result<()> {
    const PATH_BENEATH: u32 = 1;
    // The kernel's structure has no padding.
    let mut rule = [0; size_of::<u64>() + size_of::<RawFd>()];
    let (rights, parent) = rule.split_at_mut(size_of::<u64>());
    rights.copy_from_slice(&access.to_ne_bytes());
    parent.copy_from_slice(&place.as_raw_fd().to_ne_bytes());
    // SAFETY: a descriptor, numbers, and a rule of the length that this kind has.
    let done = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            rules.as_raw_fd(),
            PATH_BENEATH,
            rule.as_ptr(),
            0,
        )
    };
    Ok(Errno::result(done).map(drop)?)
}
