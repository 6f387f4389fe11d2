//! What macOS tells about processes. Weaker than Linux: no subreaper, no parent-death signal, no pidfd, and the
//! environment of others cannot be read, so a process that leaves the agent's group and loses its parent is not found.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::libc;

use super::Stat;

#[allow(unsafe_code)]
fn bsd_info(pid: i32) -> Option<libc::proc_bsdinfo> {
    let size = i32::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    // SAFETY: the buffer has the size that is passed, and all-zero bytes are a valid value of this plain struct.
    let info = unsafe {
        if libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast(), size) != size {
            return None;
        }
        info.assume_init()
    };
    Some(info)
}

/// The facts of one process, or `None` if there is none.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    const SZOMB: u32 = 5;
    let info = bsd_info(pid)?;
    Some(Stat {
        pid,
        ppid: i32::try_from(info.pbi_ppid).ok()?,
        start_time: info
            .pbi_start_tvsec
            .wrapping_mul(1_000_000)
            .wrapping_add(info.pbi_start_tvusec),
        dead: info.pbi_status == SZOMB,
        threads: 1,
    })
}

/// The time since a start that is given in microseconds since 1970.
pub(crate) fn age(start_time: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_micros(start_time))
}

/// Every process that can be seen.
#[allow(unsafe_code)]
pub(crate) fn all_pids() -> Vec<i32> {
    // SAFETY: a null buffer asks for the number of processes.
    let count = unsafe { libc::proc_listallpids(std::ptr::null_mut(), 0) };
    let mut pids = vec![0_i32; usize::try_from(count).unwrap_or(0) + 64];
    let bytes = i32::try_from(pids.len() * size_of::<i32>()).unwrap_or(0);
    // SAFETY: the buffer has the size that is passed.
    let count = unsafe { libc::proc_listallpids(pids.as_mut_ptr().cast(), bytes) };
    pids.truncate(usize::try_from(count).unwrap_or(0));
    pids.retain(|&pid| pid > 0);
    pids
}

/// Not kept by the kernel: the whole table is read.
pub(crate) fn children(_pid: i32) -> Option<Vec<i32>> {
    None
}

/// Not to be known here.
pub(crate) fn environment_holds(_pid: i32, _entry: &[u8]) -> bool {
    false
}

/// Not to be known here.
pub(crate) fn mark_value(_pid: i32, _name: &str) -> Option<String> {
    None
}

/// Not asked for here.
pub(crate) fn name(_pid: i32) -> String {
    String::new()
}

/// The id of this boot.
pub(crate) fn boot_id() -> String {
    String::new()
}

/// There is no such handle here.
pub(crate) fn pidfd_open(_pid: i32) -> std::io::Result<std::os::fd::OwnedFd> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// There is none here.
pub(crate) fn become_subreaper() -> bool {
    false
}

/// Marks every descriptor from 3 on close-on-exec.
pub(crate) fn cloexec_from_3() {
    super::cloexec_by_hand();
}

/// `fork`; there are no cgroups here.
///
/// # Safety
/// As for `fork`: the child does only async-signal-safe work until it calls `exec`.
#[allow(unsafe_code)]
pub(crate) unsafe fn fork(_cgroup: Option<&OwnedFd>) -> libc::pid_t {
    // SAFETY: the caller's.
    unsafe { libc::fork() }
}

/// Not told here.
pub(crate) fn resident_bytes(_: i32) -> u64 {
    0
}

/// Not told here.
pub(crate) fn own_bytes(_: i32) -> u64 {
    0
}

/// Whether the address is one of another machine. Not known here, where no list of hosts is upheld.
pub(crate) fn is_elsewhere(_: std::net::IpAddr) -> std::io::Result<bool> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Extended attributes are not looked at here.
pub(crate) fn attribute_names(_: std::os::fd::BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    Ok(Vec::new())
}

/// As [`attribute_names`].
pub(crate) fn attribute(_: std::os::fd::BorrowedFd<'_>, _: &std::ffi::CStr) -> io::Result<Vec<u8>> {
    Ok(Vec::new())
}
