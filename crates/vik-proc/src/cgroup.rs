//! A cgroup (version 2) for one tree. Every descendant is created in it, whatever the tree does to
//! its parents, sessions and environment, and the kernel reports when the group is empty. It covers
//! the case that shim and daemon die together; while the shim lives, its role as subreaper is the
//! stronger proof. Where memory and tasks can be divided here, the kernel also enforces the limits
//! of the tree between two checks of the shim.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::unistd::{AccessFlags, access, geteuid};

use crate::identity::ProcessId;
use crate::kernel_file;
use crate::sandbox::{Overrun, SandboxLimits};

/// The prefix of the folder names of these groups.
pub(crate) const PREFIX: &str = "vik-";
/// The depth to which groups created by an agent are searched.
const MAX_DEPTH: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Creates a group for the tree of this shim, below the group of this process.
    pub(crate) fn make(own: &OwnGroups, shim: ProcessId) -> Option<Self> {
        let folder = own
            .folder()
            .ok()?
            .join(format!("{PREFIX}{}-{}", shim.pid, shim.start_time));
        fs::create_dir(&folder).ok()?;
        let group = Self { folder };
        // Older kernels cannot kill a group as a whole.
        if group.folder.join("cgroup.kill").exists() {
            return Some(group);
        }
        group.remove();
        None
    }

    /// Returns the group that a census names, if it exists and is such a group.
    pub(crate) fn at(folder: &Path) -> Option<Self> {
        let named = folder.file_name()?.as_bytes().starts_with(PREFIX.as_bytes());
        let group = Self {
            folder: folder.to_owned(),
        };
        (named && group.is_populated().is_ok()).then_some(group)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the folder, so that a process can be created in the group.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        fs::File::open(&self.folder).map(OwnedFd::from)
    }

    /// Asks the kernel to enforce these limits, as far as it can here. The shim checks all of them
    /// in any case.
    pub(crate) fn limit(&self, limits: SandboxLimits, tasks: u64) {
        let set = |file: &str, value: &dyn std::fmt::Display| {
            let _ = fs::write(self.folder.join(file), value.to_string());
        };
        if let Some(bytes) = limits.memory.filter(|_| self.divides("memory")) {
            set("memory.swap.max", &0);
            // A tree of which only a part was killed cannot do useful work.
            set("memory.oom.group", &1);
            set("memory.max", &bytes);
        }
        if limits.processes.is_some() && self.divides("pids") {
            set("pids.max", &limits.tasks().min(tasks));
        }
    }

    /// Returns whether the kernel limits the tasks of the group.
    pub(crate) fn limits_tasks(&self) -> bool {
        let limit = kernel_file::read_text(self.folder.join("pids.max"));
        limit.is_ok_and(|limit| limit.trim().parse::<u64>().is_ok())
    }

    /// Returns whether the group can limit this resource. The group above must divide it, and is
    /// configured to do so once.
    fn divides(&self, controller: &str) -> bool {
        let Some(above) = self.folder.parent() else {
            return false;
        };
        let has = |file: &str| {
            let controllers = kernel_file::read_text(above.join(file)).unwrap_or_default();
            controllers
                .split_ascii_whitespace()
                .any(|entry| entry == controller)
        };
        const CONTROL: &str = "cgroup.subtree_control";
        // The kernel locks all groups for the write, so it is not tried in vain.
        has(CONTROL)
            || has("cgroup.controllers") && fs::write(above.join(CONTROL), format!("+{controller}")).is_ok()
    }

    /// Returns the limit that the kernel had to enforce.
    pub(crate) fn overrun(&self, limits: SandboxLimits) -> Option<Overrun> {
        let number = |file: &str, key: &str| {
            let text = kernel_file::read_text(self.folder.join(file)).ok()?;
            let found = text.lines().find_map(|line| line.strip_prefix(key))?;
            found.trim().parse::<u64>().ok()
        };
        let memory = limits.memory.and_then(|limit| {
            number("memory.events", "oom_kill ").filter(|kills| *kills > 0)?;
            let used = number("memory.peak", "").unwrap_or(limit).max(limit);
            Some(Overrun::Memory { used, limit })
        });
        memory.or_else(|| {
            limits.processes?;
            number("pids.events", "max ").filter(|refused| *refused > 0)?;
            let limit = number("pids.max", "")?;
            Some(Overrun::Tasks { used: limit, limit })
        })
    }

    /// Returns whether any process is in the group or below it.
    pub(crate) fn is_populated(&self) -> io::Result<bool> {
        let events = kernel_file::read_text(self.folder.join("cgroup.events"))?;
        events
            .lines()
            .find_map(|line| line.strip_prefix("populated "))
            .map(|populated| populated != "0")
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns all living processes in the group and below it.
    pub(crate) fn members(&self) -> Vec<ProcessId> {
        let pids = groups(&self.folder, MAX_DEPTH)
            .into_iter()
            .filter_map(|folder| kernel_file::read_text(folder.join("cgroup.procs")).ok());
        let pids: Vec<i32> = pids
            .flat_map(|list| {
                list.lines()
                    .filter_map(|pid| pid.parse().ok())
                    .collect::<Vec<_>>()
            })
            .collect();
        pids.into_iter()
            .filter_map(ProcessId::of)
            .filter(|process| process.is_alive())
            .collect()
    }

    /// Kills all processes of the group at once, including processes that are being created.
    pub(crate) fn kill(&self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }

    /// Removes the group, which must be empty.
    pub(crate) fn remove(&self) {
        for folder in groups(&self.folder, MAX_DEPTH).iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Returns the folder and all folders below it, outer ones first.
fn groups(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|_| depth > 0) {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            all.extend(groups(&entry.path(), depth - 1));
        }
    }
    all
}

