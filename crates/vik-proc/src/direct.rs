//! Commands that a small program runs itself, without a shim. The program is the subreaper of its
//! trees, as a shim is the subreaper of one. Every process that a command leaves behind becomes a
//! child of this process, whatever the command did to its session, group and parents, and is found
//! there.
//!
//! Each command has a session of its own and a mark. A child of this process in another session
//! that is not a command was left behind by a command: by the one whose mark it carries, or,
//! without a mark, by the command that ends while no other one runs. Therefore all other children
//! of this process must stay in its session.

use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getsid};

use crate::identity::ProcessId;
use crate::reap::own_children;
use crate::sandbox::Fence;
use crate::spec::{Graces, Mark};
use crate::sweep::Ending;
use crate::sys::{self, Image};
use crate::tree;

/// The time between two checks while a tree ends.
const PAUSE: Duration = Duration::from_millis(5);
/// The longest time that [`kill_descendants`] takes.
const KILL_ALL: Duration = Duration::from_millis(300);

/// The running commands of this process: the pids of their leaders and their marks.
static RUNNING: Mutex<Option<HashMap<i32, Mark>>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<HashMap<i32, Mark>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the subreaper of its descendants. Returns `false` where the system has no
/// subreapers.
fn inherits_orphans() -> bool {
    static SUBREAPER: OnceLock<bool> = OnceLock::new();
    *SUBREAPER.get_or_init(sys::become_subreaper)
}

/// A command to start.
pub struct DirectSpec<'a> {
    /// The path of the program.
    pub program: &'a Path,
    /// The arguments after the name of the program.
    pub args: &'a [&'a OsStr],
    pub cwd: &'a Path,
    /// The whole environment, except the mark.
    pub env: Vec<(OsString, OsString)>,
    /// Standard input, output and error.
    pub stdio: [OwnedFd; 3],
    /// The sandbox rules of the command.
    pub fence: Option<&'a Fence>,
    /// Whether standard input is a terminal that becomes the controlling terminal of the command.
    pub terminal: bool,
}

/// A running command with all its descendants. Dropping it kills the tree.
pub struct Direct {
    /// The command itself. Until it is reaped, no other process can get its pid.
    pid: i32,
    pidfd: Option<OwnedFd>,
    mark: Mark,
    code: Option<i32>,
    ending: Option<Ending>,
    over: bool,
}

