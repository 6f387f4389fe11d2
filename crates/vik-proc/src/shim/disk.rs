//! How much of the disk a tree takes.
//!
//! What is kept of its output is a few files, which are asked for their size each time. For all else: asking a file system what is free costs next to nothing. Only where more has gone than the tree may take is it looked
//! whether the tree has it: in what was written since its start, and in files that are open but have no name any more.
//! Files that hold nothing take room too: a file system has so many and no more.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::libc;

use crate::identity::ProcessId;
use crate::sandbox::{DiskLimit, Overrun};
use crate::space::Space;

/// The least time between two searches.
const PAUSE: Duration = Duration::from_secs(1);
/// A search may take this part of the time at most.
const SHARE: u32 = 20;
/// How many bytes a tree may write in a second: the less room there is, the sooner it is looked again.
const FASTEST: u64 = 4 << 30;
/// The shortest and the longest time between two looks.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));
/// How often it is looked whether a search has ended.
const SEARCH_LOOK: Duration = Duration::from_millis(20);
/// Clocks of files lag a little behind.
pub(super) const LAG: Duration = Duration::from_secs(1);

/// What is known of the file systems that a tree may write to.
#[derive(Debug)]
pub(super) struct Disk {
    places: Vec<PathBuf>,
    kept: Vec<KeptFile>,
    systems: Vec<System>,
    since: SystemTime,
    search: Option<Search>,
    not_before: Instant,
    /// How long to wait before the next look.
    pause: Duration,
}

/// A file that holds what the tree has printed, or what was made of that.
#[derive(Debug)]
struct KeptFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// The most that it ever took: who writes to it may cut it short.
    bytes: u64,
}

#[derive(Clone, Debug)]
struct System {
    device: u64,
    /// A folder on it.
    at: PathBuf,
    free_at_start: Room,
    limit: Room,
    /// What the tree had of it by the last search.
    found: u64,
}

/// Room on a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    bytes: u64,
    /// How many files, folders and whatever else has a name or had one.
    files: u64,
}

impl Room {
    fn free(space: Space, files: u64) -> Self {
        let bytes = space.free;
        Self { bytes, files }
    }

    /// How much less this is than what was free at the start.
    fn lost_since(self, start: Self) -> Self {
        Self {
            bytes: start.bytes.saturating_sub(self.bytes),
            files: start.files.saturating_sub(self.files),
        }
    }

    fn is_over(self, limit: Self) -> bool {
        self.bytes > limit.bytes || self.files > limit.files
    }

    /// Which limit this is over.
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

/// A search that runs, on a thread of its own: it may take as long as it needs.
#[derive(Debug)]
struct Search {
    began: Instant,
    device: u64,
    lost: Room,
    limit: Room,
    /// What was free, where that was next to nothing.
    scarce: Option<u64>,
    result: Receiver<Taken>,
}

/// What a tree has of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    room: Room,
    /// Whether something could not be looked into: it may be anything.
    hidden: bool,
}

impl Disk {
    /// Begins to watch what these places are on, and what is kept outside of them. What is not there, or no folder, is
    /// passed over.
    pub(super) fn watch(places: &[PathBuf], kept: &[PathBuf], limit: DiskLimit) -> Self {
        let mut disk = Self {
            places: places.to_owned(),
            kept: Vec::new(),
            systems: Vec::new(),
            since: SystemTime::now() - LAG,
            search: None,
            not_before: Instant::now(),
            pause: LOOK.0,
        };
        for place in places {
            disk.add_system(place, limit);
        }
        for path in kept {
            let folder = path.parent().unwrap_or(path);
            if let Some(device) = disk.add_system(folder, limit) {
                disk.kept.push(KeptFile {
                    path: path.clone(),
                    device,
                    inode: 0,
                    bytes: 0,
                });
            }
        }
        disk
    }

