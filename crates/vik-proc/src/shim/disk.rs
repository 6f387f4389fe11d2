//! How much of the disk a tree takes.
//!
//! Asking a file system what is free costs next to nothing. Only where more has gone than the tree may take is it looked
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
use nix::sys::statvfs::statvfs;

use crate::identity::ProcessId;
use crate::sandbox::{DiskLimit, Overrun};

/// The least time between two searches.
const PAUSE: Duration = Duration::from_secs(1);
/// A search may take this part of the time at most.
const SHARE: u32 = 20;
/// Clocks of files lag a little behind.
const LAG: Duration = Duration::from_secs(1);

/// What is known of the file systems that a tree may write to.
#[derive(Debug)]
pub(super) struct Disk {
    places: Vec<PathBuf>,
    systems: Vec<System>,
    since: SystemTime,
    search: Option<Search>,
    not_before: Instant,
}

#[derive(Clone, Debug)]
struct System {
    device: u64,
    /// A folder on it.
    at: PathBuf,
    free_at_start: Room,
    limit: Room,
}

/// Room on a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    bytes: u64,
    /// How many files, folders and whatever else has a name or had one.
    files: u64,
}

impl Room {
    /// What is free for this user, on the file system of a folder that has any.
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "the types differ between systems"
    )]
    fn free(folder: &Path) -> Option<Self> {
        let facts = statvfs(folder).ok()?;
        let fragment = u64::try_from(facts.fragment_size()).unwrap_or(0);
        (facts.blocks() > 0).then(|| Self {
            bytes: u64::from(facts.blocks_available()).saturating_mul(fragment),
            files: u64::from(facts.files_available()),
        })
    }

    /// How much less this is than what was free at the start.
    fn lost_since(self, start: Self) -> Self {
        Self {
            bytes: start.bytes.saturating_sub(self.bytes),
            files: start.files.saturating_sub(self.files),
        }
    }

    fn quarter(self) -> Self {
        Self {
            bytes: self.bytes / 4,
            files: self.files / 4,
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
    lost: Room,
    limit: Room,
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
    /// Begins to watch what these places are on. What is not there, or no folder, is passed over.
    pub(super) fn watch(places: &[PathBuf], limit: DiskLimit) -> Self {
        let mut systems: Vec<System> = Vec::new();
        for place in places {
            let Ok(facts) = fs::metadata(place) else { continue };
            if !facts.is_dir() || systems.iter().any(|system| system.device == facts.dev()) {
                continue;
            }
            let Some(free) = Room::free(place) else { continue };
            systems.push(System {
                device: facts.dev(),
                at: place.clone(),
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
            });
        }
        Self {
            places: places.to_owned(),
            systems,
            since: SystemTime::now() - LAG,
            search: None,
            not_before: Instant::now(),
        }
    }

    /// Whether the tree has taken too much, and whether it comes close to that.
    pub(super) fn look(&mut self, now: Instant, members: &[ProcessId]) -> (Option<Overrun>, bool) {
        if let Some(search) = &self.search {
            let taken = match search.result.try_recv() {
                Ok(taken) => taken,
                Err(TryRecvError::Empty) => return (None, true),
                Err(TryRecvError::Disconnected) => Taken::default(),
            };
            let used = if taken.hidden { search.lost } else { taken.room };
            let over = used.overrun(search.limit);
            self.not_before = now + PAUSE.max(now.saturating_duration_since(search.began) * SHARE);
            self.search = None;
            if over.is_some() {
                return (over, true);
            }
        }
        let mut close = false;
        for system in &self.systems {
            let free = Room::free(&system.at).unwrap_or(system.free_at_start);
            let lost = free.lost_since(system.free_at_start);
            close |= lost.is_over(system.limit.quarter());
            if lost.is_over(system.limit) && now >= self.not_before {
                self.search = self.begin(system, lost, members);
                break;
            }
        }
        (None, close)
    }

    fn begin(&self, system: &System, lost: Room, members: &[ProcessId]) -> Option<Search> {
        let (tell, result) = channel();
        // A clock that was put back says nothing of what is new.
        let since = Some(self.since).filter(|since| *since <= SystemTime::now());
        let mut count = Count::new(system.device, since.unwrap_or(UNIX_EPOCH));
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
            lost,
            limit: system.limit,
            result,
        })
    }
}

/// Adds up what was written on one file system since a time.
struct Count {
    device: u64,
    since: SystemTime,
    seen: HashSet<u64>,
    taken: Taken,
}

impl Count {
    fn new(device: u64, since: SystemTime) -> Self {
        Self {
            device,
            since,
            seen: HashSet::new(),
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
                Err(error) => self.taken.hidden |= too_deep(&error) || self.is_new(&facts),
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
        if facts.dev() != self.device || !self.is_new(facts) {
            return;
        }
        // A file may have several names, and be open several times. A folder has one.
        if facts.nlink() == 1 || facts.is_dir() || self.seen.insert(facts.ino()) {
            let room = &mut self.taken.room;
            room.bytes = room.bytes.saturating_add(facts.blocks().saturating_mul(512));
            room.files += 1;
        }
    }

    /// Whether it was changed since: nobody can set this time.
    fn is_new(&self, facts: &Metadata) -> bool {
        let changed = u64::try_from(facts.ctime()).unwrap_or(0);
        UNIX_EPOCH + Duration::from_secs(changed) + LAG >= self.since
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
        let mut disk = Disk::watch(&places, DiskLimit::Bytes(64 << 20));
        // Somebody else has taken it: as far as this tree can tell, all of it was free before.
        disk.systems[0].free_at_start.bytes = u64::MAX;
        let mut found = disk.look(Instant::now(), &[]);
        assert!(disk.search.is_some());
        while disk.search.is_some() {
            found = disk.look(Instant::now(), &[]);
            std::thread::yield_now();
        }
        assert_eq!(found.0, None);
        // It is not searched again and again.
        assert!(disk.not_before > Instant::now());
        write(&folder.path().join("flood"), 65 << 20);
        disk.not_before = Instant::now();
        let overrun = loop {
            if let (Some(overrun), _) = disk.look(Instant::now(), &[]) {
                break overrun;
            }
        };
        let Overrun::Disk { used, limit } = overrun else {
            panic!("{overrun:?}")
        };
        assert!(used > limit && limit == 64 << 20);
    }

    #[test]
    fn files_that_hold_nothing_are_bounded_too() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = Disk::watch(&[folder.path().to_owned()], DiskLimit::HalfOfFree);
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
            if let (Some(overrun), _) = disk.look(Instant::now(), &[]) {
                break overrun;
            }
            std::thread::yield_now();
        };
        let (used, limit) = (121, 100);
        assert_eq!(overrun, Overrun::Files { used, limit });
    }
}
