//! Memory of a tree that is not resident in its processes: files without a name (`memfd_create`)
//! and files in `/dev/shm`, deleted ones included.
//!
//! The kernel counts such memory for the whole machine, which is cheap to read. Only when that has
//! grown by more than the tree may have, a search determines how much of it the tree holds.
//! Descriptors in transit through a socket belong to no process and are not found.

use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::statfs::{HUGETLBFS_MAGIC, TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;
use nix::unistd::geteuid;

use super::disk::{LAG, is_new, taken_by};
use crate::identity::ProcessId;
use crate::kernel_file;
use crate::sandbox::Overrun;
use crate::sys;

/// The shortest time between the end of a search and the next one.
const SEARCH_INTERVAL: Duration = Duration::from_millis(250);
/// Searches take at most 1/`SEARCH_SHARE` of the time.
const SEARCH_SHARE: u32 = 10;
/// The folder for files in memory that have a name.
const SHARED: &str = "/dev/shm";

/// The memory of a tree that is not resident in a process.
#[derive(Debug)]
pub(super) struct SharedMemory {
    at_start: u64,
    since: SystemTime,
    /// Folders in memory that only the tree has, by their paths within it.
    private: Vec<PathBuf>,
    search: Option<Search>,
    next_search_at: Instant,
}

/// A search that runs on a thread of its own, as it may take long.
#[derive(Debug)]
struct Search {
    started: Instant,
    result: Receiver<u64>,
}

impl SharedMemory {
    /// Starts to watch. Folders that are `private` belong to the tree alone.
    pub(super) fn watch(private: &[&str]) -> Self {
        Self {
            at_start: machine_total(),
            since: SystemTime::now() - LAG,
            private: private.iter().map(PathBuf::from).collect(),
            search: None,
            next_search_at: Instant::now(),
        }
    }

    /// Returns whether the tree has more memory than `limit`, and whether it is close to that;
    /// `resident` is the part that its processes have.
    pub(super) fn check(
        &mut self,
        now: Instant,
        members: &[ProcessId],
        resident: u64,
        limit: u64,
    ) -> (Option<Overrun>, bool) {
        if let Some(search) = &self.search {
            let used = match search.result.try_recv() {
                Ok(used) => used,
                Err(TryRecvError::Empty) => return (None, true),
                Err(TryRecvError::Disconnected) => 0,
            };
            self.next_search_at =
                now + SEARCH_INTERVAL.max(now.saturating_duration_since(search.started) * SEARCH_SHARE);
            self.search = None;
            if used > limit {
                return (Some(Overrun::Memory { used, limit }), true);
            }
        }
        let on_machine = machine_total();
        // Memory that other programs have freed is no room for this tree.
        self.at_start = self.at_start.min(on_machine);
        let grown = on_machine - self.at_start;
        let suspected = resident.saturating_add(grown);
        if suspected > limit && now >= self.next_search_at {
            self.search = self.start_search(members, grown);
        }
        (None, suspected > limit / 4)
    }

    fn start_search(&self, members: &[ProcessId], grown: u64) -> Option<Search> {
        let (sender, result) = channel();
        // After the clock was set back, time stamps do not show what is new: everything counts.
        let since = Some(self.since).filter(|since| *since <= SystemTime::now());
        let mut count = Count::new(since.unwrap_or(UNIX_EPOCH));
        let members = members.to_vec();
        let private = self.private.clone();
        let search = move || {
            let _ = sender.send(count.used(&members, &private, grown));
        };
        // If no thread can be started, the next check tries again.
        std::thread::Builder::new().spawn(search).ok()?;
        let started = Instant::now();
        Some(Search { started, result })
    }
}

/// Returns the memory of this machine that files hold, in bytes.
fn machine_total() -> u64 {
    let text = kernel_file::read_text("/proc/meminfo").unwrap_or_default();
    ["Shmem:", "Hugetlb:"].iter().map(|key| kib(&text, key)).sum()
}

/// Returns a value of a file below `/proc`, in bytes.
fn kib(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key));
    let value = value.and_then(|number| number.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    value.unwrap_or(0).saturating_mul(1024)
}

/// Adds up the memory that a tree has.
struct Count {
    since: SystemTime,
    /// Whether a file system, by its device, is in memory.
    systems: HashMap<u64, bool>,
    seen: HashSet<(u64, u64)>,
    held: u64,
    /// Whether something could not be read, so that its size is unknown.
    hidden: bool,
}

impl Count {
    fn new(since: SystemTime) -> Self {
        Self {
            since,
            systems: HashMap::new(),
            seen: HashSet::new(),
            held: 0,
            hidden: false,
        }
    }

    /// Returns the memory of the tree. The part in files cannot exceed `grown`, the growth on the
    /// whole machine.
    fn used(&mut self, members: &[ProcessId], private: &[PathBuf], grown: u64) -> u64 {
        let (mut own, mut shared) = (0_u64, 0_u64);
        for member in members {
            let rollup = kernel_file::read_text(format!("/proc/{}/smaps_rollup", member.pid));
            let (all, of_files) = match rollup {
                Ok(rollup) => (kib(&rollup, "Pss:"), kib(&rollup, "Pss_Shmem:")),
                Err(_) => (sys::resident_bytes(member.pid), 0),
            };
            own = own.saturating_add(all.saturating_sub(of_files));
            shared = shared.saturating_add(of_files);
        }
        self.private_folders(members, private);
        for member in members {
            self.open_files(*member);
        }
        for member in members {
            self.mappings(member.pid);
        }
        if private.is_empty() {
            self.named_files(members);
        }
        let held = if self.hidden { grown } else { self.held.min(grown) };
        own.saturating_add(held.max(shared))
    }

