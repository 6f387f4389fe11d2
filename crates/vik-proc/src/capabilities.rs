//! The facilities of this system for the supervision of processes, for `vik doctor`.

/// One facility of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    pub name: &'static str,
    /// Whether the facility exists and this process may use it.
    pub available: bool,
    /// The use of the facility, or the reason why it is missing.
    pub detail: String,
}

impl Capability {
    fn new(name: &'static str, available: bool, with: &str, without: &str) -> Self {
        Self {
            name,
            available,
            detail: if available { with } else { without }.to_owned(),
        }
    }
}

/// Returns the facilities of this system. Reads a few files, and forks once to try namespaces.
#[cfg(target_os = "linux")]
pub fn capabilities() -> Vec<Capability> {
    use std::{fs, path::Path};

    use crate::cgroup::{self, OwnGroups};
    use crate::{reap, sandbox::bubblewrap, sys};

    let me = i32::try_from(std::process::id()).unwrap_or(1);
    let group = OwnGroups::read().folder();
    let landlock = sys::landlock_abi().ok();
    let bubblewrap = bubblewrap::find();
    vec![
        Capability::new(
            "subreaper",
            nix::sys::prctl::get_child_subreaper().is_ok(),
            "the end of a process tree is proven when no child process is left",
            "refused by the system: the end of a tree is only known by the mark in the environment",
        ),
        Capability::new(
            "proc",
            sys::stat(me).is_some(),
            "processes are identified by pid and start time",
            "/proc is not mounted: processes cannot be identified",
        ),
        Capability::new(
            "pidfd",
            sys::pidfd_open(me).is_ok(),
            "signals never reach another process that got the same pid",
            "not available (requires Linux 5.3): the pid is checked just before each signal",
        ),
        Capability::new(
            "children",
            Path::new("/proc/thread-self/children").exists(),
            "descendants are read from the kernel's own lists",
            "not compiled into this kernel: the complete process table is read instead",
        ),
        Capability {
            name: "cgroup",
            available: group.is_ok(),
            detail: group.map_or_else(
                |why| why,
                |own| {
                    let limits = match cgroup::divisible(&own).as_slice() {
                        [] => "only the shims enforce limits".to_owned(),
                        limits => format!("the kernel also enforces limits of {}", limits.join(" and ")),
                    };
                    format!(
                        "each tree gets a group below {}: its end is proven even when shim and daemon die; {limits}",
                        own.display()
                    )
                },
            ),
        },
        Capability::new(
            "pressure",
            fs::read("/proc/pressure/memory").is_ok(),
            "the kernel reports memory pressure",
            "the kernel does not report memory pressure",
        ),
        Capability {
            name: "landlock",
            available: landlock.is_some(),
            detail: landlock.map_or_else(
                || "the kernel cannot confine file access of an agent".to_owned(),
                |abi| {
                    let missing: Vec<&str> = LANDLOCK
                        .iter()
                        .filter(|(since, _)| abi < *since)
                        .map(|(_, restriction)| *restriction)
                        .collect();
                    let missing = match missing.as_slice() {
                        [] => String::new(),
                        missing => format!("; not {}", missing.join(", ")),
                    };
                    format!("the kernel can confine file access of an agent (ABI {abi}){missing}")
                },
            ),
        },
        Capability::new(
            "namespaces",
            sys::Gate::try_out().is_ok(),
            "processes can have their own namespaces: lists of hosts and bubblewrap are available",
            "this user cannot create namespaces: lists of hosts and `sandbox.backend: bubblewrap` are refused",
        ),
        Capability {
            name: "bubblewrap",
            available: bubblewrap.is_ok(),
            detail: bubblewrap.map_or_else(
                |error| format!("{error}: no namespaces around agents (`sandbox.backend: bubblewrap`)"),
                |path| {
                    format!(
                        "{} is available for `sandbox.backend: bubblewrap`; whether it can create namespaces is tested if a workflow requires them",
                        path.display()
                    )
                },
            ),
        },
        Capability::new(
            "init",
            !reap::is_init(),
            "the init process of the system reaps orphans",
            "the daemon is process 1 and reaps orphans itself",
        ),
    ]
}

/// The restrictions that newer versions of Landlock add, each with the first version that has it.
#[cfg(target_os = "linux")]
const LANDLOCK: [(i64, &str); 4] = [
    (2, "moving files between folders (refused)"),
    (3, "truncating files by their path (refused)"),
    (5, "operations on devices other than read and write"),
    (6, "signals and abstract sockets"),
];

/// Returns the resources that the limits of a sandbox do not cover on this system, each with the
/// facility that would cover it.
#[cfg(target_os = "linux")]
pub fn unenforced_limits() -> Vec<&'static str> {
    use crate::cgroup::{self, OwnGroups};

    let group = OwnGroups::read().folder();
    let divided = group.map(|own| cgroup::divisible(&own)).unwrap_or_default();
    let mut gaps = Vec::new();
    if !divided.contains(&"memory") {
        gaps.push(
            "memory held by descriptors in transit through a socket, or by buffers of pipes and sockets, is not counted (cgroup v2 with the memory controller counts it)",
        );
    }
    gaps.push("disk space held only by descriptors in transit through a socket is not counted");
    gaps.push("files that an agent leaves in /dev/shm are not removed (`sandbox.backend: bubblewrap` has a private /dev/shm)");
    let counts_tasks = divided.contains(&"processes")
        || OwnGroups::read()
            .task_group()
            .is_some_and(|own| cgroup::is_writable(&own));
    if !counts_tasks && nix::unistd::geteuid().is_root() {
        gaps.push(
            "the process limit of agents that run as root is enforced only by polling (use another user, or cgroup v2 with the pids controller)",
        );
    }
    gaps
}

/// Returns an empty list: this system has no sandbox.
#[cfg(not(target_os = "linux"))]
pub fn unenforced_limits() -> Vec<&'static str> {
    Vec::new()
}

/// Returns the facilities of this system.
#[cfg(not(target_os = "linux"))]
pub fn capabilities() -> Vec<Capability> {
    let missing =
        "only available on Linux: a process that leaves the agent's group and loses its parent is not found";
    vec![
        Capability::new("subreaper", false, "", missing),
        Capability::new(
            "mark",
            false,
            "",
            "the environment of other processes cannot be read on this system",
        ),
    ]
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn unenforced_limits_are_named() {
        let gaps = super::unenforced_limits();
        for always in ["disk space", "/dev/shm"] {
            assert!(gaps.iter().any(|gap| gap.contains(always)), "{gaps:?}");
        }
    }

    #[test]
    fn capabilities_have_a_name_and_a_detail() {
        let all = super::capabilities();
        assert!(
            all.iter()
                .all(|one| !one.name.is_empty() && !one.detail.is_empty())
        );
        #[cfg(target_os = "linux")]
        assert!(all.iter().any(|one| one.name == "proc" && one.available));
    }
}