/// The groups of this process, and where they are mounted.
#[derive(Debug)]
pub(crate) struct OwnGroups {
    groups: String,
    mounts: Vec<u8>,
}

impl OwnGroups {
    pub(crate) fn read() -> Self {
        Self {
            groups: kernel_file::read_text("/proc/self/cgroup").unwrap_or_default(),
            mounts: kernel_file::read("/proc/self/mountinfo").unwrap_or_default(),
        }
    }

    /// Returns the folder in which groups can be created, or the reason why there is none. It is
    /// the group of this process; if that is the subgroup of a delegated service, it is the group
    /// of the service, as a group that contains processes divides neither memory nor tasks.
    pub(crate) fn folder(&self) -> Result<PathBuf, String> {
        let Some(group) = self.groups.lines().find_map(|line| line.strip_prefix("0::/")) else {
            return Err("this system has no cgroup v2".to_owned());
        };
        let Some(mount) = mount_of(&self.mounts) else {
            return Err("cgroup v2 is not mounted".to_owned());
        };
        let own = mount.join(group);
        if !own.join("cgroup.procs").exists() {
            return Err("Vik's own cgroup is not visible".to_owned());
        }
        if let Some(service) = own
            .parent()
            .filter(|above| is_service(above) && is_writable(above))
        {
            return Ok(service.to_owned());
        }
        // Root can write everywhere, but groups below the top belong to their creator, which is
        // usually systemd.
        let is_foreign = geteuid().is_root() && !group.is_empty();
        if is_foreign || !is_writable(&own) {
            return Err(format!("{} is not delegated to this user", own.display()));
        }
        Ok(own)
    }

    /// Returns the groups of this process, of both versions, that limit tasks. Groups without a
    /// limit of their own are omitted.
    pub(crate) fn task_limits(&self) -> Vec<PathBuf> {
        let limits = self.groups.lines().filter_map(|line| {
            let (_, fields) = line.split_once(':')?;
            let (controllers, group) = fields.split_once(':')?;
            let is_pids = controllers.split(',').any(|controller| controller == "pids");
            (is_pids || controllers.is_empty()).then(|| folders_of(self.mounts(), is_pids, group))
        });
        limits
            .flatten()
            .filter(|folder| {
                let limit = kernel_file::read_text(folder.join("pids.max"));
                limit.is_ok_and(|limit| limit.trim().parse::<u64>().is_ok())
            })
            .collect()
    }

    /// Returns the group of version 1 that counts the tasks of this process, if that version counts
    /// tasks.
    pub(crate) fn task_group(&self) -> Option<PathBuf> {
        let group = self.groups.lines().find_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            controllers
                .split(',')
                .any(|controller| controller == "pids")
                .then_some(group)
        });
        folders_of(self.mounts(), true, group?).into_iter().next()
    }

    fn mounts(&self) -> &str {
        std::str::from_utf8(&self.mounts).unwrap_or_default()
    }
}

/// Returns the folder of a group and the folders above it, as far as they are visible here: in the
/// hierarchy of version 1 that limits tasks, or in the hierarchy of version 2.
fn folders_of(mounts: &str, version_1: bool, group: &str) -> Vec<PathBuf> {
    let hierarchy = mounts.lines().find_map(|line| {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let mut filesystem = filesystem.split(' ');
        let kind = filesystem.next()?;
        let is_it = match version_1 {
            true => kind == "cgroup" && filesystem.nth(1)?.split(',').any(|option| option == "pids"),
            false => kind == "cgroup2",
        };
        let below = Path::new(group).strip_prefix(root).ok()?;
        is_it.then(|| (PathBuf::from(point), below.to_owned()))
    });
    let Some((point, below)) = hierarchy else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = below.ancestors().map(|part| point.join(part)).collect();
    folders.dedup();
    folders
}

/// Returns the limits of a sandbox that the kernel can enforce for groups created there. A group
/// that contains processes divides nothing, except the topmost group, which is the one without an
/// events file.
pub(crate) fn divisible(place: &Path) -> Vec<&'static str> {
    let read = |file: &str| kernel_file::read_text(place.join(file)).unwrap_or_default();
    let (available, divided) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
    let is_free = read("cgroup.procs").trim().is_empty() || !place.join("cgroup.events").exists();
    let has = |text: &str, name: &str| text.split_ascii_whitespace().any(|entry| entry == name);
    [("memory", "memory"), ("pids", "processes")]
        .into_iter()
        .filter(|(name, _)| has(&divided, name) || (is_free && has(&available, name)))
        .map(|(_, resource)| resource)
        .collect()
}

/// Returns whether systemd calls the group a service or a scope: a subgroup of one exists because
/// it was delegated.
fn is_service(group: &Path) -> bool {
    let kind = group.extension().unwrap_or_default();
    kind == "service" || kind == "scope"
}

pub(crate) fn is_writable(group: &Path) -> bool {
    let may_write = |path: &Path| access(path, AccessFlags::W_OK).is_ok();
    may_write(group) && may_write(&group.join("cgroup.procs"))
}

/// Returns the folder where the whole hierarchy is mounted.
fn mount_of(mounts: &[u8]) -> Option<PathBuf> {
    mounts.split(|&byte| byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let dash = fields.iter().position(|&field| field == b"-")?;
        let (root, point, kind) = (fields.get(3)?, fields.get(4)?, fields.get(dash + 1)?);
        // The table escapes names with a space. Nobody mounts cgroups at such a path.
        (*kind == b"cgroup2" && *root == b"/" && !point.contains(&b'\\'))
            .then(|| PathBuf::from(OsStr::from_bytes(point)))
    })
}

#[cfg(test)]
mod tests;
