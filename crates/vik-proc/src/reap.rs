//! Orphans that come to the daemon: always when it is process 1 of a container.

use std::collections::HashSet;

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::identity::ProcessId;
use crate::supervise::is_own_shim;
use crate::sys;

/// Whether this is the first process of its PID namespace, which inherits every orphan and must reap it.
pub fn is_init() -> bool {
    std::process::id() == 1
}

/// Reaps orphans without taking the exit status of this process's own children from those who wait for them.
///
/// Own children are waited for at once by their tasks; a zombie that is still there at the next look, seconds later, is
/// nobody's. Shims of this process are never touched.
#[derive(Debug, Default)]
pub struct OrphanReaper {
    seen: HashSet<ProcessId>,
}

impl OrphanReaper {
    /// A reaper that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One look; call it every few seconds. `is_own` tells of pids that someone here waits for. Gives how many were
    /// reaped.
    pub fn look(&mut self, is_own: impl Fn(i32) -> bool) -> usize {
        let me = i32::try_from(std::process::id()).unwrap_or(0);
        let children = sys::children(me).unwrap_or_else(|| {
            sys::all_pids()
                .into_iter()
                .filter(|&pid| sys::stat(pid).is_some_and(|stat| stat.ppid == me))
                .collect()
        });
        let zombies: HashSet<ProcessId> = children
            .into_iter()
            .filter(|&pid| !is_own_shim(pid) && !is_own(pid))
            .filter_map(|pid| sys::stat(pid).filter(|stat| stat.dead && stat.ppid == me))
            .map(|stat| ProcessId {
                pid: stat.pid,
                start_time: stat.start_time,
            })
            .collect();
        let (orphans, fresh): (HashSet<_>, HashSet<_>) =
            zombies.into_iter().partition(|zombie| self.seen.contains(zombie));
        self.seen = fresh;
        let reaped = |orphan: &ProcessId| {
            matches!(
                waitpid(Pid::from_raw(orphan.pid), Some(WaitPidFlag::WNOHANG)),
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
            )
        };
        orphans.iter().filter(|orphan| reaped(orphan)).count()
    }
}
