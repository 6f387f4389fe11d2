//! How much of the disk a tree takes.
//!
//! The sizes of the few files that hold its output are read at each check. For everything else the
//! free space of the file system is read, which is cheap. Only when it has shrunk by more than the
//! tree may take, a search determines how much of that belongs to the tree: in files written since
//! its start, and in open files without a name. Empty files count too, as the number of files on a
//! file system is limited.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::fcntl::{AtFlags, OFlag, open};
use nix::libc;
use nix::sys::stat::{Mode, fstatat};

use crate::identity::ProcessId;
use crate::sandbox::{DiskLimit, Overrun};
use crate::space::Space;
use crate::sys;

/// The shortest time between the end of a search and the next one.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// Searches take at most 1/`SEARCH_SHARE` of the time.
const SEARCH_SHARE: u32 = 20;
/// The fastest that a tree is assumed to write: the less room there is, the sooner the next check.
const MAX_BYTES_PER_SECOND: u64 = 4 << 30;
/// The most files that a tree is assumed to create on one CPU in a second. On a tmpfs, which is the
/// fastest, about 200,000 were measured.
const MAX_FILES_PER_CPU_SECOND: u64 = 250_000;
/// The most files that a tree is assumed to create in a second on any number of CPUs: they all take
/// one lock of the file system.
const MAX_FILES_PER_SECOND: u64 = 1_000_000;
/// The shortest and the longest time between two checks.
const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(5));
/// The time between two polls of a search that runs.
const SEARCH_POLL: Duration = Duration::from_millis(20);
/// Opens a folder without reading it, where the system can do that.
#[cfg(target_os = "linux")]
const SEARCH_ONLY: OFlag = OFlag::O_PATH;
#[cfg(not(target_os = "linux"))]
const SEARCH_ONLY: OFlag = OFlag::O_RDONLY;
/// The time stamps of files may lag behind the clock by this much.
pub(super) const LAG: Duration = Duration::from_secs(1);

/// The file systems that a tree may write to, and how much of them it has used.
#[derive(Debug)]
pub(super) struct Disk {
    places: Vec<PathBuf>,
    kept: Vec<KeptFile>,
    /// The file whose length is the number of bytes that do not count.
    discount: Option<PathBuf>,
    systems: Vec<System>,
    since: SystemTime,
    search: Option<Search>,
    next_search_at: Instant,
    /// The wait before the next check.
    pause: Duration,
}

/// A file that holds the output of the tree, or a log that was made from it.
#[derive(Debug)]
struct KeptFile {
    /// Its folder, kept open: the kernel then need not search the whole path at each check.
    folder: Rc<OwnedFd>,
    name: OsString,
    device: u64,
    inode: u64,
    /// The largest size so far: its writer may truncate it.
    bytes: u64,
}

#[derive(Clone, Debug)]
struct System {
    device: u64,
    /// A folder on this file system, for `statvfs`.
    at: PathBuf,
    free_at_start: Room,
    limit: Room,
    /// What the tree uses, by the last search.
    found: Room,
}

/// Room on a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    bytes: u64,
    /// The number of inodes: files, folders, links and others.
    files: u64,
}

impl Room {
    fn free(space: Space, files: u64) -> Self {
        let bytes = space.free;
        Self { bytes, files }
    }

    /// Returns by how much this is less than the free room at the start.
    fn lost_since(self, start: Self) -> Self {
        Self {
            bytes: start.bytes.saturating_sub(self.bytes),
            files: start.files.saturating_sub(self.files),
        }
    }

    /// Returns how long a tree on so many CPUs needs at least to use this.
    fn lasts(self, cpus: u32) -> Duration {
        let files_per_second = (MAX_FILES_PER_CPU_SECOND * u64::from(cpus)).min(MAX_FILES_PER_SECOND);
        let bytes = self.bytes as f64 / MAX_BYTES_PER_SECOND as f64;
        let files = self.files as f64 / files_per_second as f64;
        Duration::from_secs_f64(bytes.min(files))
    }

    fn is_over(self, limit: Self) -> bool {
        self.bytes > limit.bytes || self.files > limit.files
    }

    /// Returns the limit that this exceeds.
    fn overrun(self, limit: Self) -> Option<Overrun> {
        if self.bytes > limit.bytes {
            let (used, limit) = (self.bytes, limit.bytes);
            return Some(Overrun::Disk { used, limit });
        }
        (self.files > limit.files).then_some(Overrun::Files {
            used: self.files,
            limit: limit.files,
        })
    }
}

/// A search that runs on a thread of its own, as it may take long.
#[derive(Debug)]
struct Search {
    started: Instant,
    device: u64,
    lost: Room,
    limit: Room,
    /// The free bytes, where the file system is nearly full.
    scarce: Option<u64>,
    result: Receiver<Taken>,
}

/// How much of a file system a tree uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    room: Room,
    /// Whether something could not be read, so that its size is unknown.
    hidden: bool,
}