    /// Watches the file system of a folder. Returns which it is on.
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
                // Some file systems have as many as there is room for, and tell nothing of it.
                files: Some(free.files / 2)
                    .filter(|files| *files > 0)
                    .unwrap_or(u64::MAX),
            },
            found: 0,
        });
        Some(device)
    }

    /// How long to wait before the next look: a tree that is far from its limit cannot reach it meanwhile.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Whether the tree has taken too much.
    pub(super) fn look(&mut self, now: Instant, members: impl FnOnce() -> Vec<ProcessId>) -> Option<Overrun> {
        for file in &mut self.kept {
            if let Ok(facts) = file.path.symlink_metadata() {
                file.inode = facts.ino();
                file.bytes = file.bytes.max(taken_by(&facts));
            }
        }
        let over = self.end_search(now);
        if over.is_some() {
            return over;
        }
        let mut left = u64::MAX;
        let mut suspect = None;
        for system in &self.systems {
            let kept = self.kept_on(system.device);
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
            // What somebody else has taken brings it no nearer to its limit.
            let own = if is_suspect && now < self.not_before {
                system.found
            } else {
                lost.bytes
            };
            left = left
                .min(limit.bytes.saturating_sub(own.max(kept)))
                .min(free.bytes);
            if is_suspect && now >= self.not_before {
                suspect = suspect.or(Some((system, lost, scarce)));
            }
        }
        if self.search.is_none()
            && let Some((system, lost, scarce)) = suspect
        {
            self.search = self.begin(system, lost, scarce, &members());
        }
        self.pause = if self.search.is_some() {
            SEARCH_LOOK
        } else {
            Duration::from_secs_f64(left as f64 / FASTEST as f64).clamp(LOOK.0, LOOK.1)
        };
        None
    }

    /// Takes in what a search has found, once it has ended.
    fn end_search(&mut self, now: Instant) -> Option<Overrun> {
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
        let took = now.saturating_duration_since(search.began);
        self.not_before = now + PAUSE.max(took * SHARE);
        let device = search.device;
        let searched = self.systems.iter_mut().find(|system| system.device == device);
        searched.into_iter().for_each(|system| system.found = used.bytes);
        self.search = None;
        over
    }

    /// How much what is kept takes of a file system.
    fn kept_on(&self, device: u64) -> u64 {
        let kept = self.kept.iter().filter(|file| file.device == device);
        kept.map(|file| file.bytes).sum()
    }

    fn begin(
        &self,
        system: &System,
        lost: Room,
        scarce: Option<u64>,
        members: &[ProcessId],
    ) -> Option<Search> {
        let (tell, result) = channel();
        // A clock that was put back says nothing of what is new.
        let since = Some(self.since).filter(|since| *since <= SystemTime::now());
        let mut count = Count::new(system.device, since.unwrap_or(UNIX_EPOCH));
        count.taken.room.bytes = self.kept_on(system.device);
        let kept = self.kept.iter().filter(|file| file.device == system.device);
        count.kept = kept.map(|file| file.inode).collect();
        let places = self.places.clone();
        let pids: Vec<i32> = members.iter().map(|member| member.pid).collect();
        let search = move || {
            places.iter().for_each(|place| count.files(place));
            pids.iter().for_each(|pid| count.nameless(*pid));
            let _ = tell.send(count.taken);
        };
        // Without room for a thread it is tried again at the next look.
        std::thread::Builder::new().spawn(search).ok()?;
        Some(Search {
            began: Instant::now(),
            device: system.device,
            lost,
            limit: system.limit,
            scarce,
            result,
        })
    }
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

/// Adds up what was written on one file system since a time.
struct Count {
    device: u64,
    since: SystemTime,
    seen: HashSet<u64>,
    /// What is counted already.
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

    /// All files below a place, without following links.
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
                // What nobody has changed holds nothing new.
                Err(error) => self.taken.hidden |= too_deep(&error) || is_new(&facts, self.since),
            }
        }
    }

    /// The files that a process has open, and that nobody finds by a name.
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