    /// Counts the folders that only this tree has.
    fn private_folders(&mut self, members: &[ProcessId], private: &[PathBuf]) {
        for folder in private {
            let seen = members.iter().find_map(|member| {
                let path = format!("/proc/{}/root{}", member.pid, folder.display());
                Some((fs::metadata(&path).ok()?.dev(), statvfs(path.as_str()).ok()?))
            });
            if let Some((device, facts)) = seen {
                let used = facts.blocks().saturating_sub(facts.blocks_free());
                self.held = self
                    .held
                    .saturating_add(used.saturating_mul(facts.fragment_size()));
                // Their files are counted with them.
                self.systems.insert(device, false);
            }
        }
    }

    fn open_files(&mut self, process: ProcessId) {
        let Ok(open) = fs::read_dir(format!("/proc/{}/fd", process.pid)) else {
            self.hidden |= process.is_alive();
            return;
        };
        for file in open.flatten() {
            self.add_file(&file.path());
        }
    }

    /// Counts a file in memory, unless it is an old one with a name.
    fn add_file(&mut self, path: &Path) {
        let Ok(facts) = fs::metadata(path) else { return };
        if facts.is_file()
            && self.is_in_memory(&facts, path)
            && (facts.nlink() == 0 || is_new(&facts, self.since))
        {
            self.add(&facts);
        }
    }

    fn add(&mut self, facts: &Metadata) {
        if self.seen.insert((facts.dev(), facts.ino())) {
            self.held = self.held.saturating_add(taken_by(facts));
        }
    }

    fn is_in_memory(&mut self, facts: &Metadata, path: &Path) -> bool {
        *self.systems.entry(facts.dev()).or_insert_with(|| {
            let kind = statfs(path).map(|facts| facts.filesystem_type());
            kind.is_ok_and(|kind| kind == TMPFS_MAGIC || kind == HUGETLBFS_MAGIC)
        })
    }

    /// Counts files that are mapped and not open. Only a privileged process can examine them; for
    /// any other the mapped length counts.
    fn mappings(&mut self, pid: i32) {
        let maps = kernel_file::read_text(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mut sizes: HashMap<u64, u64> = HashMap::new();
        for line in maps.lines().filter(|line| is_memory_file(line)) {
            let mut fields = line.split_ascii_whitespace();
            let Some(range) = fields.next() else { continue };
            let inode = fields
                .nth(3)
                .and_then(|inode| inode.parse::<u64>().ok())
                .unwrap_or(0);
            let path = PathBuf::from(format!("/proc/{pid}/map_files/{range}"));
            if let Ok(facts) = fs::metadata(&path) {
                if self.is_in_memory(&facts, &path) {
                    self.add(&facts);
                }
            } else if !self.seen.iter().any(|(_, seen)| *seen == inode) {
                *sizes.entry(inode).or_default() += length(range);
            }
        }
        let sum = sizes.values().fold(0_u64, |sum, size| sum.saturating_add(*size));
        self.held = self.held.saturating_add(sum);
    }

    /// Counts new files of this user in the shared folder, without those that other programs have
    /// open.
    fn named_files(&mut self, members: &[ProcessId]) {
        let mut found: Vec<Metadata> = Vec::new();
        let mut open = vec![PathBuf::from(SHARED)];
        while let Some(path) = open.pop() {
            let Ok(facts) = path.symlink_metadata() else {
                continue;
            };
            if facts.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                open.extend(entries.map(|entry| entry.path()));
            } else if facts.is_file() && facts.uid() == geteuid().as_raw() && is_new(&facts, self.since) {
                found.push(facts);
            }
        }
        found.retain(|facts| !self.seen.contains(&(facts.dev(), facts.ino())));
        if !found.is_empty() {
            let of_others = used_by_others(members);
            found.retain(|facts| !of_others.contains(&facts.ino()));
        }
        for facts in &found {
            self.add(facts);
        }
    }
}

/// Returns the inodes of files in the shared folder that processes outside of the tree have open or
/// mapped.
fn used_by_others(members: &[ProcessId]) -> HashSet<u64> {
    let own: HashSet<i32> = members.iter().map(|member| member.pid).collect();
    let mut used = HashSet::new();
    for pid in sys::all_pids().into_iter().filter(|pid| !own.contains(pid)) {
        for file in fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            if fs::read_link(file.path()).is_ok_and(|path| path.starts_with(SHARED)) {
                used.extend(fs::metadata(file.path()).ok().map(|facts| facts.ino()));
            }
        }
        let maps = kernel_file::read_text(format!("/proc/{pid}/maps")).unwrap_or_default();
        for line in maps.lines().filter(|line| line.contains(SHARED)) {
            used.extend(
                line.split_ascii_whitespace()
                    .nth(4)
                    .and_then(|inode| inode.parse::<u64>().ok()),
            );
        }
    }
    used
}

/// Returns whether a line of `/proc/PID/maps` names a file in memory without a name.
fn is_memory_file(line: &str) -> bool {
    let path = line.splitn(6, ' ').nth(5).unwrap_or_default().trim_start();
    let nameless = path.ends_with(" (deleted)") && path.starts_with(SHARED);
    path.starts_with("/memfd:") || nameless
}

fn length(range: &str) -> u64 {
    let bounds = range.split_once('-').and_then(|(from, to)| {
        let bound = |text| u64::from_str_radix(text, 16).ok();
        bound(from).zip(bound(to))
    });
    bounds.map_or(0, |(from, to)| to.saturating_sub(from))
}
