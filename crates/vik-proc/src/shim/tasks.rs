//! The number of tasks (processes and threads) that this system allows, and how many are free.
//!
//! A tree may have half of the tasks that were free when it started, so that other programs can always start processes.
//! Reading how many are free is cheap; the tree is counted only when many are gone.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::cgroup;

/// The time between two counts, for each free task: a fork bomb cannot create more tasks than were free in that time.
const PAUSE_PER_TASK: Duration = Duration::from_micros(2);
const MIN_PAUSE: Duration = Duration::from_millis(4);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The limits on the number of tasks of this machine and its cgroups.
#[derive(Debug)]
pub(super) struct Tasks {
    bounds: Vec<Bound>,
    free_at_start: u64,
}

/// One limit, and where its use is read.
#[derive(Debug)]
enum Bound {
    Machine { limit: u64 },
    Cgroup { folder: PathBuf },
}

impl Bound {
    fn free(&self) -> Option<u64> {
        let (limit, used) = match self {
            Self::Machine { limit } => (*limit, tasks_of_machine()?),
            Self::Cgroup { folder } => {
                let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
                (number("pids.max")?, number("pids.current")?)
            }
        };
        Some(limit.saturating_sub(used))
    }
}

impl Tasks {
    /// Starts to watch: what is free now sets the limit of the tree.
    pub(super) fn watch() -> Self {
        let machine = limit_of_machine().map(|limit| Bound::Machine { limit });
        let groups = cgroup::task_limits().into_iter();
        let mut tasks = Self {
            bounds: machine
                .into_iter()
                .chain(groups.map(|folder| Bound::Cgroup { folder }))
                .collect(),
            free_at_start: 0,
        };
        tasks.free_at_start = tasks.free();
        tasks
    }

    fn free(&self) -> u64 {
        self.bounds
            .iter()
            .filter_map(Bound::free)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Returns how many tasks the tree may have.
    pub(super) fn limit(&self) -> u64 {
        // When little is free, half of it would be too few to start a compiler.
        (self.free_at_start / 2).max(MIN_LIMIT)
    }

    /// Returns the limit on tasks of the whole user (`RLIMIT_NPROC`) that leaves the tree `allowed` ones. The kernel counts
    /// all tasks of the user, in other containers too, which are at most those of the machine. It does not limit root.
    pub(super) fn user_limit(&self, allowed: u64) -> Option<u64> {
        tasks_of_machine().map(|others| others.saturating_add(allowed))
    }

    /// Returns how many fewer tasks are free than at the start.
    pub(super) fn lost(&self) -> u64 {
        self.free_at_start.saturating_sub(self.free())
    }

    /// Returns the wait before the next check.
    pub(super) fn pause(&self) -> Duration {
        let free = u32::try_from(self.free_at_start).unwrap_or(u32::MAX);
        PAUSE_PER_TASK.saturating_mul(free).clamp(MIN_PAUSE, MAX_PAUSE)
    }
}

/// The least limit of a tree, however few tasks are free.
const MIN_LIMIT: u64 = 64;

/// Returns how many tasks this kernel allows; `None` where that cannot be read.
fn limit_of_machine() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    limits.into_iter().filter_map(number).min()
}

/// Returns the number of tasks of the machine, zombies included.
fn tasks_of_machine() -> Option<u64> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let (_, all) = load.split_ascii_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_bound_counts() {
        let folder = tempfile::tempdir().unwrap();
        let set = |name: &str, value: &str| fs::write(folder.path().join(name), value).unwrap();
        set("pids.max", "1000\n");
        set("pids.current", "200\n");
        let group = Bound::Cgroup {
            folder: folder.path().to_owned(),
        };
        let mut tasks = Tasks {
            bounds: vec![Bound::Machine { limit: u64::MAX }, group],
            free_at_start: 0,
        };
        tasks.free_at_start = tasks.free();
        assert_eq!((tasks.free_at_start, tasks.limit(), tasks.lost()), (800, 400, 0));
        assert_eq!(tasks.pause(), MIN_PAUSE);
        set("pids.current", "700\n");
        assert_eq!(tasks.lost(), 500);
        set("pids.max", "max\n");
        assert_eq!(tasks.lost(), 0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_system_has_a_bound() {
        let tasks = Tasks::watch();
        assert!(tasks.free_at_start > 0 && tasks.free_at_start < u64::MAX);
    }
}
