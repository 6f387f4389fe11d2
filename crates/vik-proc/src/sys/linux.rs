//! Information about processes on Linux: `/proc`, pidfds, prctl.

use std::ffi::{CStr, CString};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::{cmsg_space, libc};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::{ImageChild, Stat};
use crate::boot_time::BootTime;
use crate::kernel_file;

/// Returns the facts about one process, or `None` if it does not exist.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse_stat(pid, &kernel_file::read_short(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `/proc/PID/stat`. The name in the second field may contain anything, parentheses and
/// newlines included: the fields are counted from the last `)`.
pub(crate) fn parse_stat(pid: i32, line: &[u8]) -> Option<Stat> {
    let after_name = line.iter().rposition(|&byte| byte == b')')? + 1;
    let tail = std::str::from_utf8(&line[after_name..]).ok()?;
    let mut fields = tail.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let mut number = |skip: usize| fields.nth(skip)?.parse::<u64>().ok();
    let ppid = number(0)?;
    let threads = number(15)?;
    let start_time = number(1)?;
    let dead = match state {
        // The first thread may have ended while other threads of the process still run.
        b'Z' => threads <= 1,
        b'X' | b'x' => true,
        _ => false,
    };
    Some(Stat {
        pid,
        ppid: i32::try_from(ppid).ok()?,
        start_time,
        dead,
        threads,
    })
}

/// Returns the time since a start time in clock ticks since the boot.
#[allow(unsafe_code)]
pub(crate) fn age(start_time: u64) -> Duration {
    // SAFETY: a plain number.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = u64::try_from(ticks).unwrap_or(100).max(1);
    let start = Duration::from_millis(start_time.saturating_mul(1000) / ticks);
    Duration::from_nanos(BootTime::now().as_nanos()).saturating_sub(start)
}

/// Returns the pids of all visible processes.
pub(crate) fn all_pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns the children of a process from the kernel's own lists; `None` if the kernel does not
/// keep them. A list that changes while it is read may miss entries, so callers read it again until
/// nothing is left.
pub(crate) fn children(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    // If the process has ended, its children have another parent.
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    for task in tasks.flatten() {
        children.extend(children_of_task(&task.path())?);
    }
    Some(children)
}

/// Returns the children of a process with one thread, like [`children`].
pub(crate) fn children_of_thread(pid: i32) -> Option<Vec<i32>> {
    children_of_task(Path::new(&format!("/proc/{pid}/task/{pid}")))
}