/// Folders within folders, until no path leads there.
fn too_deep(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENAMETOOLONG)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    const MIB: usize = 1 << 20;

    fn taken(place: &Path, since: SystemTime) -> Taken {
        let mut count = Count::new(fs::metadata(place).unwrap().dev(), since);
        count.files(place);
        count.nameless(i32::try_from(std::process::id()).unwrap());
        count.taken
    }

    fn write(path: &Path, bytes: usize) -> File {
        let mut file = File::create(path).unwrap();
        file.write_all(&vec![1; bytes]).unwrap();
        file.sync_all().unwrap();
        file
    }

    #[test]
    fn what_is_new_counts_once_and_what_is_not_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir_all(root.join("deep/er")).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        write(&root.join("deep/er/one"), MIB);
        fs::hard_link(root.join("deep/er/one"), root.join("two")).unwrap();
        write(&elsewhere.join("far"), 4 * MIB);
        std::os::unix::fs::symlink(&elsewhere, root.join("link")).unwrap();
        let sum = taken(&root, SystemTime::now() - Duration::from_secs(60));
        assert!(
            (MIB..2 * MIB).contains(&usize::try_from(sum.room.bytes).unwrap()),
            "{sum:?}"
        );
        // Three folders, one file with two names, and a link.
        assert_eq!((sum.room.files, sum.hidden), (5, false));
        let later = taken(&root, SystemTime::now() + Duration::from_secs(3600));
        assert_eq!(later, Taken::default());
    }

    #[test]
    fn a_file_without_a_name_counts_while_it_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone");
        let since = SystemTime::now() - Duration::from_secs(60);
        let before = taken(folder.path(), since);
        let open = write(&path, 3 * MIB);
        fs::remove_file(&path).unwrap();
        let sum = taken(folder.path(), since);
        assert!(
            sum.room.bytes >= before.room.bytes + 3 * MIB as u64,
            "{before:?} {sum:?}"
        );
        drop(open);
    }

    #[test]
    fn what_no_path_leads_to_is_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let name = "d".repeat(250);
        let begin = nix::dir::Dir::open(
            folder.path(),
            nix::fcntl::OFlag::O_DIRECTORY,
            nix::sys::stat::Mode::empty(),
        );
        let mut at = begin.unwrap();
        for _ in 0..20 {
            let mode = nix::sys::stat::Mode::S_IRWXU;
            nix::sys::stat::mkdirat(&at, name.as_str(), mode).unwrap();
            at = nix::dir::Dir::openat(&at, name.as_str(), nix::fcntl::OFlag::O_DIRECTORY, mode).unwrap();
        }
        assert!(taken(folder.path(), UNIX_EPOCH).hidden);
    }

    #[test]
    fn who_has_not_taken_it_is_not_blamed() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().to_owned()];
        let mut disk = Disk::watch(&places, &[], DiskLimit::Bytes(64 << 20));
        // Somebody else has taken it: as far as this tree can tell, all of it was free before.
        disk.systems[0].free_at_start.bytes = u64::MAX;
        let mut found = disk.look(Instant::now(), Vec::new);
        assert!(disk.search.is_some());
        while disk.search.is_some() {
            found = disk.look(Instant::now(), Vec::new);
            std::thread::yield_now();
        }
        assert_eq!(found, None);
        // It is not searched again and again.
        assert!(disk.not_before > Instant::now());
        write(&folder.path().join("flood"), 65 << 20);
        disk.not_before = Instant::now();
        let overrun = loop {
            if let Some(overrun) = disk.look(Instant::now(), Vec::new) {
                break overrun;
            }
        };
        let Overrun::Disk { used, limit } = overrun else {
            panic!("{overrun:?}")
        };
        assert!(used > limit && limit == 64 << 20);
    }

    #[test]
    fn what_is_kept_of_the_output_counts_by_itself_and_with_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        let kept = [folder.path().join("raw"), folder.path().join("log")];
        let limit = DiskLimit::Bytes(8 << 20);
        let mut disk = Disk::watch(std::slice::from_ref(&work), &kept, limit);
        let open = write(&kept[0], 5 * MIB);
        assert_eq!(disk.look(Instant::now(), Vec::new), None);
        // What was cut short counts still.
        open.set_len(0).unwrap();
        write(&kept[1], 4 * MIB);
        let Some(Overrun::Disk {
            used,
            limit: 0x80_0000,
        }) = disk.look(Instant::now(), Vec::new)
        else {
            panic!("{disk:?}")
        };
        assert!((9 << 20..10 << 20).contains(&used), "{used}");

        let mut disk = Disk::watch(std::slice::from_ref(&work), &kept[1..], limit);
        disk.systems[0].free_at_start.bytes = u64::MAX;
        write(&work.join("file"), 5 * MIB);
        let overrun = loop {
            if let Some(overrun) = disk.look(Instant::now(), Vec::new) {
                break overrun;
            }
            std::thread::yield_now();
        };
        assert!(
            matches!(overrun, Overrun::Disk { used, .. } if used > 9 << 20),
            "{overrun:?}"
        );
    }

    #[test]
    fn the_nearer_the_limit_the_sooner_it_is_looked_again() {
        let folder = tempfile::tempdir().unwrap();
        let pause = |limit| {
            let mut disk = Disk::watch(&[folder.path().to_owned()], &[], DiskLimit::Bytes(limit));
            disk.look(Instant::now(), Vec::new);
            disk.pause()
        };
        assert_eq!(pause(1 << 20), LOOK.0);
        assert!((LOOK.0..LOOK.1).contains(&pause(200 << 20)));
    }

    #[test]
    fn files_that_hold_nothing_are_bounded_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = Disk::watch(&[folder.path().to_owned()], &[], DiskLimit::HalfOfFree);
        let system = &mut disk.systems[0];
        assert!(system.limit.files > 0);
        // A file system that had room for a few more, and is used by others all the time.
        system.free_at_start.files = u64::MAX;
        system.limit.files = 100;
        for at in 0..60 {
            fs::create_dir(folder.path().join(format!("folder{at}"))).unwrap();
            File::create(folder.path().join(format!("empty{at}"))).unwrap();
        }
        let overrun = loop {
            if let Some(overrun) = disk.look(Instant::now(), Vec::new) {
                break overrun;
            }
            std::thread::yield_now();
        };
        let (used, limit) = (121, 100);
        assert_eq!(overrun, Overrun::Files { used, limit });
    }
}
