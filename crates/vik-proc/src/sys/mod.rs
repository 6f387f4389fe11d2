//! The calls that need `unsafe`, each behind a safe function, and the differences between systems.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::errno::Errno;
use nix::libc;

use crate::identity::ProcessId;
use crate::sandbox::Fence;

#[cfg(target_os = "linux")]
mod gate;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "reads files of the kernel")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) mod netlink;
#[cfg(target_os = "linux")]
mod route;
#[cfg(target_os = "linux")]
pub(crate) use gate::{Gate, MAX_PORTS};
#[cfg(target_os = "linux")]
pub(crate) use landlock::*;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "linux")]
pub(crate) use route::is_elsewhere;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(crate) use macos::*;
mod boot_timer;
mod watch;
pub(crate) use boot_timer::BootTimer;
pub(crate) use watch::Watch;

/// The process name of shims, where a process can set its name.
pub(crate) const SHIM_NAME: &str = "vik-shim";

/// The entry of one process in the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) ppid: i32,
    pub(crate) start_time: u64,
    /// Whether the process is a zombie, or is exiting.
    pub(crate) dead: bool,
    pub(crate) threads: u64,
}

impl Stat {
    pub(crate) fn id(&self) -> ProcessId {
        ProcessId {
            pid: self.pid,
            start_time: self.start_time,
        }
    }
}

/// Returns the number of CPUs that this process may use. It is determined once: shims inherit it
/// from their template.
pub(crate) fn cpus() -> u32 {
    static CPUS: OnceLock<u32> = OnceLock::new();
    *CPUS.get_or_init(|| {
        std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
    })
}

/// Sends a signal to a pid, or to a process group if the number is negative.
#[allow(unsafe_code)]
pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: plain numbers; 0 and -1, which would reach far more than one tree, are never passed
    // on.
    if pid == 0 || pid == -1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(Errno::result(unsafe { libc::kill(pid, signal) }).map(drop)?)
}

