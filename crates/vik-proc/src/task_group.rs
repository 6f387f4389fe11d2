//! A cgroup of version 1 that limits the number of tasks of one tree. Where the controller of
//! version 2 is missing and such a group can be created, the kernel refuses further tasks also
//! between two checks of the shim.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::cgroup::{self, OwnGroups};
use crate::identity::ProcessId;
use crate::kernel_file;

/// The group of one tree.
#[derive(Debug)]
pub(crate) struct TaskGroup {
    folder: PathBuf,
    limit: u64,
}

impl TaskGroup {
    /// Creates the group of this shim's tree below the group of this process; `None` where that is
    /// not permitted.
    pub(crate) fn create(own: &OwnGroups, shim: ProcessId, limit: u64) -> Option<Self> {
        let folder = folder_of(own, shim)?;
        fs::create_dir(&folder).ok()?;
        let group = Self { folder, limit };
        if fs::write(group.folder.join("pids.max"), limit.to_string()).is_ok() {
            return Some(group);
        }
        group.remove();
        None
    }

    /// Opens `cgroup.procs`: a process that writes `0` to it joins the group, and so do its
    /// children.
    pub(crate) fn open_procs(&self) -> io::Result<OwnedFd> {
        let procs = self.folder.join("cgroup.procs");
        fs::File::options().write(true).open(procs).map(OwnedFd::from)
    }

    /// Returns the limit, once the kernel has refused more tasks.
    pub(crate) fn reached(&self) -> Option<u64> {
        let events = kernel_file::read_short(self.folder.join("pids.events")).ok()?;
        let refused = std::str::from_utf8(&events).ok()?.trim().strip_prefix("max ")?;
        let refused: u64 = refused.parse().ok()?;
        (refused > 0).then_some(self.limit)
    }

    /// Removes the group, which must be empty.
    pub(crate) fn remove(&self) {
        remove(&self.folder);
    }
}

/// Removes the empty group that a lost shim has left.
pub(crate) fn remove_of(shim: ProcessId) {
    if let Some(folder) = folder_of(&OwnGroups::read(), shim) {
        remove(&folder);
    }
}

fn remove(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

fn folder_of(own: &OwnGroups, shim: ProcessId) -> Option<PathBuf> {
    let above = own.task_group()?;
    Some(above.join(format!("{}{}-{}", cgroup::PREFIX, shim.pid, shim.start_time)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes without a check where no group can be created.
    #[test]
    fn task_limit_is_enforced_by_the_kernel() {
        let id = ProcessId {
            pid: ProcessId::current().pid,
            start_time: u64::MAX - 2,
        };
        let Some(group) = TaskGroup::create(&OwnGroups::read(), id, 8) else {
            return;
        };
        assert_eq!(group.reached(), None);
        let storm = "read go; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 600 & done; wait";
        let mut child = std::process::Command::new("sh")
            .args(["-c", storm])
            .stdin(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        fs::write(group.folder.join("cgroup.procs"), child.id().to_string()).unwrap();
        drop(child.stdin.take());
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while group.reached().is_none() && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        let reached = group.reached();
        let members = || fs::read_to_string(group.folder.join("cgroup.procs")).unwrap_or_default();
        while !members().is_empty() {
            for pid in members().lines().filter_map(|pid| pid.parse().ok()) {
                let _ = crate::sys::kill(pid, nix::libc::SIGKILL);
            }
            let _ = child.try_wait();
        }
        child.wait().unwrap();
        remove_of(id);
        assert_eq!(reached, Some(8));
        assert!(!group.folder.exists());
    }
}