impl Direct {
    /// Starts the command in a session of its own, with the mark in its environment and with the
    /// default handling of all signals. On Linux it is killed when the thread that started it ends.
    ///
    /// # Errors
    /// When the command cannot be started or confined.
    pub fn spawn(spec: DirectSpec<'_>, mark: Mark) -> io::Result<Self> {
        inherits_orphans();
        let image = image(&spec, &mark)?;
        let (report, writer) = sys::pipe()?;
        // Holds the lock until the child is listed, so that no other command takes it for a
        // leftover.
        let mut running = running();
        let pid = sys::vfork_exec(&image, &writer)?;
        running.get_or_insert_default().insert(pid, mark.clone());
        drop((running, writer, image, spec));
        let mut direct = Self {
            pid,
            pidfd: sys::pidfd_open(pid).ok(),
            mark,
            code: None,
            ending: None,
            over: false,
        };
        let mut bytes = Vec::new();
        // The pipe is closed when the command runs.
        File::from(report).read_to_end(&mut bytes)?;
        match sys::parse_report(&bytes) {
            None => Ok(direct),
            Some((_, errno)) => {
                sys::reap(pid, 0)?;
                direct.close();
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    /// Returns a descriptor that is readable once the command itself has ended. Returns `None`
    /// where the system has no such descriptor; the caller then polls.
    pub fn ended_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Returns the exit code of the command itself, or 128 + n if signal n ended it; `None` while
    /// it runs.
    ///
    /// # Errors
    /// When the exit status cannot be read.
    pub fn try_code(&mut self) -> io::Result<Option<i32>> {
        if self.code.is_none()
            && let Some(status) = sys::reap(self.pid, libc::WNOHANG)?
        {
            let signal = || status.signal().map_or(1, |signal| 128 + signal);
            self.code = Some(status.code().unwrap_or_else(signal));
        }
        Ok(self.code)
    }

    /// Returns whether the command has ended and no descendant of it lives.
    pub fn has_exited(&mut self) -> bool {
        if !self.over && self.code.is_some() && self.members().is_empty() {
            self.close();
        }
        self.over
    }

    /// Starts to end the tree: SIGTERM, then SIGKILL, each for its grace. [`step`](Self::step)
    /// continues it.
    pub fn start_ending(&mut self, graces: Graces) {
        if self.ending.is_none() {
            self.ending = Some(Ending::start(graces));
        }
    }

    /// Continues to end the tree. Returns the survivors once nothing lives or the time is up. After
    /// `None` the caller repeats the call soon.
    pub fn step(&mut self) -> Option<Vec<ProcessId>> {
        let found = self.members();
        let survivors = self.ending.as_mut()?.step(found)?;
        let _ = self.try_code();
        // An orphan that became a child of this process meanwhile is visible only in the next
        // check.
        if survivors.is_empty() && !self.members().is_empty() {
            return None;
        }
        self.close();
        Some(survivors)
    }

    fn close(&mut self) {
        self.over = true;
        running().get_or_insert_default().remove(&self.pid);
    }

    /// Ends the tree and waits for that. Returns the survivors.
    pub fn end(&mut self, graces: Graces) -> Vec<ProcessId> {
        self.start_ending(graces);
        loop {
            if let Some(survivors) = self.step() {
                return survivors;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns all living processes of the tree. Reaps processes that have ended and are children
    /// of this process.
    fn members(&self) -> Vec<ProcessId> {
        let mut roots = Vec::new();
        if self.code.is_none() {
            let stat = sys::stat(self.pid).filter(|stat| !stat.dead);
            roots.extend(stat.map(|stat| stat.id()));
        }
        roots.extend(self.left_here());
        if !inherits_orphans() {
            roots.extend(tree::marked(&self.mark));
            roots.extend(tree::group(self.pid));
        }
        let pids: Vec<i32> = roots.iter().map(|process| process.pid).collect();
        roots.extend(tree::descendants(&pids));
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// Returns the orphans that this command left to this process.
    fn left_here(&self) -> Vec<ProcessId> {
        let running = running();
        let Some(listed) = running.as_ref() else {
            return Vec::new();
        };
        let own_session = getsid(None);
        let alone = listed.len() <= 1;
        let mut left = Vec::new();
        for stat in own_children() {
            if listed.contains_key(&stat.pid) {
                continue;
            }
            let session = getsid(Some(Pid::from_raw(stat.pid)));
            if session.is_err() || session == own_session {
                continue;
            }
            if stat.dead {
                let _ = waitpid(Pid::from_raw(stat.pid), Some(WaitPidFlag::WNOHANG));
                continue;
            }
            let of_another = match sys::mark_value(stat.pid, &self.mark.name) {
                Some(value) => value != self.mark.value && listed.values().any(|mark| mark.value == value),
                None => !alone,
            };
            if !of_another {
                left.push(stat.id());
            }
        }
        left
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // A dropped command leaves no process behind, whatever the reason for the drop.
        self.ending = None;
        self.end(Graces {
            term: Duration::ZERO,
            kill: KILL_ALL,
            ..Graces::short()
        });
    }
}

/// Kills all descendants of this process, as far as that is possible within 300 ms: for a process
/// that must exit at once.
pub fn kill_descendants() {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let started = Instant::now();
    loop {
        let found = tree::descendants(&[me]);
        if found.is_empty() || started.elapsed() > KILL_ALL {
            return;
        }
        for process in found {
            process.signal(libc::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Prepares the process image of a command.
fn image(spec: &DirectSpec<'_>, mark: &Mark) -> io::Result<Image> {
    let c_string = |text: &OsStr| CString::new(text.as_bytes());
    let entry = |name: &OsStr, value: &OsStr| CString::new([name.as_bytes(), value.as_bytes()].join(&b'='));
    let own = entry(mark.name.as_ref(), mark.value.as_ref());
    let env = spec.env.iter().filter(|(name, _)| name != mark.name.as_str());
    Ok(Image {
        program: c_string(spec.program.as_os_str())?,
        args: std::iter::once(&spec.program.as_os_str())
            .chain(spec.args)
            .map(|arg| c_string(arg))
            .collect::<Result<_, _>>()?,
        env: env
            .map(|(name, value)| entry(name, value))
            .chain([own])
            .collect::<Result<_, _>>()?,
        cwd: c_string(spec.cwd.as_os_str())?,
        stdio: spec.stdio.each_ref().map(AsRawFd::as_raw_fd),
        fence: spec.fence.cloned(),
        terminal: spec.terminal,
        ..Image::default()
    })
}