fn children_of_task(task: &Path) -> Option<Vec<i32>> {
    match kernel_file::read_short(task.join("children")) {
        Ok(list) => {
            let pids = list.split(u8::is_ascii_whitespace).flat_map(std::str::from_utf8);
            Some(pids.filter_map(|pid| pid.parse().ok()).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && task.exists() => None,
        Err(_) => Some(Vec::new()),
    }
}

/// Returns whether this process has a child, ended or not.
pub(crate) fn has_children() -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT | WaitPidFlag::__WALL;
    waitid(Id::All, flags) != Err(Errno::ECHILD)
}

/// Returns the pids of a process in all its PID namespaces, starting with the namespace of this
/// process.
pub(crate) fn pids_within(pid: i32) -> Vec<i32> {
    let status = kernel_file::read_text(format!("/proc/{pid}/status")).unwrap_or_default();
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let pids = pids.unwrap_or_default().split_ascii_whitespace();
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

/// Returns the name of a process, which the process can change.
pub(crate) fn name(pid: i32) -> String {
    let name = kernel_file::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    String::from_utf8_lossy(name.trim_ascii_end()).into_owned()
}

/// Returns the environment that a process was started with. For a shim, whose environment only a
/// privileged process may read ([`crate::set_non_dumpable`]), it returns the arguments.
fn tokens(pid: i32) -> Vec<u8> {
    match kernel_file::read(format!("/proc/{pid}/environ")) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && name(pid) == super::SHIM_NAME => {
            kernel_file::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
        }
        environment => environment.unwrap_or_default(),
    }
}

/// Returns whether the environment that the process was started with contains exactly `entry`
/// (`NAME=VALUE`).
pub(crate) fn environment_holds(pid: i32, entry: &[u8]) -> bool {
    tokens(pid).split(|&byte| byte == 0).any(|found| found == entry)
}

/// Returns the value of this variable in the environment that the process was started with.
pub(crate) fn mark_value(pid: i32, name: &str) -> Option<String> {
    let value = tokens(pid).split(|&byte| byte == 0).find_map(|entry| {
        entry
            .strip_prefix(name.as_bytes())?
            .strip_prefix(b"=")
            .map(<[u8]>::to_vec)
    })?;
    String::from_utf8(value).ok()
}

pub(crate) fn boot_id() -> String {
    kernel_file::read_text("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// Opens a handle for a process, which does not change when the pid is reused.
#[allow(unsafe_code)]
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes plain numbers and returns a new file descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    super::owned(RawFd::try_from(Errno::result(fd)?).unwrap_or(-1))
}

/// Signals the process behind a pidfd.
#[allow(unsafe_code)]
pub(crate) fn pidfd_signal(pidfd: &OwnedFd, signal: i32) -> io::Result<()> {
    // SAFETY: a valid descriptor, a number, and a null siginfo, which the call allows.
    let done = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    Ok(Errno::result(done).map(drop)?)
}

/// Lets a task wait until the process behind a pidfd has exited: the descriptor is then readable.
#[allow(unsafe_code)]
pub(crate) fn watched(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor is open, and the same one, for as long as it lives.
    let watched = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
    watched.map_err(|error| error.into_parts().1)
}

/// Makes this process inherit the orphans among its descendants.
pub(crate) fn become_subreaper() -> bool {
    nix::sys::prctl::set_child_subreaper(true).is_ok()
}

/// Marks every descriptor from 3 on close-on-exec. Safe between `fork` and `exec`.
#[allow(unsafe_code)]
pub(crate) fn cloexec_from_3() {
    const CLOSE_RANGE_CLOEXEC: libc::c_uint = 1 << 2;
    // SAFETY: only flags of descriptors change; none is closed.
    let done = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) };
    if done != 0 {
        super::cloexec_by_hand();
    }
}

/// Returns the resident memory of a process in bytes, including shared pages; 0 if the process has
/// ended.
pub(crate) fn resident_bytes(pid: i32) -> u64 {
    let statm = kernel_file::read_text(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = statm
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
    let page = page.ok().flatten().and_then(|bytes| u64::try_from(bytes).ok());
    pages.unwrap_or(0).saturating_mul(page.unwrap_or(4096))
}

/// Returns the memory of a process in bytes, with its share of shared pages. The kernel walks the
/// page tables for it.
pub(crate) fn own_bytes(pid: i32) -> u64 {
    let rollup = kernel_file::read_text(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let kib = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = kib.and_then(|number| number.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.map_or_else(|| resident_bytes(pid), |kib| kib.saturating_mul(1024))
}

/// Removes from this thread the capabilities that a container does not grant either, for programs
/// that it executes as root.
#[allow(unsafe_code)]
pub(crate) fn drop_capabilities() {
    // chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service,
    // sys_chroot
    const KEPT: [libc::c_ulong; 10] = [0, 1, 3, 4, 5, 6, 7, 8, 10, 18];
    for capability in 0..64 {
        // SAFETY: plain numbers; it only takes rights away. It fails for an unprivileged thread,
        // which has no capabilities anyway, and after the last capability.
        if !KEPT.contains(&capability)
            && unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) } != 0
        {
            return;
        }
    }
}

/// A filter of system calls in the kernel's format.
#[derive(Debug)]
pub(crate) struct CallFilter(Vec<libc::sock_filter>);

impl CallFilter {
    pub(crate) fn new(program: Vec<libc::sock_filter>) -> Self {
        Self(program)
    }

    /// Applies the filter to the calling thread and all its descendants. Safe between `fork` and
    /// `exec`.
    #[allow(unsafe_code)]
    pub(crate) fn enforce(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.0.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
            filter: self.0.as_ptr().cast_mut(),
        };
        // SAFETY: plain numbers, and a program that lives until the call has copied it; it only
        // takes rights away.
        let done = unsafe {
            Errno::result(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                0,
                std::ptr::from_ref(&program),
            )
        };
        Ok(Errno::result(done).map(drop)?)
    }
}