impl Disk {
    /// Starts to watch the file systems of these places, and the kept files outside of them. A
    /// place that does not exist or is no folder is skipped.
    pub(super) fn watch(places: &[PathBuf], kept: &[PathBuf], limit: DiskLimit) -> Self {
        let mut disk = Self {
            places: places.to_owned(),
            kept: Vec::new(),
            discount: None,
            systems: Vec::new(),
            since: SystemTime::now() - LAG,
            search: None,
            next_search_at: Instant::now(),
            pause: CHECK_INTERVAL.0,
        };
        for place in places {
            disk.add_system(place, limit);
        }
        let mut last: Option<(&Path, Rc<OwnedFd>)> = None;
        for path in kept {
            let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
                continue;
            };
            let known = last.take().filter(|(known, _)| *known == folder);
            let opened = known.map(|(_, opened)| opened).or_else(|| open_folder(folder));
            let (Some(opened), Some(device)) = (opened, disk.add_system(folder, limit)) else {
                continue;
            };
            last = Some((folder, Rc::clone(&opened)));
            disk.kept.push(KeptFile {
                folder: opened,
                name: name.to_owned(),
                device,
                inode: 0,
                bytes: 0,
            });
        }
        disk
    }

    /// Leaves out as many bytes of the kept files as the length of a file.
    pub(super) fn discounted_by(self, discount: Option<PathBuf>) -> Self {
        Self { discount, ..self }
    }

    /// Watches the file system of a folder, and returns its device number.
    fn add_system(&mut self, folder: &Path, limit: DiskLimit) -> Option<u64> {
        let facts = fs::metadata(folder).ok().filter(Metadata::is_dir)?;
        let device = facts.dev();
        if self.systems.iter().any(|system| system.device == device) {
            return Some(device);
        }
        let (space, files) = Space::with_files(folder)?;
        let free = Room::free(space, files);
        self.systems.push(System {
            device,
            at: folder.to_owned(),
            free_at_start: free,
            limit: Room {
                bytes: match limit {
                    DiskLimit::Bytes(bytes) => bytes,
                    DiskLimit::HalfOfFree => free.bytes / 2,
                },
                // Some file systems do not limit the number of files, and report 0.
                files: Some(free.files / 2)
                    .filter(|files| *files > 0)
                    .unwrap_or(u64::MAX),
            },
            found: Room::default(),
        });
        Some(device)
    }

    /// Returns the wait before the next check. It is so short that a tree cannot reach its limit
    /// meanwhile.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Returns the limit that the tree exceeds. Starts a search if free space alone does not decide
    /// that.
    pub(super) fn check(
        &mut self,
        now: Instant,
        members: impl FnOnce() -> Vec<ProcessId>,
    ) -> Option<Overrun> {
        for file in &mut self.kept {
            if let Ok(facts) = fstatat(&file.folder, file.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                let blocks = u64::try_from(facts.st_blocks).unwrap_or(0);
                file.inode = facts.st_ino;
                file.bytes = file.bytes.max(blocks.saturating_mul(512));
            }
        }
        let over = self.poll_search(now);
        if over.is_some() {
            return over;
        }
        let mut left = Room {
            bytes: u64::MAX,
            files: u64::MAX,
        };
        let mut suspect = None;
        for system in &self.systems {
            let kept = self.kept_on(system);
            let space = Space::with_files(&system.at);
            let free = space.map_or(system.free_at_start, |(space, files)| Room::free(space, files));
            let lost = free.lost_since(system.free_at_start);
            let limit = system.limit;
            if kept > limit.bytes {
                let (used, limit) = (kept, limit.bytes);
                return Some(Overrun::Disk { used, limit });
            }
            let scarce = space
                .filter(|(space, _)| space.is_scarce())
                .map(|(space, _)| space.free);
            if let Some(free) = scarce.filter(|free| kept > *free) {
                return Some(Overrun::Space { used: kept, free });
            }
            let is_suspect = lost.is_over(limit) || scarce.is_some_and(|free| lost.bytes > free);
            // The last search has shown that other programs use the remaining part.
            let own = if is_suspect && now < self.next_search_at {
                system.found
            } else {
                lost
            };
            left.bytes = left
                .bytes
                .min(limit.bytes.saturating_sub(own.bytes.max(kept)))
                .min(free.bytes);
            left.files = left.files.min(limit.files.saturating_sub(own.files));
            if is_suspect && now >= self.next_search_at {
                suspect = suspect.or(Some((system, lost, scarce)));
            }
        }
        if self.search.is_none()
            && let Some((system, lost, scarce)) = suspect
        {
            self.search = self.start_search(system, lost, scarce, &members());
        }
        self.pause = if self.search.is_some() {
            SEARCH_POLL
        } else {
            left.lasts(sys::cpus()).clamp(CHECK_INTERVAL.0, CHECK_INTERVAL.1)
        };
        None
    }

    /// Evaluates the search once it has ended.
    fn poll_search(&mut self, now: Instant) -> Option<Overrun> {
        let search = self.search.as_ref()?;
        let taken = match search.result.try_recv() {
            Ok(taken) => taken,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Taken::default(),
        };
        let used = if taken.hidden { search.lost } else { taken.room };
        let over = used.overrun(search.limit).or_else(|| {
            let free = search.scarce.filter(|free| used.bytes > *free)?;
            let used = used.bytes;
            Some(Overrun::Space { used, free })
        });
        let took = now.saturating_duration_since(search.started);
        self.next_search_at = now + SEARCH_INTERVAL.max(took * SEARCH_SHARE);
        let device = search.device;
        let searched = self.systems.iter_mut().find(|system| system.device == device);
        searched.into_iter().for_each(|system| system.found = used);
        self.search = None;
        over
    }

    /// Returns the size of the kept files on a file system, as far as it counts: at most as much as
    /// the limit is left out, because an agent decides which lines are.
    fn kept_on(&self, system: &System) -> u64 {
        let kept = self.kept.iter().filter(|file| file.device == system.device);
        let kept: u64 = kept.map(|file| file.bytes).sum();
        let discount = self
            .discount
            .as_ref()
            .and_then(|file| file.symlink_metadata().ok());
        let discount = discount.map_or(0, |facts| facts.len());
        kept.saturating_sub(discount.min(system.limit.bytes))
    }

    fn start_search(
        &self,
        system: &System,
        lost: Room,
        scarce: Option<u64>,
        members: &[ProcessId],
    ) -> Option<Search> {
        let (sender, result) = channel();
        // After the clock was set back, time stamps do not show what is new: everything counts.
        let since = Some(self.since).filter(|since| *since <= SystemTime::now());
        let mut count = Count::new(system.device, since.unwrap_or(UNIX_EPOCH));
        count.taken.room.bytes = self.kept_on(system);
        let kept = self.kept.iter().filter(|file| file.device == system.device);
        count.kept = kept.map(|file| file.inode).collect();
        let places = self.places.clone();
        let pids: Vec<i32> = members.iter().map(|member| member.pid).collect();
        let search = move || {
            places.iter().for_each(|place| count.files(place));
            pids.iter().for_each(|pid| count.nameless(*pid));
            let _ = sender.send(count.taken);
        };
        // If no thread can be started, the next check tries again.
        std::thread::Builder::new().spawn(search).ok()?;
        Some(Search {
            started: Instant::now(),
            device: system.device,
            lost,
            limit: system.limit,
            scarce,
            result,
        })
    }
}

