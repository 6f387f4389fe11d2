//! The number of tasks (processes and threads) that this system allows, and how many are free.
//!
//! A tree may have half of the tasks that were free when it started, so that other programs can
//! always start processes. Reading how many are free is cheap; the tree is counted only when many
//! are gone.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::cgroup::OwnGroups;
use crate::{kernel_file, sys};

/// The time between two counts for each free task, divided by the number of CPUs: a fork bomb
/// cannot create half of the free tasks in that time. A task without memory of its own takes 20 to
/// 30 microseconds of a CPU.
const PAUSE_PER_TASK: Duration = Duration::from_micros(12);
/// The lower bound of this time, since more CPUs create tasks only up to a rate: they all take one
/// lock of the kernel.
const MIN_PAUSE_PER_TASK: Duration = Duration::from_micros(2);
const MIN_PAUSE: Duration = Duration::from_millis(4);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The limits on the number of tasks of this machine and its cgroups.
#[derive(Debug)]
pub(super) struct Tasks {
    bounds: Vec<Bound>,
    /// `/proc/loadavg`, kept open: it is read several times a second for as long as the agent runs.
    load: Option<File>,
    free_at_start: u64,
}

/// One limit, and where its use is read.
#[derive(Debug)]
enum Bound {
    Machine { limit: u64 },
    Cgroup { folder: PathBuf },
}

impl Bound {
    fn free(&self, load: Option<&File>) -> Option<u64> {
        let (limit, used) = match self {
            Self::Machine { limit } => (*limit, tasks_of_machine(load?)?),
            Self::Cgroup { folder } => {
                let number = |name: &str| {
                    kernel_file::read_text(folder.join(name))
                        .ok()?
                        .trim()
                        .parse()
                        .ok()
                };
                (number("pids.max")?, number("pids.current")?)
            }
        };
        Some(limit.saturating_sub(used))
    }
}

impl Tasks {
    /// Starts to watch the tasks. The number that is free now determines the limit of the tree.
    pub(super) fn watch(own: &OwnGroups) -> Self {
        let machine = limit_of_machine().map(|limit| Bound::Machine { limit });
        let groups = own.task_limits().into_iter();
        let mut tasks = Self {
            bounds: machine
                .into_iter()
                .chain(groups.map(|folder| Bound::Cgroup { folder }))
                .collect(),
            load: File::open("/proc/loadavg").ok(),
            free_at_start: 0,
        };
        tasks.free_at_start = tasks.free();
        tasks
    }

    fn free(&self) -> u64 {
        self.bounds
            .iter()
            .filter_map(|bound| bound.free(self.load.as_ref()))
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Returns how many tasks the tree may have.
    pub(super) fn limit(&self) -> u64 {
        // When little is free, half of it would be too few to start a compiler.
        (self.free_at_start / 2).max(MIN_LIMIT)
    }

    /// Returns the limit on tasks of the whole user (`RLIMIT_NPROC`) that leaves the tree `allowed`
    /// ones. The kernel counts all tasks of the user, in other containers too, which are at most
    /// those of the machine. It does not limit root.
    pub(super) fn user_limit(&self, allowed: u64) -> Option<u64> {
        tasks_of_machine(self.load.as_ref()?).map(|others| others.saturating_add(allowed))
    }

    /// Returns how many fewer tasks are free than at the start.
    pub(super) fn lost(&self) -> u64 {
        self.free_at_start.saturating_sub(self.free())
    }

    /// Returns the wait before the next check.
    pub(super) fn pause(&self) -> Duration {
        pause(self.free_at_start, sys::cpus())
    }
}

/// Returns the time between two counts, given the number of free tasks and of CPUs.
fn pause(free: u64, cpus: u32) -> Duration {
    let free = u32::try_from(free).unwrap_or(u32::MAX);
    let per_task = (PAUSE_PER_TASK / cpus.max(1)).max(MIN_PAUSE_PER_TASK);
    per_task.saturating_mul(free).clamp(MIN_PAUSE, MAX_PAUSE)
}

/// The least limit of a tree, however few tasks are free.
const MIN_LIMIT: u64 = 64;

/// Returns how many tasks this kernel allows; `None` where that cannot be read.
fn limit_of_machine() -> Option<u64> {
    let number = |path: &str| kernel_file::read_text(path).ok()?.trim().parse::<u64>().ok();
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];
    limits.into_iter().filter_map(number).min()
}

/// Returns the number of tasks of the machine, zombies included.
fn tasks_of_machine(load: &File) -> Option<u64> {
    let mut line = [0; 64];
    let length = load.read_at(&mut line, 0).ok()?;
    let line = std::str::from_utf8(line.get(..length)?).ok()?;
    let (_, all) = line.split_ascii_whitespace().nth(3)?.split_once('/')?;
    all.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn tightest_task_bound_counts() {
        let folder = tempfile::tempdir().unwrap();
        let set = |name: &str, value: &str| fs::write(folder.path().join(name), value).unwrap();
        set("pids.max", "1000\n");
        set("pids.current", "200\n");
        let group = Bound::Cgroup {
            folder: folder.path().to_owned(),
        };
        let mut tasks = Tasks {
            bounds: vec![Bound::Machine { limit: u64::MAX }, group],
            load: File::open("/proc/loadavg").ok(),
            free_at_start: 0,
        };
        tasks.free_at_start = tasks.free();
        assert_eq!((tasks.free_at_start, tasks.limit(), tasks.lost()), (800, 400, 0));
        set("pids.current", "700\n");
        assert_eq!(tasks.lost(), 500);
        set("pids.max", "max\n");
        assert_eq!(tasks.lost(), 0);
    }

    #[test]
    fn pause_is_shorter_than_a_fork_bomb_needs() {
        assert_eq!(pause(800, 2), Duration::from_micros(4800));
        assert_eq!(pause(32_000, 2), Duration::from_millis(192));
        assert_eq!(pause(32_000, 64), Duration::from_millis(64));
        assert_eq!((pause(10, 1), pause(u64::MAX, 1)), (MIN_PAUSE, MAX_PAUSE));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn task_bound_of_this_system_is_found() {
        let tasks = Tasks::watch(&OwnGroups::read());
        assert!(tasks.free_at_start > 0 && tasks.free_at_start < u64::MAX);
    }
}
