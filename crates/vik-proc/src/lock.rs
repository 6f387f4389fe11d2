//! Exclusive locks on files; a lock ends with its last holder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use crate::sys;

/// An exclusive `flock` on a file.
///
/// The lock belongs to the open file, not to the process. A shim that received it holds it after
/// the daemon has dropped its own handle, and the lock ends with the last holder, however that
/// ends. The file itself is never removed.
///
/// # Examples
///
/// ```
/// use vik_proc::FileLock;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("lock");
/// let lock = FileLock::try_acquire(&path)?.expect("nothing holds the lock");
/// assert!(FileLock::is_locked(&path)?);
/// assert!(FileLock::try_acquire(&path)?.is_none());
/// drop(lock);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileLock {
    file: File,
}

impl FileLock {
    /// Takes the lock; returns `None` if it is held already. Creates the file with mode 0600 if it
    /// does not exist.
    pub fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        // A probe by `is_locked` holds a shared lock for a moment, which must not count as a
        // holder.
        for attempt in 0..5 {
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .create(true)
                .mode(0o600)
                .custom_flags(nix::libc::O_NOFOLLOW);
            let file = options.open(path)?;
            if !flock(&file, nix::libc::LOCK_EX)? {
                continue;
            }
            // Another process may have removed or replaced the file between the opening and the
            // lock.
            if path.symlink_metadata().is_ok_and(|now| is_same(&now, &file)) {
                return Ok(Some(Self { file }));
            }
        }
        Ok(None)
    }

    /// Returns whether the lock is held now. Does not prevent a concurrent acquisition.
    pub fn is_locked(path: &Path) -> io::Result<bool> {
        match File::open(path) {
            // The shared lock ends when this file is dropped.
            Ok(file) => Ok(!flock(&file, nix::libc::LOCK_SH)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for FileLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn is_same(path: &std::fs::Metadata, file: &File) -> bool {
    file.metadata()
        .is_ok_and(|file| (file.dev(), file.ino()) == (path.dev(), path.ino()))
}

fn flock(file: &File, kind: i32) -> io::Result<bool> {
    loop {
        match sys::flock(file.as_raw_fd(), kind | nix::libc::LOCK_NB) {
            Ok(()) => return Ok(true),
            Err(Errno::EWOULDBLOCK) => return Ok(false),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn lock_has_one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(!FileLock::is_locked(&path).unwrap());
        let lock = FileLock::try_acquire(&path).unwrap().unwrap();
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        assert!(FileLock::is_locked(&path).unwrap());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(lock);
        // A child that another test forks holds the descriptor until it calls `exec`.
        let deadline = Instant::now() + Duration::from_secs(10);
        while FileLock::is_locked(&path).unwrap() {
            assert!(Instant::now() < deadline, "the lock is held after its drop");
            std::thread::yield_now();
        }
        assert!(FileLock::try_acquire(&path).unwrap().is_some());
    }

    #[test]
    fn lock_on_a_replaced_file_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let old = FileLock::try_acquire(&path).unwrap().unwrap();
        std::fs::remove_file(&path).unwrap();
        let new = FileLock::try_acquire(&path).unwrap().unwrap();
        assert!(!is_same(&path.metadata().unwrap(), &old.file));
        assert!(is_same(&path.metadata().unwrap(), &new.file));
    }

    #[test]
    fn probes_do_not_disturb_an_acquisition() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        drop(FileLock::try_acquire(&path).unwrap());
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    FileLock::is_locked(&path).unwrap();
                    std::thread::yield_now();
                }
            });
            let all = (0..50).all(|_| FileLock::try_acquire(&path).unwrap().is_some());
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(all);
        });
    }
}
