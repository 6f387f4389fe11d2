//! The folder on disk: names, reading, the lock, and replacing a file in one step.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{Uid, User};
use vik_proc::untrusted;
use vik_workspace::fs::{list_folder, open_folder};

use super::error::{BrokenFile, TrackerError};
use super::lock::{self, FolderLock};

/// The size limit of an issue file, in bytes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// How long to wait for another writer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An existing folder of issues.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
}

/// A folder in which no other process writes, as far as programs take the lock. Nothing stays in it
/// that git would show.
#[derive(Debug)]
pub(super) struct LockedStore {
    store: Store,
    _lock: FolderLock,
}

impl Deref for LockedStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Store {
    pub(super) fn open(dir: &Path) -> Result<Self, TrackerError> {
        let open = |source| TrackerError::Open {
            dir: dir.to_owned(),
            source,
        };
        let meta = std::fs::metadata(dir).map_err(open)?;
        if !meta.is_dir() {
            return Err(open(ErrorKind::NotADirectory.into()));
        }
        Ok(Self { dir: dir.to_owned() })
    }

    pub(super) fn create(dir: &Path) -> Result<Self, TrackerError> {
        std::fs::create_dir_all(dir).map_err(|source| TrackerError::Open {
            dir: dir.to_owned(),
            source,
        })?;
        Self::open(dir)
    }

    pub(super) fn lock(self) -> Result<LockedStore, TrackerError> {
        let fail = |source| TrackerError::Lock {
            dir: self.dir.clone(),
            source,
        };
        match FolderLock::acquire(&self.dir, PATIENCE).map_err(fail)? {
            Some(lock) => Ok(LockedStore {
                store: self,
                _lock: lock,
            }),
            None => Err(self.lock_held()),
        }
    }

    /// Returns an error with the owner of the lock.
    pub(super) fn lock_held(&self) -> TrackerError {
        let mut file = self.path(OsStr::new(lock::NAME));
        let facts = file.symlink_metadata().or_else(|_| {
            file.clone_from(&self.dir);
            file.symlink_metadata()
        });
        let owner = facts.map_or_else(
            |_| "unknown".to_owned(),
            |facts| {
                let user = User::from_uid(Uid::from_raw(facts.uid())).ok().flatten();
                user.map_or_else(|| facts.uid().to_string(), |user| user.name)
            },
        );
        TrackerError::LockHeld {
            file,
            owner,
            waited: PATIENCE,
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn path(&self, name: &OsStr) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns the sorted names of all files that should be issues: `*.md`, without hidden ones and
    /// README.md.
    pub(super) fn names(&self) -> Result<Vec<OsString>, TrackerError> {
        let fail = |source| TrackerError::List {
            dir: self.dir.clone(),
            source,
        };
        let mut names = Vec::new();
        for entry in list_folder(&self.dir).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            let bytes = name.as_encoded_bytes();
            let is_issue =
                bytes.ends_with(b".md") && bytes[0] != b'.' && !bytes.eq_ignore_ascii_case(b"readme.md");
            if is_issue && !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the content of a file. Refuses links and everything that is no regular file: they
    /// could lead anywhere, or block.
    pub(super) fn read(&self, name: &OsStr) -> Result<String, BrokenFile> {
        let path = self.path(name);
        let broken = |reason: String, hint| BrokenFile::new(&path, 1, reason, hint);
        let bytes = open_folder(&self.dir)
            .and_then(|dir| untrusted::read_at(dir, Path::new(name), MAX_BYTES))
            .map_err(|error| match error.kind() {
                ErrorKind::FileTooLarge => broken("file too large".to_owned(), "the limit is 4 MiB"),
                ErrorKind::Other => broken(
                    error.to_string(),
                    "an issue must be a regular file, not a link, pipe or device",
                ),
                _ => broken(format!("cannot read the file: {error}"), "check its permissions"),
            })?;
        String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..good].iter().filter(|&&b| b == b'\n').count() + 1;
            BrokenFile::new(&path, line, "not valid UTF-8", "save the file as UTF-8")
        })
    }
}

impl LockedStore {
    /// Writes a new file; never replaces an existing one.
    pub(super) fn create_file(&self, name: &str, text: &str) -> Result<(), TrackerError> {
        let path = self.store.dir.join(name);
        let fail = |source| TrackerError::Write {
            path: path.clone(),
            source,
        };
        let temporary = self.write_beside(text, None).map_err(fail)?;
        // A link fails where a rename would replace. Some file systems have no links: there the
        // lock must suffice.
        let done = std::fs::hard_link(&temporary, &path).or_else(|error| {
            if path.symlink_metadata().is_ok() {
                Err(error)
            } else {
                std::fs::rename(&temporary, &path)
            }
        });
        let _ = std::fs::remove_file(&temporary);
        done.map_err(fail)
    }

    /// Replaces a file if its content is still `before`; otherwise returns `false`.
    pub(super) fn replace(&self, name: &OsStr, before: &str, after: &str) -> Result<bool, TrackerError> {
        let path = self.store.path(name);
        let fail = |source| TrackerError::Write {
            path: path.clone(),
            source,
        };
        let mode = std::fs::symlink_metadata(&path)
            .map_err(fail)?
            .permissions()
            .mode();
        let temporary = self.write_beside(after, Some(mode)).map_err(fail)?;
        let current = self.store.read(name);
        if !current.is_ok_and(|text| text == before) {
            let _ = std::fs::remove_file(&temporary);
            return Ok(false);
        }
        std::fs::rename(&temporary, &path).map_err(|source| {
            let _ = std::fs::remove_file(&temporary);
            fail(source)
        })?;
        Ok(true)
    }

    fn write_beside(&self, text: &str, mode: Option<u32>) -> std::io::Result<PathBuf> {
        let path = self
            .store
            .dir
            .join(format!(".vik-{}.tmp", uuid::Uuid::now_v7().simple()));
        #[expect(
            clippy::disallowed_methods,
            reason = "makes a new file, which is never a link or a pipe"
        )]
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| match mode {
            Some(mode) => file.set_permissions(std::fs::Permissions::from_mode(mode & 0o7777)),
            None => Ok(()),
        });
        written
            .and_then(|()| file.sync_data())
            .inspect_err(|_| drop(std::fs::remove_file(&path)))?;
        Ok(path)
    }
}
