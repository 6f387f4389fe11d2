//! What the system tells of files: folders are watched, because a save may put another file in the place of the first.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::Signal;

/// Device and inode: a folder that was removed and made again is another one.
type Identity = (u64, u64);

/// A file that matters.
struct Target {
    file: PathBuf,
    /// It is a link: whatever happens beside it may lead it elsewhere.
    is_link: bool,
}

/// Watches folders, as far as the system lets it.
pub(super) struct DirWatcher {
    watcher: Option<RecommendedWatcher>,
    folders: BTreeMap<PathBuf, Identity>,
    targets: Vec<Target>,
    /// Whether every file that matters is watched.
    is_complete: bool,
}

impl DirWatcher {
    /// Tells what happens to `signals`. Sees nothing where the system has no more to give.
    pub(super) fn open(signals: Sender<Signal>) -> Self {
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let paths = match event {
                Ok(event) if is_reading(event.kind) => return,
                Ok(event) if event.need_rescan() => Vec::new(),
                Ok(event) => event.paths,
                Err(_) => Vec::new(),
            };
            // When nobody hears it, the watch is over.
            drop(signals.send(Signal::Touched(paths)));
        });
        Self {
            watcher: watcher.ok(),
            ..Self::closed()
        }
    }

    /// Sees nothing.
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

    /// Whether one of these paths may be a file that matters, or a folder above one; no path may be any.
    pub(super) fn concern(&self, paths: &[PathBuf]) -> bool {
        paths.is_empty()
            || paths.iter().any(|path| {
                let near = |target: &Target| target.is_link && path.parent() == target.file.parent();
                self.targets
                    .iter()
                    .any(|target| target.file.starts_with(path) || near(target))
            })
    }

    /// Watches the folders of these files; in place of a folder that is not there, the next one above it.
    pub(super) fn aim<'f>(&mut self, files: impl IntoIterator<Item = &'f PathBuf>) {
        self.targets = files.into_iter().flat_map(|file| targets(file)).collect();
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let wanted: BTreeMap<PathBuf, Identity> = self
            .targets
            .iter()
            .filter_map(|target| standing(target.file.parent()?))
            .collect();
        self.folders.retain(|folder, identity| {
            let stays = wanted.get(folder) == Some(identity);
            if !stays {
                // One that is gone is not watched any more.
                drop(watcher.unwatch(folder));
            }
            stays
        });
        let mut sees_all = true;
        for (folder, identity) in wanted {
            if self.folders.contains_key(&folder) {
                continue;
            }
            match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.folders.insert(folder, identity)),
                Err(_) => sees_all = false,
            }
        }
        self.is_complete = sees_all;
    }
}

/// Reading is no change; Vik itself does it.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// A file, and where it leads if it is a link.
fn targets(file: &Path) -> Vec<Target> {
    let is_link = fs::symlink_metadata(file).is_ok_and(|found| found.is_symlink());
    let target = |file: PathBuf, is_link| Target { file, is_link };
    let mut targets = vec![target(file.to_owned(), is_link)];
    if is_link && let Ok(end) = fs::canonicalize(file) {
        targets.push(target(end, false));
    }
    targets
}

/// The nearest folder that is there.
fn standing(folder: &Path) -> Option<(PathBuf, Identity)> {
    folder.ancestors().find_map(|folder| {
        let found = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
        Some((folder.to_owned(), (found.dev(), found.ino())))
    })
}
