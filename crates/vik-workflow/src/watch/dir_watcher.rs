//! File events of the system. Folders are watched, because a save may replace a file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::Signal;

/// Device and inode: a folder that was removed and created again has another identity.
type Identity = (u64, u64);

struct Target {
    file: PathBuf,
    /// Whether it is a link: an event in its folder may change where it leads.
    is_link: bool,
}

/// Watches folders, as far as the system permits.
pub(super) struct DirWatcher {
    watcher: Option<RecommendedWatcher>,
    folders: BTreeMap<PathBuf, Identity>,
    targets: Vec<Target>,
    /// Whether every file is watched.
    is_complete: bool,
}

impl DirWatcher {
    /// Sends file events to `signals`. Watches nothing if the system has no watches left.
    pub(super) fn open(signals: Sender<Signal>) -> Self {
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let paths = match event {
                Ok(event) if is_reading(event.kind) => return,
                Ok(event) if event.need_rescan() => Vec::new(),
                Ok(event) => event.paths,
                Err(_) => Vec::new(),
            };
            // Without a receiver, the watch has ended.
            drop(signals.send(Signal::Touched(paths)));
        });
        Self {
            watcher: watcher.ok(),
            ..Self::closed()
        }
    }

    /// Creates a watcher that watches nothing.
    pub(super) fn closed() -> Self {
        Self {
            watcher: None,
            folders: BTreeMap::new(),
            targets: Vec::new(),
            is_complete: false,
        }
    }

    pub(super) fn watches_all(&self) -> bool {
        self.is_complete
    }

    /// Returns whether one of these paths may be a watched file or a folder above one. An empty
    /// list stands for any path.
    pub(super) fn concern(&self, paths: &[PathBuf]) -> bool {
        paths.is_empty()
            || paths.iter().any(|path| {
                let is_beside_link =
                    |target: &Target| target.is_link && path.parent() == target.file.parent();
                self.targets
                    .iter()
                    .any(|target| target.file.starts_with(path) || is_beside_link(target))
            })
    }

    /// Watches the folders of these files. A missing folder is replaced by its nearest existing
    /// ancestor.
    pub(super) fn aim<'f>(&mut self, files: impl IntoIterator<Item = &'f PathBuf>) {
        self.targets = files.into_iter().flat_map(|file| targets(file)).collect();
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let wanted: BTreeMap<PathBuf, Identity> = self
            .targets
            .iter()
            .filter_map(|target| existing_folder(target.file.parent()?))
            .collect();
        self.folders.retain(|folder, identity| {
            let is_wanted = wanted.get(folder) == Some(identity);
            if !is_wanted {
                // A removed folder is no longer watched.
                drop(watcher.unwatch(folder));
            }
            is_wanted
        });
        let mut is_complete = true;
        for (folder, identity) in wanted {
            if self.folders.contains_key(&folder) {
                continue;
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.folders.insert(folder, identity)),
                Err(_) => is_complete = false,
            }
        }
        self.is_complete = is_complete;
    }
}

/// Returns whether an event only reads: Vik itself reads the files.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// Returns a file and, if it is a link, its destination.
fn targets(file: &Path) -> Vec<Target> {
    let is_link = fs::symlink_metadata(file).is_ok_and(|found| found.is_symlink());
    let target = |file: PathBuf, is_link| Target { file, is_link };
    let mut targets = vec![target(file.to_owned(), is_link)];
    if is_link && let Ok(destination) = fs::canonicalize(file) {
        targets.push(target(destination, false));
    }
    targets
}

/// Returns the nearest existing folder, with its identity.
fn existing_folder(folder: &Path) -> Option<(PathBuf, Identity)> {
    folder.ancestors().find_map(|folder| {
        let found = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
        Some((folder.to_owned(), (found.dev(), found.ino())))
    })
}
