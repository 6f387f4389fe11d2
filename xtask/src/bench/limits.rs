//! Whether this machine allows as many sessions as a benchmark starts.

use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::repo::TaskResult;

/// One limit of the machine.
struct Limit {
    name: &'static str,
    /// How to raise it.
    hint: &'static str,
    /// `None` if there is no limit, or none that can be read.
    has: Option<u64>,
    /// What each session needs.
    each: u64,
    /// What the rest needs: the daemon, this task, and what else runs on the machine.
    others: u64,
}

/// Returns an error that names each limit that is too low for this many sessions. Raises the limit
/// of open files, which the daemon inherits, if this process may.
pub fn check(sessions: u32) -> TaskResult {
    problems(&limits(sessions), sessions)
}

/// Returns the most sessions that this machine allows, up to this number.
pub fn most(sessions: u32) -> u32 {
    let fitting = limits(sessions).iter().filter_map(Limit::sessions).min();
    fitting.map_or(sessions, |fitting| sessions.min(fitting))
}

fn problems(limits: &[Limit], sessions: u32) -> TaskResult {
    let problems: Vec<String> = limits
        .iter()
        .filter_map(|limit| limit.problem(sessions))
        .collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!(
        "this machine does not allow {sessions} sessions:\n  {}",
        problems.join("\n  ")
    ))
}

impl Limit {
    fn needs(&self, sessions: u32) -> u64 {
        self.each * u64::from(sessions) + self.others
    }

    /// Returns the number of sessions that it allows.
    fn sessions(&self) -> Option<u32> {
        let sessions = self.has?.saturating_sub(self.others) / self.each;
        Some(u32::try_from(sessions).unwrap_or(u32::MAX))
    }

    fn problem(&self, sessions: u32) -> Option<String> {
        let (has, allowed) = (self.has?, self.sessions()?);
        let Self { name, hint, .. } = self;
        (allowed < sessions).then(|| {
            let needs = self.needs(sessions);
            format!("{name}: {has}, enough for {allowed} sessions, but {needs} are needed; {hint}")
        })
    }
}

/// Returns the limits, after raising those that this process may raise.
fn limits(sessions: u32) -> Vec<Limit> {
    let files = Limit {
        name: "open files of a process",
        hint: "raise the hard limit, for example as root with `ulimit -Hn N`",
        has: open_files(),
        // The daemon starts no more sessions than this (`crates/vik-orchestrator/src/open_files.rs`).
        each: 8,
        others: 256 + 2048,
    };
    let wanted = files.needs(sessions);
    if files.has.is_some_and(|has| has < wanted) {
        // Otherwise the limit is reported.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted);
    }
    let processes = |name, hint, has| Limit {
        name,
        hint,
        has,
        each: 3,
        others: 500,
    };
    let free = nix::sys::statvfs::statvfs(&std::env::temp_dir()).ok();
    vec![
        Limit {
            has: open_files(),
            ..files
        },
        processes(
            "processes of this user",
            "raise it with `ulimit -u`",
            getrlimit(Resource::RLIMIT_NPROC).ok().map(|(soft, _)| soft),
        ),
        processes(
            "process ids",
            "raise it with `sysctl kernel.pid_max=N`",
            number("/proc/sys/kernel/pid_max"),
        ),
        processes(
            "threads of the machine",
            "raise it with `sysctl kernel.threads-max=N`",
            number("/proc/sys/kernel/threads-max"),
        ),
        processes(
            "processes in this cgroup",
            "raise `pids.max` of the cgroup, or run outside of it",
            cgroup_processes(),
        ),
        Limit {
            name: "available bytes of memory",
            hint: "end other programs, or measure fewer sessions",
            has: available_memory(),
            each: 3_000_000,
            others: 200_000_000,
        },
        Limit {
            name: "free bytes for temporary files",
            hint: "set TMPDIR to a folder on a larger disk",
            has: free.map(|free| free.blocks_available() * free.fragment_size()),
            each: 250_000,
            others: 100_000_000,
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
            each: 2,
            others: 4,
        };
        let limits = [limit(Some(23)), limit(Some(24)), limit(None)];
        assert_eq!(
            problems(&limits, 10),
            Err("this machine does not allow 10 sessions:\n  \
                 process ids: 23, enough for 9 sessions, but 24 are needed; raise it"
                .to_owned())
        );
        assert_eq!(problems(&limits, 9), Ok(()));
    }
}
