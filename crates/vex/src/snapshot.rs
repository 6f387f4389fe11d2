//! A copy of the workspace at one time, to which a further try returns.
//!
//! The copy is a folder like the workspace, outside of it, so that people can recover files from
//! what a killed run left. What git ignores, such as the output of a build, is neither copied nor
//! restored. Everything else is: files with their permissions, links, empty folders, nested
//! repositories, and of each repository its branches, tags, stash, index, settings, and a merge that
//! is under way. The objects of repositories get a second name in the copy, as git never changes
//! one.

mod differences;
mod objects;
mod outside;
mod present;

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest as _, Sha256};

use self::differences::Difference;
use self::objects::Objects;
use self::outside::OutsideRepository;
use self::present::{Entry, Listing, Stat};
use crate::interrupt::Interrupt;

/// The maximum number of files that are copied.
const MAX_FILES: u64 = 200_000;
/// The maximum size of all copied files, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// The extension of a copy that is being made.
const INCOMPLETE: &str = "incomplete";
/// The name of the files with rules about ignored files.
const RULES: &str = ".gitignore";
/// How long the copy of a killed run stays.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// Why files cannot be kept or restored.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("cannot keep or restore {path}: {source}", path = path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "the workspace is too large to copy: more than {MAX_FILES} files or 4 GiB that git does not ignore"
    )]
    TooLarge,
    /// A copy in the workspace would be a part of it.
    #[error("cannot keep the files of the workspace: {place}, where vex keeps its state, is inside of it", place = place.display())]
    Inside { place: PathBuf },
    #[error("interrupted")]
    Interrupted,
    /// The objects of a repository are gone, so that its branches cannot be restored.
    #[error("no file was restored: the repository {path} was moved or replaced", path = path.display())]
    Replaced { path: PathBuf },
    /// git failed, and says why.
    #[error("cannot restore the repository of the workspace: git {command}: {error}")]
    Git { command: String, error: String },
}

/// Returns a function that adds the path to an error.
fn at(path: &Path) -> impl FnOnce(io::Error) -> SnapshotError {
    let path = path.to_owned();
    |source| SnapshotError::Io { path, source }
}

/// A digest of the state of a workspace.
pub type State = [u8; 32];

/// The files of a workspace at one time.
#[derive(Debug)]
pub struct Snapshot {
    root: PathBuf,
    /// The folder of the copy; removed when dropped.
    store: PathBuf,
    /// Locked while the run lives.
    _lock: Flock<File>,
    /// Whether the copy stays when this is dropped.
    is_left: Cell<bool>,
    /// The permission bits of the folders. Those of their copies let all copies be read.
    folders: HashMap<PathBuf, u32>,
    /// The present files that are known to equal their copies.
    equal: RefCell<HashMap<PathBuf, Stat>>,
    /// The objects of the repositories in the workspace.
    objects: Vec<Objects>,
    /// What cannot be copied, such as sockets and folders that cannot be read.
    others: BTreeSet<PathBuf>,
    outside: Option<OutsideRepository>,
}