fn open_folder(folder: &Path) -> Option<Rc<OwnedFd>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | SEARCH_ONLY;
    open(folder, flags, Mode::empty()).ok().map(Rc::new)
}

/// Returns how much of a disk, or of memory, a file takes; holes take nothing.
pub(super) fn taken_by(facts: &Metadata) -> u64 {
    facts.blocks().saturating_mul(512)
}

/// Returns whether a file was changed since a time, by a stamp that no program can set.
pub(super) fn is_new(facts: &Metadata, since: SystemTime) -> bool {
    let changed = u64::try_from(facts.ctime()).unwrap_or(0);
    UNIX_EPOCH + Duration::from_secs(changed) + LAG >= since
}

/// Adds up the files that were written on one file system since a time.
struct Count {
    device: u64,
    since: SystemTime,
    seen: HashSet<u64>,
    /// The inodes of kept files, which are counted already.
    kept: Vec<u64>,
    taken: Taken,
}

impl Count {
    fn new(device: u64, since: SystemTime) -> Self {
        Self {
            device,
            since,
            seen: HashSet::new(),
            kept: Vec::new(),
            taken: Taken::default(),
        }
    }

    /// Counts all files below a place, without following links.
    fn files(&mut self, place: &Path) {
        let mut open = vec![place.to_owned()];
        while let Some(path) = open.pop() {
            let facts = match path.symlink_metadata() {
                Ok(facts) => facts,
                Err(error) => {
                    self.taken.hidden |= too_deep(&error);
                    continue;
                }
            };
            self.add(&facts);
            if !facts.is_dir() {
                continue;
            }
            match fs::read_dir(&path) {
                Ok(entries) => open.extend(entries.flatten().map(|entry| entry.path())),
                // A folder that was not changed holds nothing new.
                Err(error) => self.taken.hidden |= too_deep(&error) || is_new(&facts, self.since),
            }
        }
    }

    /// Counts the files without a name that a process has open.
    fn nameless(&mut self, pid: i32) {
        let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            self.taken.hidden |= ProcessId::of(pid).is_some_and(|process| process.is_alive());
            return;
        };
        for file in open.flatten() {
            match fs::metadata(file.path()) {
                Ok(facts) if facts.is_file() && facts.nlink() == 0 => self.add(&facts),
                _ => {}
            }
        }
    }

    fn add(&mut self, facts: &Metadata) {
        if facts.dev() != self.device || !is_new(facts, self.since) || self.kept.contains(&facts.ino()) {
            return;
        }
        // A file may have several names, and be open several times. A folder has one.
        if facts.nlink() == 1 || facts.is_dir() || self.seen.insert(facts.ino()) {
            let room = &mut self.taken.room;
            room.bytes = room.bytes.saturating_add(taken_by(facts));
            room.files += 1;
        }
    }
}

/// Returns whether a path is too long, as of folders nested too deep.
fn too_deep(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENAMETOOLONG)
}

#[cfg(test)]
mod tests;
