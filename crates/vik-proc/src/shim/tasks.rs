//! How many tasks (processes and threads) this system has room for, and how many of them are left.
//!
//! Reading that costs next to nothing. Only where many have gone is the tree counted: it may take half of what was free
//! when it started, so that other programs can always start processes.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::cgroup;

/// How long the tree may go uncounted for each free task: at most so many are made in that time by a storm of forks.
const PAUSE_PER_TASK: Duration = Duration::from_micros(2);
const MIN_PAUSE: Duration = Duration::from_millis(4);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// What bounds the number of tasks here.
#[derive(Debug)]
pub(super) struct Tasks {
    bounds: Vec<Bound>,
    free_at_start: u64,
}

/// One bound, and where it can be read how much of it is used.
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
    /// Begins to watch what is free now.
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

    /// How many tasks the tree may have.
    pub(super) fn limit(&self) -> u64 {
        // Where hardly anything is free, half of it would end whoever starts a compiler.
        (self.free_at_start / 2).max(FEW)
    }

    /// How many tasks its user may have for the tree to make more. The kernel counts all of a user's, in other containers
    /// too; they are no more than all tasks of the machine. It does not bound root's.
    pub(super) fn with_others(&self, allowed: u64) -> Option<u64> {
        tasks_of_machine().map(|others| others.saturating_add(allowed))
    }

    /// How many fewer are free than at the start.
    pub(super) fn lost(&self) -> u64 {
        self.free_at_start.saturating_sub(self.free())
    }

    /// After which time to ask again.
    pub(super) fn pause(&self) -> Duration {
        let free = u32::try_from(self.free_at_start).unwrap_or(u32::MAX);
        PAUSE_PER_TASK.saturating_mul(free).clamp(MIN_PAUSE, MAX_PAUSE)
    }
}

/// A tree may have so many tasks in any case.
const FEW: u64 = 64;

/// How many tasks this kernel allows. `None` where it does not say.
fn limit_of_machine() -> Option<u64> {
    let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    limits.into_iter().filter_map(number).min()
}

/// How many tasks there are, with those that have ended and nobody has waited for.
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