impl Snapshot {
    /// Copies the workspace `root` to a new folder below `place`, and returns the copy with those
    /// that killed runs left of the same workspace. Commands of the model must not be able to write
    /// below `place`.
    ///
    /// # Errors
    /// When a file cannot be read or copied, the workspace is too large, `place` is in it, or the
    /// run is interrupted.
    pub fn take(
        root: &Path,
        place: &Path,
        interrupt: &Interrupt,
    ) -> Result<(Self, Vec<PathBuf>), SnapshotError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(place).map_err(at(place))?;
        let place = place.canonicalize().map_err(at(place))?;
        let root = root.canonicalize().map_err(at(root))?;
        if place.starts_with(&root) {
            return Err(SnapshotError::Inside { place });
        }
        let left = leftovers(&root, &place).map_err(at(&place))?;
        let store = place.join(uuid::Uuid::now_v7().to_string());
        let lock = lock(&root, &store).map_err(at(&store))?;
        let outside = OutsideRepository::of(&root)?;
        let mut snapshot = Self {
            root,
            store: store.with_extension(INCOMPLETE),
            _lock: lock,
            is_left: Cell::new(false),
            folders: HashMap::new(),
            equal: RefCell::default(),
            objects: Vec::new(),
            others: BTreeSet::new(),
            outside,
        };
        builder.create(&snapshot.store).map_err(at(&snapshot.store))?;
        snapshot.copy_all(interrupt)?;
        fs::rename(&snapshot.store, &store).map_err(at(&store))?;
        snapshot.store = store;
        Ok((snapshot, left))
    }

    /// Returns how the workspace is listed.
    fn listing(&self) -> Listing<'_> {
        Listing {
            root: &self.root,
            has_rules_above: self.outside.as_ref().is_some_and(|outside| outside.is_above),
        }
    }

    fn copy_all(&mut self, interrupt: &Interrupt) -> Result<(), SnapshotError> {
        let (mut files, mut bytes) = (0, 0);
        for path in self.listing().with_repositories() {
            if interrupt.is_set() {
                return Err(SnapshotError::Interrupted);
            }
            let (from, to) = (self.root.join(&path), self.store.join(&path));
            // Something may have removed it meanwhile.
            let Some((entry, stat)) = Entry::of(&from).map_err(at(&from))? else {
                continue;
            };
            match entry {
                Entry::Folder { .. } if differences::holds_objects(&path) => {
                    self.objects
                        .push(Objects::keep(path, &from, &to).map_err(at(&from))?);
                }
                Entry::Folder { .. } if fs::read_dir(&from).is_err() => _ = self.others.insert(path),
                Entry::Folder { mode } => {
                    fs::create_dir_all(&to).map_err(at(&to))?;
                    self.folders.insert(path, mode);
                }
                Entry::Link { target } => symlink(target, &to).map_err(at(&to))?,
                Entry::File { .. } => {
                    (files, bytes) = (files + 1, bytes + stat.size());
                    if files > MAX_FILES || bytes > MAX_BYTES {
                        return Err(SnapshotError::TooLarge);
                    }
                    fs::copy(&from, &to).map_err(at(&from))?;
                    self.equal.get_mut().insert(path, stat);
                }
                Entry::Other => _ = self.others.insert(path),
            }
        }
        Ok(())
    }

    /// Lets the copy stay after the end of the run, and returns its path.
    pub fn leave(&self) -> &Path {
        self.is_left.set(true);
        &self.store
    }

    /// Returns a digest of the state of the present files and of the branches.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn state(&self) -> Result<State, SnapshotError> {
        let mut state = Sha256::new();
        let mut add = |bytes: &[u8]| {
            state.update(bytes.len().to_le_bytes());
            state.update(bytes);
        };
        let changed = self.changed()?.into_iter().map(|difference| difference.path);
        let added = self.added()?;
        let added = added
            .into_iter()
            .flat_map(|path| present::below(&self.root, path));
        for path in changed
            .chain(added)
            .filter(|path| differences::belongs_to_state(path))
        {
            let full = self.root.join(&path);
            add(path.as_os_str().as_bytes());
            match Entry::of(&full).map_err(at(&full))? {
                None => add(b"none"),
                Some((Entry::Folder { mode }, _)) => add(format!("folder {mode}").as_bytes()),
                Some((Entry::Link { target }, _)) => add(target.as_os_str().as_bytes()),
                Some((Entry::File { mode }, _)) => {
                    add(format!("file {mode}").as_bytes());
                    add(&present::digest(&full).map_err(at(&full))?);
                }
                Some((Entry::Other, _)) => add(b"other"),
            }
        }
        if let Some(outside) = &self.outside {
            add(outside.head().as_bytes());
        }
        Ok(state.finalize().into())
    }

    /// Returns the files and repositories to the kept state. No process may change them meanwhile.
    ///
    /// # Errors
    /// When a repository was replaced, of which nothing is restored then, or when a file cannot be
    /// written; some files may be restored then.
    pub fn restore(&self) -> Result<(), SnapshotError> {
        for objects in &self.objects {
            if !objects.can_return(&self.root).map_err(at(&objects.path))? {
                let path = objects.path.parent().unwrap_or(&objects.path).to_owned();
                return Err(SnapshotError::Replaced { path });
            }
        }
        let mut folders: Vec<_> = self.folders.iter().collect();
        folders.sort();
        // Those that the owner must be able to use meanwhile, from the outermost.
        for (path, _) in &folders {
            let full = self.root.join(path);
            match Entry::of(&full).map_err(at(&full))? {
                Some((Entry::Folder { mode }, _)) => set_mode(&full, mode, mode | 0o700)?,
                // A link in its place would lead elsewhere.
                _ => {
                    remove(&full)?;
                    fs::create_dir(&full).map_err(at(&full))?;
                }
            }
        }
        for difference in self.changed()? {
            self.write(&difference)?;
        }
        for objects in &self.objects {
            objects
                .restore(&self.root, &self.store)
                .map_err(at(&objects.path))?;
        }
        // An added rule could hide added files, and itself.
        for folder in std::iter::once(Path::new("")).chain(folders.iter().map(|(path, _)| path.as_path())) {
            let rules = folder.join(RULES);
            if !self.is_kept(&rules) && !differences::is_in_repository(&rules) {
                remove(&self.root.join(rules))?;
            }
        }
        for path in self.added()? {
            remove(&self.root.join(path))?;
        }
        for (path, mode) in folders.into_iter().rev() {
            let full = self.root.join(path);
            if let Some((Entry::Folder { mode: now }, _)) = Entry::of(&full).map_err(at(&full))? {
                set_mode(&full, now, *mode)?;
            }
        }
        match &self.outside {
            Some(outside) => outside.restore(&self.root),
            None => Ok(()),
        }
    }

    /// Writes one entry as it was. Its folder is restored already.
    fn write(&self, difference: &Difference) -> Result<(), SnapshotError> {
        let path = self.root.join(&difference.path);
        match (&difference.kept, &difference.now) {
            // They are there already.
            (Entry::Folder { .. }, _) => Ok(()),
            (Entry::Link { target }, _) => {
                remove(&path)?;
                symlink(target, &path).map_err(at(&path))
            }
            (Entry::File { .. }, _) => {
                // A new file: what stands there now may be a link, or have further names.
                let new = path.with_file_name(format!(".{}.vex", uuid::Uuid::now_v7()));
                fs::copy(self.store.join(&difference.path), &new).map_err(at(&new))?;
                if matches!(difference.now, Some(Entry::Folder { .. })) {
                    remove(&path)?;
                }
                fs::rename(&new, &path).map_err(at(&path))?;
                if let Some((_, stat)) = Entry::of(&path).map_err(at(&path))? {
                    self.equal.borrow_mut().insert(difference.path.clone(), stat);
                }
                Ok(())
            }
            (Entry::Other, _) => Ok(()),
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if !self.is_left.get() {
            let _ = remove(&self.store);
            let _ = fs::remove_file(lock_of(&self.store));
        }
    }
}

