//! Orphans that this process inherits: from its own lost shims, and from all processes when it is
//! process 1 of a container.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getsid};

use crate::identity::ProcessId;
use crate::supervise::shims;
use crate::sys::{self, Stat};

/// The interval at which [`reap_orphans_forever`] reaps.
const REAP_INTERVAL: Duration = Duration::from_secs(5);

static ADOPTS: AtomicBool = AtomicBool::new(false);

/// Returns whether this is the first process of its PID namespace, which inherits every orphan and
/// must reap it.
pub fn is_init() -> bool {
    std::process::id() == 1
}

/// Makes this process inherit the descendants of a lost shim, so that even a process that has
/// cleared its environment and left its group is found and the end is proven. It is called before
/// the first shim is started, and [`reap_orphans_forever`] must run afterwards. Returns `false` where the
/// system has no subreapers (macOS).
///
/// From then on a child of this process that is in another session and is no shim counts as such an
/// orphan; so this process must start no other children in sessions of their own.
pub fn adopt_orphans() -> bool {
    let adopts = sys::become_subreaper();
    // Process 1 also inherits processes that others started in the container; Vik must not kill
    // those.
    ADOPTS.store(adopts && !is_init(), Ordering::Relaxed);
    adopts
}

pub(crate) fn adopts() -> bool {
    ADOPTS.load(Ordering::Relaxed)
}

/// Returns the living processes that lost shims have left to this process.
pub(crate) fn orphans() -> Vec<ProcessId> {
    let mut orphans = shims::without_shims(own_children);
    orphans.retain(|stat| !stat.dead && session_of(stat).is_some() && is_left_behind(stat));
    orphans.iter().map(Stat::id).collect()
}

/// Returns whether a child of this process was left to it by a lost shim. A child that has ended or
/// was reaped meanwhile counts too: its connections may be open in another process.
pub(crate) fn is_orphan(child: i32) -> bool {
    if !adopts() {
        return false;
    }
    let Some(stat) = sys::stat(child) else { return true };
    shims::without_shims(|| vec![stat]).iter().any(is_left_behind)
}

/// Returns whether a child that is no shim is in another session. The other children of this
/// process stay in its session.
fn is_left_behind(child: &Stat) -> bool {
    session_of(child) != getsid(None).ok()
}

fn session_of(child: &Stat) -> Option<Pid> {
    getsid(Some(Pid::from_raw(child.pid))).ok()
}

/// Reaps orphans for which no task waits. Returns how many it has reaped.
pub(crate) fn reap_orphans<'a>(orphans: impl IntoIterator<Item = &'a ProcessId>) -> usize {
    let reaped = |orphan: &&ProcessId| {
        let parent = sys::stat(orphan.pid)
            .filter(|stat| stat.id() == **orphan)
            .map(|stat| stat.ppid);
        parent == Some(own_pid())
            && matches!(
                waitpid(Pid::from_raw(orphan.pid), Some(WaitPidFlag::WNOHANG)),
                Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
            )
    };
    orphans.into_iter().filter(reaped).count()
}

fn own_pid() -> i32 {
    i32::try_from(std::process::id()).unwrap_or(0)
}

/// Returns the children of this process, including those that have ended.
pub(crate) fn own_children() -> Vec<Stat> {
    if !sys::has_children() {
        return Vec::new();
    }
    let me = own_pid();
    let candidates = sys::children(me).unwrap_or_else(sys::all_pids);
    candidates
        .into_iter()
        .filter_map(sys::stat)
        .filter(|stat| stat.ppid == me)
        .collect()
}

/// Reaps orphans for as long as it is polled, without taking the exit status of this process's own
/// children from the tasks that wait for them. It is for a daemon that [adopts](adopt_orphans) or
/// [is process 1](is_init).
pub async fn reap_orphans_forever() {
    let mut reaper = OrphanReaper::default();
    loop {
        tokio::time::sleep(REAP_INTERVAL).await;
        reaper.reap();
    }
}

/// Tasks wait for the own children and reap them at once; a zombie that is still there at the next
/// check, seconds later, is an orphan.
#[derive(Debug, Default)]
struct OrphanReaper {
    previous: HashSet<ProcessId>,
}

impl OrphanReaper {
    fn reap(&mut self) -> usize {
        let zombies = shims::without_shims(own_children)
            .into_iter()
            .filter(|stat| stat.dead)
            .map(|stat| stat.id());
        let (orphans, fresh): (HashSet<_>, HashSet<_>) =
            zombies.partition(|zombie| self.previous.contains(zombie));
        self.previous = fresh;
        reap_orphans(&orphans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zombie_is_reaped_at_the_second_check() {
        let child = std::process::Command::new("true").spawn().unwrap();
        let id = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
        // No handle waits for the child any more.
        drop(child);
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while id.is_alive() {
            assert!(std::time::Instant::now() < deadline, "`true` does not end");
            std::thread::yield_now();
        }
        let mut seen = HashSet::new();
        seen.insert(id);
        assert_eq!(OrphanReaper::default().reap(), 0, "a first look takes nothing");
        assert_eq!(ProcessId::of(id.pid), Some(id));
        // Only this child is reaped: other tests of this process have children of their own.
        assert_eq!(reap_orphans(&seen), 1);
        assert_eq!(ProcessId::of(id.pid), None);
    }
}