/// Keeps glibc from retaining memory: large allocations are separate mappings, with a fixed
/// threshold (which otherwise rises with the largest freed one); free memory at the end of the heap
/// is returned; threads share two heaps.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
pub(crate) fn tune_heap() {
    const LARGE_BYTES: libc::c_int = 128 * 1024;
    // SAFETY: numbers only; an option that is refused changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

/// Forks, into a cgroup if one is given and the kernel supports that: moving a running process
/// costs the kernel about 15 ms. The caller checks whether the group is populated to see whether it
/// worked.
///
/// # Safety
/// As for `fork`: the child does only async-signal-safe work until it calls `exec`.
#[allow(unsafe_code)]
pub(crate) unsafe fn fork(cgroup: Option<&OwnedFd>) -> libc::pid_t {
    const CLONE_INTO_CGROUP: u64 = 1 << 33;
    if let Some(cgroup) = cgroup {
        // SAFETY: plain data, for which zero means: not used.
        let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
        args.flags = CLONE_INTO_CGROUP;
        args.exit_signal = libc::SIGCHLD as u64;
        args.cgroup = cgroup.as_raw_fd() as u64;
        // SAFETY: without a stack and without shared memory the call is a fork.
        let forked = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) };
        if forked >= 0 {
            return libc::pid_t::try_from(forked).unwrap_or(-1);
        }
    }
    // SAFETY: the caller guarantees it.
    unsafe { libc::fork() }
}

