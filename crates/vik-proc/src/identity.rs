//! The identity of a process: a pid alone can be reused, a pid with its start time cannot.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::sys;

/// One process of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// The pid, as seen in this process's PID namespace.
    pub pid: i32,
    /// The start time: clock ticks since the boot (Linux), microseconds since 1970 (macOS).
    pub start_time: u64,
}

impl ProcessId {
    /// Returns the id of this process.
    pub fn current() -> Self {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        // Without /proc there is no start time; no other process can be identified either.
        Self::of(pid).unwrap_or(Self { pid, start_time: 0 })
    }

    /// Returns the process that has this pid now, zombies included.
    pub fn of(pid: i32) -> Option<Self> {
        sys::stat(pid).map(|stat| Self {
            pid,
            start_time: stat.start_time,
        })
    }

    /// Returns whether this very process still runs. A zombie counts as dead.
    pub fn is_alive(self) -> bool {
        sys::stat(self.pid).is_some_and(|stat| stat.start_time == self.start_time && !stat.dead)
    }

    /// Returns the time since the start of the process. On Linux it is measured by a clock that
    /// also runs while the machine sleeps and that cannot be set.
    pub fn age(self) -> Duration {
        sys::age(self.start_time)
    }

    /// Returns the parent's identity, while both processes live.
    pub fn parent(self) -> Option<Self> {
        let stat = sys::stat(self.pid).filter(|stat| stat.start_time == self.start_time)?;
        Self::of(stat.ppid).filter(|parent| parent.start_time <= self.start_time)
    }

    /// Asks this very process to end, by SIGTERM; for a shim that is a stop. Returns whether the
    /// process existed.
    pub fn terminate(self) -> bool {
        let existed = self.signal(nix::libc::SIGTERM);
        // A stopped process cannot end.
        self.signal(nix::libc::SIGCONT);
        existed
    }

    /// Sends a signal to this very process, never to another one that got its pid. Returns whether
    /// the process existed.
    pub(crate) fn signal(self, signal: i32) -> bool {
        #[cfg(target_os = "linux")]
        if let Ok(pidfd) = sys::pidfd_open(self.pid) {
            // The handle stays with the process that has the pid now. If that is the right one, the
            // signal cannot reach another.
            return Self::of(self.pid) == Some(self) && sys::pidfd_signal(&pidfd, signal).is_ok();
        }
        Self::of(self.pid) == Some(self) && sys::kill(self.pid, signal).is_ok()
    }
}

/// Returns the id of this boot (a [`ProcessId`] is meaningless in another boot), or an empty string
/// where the system has none.
pub fn boot_id() -> String {
    sys::boot_id()
}

/// Returns the ancestors of a process, nearest first, up to the first process of its PID namespace.
pub fn ancestors(pid: i32) -> Vec<ProcessId> {
    let mut ancestors = Vec::new();
    let mut current = ProcessId::of(pid);
    // A chain cannot be longer. The bound ends the loop even if the process table is inconsistent.
    while let Some(parent) = current
        .and_then(ProcessId::parent)
        .filter(|_| ancestors.len() < 4096)
    {
        ancestors.push(parent);
        current = Some(parent);
    }
    ancestors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_process_is_alive_and_its_ancestors_are_older() {
        let me = ProcessId::current();
        assert!(me.is_alive());
        // The first process is as old as this boot; its start time has a resolution of a hundredth
        // of a second.
        assert!(me.age() <= me.parent().unwrap().age() && me.age() < Duration::from_secs(3600));
        assert!(
            !ProcessId {
                start_time: me.start_time + 1,
                ..me
            }
            .is_alive()
        );
        let ancestors = ancestors(me.pid);
        assert!(!ancestors.is_empty());
        assert!(
            ancestors
                .windows(2)
                .all(|pair| pair[1].start_time <= pair[0].start_time)
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stat_cannot_be_forged_by_a_process_name() {
        let line =
            b"7 (a) Z 1 2) S 5 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 4242 1000 10 18446744073709551615";
        let stat = sys::parse_stat(7, line).unwrap();
        assert_eq!((stat.ppid, stat.start_time, stat.dead), (5, 4242, false));
    }

    #[test]
    fn zombie_counts_as_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while id.is_alive() {
            assert!(std::time::Instant::now() < deadline, "`true` does not end");
            std::thread::yield_now();
        }
        assert_eq!(
            ProcessId::of(id.pid),
            Some(id),
            "not reaped yet: still in the process table"
        );
        child.wait().unwrap();
        assert_eq!(ProcessId::of(id.pid), None);
    }

    proptest::proptest! {
        #[test]
        fn stat_is_read_after_any_process_name(name in "[ -~\n]{0,40}", ppid in 0..4_000_000_i32, start in 0..u64::MAX / 2) {
            let line = format!("9 ({name}) S {ppid} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0");
            #[cfg(target_os = "linux")]
            {
                let stat = sys::parse_stat(9, line.as_bytes()).unwrap();
                proptest::prop_assert_eq!((stat.ppid, stat.start_time), (ppid, start));
            }
        }
    }
}
