//! Whether this machine allows as many sessions as a benchmark starts.

use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::repo::TaskResult;

/// What each session needs.
const PROCESSES: u64 = 3;
const DESCRIPTORS: u64 = 8;
const MEMORY: u64 = 3_000_000;
const DISK: u64 = 250_000;
/// What the rest needs: the daemon, this task, and what else runs on the machine.
const OTHER_PROCESSES: u64 = 500;
const OTHER_DESCRIPTORS: u64 = 100;

/// One limit of the machine.
struct Limit {
    name: &'static str,
    /// How to raise it.
    hint: &'static str,
    /// `None` if there is no limit, or none that can be read.
    has: Option<u64>,
    needs: u64,
}

/// Returns an error that names each limit that is too low for this many sessions. Raises the limit of
/// open files, which the daemon inherits, if this process may.
pub fn check(sessions: usize) -> TaskResult {
    let files = sessions as u64 * DESCRIPTORS + OTHER_DESCRIPTORS;
    if open_files().is_some_and(|has| has < files) {
        // Otherwise the check reports it.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, files, files);
    }
    let short: Vec<String> = limits(sessions as u64)
        .iter()
        .filter_map(Limit::problem)
        .collect();
    if short.is_empty() {
        return Ok(());
    }
    Err(format!(
        "this machine does not allow {sessions} sessions:\n  {}",
        short.join("\n  ")
    ))
}

impl Limit {
    fn problem(&self) -> Option<String> {
        let Self {
            name, hint, needs, ..
        } = self;
        let has = self.has.filter(|has| has < needs)?;
        Some(format!("{name}: {has}, but {needs} are needed; {hint}"))
    }
}

fn limits(sessions: u64) -> Vec<Limit> {
    let processes = sessions * PROCESSES + OTHER_PROCESSES;
    let free = nix::sys::statvfs::statvfs(&std::env::temp_dir()).ok();
    vec![
        Limit {
            name: "open files of a process",
            hint: "raise the hard limit, for example as root with `ulimit -Hn N`",
            has: open_files(),
            needs: sessions * DESCRIPTORS + OTHER_DESCRIPTORS,
        },
        Limit {
            name: "processes of this user",
            hint: "raise it with `ulimit -u`",
            has: getrlimit(Resource::RLIMIT_NPROC).ok().map(|(soft, _)| soft),
            needs: processes,
        },
        Limit {
            name: "process ids",
            hint: "raise it with `sysctl kernel.pid_max=N`",
            has: number("/proc/sys/kernel/pid_max"),
            needs: processes,
        },
        Limit {
            name: "threads of the machine",
            hint: "raise it with `sysctl kernel.threads-max=N`",
            has: number("/proc/sys/kernel/threads-max"),
            needs: processes,
        },
        Limit {
            name: "processes in this cgroup",
            hint: "raise `pids.max` of the cgroup, or run outside of it",
            has: cgroup_processes(),
            needs: processes,
        },
        Limit {
            name: "available bytes of memory",
            hint: "end other programs, or measure fewer sessions",
            has: available_memory(),
            needs: sessions * MEMORY,
        },
        Limit {
            name: "free bytes for temporary files",
            hint: "set TMPDIR to a folder on a larger disk",
            has: free.map(|free| free.blocks_available() * free.fragment_size()),
            needs: sessions * DISK,
        },
    ]
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the highest number of open files that a daemon can allow itself.
fn open_files() -> Option<u64> {
    getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(_, hard)| hard)
}

/// Returns the lowest limit of the cgroups that contain this process.
fn cgroup_processes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    let folder = root.join(group);
    let parents = folder.ancestors().take_while(|parent| parent.starts_with(root));
    parents.filter_map(|parent| number(parent.join("pids.max"))).min()
}

fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_name_what_is_missing_and_what_to_do() {
        let limit = |has| Limit {
            name: "process ids",
            hint: "raise it",
            has,
            needs: 10,
        };
        assert_eq!(
            limit(Some(9)).problem().as_deref(),
            Some("process ids: 9, but 10 are needed; raise it")
        );
        assert_eq!(limit(Some(10)).problem(), None);
        assert_eq!(limit(None).problem(), None);
    }
}