/// Creates a child that uses the memory of this process, on a stack of its own, until it calls
/// `exec` or ends. This thread waits for that. A fork would copy the page tables of a large process,
/// and then each page that the process writes.
///
/// # Safety
/// As for `fork`. The child shares `errno` with this thread, and takes no lock that another thread
/// may hold.
#[allow(unsafe_code)]
pub(crate) unsafe fn vfork(child: &ImageChild<'_>) -> libc::pid_t {
    /// Far more than the child needs; what it does not touch is not allocated.
    const STACK_BYTES: usize = 64 * 1024;
    extern "C" fn run(child: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the argument of `clone` below, in the child that it creates.
        unsafe { (*child.cast::<ImageChild<'_>>()).run() }
    }
    // A stack is aligned to 16 bytes.
    let mut stack: Vec<u128> = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let child = std::ptr::from_ref(child).cast_mut().cast();
    // SAFETY: the stack grows down from its end, and lives until the child has left this memory.
    unsafe { libc::clone(run, stack.as_mut_ptr().add(stack.capacity()).cast(), flags, child) }
}

/// Forks a sibling: its parent is the parent of this process. Returns its pid, or `None` in the
/// sibling. This process must have only one thread, so that the sibling can go on like a forked
/// child.
#[allow(unsafe_code)]
pub(crate) fn fork_sibling() -> io::Result<Option<i32>> {
    // SAFETY: without a stack and without shared memory the call is a fork, and no other thread
    // holds a lock.
    let forked = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT, 0, 0, 0, 0) };
    match i32::try_from(forked) {
        Ok(0) => Ok(None),
        Ok(pid @ 1..) => Ok(Some(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Closes ranges of descriptors, with both ends. Their owners must not use or close them any more.
#[allow(unsafe_code)]
pub(crate) fn close_ranges(ranges: &[(RawFd, RawFd)]) {
    for &(first, last) in ranges {
        // SAFETY: plain numbers, and the caller gives them up.
        unsafe {
            if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
                (first..=last).for_each(|fd| {
                    libc::close(fd);
                });
            }
        }
    }
}

/// Takes all descriptors below `end` that are free, so that later ones have higher numbers. They are
/// closed by number.
#[allow(unsafe_code)]
pub(crate) fn occupy_below(end: RawFd) -> io::Result<()> {
    for number in 3..end {
        // SAFETY: plain numbers; the descriptor is not used.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0
            && unsafe { libc::fcntl(0, libc::F_DUPFD_CLOEXEC, number) } != number
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Opens a handle for a file or folder whose path contains no links.
#[allow(unsafe_code)]
pub(crate) fn open_without_links(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: plain data, for which zero means: not used; the path ends with a NUL.
    let fd = unsafe {
        let mut how: libc::open_how = std::mem::zeroed();
        how.flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
        how.resolve = libc::RESOLVE_NO_SYMLINKS;
        let size = size_of_val(&how);
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw const how,
            size,
        )
    };
    super::owned(RawFd::try_from(Errno::result(fd)?).unwrap_or(-1))
}

/// Returns whether the names in a folder are encrypted.
#[allow(unsafe_code)]
pub(crate) fn is_encrypted(folder: &Path) -> io::Result<bool> {
    let path = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: plain data, valid when zero, that the call fills in; the path ends with a NUL.
    let facts = unsafe {
        let mut facts: libc::statx = std::mem::zeroed();
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        Errno::result(libc::statx(libc::AT_FDCWD, path.as_ptr(), flags, 0, &mut facts))?;
        facts
    };
    let encrypted = libc::STATX_ATTR_ENCRYPTED as u64;
    Ok(facts.stx_attributes & encrypted != 0)
}

/// Receives a message with descriptors, and returns its length and the descriptors.
///
/// # Errors
/// When the channel fails, or the message has more than [`MAX_PORTS`](super::MAX_PORTS) descriptors.
pub(crate) fn receive_descriptors(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = cmsg_space!([RawFd; super::MAX_PORTS]);
    loop {
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Ok(message) => {
                let mut received = Vec::new();
                for control in message.cmsgs()? {
                    if let ControlMessageOwned::ScmRights(descriptors) = control {
                        received.extend(descriptors.into_iter().filter_map(super::inherited));
                    }
                }
                return Ok((message.bytes, received));
            }
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives each descriptor its number in this process. No number may be among those of the given
/// descriptors.
#[allow(unsafe_code)]
pub(crate) fn install(given: &[(OwnedFd, RawFd)]) -> io::Result<()> {
    for (descriptor, number) in given {
        // SAFETY: plain numbers. What had the number before is closed, and its owner has given it
        // up.
        Errno::result(unsafe { libc::dup2(descriptor.as_raw_fd(), *number) })?;
    }
    Ok(())
}

/// Returns the names of a file's extended attributes, each with a NUL at the end; empty if the file
/// system has none.
#[allow(unsafe_code)]
pub(crate) fn attribute_names(file: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    // SAFETY: the kernel writes at most `size` bytes to the buffer, which has that size.
    sized(|buffer, size| unsafe { libc::flistxattr(file.as_raw_fd(), buffer.cast(), size) })
}

/// Returns the value of an extended attribute; empty if it was removed.
#[allow(unsafe_code)]
pub(crate) fn attribute(file: BorrowedFd<'_>, name: &CStr) -> io::Result<Vec<u8>> {
    // SAFETY: the name ends with a NUL; the kernel writes at most `size` bytes to the buffer, which
    // has that size.
    sized(|buffer, size| unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), buffer.cast(), size) })
}

/// Reads attributes. It asks for the size first, as most files have none. The size may change
/// meanwhile, but has an upper bound in the kernel.
fn sized(read: impl Fn(*mut u8, usize) -> isize) -> io::Result<Vec<u8>> {
    const MAX_BYTES: usize = 64 * 1024;
    let checked = |length: isize| match usize::try_from(length) {
        Ok(length) => Ok(length),
        Err(_) => match Errno::last() {
            Errno::EOPNOTSUPP | Errno::ENODATA => Ok(0),
            error => Err(io::Error::from(error)),
        },
    };
    if checked(read(std::ptr::null_mut(), 0))? == 0 {
        return Ok(Vec::new());
    }
    let mut buffer = vec![0; MAX_BYTES];
    let length = checked(read(buffer.as_mut_ptr(), buffer.len()))?;
    buffer.truncate(length);
    Ok(buffer)
}