/// Changes permissions, if they are not as they should be. Those of what belongs to others cannot
/// be.
fn set_mode(path: &Path, now: u32, mode: u32) -> Result<(), SnapshotError> {
    if now == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(at(path))
}

/// Removes a file, a link or a whole folder, if it is there. Links are not followed.
fn remove(path: &Path) -> Result<(), SnapshotError> {
    let removed = match Entry::of(path).map_err(at(path))? {
        None => return Ok(()),
        Some((Entry::Folder { .. }, _)) => fs::remove_dir_all(path).or_else(|error| {
            if error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            allow_removal(path)?;
            fs::remove_dir_all(path)
        }),
        Some(_) => fs::remove_file(path),
    };
    removed.map_err(at(path))
}

/// Makes all folders below `path` writable.
fn allow_removal(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            allow_removal(&entry.path())?;
        }
    }
    Ok(())
}

fn lock_of(store: &Path) -> PathBuf {
    store.with_extension("lock")
}

/// Creates and locks the file that shows that a copy of `root` is in use.
fn lock(root: &Path, store: &Path) -> io::Result<Flock<File>> {
    let path = lock_of(store);
    fs::write(&path, root.as_os_str().as_bytes())?;
    Flock::lock(File::open(path)?, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
}

/// Returns the copies of `root` in `place` that killed runs left. Old ones are removed.
fn leftovers(root: &Path, place: &Path) -> io::Result<Vec<PathBuf>> {
    let mut left = Vec::new();
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        if path.extension() != Some(OsStr::new("lock")) {
            continue;
        }
        // It may have been removed since.
        let Ok(file) = File::open(&path) else { continue };
        let written = file.metadata()?.modified()?;
        let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
            continue;
        };
        let store = path.with_extension("");
        let _ = remove(&store.with_extension(INCOMPLETE));
        // Another run may have removed both between the opening and the lock.
        let Ok(of) = fs::read(&path) else { continue };
        if SystemTime::now().duration_since(written).unwrap_or_default() > KEPT_FOR {
            let _ = remove(&store);
            let _ = fs::remove_file(&path);
        } else if !store.is_dir() {
            let _ = fs::remove_file(&path);
        } else if of == root.as_os_str().as_bytes() {
            left.push(store);
        }
    }
    left.sort();
    Ok(left)
}