/// Reaps a child of this process. Without `WNOHANG` in the flags it waits for the end of the child;
/// with it, returns `None` while the child lives.
#[allow(unsafe_code)]
pub(crate) fn reap(pid: i32, flags: libc::c_int) -> io::Result<Option<ExitStatus>> {
    let mut status = 0;
    loop {
        // SAFETY: the call fills in a number.
        match Errno::result(unsafe { libc::waitpid(pid, &mut status, flags) }) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(ExitStatus::from_raw(status))),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Gives this thread, and threads that it starts, precedence over ordinary ones, if this user may
/// do that.
#[allow(unsafe_code)]
pub(crate) fn raise_priority() {
    const NICE: libc::c_int = -10;
    // SAFETY: plain numbers. Without the privilege the call fails and changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Gives this process the usual priority, if that of its parent was raised.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn reset_priority() {
    // SAFETY: plain numbers. Without the privilege, which the parent then had not either, the call
    // fails and changes nothing.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) };
}

/// Marks descriptors from 3 on close-on-exec one by one. Safe between `fork` and `exec`: no
/// allocation.
#[allow(unsafe_code)]
pub(crate) fn cloexec_by_hand() {
    // The shim itself opens only a few, and descriptors that a careless daemon left open have low
    // numbers too.
    for fd in 3..4096 {
        // SAFETY: only a flag of a descriptor changes; a number that is not open gives an error.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

/// Takes ownership of a descriptor that this process was started with; returns `None` if it is not
/// open.
#[allow(unsafe_code)]
pub(crate) fn inherited(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: reading the flags of any number is harmless.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: the descriptor is open, was given to this process at its start, and is taken over
    // once.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The write end of the pipe for the signal handler.
static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);

#[allow(unsafe_code)]
extern "C" fn on_signal(signal: libc::c_int) {
    let fd = SIGNAL_PIPE.load(Ordering::Relaxed);
    let byte = u8::try_from(signal).unwrap_or(0);
    // SAFETY: only async-signal-safe calls; errno of the interrupted code is restored. The pipe
    // does not block: if it is full, the reader already has bytes to wake up for.
    unsafe {
        let errno = errno_location();
        let saved = *errno;
        libc::write(fd, std::ptr::from_ref(&byte).cast(), 1);
        *errno = saved;
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
unsafe fn errno_location() -> *mut libc::c_int {
    // SAFETY: always valid for the calling thread.
    unsafe { libc::__errno_location() }
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
unsafe fn errno_location() -> *mut libc::c_int {
    // SAFETY: always valid for the calling thread.
    unsafe { libc::__error() }
}

/// Turns the given signals into bytes on a pipe, unblocks the signals that the parent had blocked,
/// and ignores SIGPIPE and SIGHUP. Returns the read end. Must be called at most once.
#[allow(unsafe_code)]
pub(crate) fn signals_as_bytes(signals: &[i32]) -> io::Result<OwnedFd> {
    let (read, write) = pipe()?;
    set_nonblocking(&read, true)?;
    set_nonblocking(&write, true)?;
    SIGNAL_PIPE.store(std::os::fd::IntoRawFd::into_raw_fd(write), Ordering::Relaxed);
    // SAFETY: the handler is async-signal-safe and lives as long as the process; the structs are
    // plain data, and zero is a valid value for each.
    unsafe {
        for &signal in signals {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            Errno::result(libc::sigaction(signal, &action, std::ptr::null_mut()))?;
        }
        for signal in [libc::SIGPIPE, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
    Ok(read)
}

/// Creates a pipe; both ends are close-on-exec.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    #[cfg(target_os = "linux")]
    return Ok(nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?);
    #[cfg(not(target_os = "linux"))]
    {
        let ends = nix::unistd::pipe()?;
        for end in [&ends.0, &ends.1] {
            nix::fcntl::fcntl(end, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
        }
        Ok(ends)
    }
}

/// Sets whether reads and writes fail instead of blocking. The flag belongs to the open file, so
/// all its holders share it.
pub(crate) fn set_nonblocking(fd: &OwnedFd, on: bool) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let mut flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    flags.set(OFlag::O_NONBLOCK, on);
    fcntl(fd, FcntlArg::F_SETFL(flags))?;
    Ok(())
}

/// The input of [`fork_exec`], prepared so that the child allocates nothing.
#[derive(Default)]
pub(crate) struct Image {
    pub(crate) program: CString,
    pub(crate) args: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) cwd: CString,
    /// The sources of descriptors 0, 1 and 2. Each is 3 or higher, or is 1 or 2 itself.
    pub(crate) stdio: [RawFd; 3],
    pub(crate) open_files: Option<u64>,
    pub(crate) umask: Option<u32>,
    /// The limit on the tasks of this user that applies to the child.
    pub(crate) tasks: Option<u64>,
    /// The `cgroup.procs` file of a cgroup of version 1 that the child enters.
    pub(crate) entrance: Option<OwnedFd>,
    /// The network namespace that the child enters.
    #[cfg(target_os = "linux")]
    pub(crate) gate: Option<Gate>,
    /// The sandbox rules, which the child applies last.
    pub(crate) fence: Option<Fence>,
    /// Descriptors from 3 on that the child also gets, under their own numbers.
    pub(crate) passed: Vec<RawFd>,
    /// Whether the child ignores the signals that ask a tree to stop: such a child is a parent of
    /// the agent in its sandbox, and ends after it.
    pub(crate) deaf: bool,
    /// Whether descriptor 0 is a terminal that becomes the controlling terminal of the child.
    pub(crate) terminal: bool,
}

/// The step of the child that failed before `exec`. It is the first byte of the child's report; the
/// other bytes are errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildStep {
    Prepare = 0,
    Cwd = 1,
    Exec = 2,
    Confine = 3,
}

pub(crate) const REPORT_LEN: usize = 5;

/// Parses the report of a failed child. Returns `None` if it is empty, which means that `exec`
/// succeeded.
pub(crate) fn parse_report(bytes: &[u8]) -> Option<(ChildStep, i32)> {
    let (step, errno) = bytes.split_first()?;
    let step = match step {
        1 => ChildStep::Cwd,
        2 => ChildStep::Exec,
        3 => ChildStep::Confine,
        _ => ChildStep::Prepare,
    };
    Some((step, i32::from_ne_bytes(errno.try_into().ok()?)))
}

/// Starts the image in a new session. The child reports a failure before `exec` on `report`, whose
/// write end is closed when `exec` succeeds.
#[allow(unsafe_code)]
pub(crate) fn fork_exec(image: &Image, cgroup: Option<&OwnedFd>, report: &OwnedFd) -> io::Result<i32> {
    // SAFETY: the shim has one thread, so the child does not inherit locks that other threads held.
    start(image, report, |child| match unsafe { fork(cgroup) } {
        0 => unsafe { child.run() },
        pid => pid,
    })
}

/// Like [`fork_exec`], from a process of any size and with any number of threads. This thread waits
/// until the child has called `exec` or failed.
#[allow(unsafe_code)]
pub(crate) fn vfork_exec(image: &Image, report: &OwnedFd) -> io::Result<i32> {
    // SAFETY: the child takes no lock, and `start` returns after it has left this memory.
    start(image, report, |child| unsafe { vfork(child) })
}

/// Creates a child. All signals are blocked until the child has removed the handlers of this
/// process, which would swallow an earlier signal.
#[allow(unsafe_code)]
fn start(
    image: &Image,
    report: &OwnedFd,
    create: impl FnOnce(&ImageChild<'_>) -> libc::pid_t,
) -> io::Result<i32> {
    let child = ImageChild {
        image,
        argv: pointers(&image.args),
        envp: pointers(&image.env),
        parent: std::process::id(),
        report: report.as_raw_fd(),
    };
    // SAFETY: plain data, valid when zero, that the calls fill in.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let pid = Errno::result(create(&child));
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        Ok(pid?)
    }
}

/// The child of [`start`], before it exists.
pub(crate) struct ImageChild<'a> {
    image: &'a Image,
    /// The arguments and the environment; each list ends with null.
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    parent: u32,
    report: RawFd,
}

impl ImageChild<'_> {
    /// Becomes the image, or reports why it cannot.
    ///
    /// # Safety
    /// May be called only in a freshly created child. It does only async-signal-safe work on memory
    /// prepared before, and leaves by `exec` or `_exit`.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn run(&self) -> ! {
        // SAFETY: the caller guarantees it.
        unsafe {
            let (step, errno) = child(self.image, &self.argv, &self.envp, self.parent);
            let mut bytes = [0; REPORT_LEN];
            bytes[0] = step as u8;
            bytes[1..].copy_from_slice(&errno.to_ne_bytes());
            libc::write(self.report, bytes.as_ptr().cast(), bytes.len());
            libc::_exit(127)
        }
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings
        .iter()
        .map(|string| string.as_ptr())
        .chain([std::ptr::null()])
        .collect()
}

/// Runs the child's side of the start; returns only on failure.
///
/// # Safety
/// May be called only in a freshly forked child; the pointer arrays end with null and outlive the
/// call.
#[allow(unsafe_code)]
unsafe fn child(
    image: &Image,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    parent: u32,
) -> (ChildStep, i32) {
    // SAFETY: async-signal-safe calls with valid arguments.
    unsafe {
        if libc::setsid() < 0 {
            return (ChildStep::Prepare, *errno_location());
        }
        #[cfg(target_os = "linux")]
        if let Some(Err(error)) = image.gate.as_ref().map(Gate::enter) {
            return (ChildStep::Confine, error.raw_os_error().unwrap_or(0));
        }
        #[cfg(target_os = "linux")]
        {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The parent may have died before this took effect.
            if u32::try_from(libc::getppid()) != Ok(parent) {
                libc::_exit(127);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = parent;
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        if image.deaf {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        if let Some(mask) = image.umask {
            libc::umask(mask as libc::mode_t);
        }
        if let Some(soft) = image.open_files {
            let mut limit: libc::rlimit = std::mem::zeroed();
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
                limit.rlim_cur = soft.min(limit.rlim_max);
                libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            }
        }
        if let Some(most) = image.tasks {
            let mut limit: libc::rlimit = std::mem::zeroed();
            if libc::getrlimit(libc::RLIMIT_NPROC, &mut limit) == 0 {
                limit.rlim_max = limit.rlim_max.min(most);
                limit.rlim_cur = limit.rlim_cur.min(most);
                libc::setrlimit(libc::RLIMIT_NPROC, &limit);
            }
        }
        if let Some(entrance) = &image.entrance {
            // If this fails, the shim still watches the tree.
            libc::write(entrance.as_raw_fd(), b"0".as_ptr().cast(), 1);
        }
        if libc::chdir(image.cwd.as_ptr()) < 0 {
            return (ChildStep::Cwd, *errno_location());
        }
        for (target, source) in (0..).zip(image.stdio) {
            if libc::dup2(source, target) < 0 {
                return (ChildStep::Prepare, *errno_location());
            }
        }
        #[allow(
            clippy::cast_lossless,
            clippy::useless_conversion,
            reason = "the type differs between systems"
        )]
        if image.terminal && libc::ioctl(0, libc::TIOCSCTTY.into(), 0) < 0 {
            return (ChildStep::Prepare, *errno_location());
        }
        cloexec_from_3();
        for &fd in &image.passed {
            libc::fcntl(fd, libc::F_SETFD, 0);
        }
        if let Some(Err(error)) = image.fence.as_ref().map(Fence::enforce) {
            return (ChildStep::Confine, error.raw_os_error().unwrap_or(0));
        }
        libc::execve(image.program.as_ptr(), argv.as_ptr(), envp.as_ptr());
        (ChildStep::Exec, *errno_location())
    }
}

/// Returns the CPU time in milliseconds (user, system) and the peak resident set in KiB of all
/// reaped children.
#[allow(unsafe_code)]
pub(crate) fn children_usage() -> (u64, u64, Option<u64>) {
    // SAFETY: plain data, valid when zero, filled in by the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) < 0 {
            return (0, 0, None);
        }
        usage
    };
    #[allow(clippy::useless_conversion, reason = "the field is narrower on macOS")]
    let millis = |time: libc::timeval| {
        let micros = i64::from(time.tv_sec) * 1_000_000 + i64::from(time.tv_usec);
        u64::try_from(micros / 1000).unwrap_or(0)
    };
    let unit = if cfg!(target_os = "macos") { 1024 } else { 1 };
    let peak = u64::try_from(usage.ru_maxrss)
        .ok()
        .map(|peak| peak / unit)
        .filter(|&peak| peak > 0);
    (millis(usage.ru_utime), millis(usage.ru_stime), peak)
}

/// Takes ownership of a descriptor that was just created.
#[allow(unsafe_code)]
pub(crate) fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the caller has just got this descriptor from the system, and passes it on here.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Duplicates a descriptor of an open file. The copy is close-on-exec, and its number is above
/// those that programs are given.
#[allow(unsafe_code)]
pub(crate) fn duplicate_above_stdio(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; one that is not open results in an error.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 10) };
    owned(Errno::result(copy)?)
}

/// Calls `flock`. nix offers it only with an unlock on drop; a lock that is shared with a shim must
/// not be unlocked.
#[allow(unsafe_code)]
pub(crate) fn flock(fd: RawFd, operation: i32) -> nix::Result<()> {
    // SAFETY: plain numbers; no memory is accessed.
    Errno::result(unsafe { libc::flock(fd, operation) }).map(drop)
}
