//! A cgroup (version 2) for one tree. Every descendant is born into it, whatever it does to its parents, its session and
//! its environment, and the kernel tells when it is empty. It is for the day on which shim and daemon die together; as
//! long as the shim lives, its being the subreaper says more.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access, geteuid};

use crate::identity::ProcessId;

/// What the folders of these groups begin with.
const PREFIX: &str = "vik-";
/// How deep the groups that an agent has made are looked into.
const MAX_DEPTH: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    /// Makes one for the tree of this shim, below the group that this process is in.
    pub(crate) fn make(shim: ProcessId) -> Option<Self> {
        let folder = place()
            .ok()?
            .join(format!("{PREFIX}{}-{}", shim.pid, shim.start_time));
        fs::create_dir(&folder).ok()?;
        let group = Self { folder };
        // Older kernels have groups that cannot be killed as a whole.
        if group.folder.join("cgroup.kill").exists() {
            return Some(group);
        }
        group.remove();
        None
    }

    /// The one that a census names, if it is there and is such a group.
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

    /// The folder, opened: a process can be born into it.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        fs::File::open(&self.folder).map(OwnedFd::from)
    }

    /// Whether any process is in it or below it.
    pub(crate) fn is_populated(&self) -> io::Result<bool> {
        let events = fs::read_to_string(self.folder.join("cgroup.events"))?;
        events
            .lines()
            .find_map(|line| line.strip_prefix("populated "))
            .map(|populated| populated != "0")
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Everything alive in it and below it.
    pub(crate) fn members(&self) -> Vec<ProcessId> {
        let pids = groups(&self.folder, MAX_DEPTH)
            .into_iter()
            .filter_map(|folder| fs::read_to_string(folder.join("cgroup.procs")).ok());
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

    /// Kills all of it at once, what is just being made too.
    pub(crate) fn kill(&self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }

    /// Takes an empty one away.
    pub(crate) fn remove(&self) {
        for folder in groups(&self.folder, MAX_DEPTH).iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The folder and those in it, outer ones first.
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

/// The group that this process is in, if it may be divided further; else why not.
pub(crate) fn place() -> Result<PathBuf, String> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::/")) else {
        return Err("there is no cgroup v2 here".to_owned());
    };
    let mounts = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let Some(mount) = mount_of(&mounts) else {
        return Err("cgroup v2 is not mounted".to_owned());
    };
    let own = mount.join(group);
    if !own.join("cgroup.procs").exists() {
        return Err("the own cgroup is not to be seen from here".to_owned());
    }
    // Root may write everywhere, but what is below the top belongs to who has made it: to systemd, mostly.
    let is_foreign = geteuid().is_root() && !group.is_empty();
    if is_foreign
        || access(&own, AccessFlags::W_OK).is_err()
        || access(&own.join("cgroup.procs"), AccessFlags::W_OK).is_err()
    {
        return Err(format!("{} is not delegated to this user", own.display()));
    }
    Ok(own)
}

/// Where the hierarchy is mounted as a whole.
fn mount_of(mounts: &[u8]) -> Option<PathBuf> {
    mounts.split(|&byte| byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let dash = fields.iter().position(|&field| field == b"-")?;
        let (root, point, kind) = (fields.get(3)?, fields.get(4)?, fields.get(dash + 1)?);
        // A name with a space in it is written otherwise; nobody mounts it there.
        (*kind == b"cgroup2" && *root == b"/" && !point.contains(&b'\\'))
            .then(|| PathBuf::from(OsStr::from_bytes(point)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_beside_those_of_version_1() {
        let mounts = b"30 23 0:26 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n\
            31 30 0:27 / /sys/fs/cgroup/cpu rw shared:10 - cgroup cgroup rw,cpu\n\
            33 30 0:29 /inner /mnt rw shared:11 - cgroup2 cgroup2 rw\n\
            32 30 0:28 / /sys/fs/cgroup/unified rw shared:11 master:2 - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(mount_of(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mount_of(b"nonsense\n"), None);
    }

    #[test]
    fn a_folder_that_is_no_group_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vik-1-2");
        assert_eq!(Cgroup::at(&path), None);
        fs::create_dir(&path).unwrap();
        assert_eq!(Cgroup::at(&path), None);
    }

    /// Says nothing where no group can be made.
    #[test]
    fn a_group_is_killed_as_a_whole() {
        let id = ProcessId {
            pid: ProcessId::current().pid,
            start_time: u64::MAX,
        };
        let Some(group) = Cgroup::make(id) else { return };
        assert_eq!(Cgroup::at(group.folder()), Some(group.clone()));
        assert!(!group.is_populated().unwrap());
        let inner = group.folder().join("inner");
        fs::create_dir(&inner).unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        fs::write(inner.join("cgroup.procs"), child.id().to_string()).unwrap();
        assert!(group.is_populated().unwrap());
        assert_eq!(group.members().len(), 1);
        group.kill();
        child.wait().unwrap();
        assert!(!group.is_populated().unwrap());
        group.remove();
        assert_eq!(Cgroup::at(group.folder()), None);
    }
}
