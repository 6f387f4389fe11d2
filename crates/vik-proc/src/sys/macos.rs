//! Information about processes on macOS. It is weaker than Linux: no subreaper, no parent-death
//! signal, no pidfd, and the environment of other processes cannot be read. So a process that
//! leaves the agent's group and loses its parent is not found.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::libc;

use super::{ImageChild, Stat};

#[allow(unsafe_code)]
fn bsd_info(pid: i32) -> Option<libc::proc_bsdinfo> {
    let size = i32::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    // SAFETY: the buffer has the size that is passed, and all-zero bytes are a valid value of this
    // plain struct.
    let info = unsafe {
        if libc::proc_pidinfo(pid, libc::PROC_PIDTBSDINFO, 0, info.as_mut_ptr().cast(), size) != size {
            return None;
        }
        info.assume_init()
    };
    Some(info)
}

/// Returns the facts about one process, or `None` if it does not exist.
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

/// Returns the time since a start time in microseconds since 1970.
pub(crate) fn age(start_time: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_micros(start_time))
}

/// Returns the pids of all visible processes.
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

/// Returns `true`: the lists are not worth a call of their own.
pub(crate) fn has_children() -> bool {
    true
}

/// Returns `None`: the kernel keeps no such lists, so the caller reads the whole table.
pub(crate) fn children(_pid: i32) -> Option<Vec<i32>> {
    None
}

/// Returns `None`: macOS does not keep such lists.
pub(crate) fn children_of_thread(_pid: i32) -> Option<Vec<i32>> {
    None
}

/// Returns `false`: macOS does not provide it.
pub(crate) fn environment_holds(_pid: i32, _entry: &[u8]) -> bool {
    false
}

/// Returns `None`: macOS does not provide it.
pub(crate) fn mark_value(_pid: i32, _name: &str) -> Option<String> {
    None
}

/// Returns an empty name: it is not needed on macOS.
pub(crate) fn name(_pid: i32) -> String {
    String::new()
}

/// Returns an empty id: it is not read on macOS.
pub(crate) fn boot_id() -> String {
    String::new()
}

/// Returns an error: macOS has no such handles.
pub(crate) fn pidfd_open(_pid: i32) -> std::io::Result<OwnedFd> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Returns `false`: macOS has no subreapers.
pub(crate) fn become_subreaper() -> bool {
    false
}

/// Marks every descriptor from 3 on close-on-exec.
pub(crate) fn cloexec_from_3() {
    super::cloexec_by_hand();
}

/// Forks; macOS has no cgroups.
///
/// # Safety
/// As for `fork`: the child does only async-signal-safe work until it calls `exec`.
#[allow(unsafe_code)]
pub(crate) unsafe fn fork(_cgroup: Option<&OwnedFd>) -> libc::pid_t {
    // SAFETY: the caller guarantees it.
    unsafe { libc::fork() }
}

/// Forks a child.
///
/// # Safety
/// As for `fork`: the child takes no lock that another thread may hold.
#[allow(unsafe_code)]
pub(crate) unsafe fn vfork(child: &ImageChild<'_>) -> libc::pid_t {
    // SAFETY: the caller guarantees it.
    match unsafe { libc::fork() } {
        0 => unsafe { child.run() },
        pid => pid,
    }
}

/// Returns 0: it is not measured on macOS.
pub(crate) fn resident_bytes(_: i32) -> u64 {
    0
}

/// Returns 0: it is not measured on macOS.
pub(crate) fn own_bytes(_: i32) -> u64 {
    0
}

/// Returns an error: macOS enforces no list of hosts, so the address is never checked.
pub(crate) fn is_elsewhere(_: std::net::IpAddr) -> std::io::Result<bool> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Returns an empty list: extended attributes are not read on macOS.
pub(crate) fn attribute_names(_: std::os::fd::BorrowedFd<'_>) -> std::io::Result<Vec<u8>> {
    Ok(Vec::new())
}

/// Returns an empty value, like [`attribute_names`].
pub(crate) fn attribute(_: std::os::fd::BorrowedFd<'_>, _: &std::ffi::CStr) -> std::io::Result<Vec<u8>> {
    Ok(Vec::new())
}
