//! Reports which folders have changed: their names, or what is mounted.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use nix::sys::statfs::{self, FsType, statfs};

use crate::sys;

/// The number of XFS. nix has it only for glibc.
const XFS_SUPER_MAGIC: FsType = FsType(0x5846_5342);

/// The file systems that report every change of their folders: local ones, whose content only this
/// kernel changes.
const REPORTING: &[FsType] = &[
    statfs::BTRFS_SUPER_MAGIC,
    statfs::EXT4_SUPER_MAGIC,
    statfs::F2FS_SUPER_MAGIC,
    statfs::OVERLAYFS_SUPER_MAGIC,
    statfs::TMPFS_MAGIC,
    XFS_SUPER_MAGIC,
];

/// What has changed since the last check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Changes {
    None,
    /// The names in these folders, or the folders themselves.
    Folders(Vec<PathBuf>),
    /// Anything: mounts, or more than the kernel could report.
    Unknown,
}

/// A watch over folders.
#[derive(Debug)]
pub(super) struct ChangeWatch {
    events: Inotify,
    /// Shows at a poll whether a mount was added or removed.
    mounts: File,
    watched: HashMap<PathBuf, WatchDescriptor>,
    by_watch: HashMap<WatchDescriptor, PathBuf>,
}

impl ChangeWatch {
    #[expect(clippy::disallowed_methods, reason = "opens a file of the kernel")]
    pub(super) fn new() -> Option<Self> {
        Some(Self {
            events: Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).ok()?,
            mounts: File::open("/proc/self/mountinfo").ok()?,
            watched: HashMap::new(),
            by_watch: HashMap::new(),
        })
    }

    /// Watches a folder from now on. Its path contains no links, and its parents are watched.
    /// Returns `false` if changes would not be reported.
    pub(super) fn add(&mut self, folder: &Path) -> bool {
        if self.watched.contains_key(folder) {
            return true;
        }
        let mask = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR
            | AddWatchFlags::IN_DONT_FOLLOW;
        let watch = match self.events.add_watch(folder, mask) {
            Ok(watch) => watch,
            // A file contains no names. Its folder reports when that changes.
            Err(Errno::ENOTDIR) => return true,
            Err(_) => return false,
        };
        // The names of an encrypted folder change, without a report, when its key is loaded.
        let reports = statfs(folder).is_ok_and(|facts| REPORTING.contains(&facts.filesystem_type()))
            && !sys::is_encrypted(folder).unwrap_or(true);
        // One watch for two paths could not be removed for one of them.
        if !reports || self.by_watch.contains_key(&watch) {
            return false;
        }
        self.watched.insert(folder.to_owned(), watch);
        self.by_watch.insert(watch, folder.to_owned());
        true
    }

    /// Removes the watches of a folder and of the folders below it.
    pub(super) fn remove_below(&mut self, folder: &Path) {
        let removed = self.watched.extract_if(|path, _| path.starts_with(folder));
        for (_, watch) in removed {
            self.by_watch.remove(&watch);
            // It fails if the kernel has removed the watch, with the folder.
            let _ = self.events.rm_watch(watch);
        }
    }

    /// Returns what has changed since the last call.
    pub(super) fn take(&mut self) -> Changes {
        let mut fds = [
            PollFd::new(self.mounts.as_fd(), PollFlags::POLLPRI),
            PollFd::new(self.events.as_fd(), PollFlags::POLLIN),
        ];
        if poll(&mut fds, PollTimeout::ZERO).is_err() {
            return Changes::Unknown;
        }
        let [mounts, events] = fds.map(|fd| fd.any().unwrap_or(true));
        match (mounts, events) {
            (true, _) => Changes::Unknown,
            (false, true) => self.read(),
            (false, false) => Changes::None,
        }
    }

    fn read(&self) -> Changes {
        let mut folders: Vec<PathBuf> = Vec::new();
        loop {
            let events = match self.events.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => continue,
                Err(_) => return Changes::Unknown,
            };
            for event in events {
                if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                    return Changes::Unknown;
                }
                // An event of a watch that was removed may still be queued.
                if let Some(folder) = self.by_watch.get(&event.wd)
                    && !folders.contains(folder)
                {
                    folders.push(folder.clone());
                }
            }
        }
        if folders.is_empty() {
            Changes::None
        } else {
            Changes::Folders(folders)
        }
    }

    /// Returns the descriptors that are open for the watch.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.events.as_fd(), self.mounts.as_fd()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_names_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for folder in ["a/in", "b"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::fs::write(at("a/file"), "").unwrap();
        let mut watch = ChangeWatch::new().unwrap();
        for folder in ["a", "a/in", "b"] {
            assert!(watch.add(&at(folder)) && watch.add(&at(folder)));
        }
        assert!(watch.add(&at("a/file")) && !watch.add(&at("missing")));
        let mut expect = |change: &dyn Fn(), folders: &[&str]| {
            change();
            let folders: Vec<PathBuf> = folders.iter().map(|name| at(name)).collect();
            let expected = if folders.is_empty() {
                Changes::None
            } else {
                Changes::Folders(folders)
            };
            assert_eq!(watch.take(), expected);
            assert_eq!(watch.take(), Changes::None);
        };
        expect(&|| std::fs::write(at("a/file"), "more").unwrap(), &[]);
        expect(&|| std::fs::write(at("a/new"), "").unwrap(), &["a"]);
        expect(
            &|| std::fs::rename(at("a/new"), at("b/new")).unwrap(),
            &["a", "b"],
        );
        expect(
            &|| std::fs::hard_link(at("b/new"), at("b/again")).unwrap(),
            &["b"],
        );
        expect(
            &|| std::os::unix::fs::symlink("new", at("a/link")).unwrap(),
            &["a"],
        );
        expect(&|| std::fs::rename(at("a/file"), at("a/link")).unwrap(), &["a"]);
        expect(&|| std::fs::remove_file(at("b/new")).unwrap(), &["b"]);
        expect(
            &|| std::fs::rename(at("a/in"), at("b/in")).unwrap(),
            &["a", "b", "a/in"],
        );
        expect(&|| std::fs::remove_dir(at("b/in")).unwrap(), &["a/in", "b"]);
        watch.remove_below(&at("b"));
        std::fs::write(at("b/more"), "").unwrap();
        assert_eq!(watch.take(), Changes::None);
    }

    #[test]
    fn folder_without_reports_is_refused() {
        let mut watch = ChangeWatch::new().unwrap();
        for folder in ["/proc", "/proc/sys", "/sys"] {
            assert!(!watch.add(Path::new(folder)), "{folder}");
        }
    }
}
