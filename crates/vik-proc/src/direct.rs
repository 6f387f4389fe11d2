//! Commands that a small program runs itself, without a shim between: it is the subreaper of its own trees, as a shim is
//! of one. Everything that a command leaves comes to this process, whatever it did to its session, its group and its
//! parents, and is found there.
//!
//! Each command has a session of its own and a mark. What comes here in another session than this process's, and is no
//! command itself, was left by one: by the one whose mark it carries, or, without any, by the one that ends when no other
//! runs. So all other children of this process must stay in its session.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
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
use crate::{sys, tree};

/// Between two looks while a tree ends.
const PAUSE: Duration = Duration::from_millis(5);
/// How long [`kill_descendants`] tries.
const KILL_ALL: Duration = Duration::from_millis(300);

/// The commands of this process that run: the pids of their leaders and their marks.
static RUNNING: Mutex<Option<HashMap<i32, Mark>>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<HashMap<i32, Mark>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes this process the subreaper of what it starts; `false` where there is no such thing.
fn inherits_orphans() -> bool {
    static SUBREAPER: OnceLock<bool> = OnceLock::new();
    *SUBREAPER.get_or_init(sys::become_subreaper)
}

/// How a command is started.
#[derive(Debug, Default)]
pub struct CommandOptions<'a> {
    /// Confines it.
    pub fence: Option<&'a Fence>,
    /// Its standard input is a terminal that is to be its own.
    pub terminal: bool,
}

/// A command that runs, and all that it started. Dropping it kills the tree.
pub struct Direct {
    child: Child,
    id: ProcessId,
    pidfd: Option<OwnedFd>,
    mark: Mark,
    code: Option<i32>,
    ending: Option<Ending>,
    over: bool,
}

impl Direct {
    /// Starts it in a session of its own, with the mark in its environment. On Linux it is killed with the thread that
    /// started it.
    ///
    /// # Errors
    /// When it cannot be started or confined.
    #[allow(unsafe_code)]
    pub fn spawn(command: &mut Command, mark: Mark, terms: &CommandOptions<'_>) -> io::Result<Self> {
        inherits_orphans();
        command.env(&mark.name, &mark.value);
        let parent = std::process::id();
        let terminal = terms.terminal;
        let fence = terms.fence.cloned();
        // SAFETY: only async-signal-safe calls on what was made before; nothing is allocated.
        unsafe {
            command.pre_exec(move || prepare_child(parent, terminal, fence.as_ref()));
        }
        // Nobody may take the new child for a leftover before it is listed.
        let mut running = running();
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).unwrap_or(0);
        running.get_or_insert_default().insert(pid, mark.clone());
        drop(running);
        let id = ProcessId::of(pid).unwrap_or(ProcessId { pid, start_time: 0 });
        Ok(Self {
            child,
            id,
            pidfd: sys::pidfd_open(pid).ok(),
            mark,
            code: None,
            ending: None,
            over: false,
        })
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Readable once the command itself has ended; `None` where the system has no such thing: then look now and again.
    pub fn ended_fd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// The exit code of the command itself, 128 + n where a signal ended it; `None` while it runs.
    ///
    /// # Errors
    /// When its end cannot be known.
    pub fn try_code(&mut self) -> io::Result<Option<i32>> {
        if self.code.is_none()
            && let Some(status) = self.child.try_wait()?
        {
            let signal = || status.signal().map_or(1, |signal| 128 + signal);
            self.code = Some(status.code().unwrap_or_else(signal));
        }
        Ok(self.code)
    }

    /// Whether the command has ended and nothing that it started lives.
    pub fn has_exited(&mut self) -> bool {
        if !self.over && self.code.is_some() && self.members().is_empty() {
            self.close();
        }
        self.over
    }

    /// Begins to end all of the tree: SIGTERM, then SIGKILL, each for its grace. Call [`step`](Self::step) then.
    pub fn start_ending(&mut self, graces: Graces) {
        if self.ending.is_none() {
            self.ending = Some(Ending::start(graces));
        }
    }

    /// Goes on ending the tree. Gives what still lives once nothing does or time is up; else call it again soon.
    pub fn step(&mut self) -> Option<Vec<ProcessId>> {
        let found = self.members();
        let survivors = self.ending.as_mut()?.step(found)?;
        let _ = self.try_code();
        // An orphan that came here in between shows itself only in the next look.
        if survivors.is_empty() && !self.members().is_empty() {
            return None;
        }
        self.close();
        Some(survivors)
    }

    fn close(&mut self) {
        self.over = true;
        running().get_or_insert_default().remove(&self.id.pid);
    }

    /// Ends all of the tree, and waits for that. Gives what still lives.
    pub fn end(&mut self, graces: Graces) -> Vec<ProcessId> {
        self.start_ending(graces);
        loop {
            if let Some(survivors) = self.step() {
                return survivors;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Everything of the tree that is alive; what has ended and was left to this process is reaped.
    fn members(&self) -> Vec<ProcessId> {
        let mut roots = Vec::new();
        if self.code.is_none() && self.id.is_alive() {
            roots.push(self.id);
        }
        roots.extend(self.left_here());
        if !inherits_orphans() {
            roots.extend(tree::marked(&self.mark));
            roots.extend(tree::group(self.id.pid));
        }
        let pids: Vec<i32> = roots.iter().map(|process| process.pid).collect();
        roots.extend(tree::descendants(&pids));
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// What came to this process as an orphan, and was left by this command.
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
        // Whatever the reason, nothing of it may go on.
        self.ending = None;
        self.end(Graces {
            term: Duration::ZERO,
            kill: KILL_ALL,
            ..Graces::short()
        });
    }
}

/// Kills everything that descends from this process, as far as it can be done in a moment: for a process that must exit
/// at once.
pub fn kill_descendants() {
    let me = i32::try_from(std::process::id()).unwrap_or(0);
    let begin = Instant::now();
    loop {
        let found = tree::descendants(&[me]);
        if found.is_empty() || begin.elapsed() > KILL_ALL {
            return;
        }
        for process in found {
            process.signal(libc::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The child's side, after its standard streams are in place.
#[allow(unsafe_code)]
fn prepare_child(parent: u32, terminal: bool, fence: Option<&Fence>) -> io::Result<()> {
    // SAFETY: async-signal-safe calls with plain numbers.
    unsafe {
        if libc::setsid() < 0 {
            return Err(io::Error::last_os_error());
        }
        #[cfg(target_os = "linux")]
        {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The parent may have died before that took hold.
            if u32::try_from(libc::getppid()) != Ok(parent) {
                libc::_exit(127);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = parent;
        #[allow(
            clippy::cast_lossless,
            clippy::useless_conversion,
            reason = "the type differs between systems"
        )]
        if terminal && libc::ioctl(0, libc::TIOCSCTTY.into(), 0) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    sys::cloexec_from_3();
    fence.map_or(Ok(()), Fence::enforce)
}
