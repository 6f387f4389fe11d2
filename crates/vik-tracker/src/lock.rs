//! The lock of an issues folder.
//!
//! A `flock` alone is not enough: every process that can read a file or a folder can lock it, so an
//! agent that may only read the issues could block all writers. Here the lock is a name in the
//! folder. Creating it needs write permission there, and every process finds it, whatever its home,
//! user or sandbox is. The file is locked before it gets that name and loses the name before it is
//! unlocked. Therefore, if a file with that name can be locked, its creator has died.
//!
//! Two kinds of leftovers of a killed writer stay until somebody removes them: one of another user,
//! which cannot be opened, and one that a process with read permission has locked since. Locks of
//! byte ranges would show that the creator has died, but not who may remove the name: the lock of a
//! reader blocks every exclusive one.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg};
use nix::sys::stat::fstatat;
use vik_proc::untrusted;
use vik_workspace::fs::{create_new_private, open_folder};

/// The name of the lock. Like all temporary files, it starts with a dot, so it is no issue.
pub(super) const NAME: &str = ".vik-lock";

/// Versions before 0.3 lock the folder itself, for short times. A process that holds that lock for
/// longer is not one of them.
const OLDER_VERSIONS: Duration = Duration::from_secs(1);

/// The lock of an issues folder; released on drop.
#[derive(Debug)]
pub(super) struct FolderLock {
    /// The path of the lock, if the file system supports it.
    name: Option<PathBuf>,
    _file: Option<Flock<File>>,
    _folder: Option<Flock<OwnedFd>>,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = std::fs::remove_file(name);
        }
    }
}

impl FolderLock {
    /// Waits for the lock at most this long; `None` if another process holds it.
    pub(super) fn acquire(folder: &Path, timeout: Duration) -> io::Result<Option<Self>> {
        let started = Instant::now();
        let remaining = || timeout.saturating_sub(started.elapsed());
        let name = folder.join(NAME);
        let mut wait = Wait::default();
        let file = loop {
            match try_name(folder, &name)? {
                Attempt::Taken(file) => break Some(file),
                Attempt::Unsupported => break None,
                Attempt::Busy if remaining().is_zero() => return Ok(None),
                Attempt::Busy => wait.pause(),
            }
        };
        let mut lock = Self {
            name: file.is_some().then_some(name),
            _file: file,
            _folder: None,
        };
        // If files cannot have two names, the lock of the folder is the only one.
        let timeout = if lock.name.is_some() {
            remaining().min(OLDER_VERSIONS)
        } else {
            remaining()
        };
        let started = Instant::now();
        let mut wait = Wait::default();
        let mut open = open_folder(folder)?;
        loop {
            match Flock::lock(open, FlockArg::LockExclusiveNonblock) {
                Ok(held) => {
                    lock._folder = Some(held);
                    return Ok(Some(lock));
                }
                Err((_, error)) if !is_busy(error) => return Err(error.into()),
                Err(_) if started.elapsed() >= timeout => return Ok(lock.name.is_some().then_some(lock)),
                Err((back, _)) => open = back,
            }
            wait.pause();
        }
    }
}

/// The result of trying to create the name.
enum Attempt {
    Taken(Flock<File>),
    Busy,
    Unsupported,
}

fn try_name(folder: &Path, name: &Path) -> io::Result<Attempt> {
    if name.symlink_metadata().is_ok() && !remove_abandoned(folder, name)? {
        return Ok(Attempt::Busy);
    }
    let temporary = folder.join(format!(".vik-{}.tmp", uuid::Uuid::now_v7().simple()));
    let file = create_new_private(&temporary)?;
    let tried = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => match std::fs::hard_link(&temporary, name) {
            Ok(()) => Ok(Attempt::Taken(file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Attempt::Busy),
            Err(error) if is_unsupported(&error) => Ok(Attempt::Unsupported),
            Err(error) => Err(error),
        },
        // A reader of the folder locked the file first: the next try creates another file.
        Err((_, error)) if is_busy(error) => Ok(Attempt::Busy),
        Err((_, error)) => Err(error.into()),
    };
    let _ = std::fs::remove_file(&temporary);
    tried
}

/// Removes the name if its creator has died; returns `false` if it is alive.
fn remove_abandoned(folder: &Path, name: &Path) -> io::Result<bool> {
    let open = open_folder(folder)?;
    let (file, then) = match untrusted::open_at(&open, Path::new(NAME)) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        // The file of another user, who may hold the lock.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(false),
        Err(error) => return Err(error),
    };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(held) => {
            // Only the holder of a file's lock removes its name, so the name still belongs to that
            // file.
            let now = fstatat(&open, NAME, AtFlags::AT_SYMLINK_NOFOLLOW);
            if now.is_ok_and(|now| (now.st_dev, now.st_ino) == (then.st_dev, then.st_ino)) {
                std::fs::remove_file(name)?;
            }
            drop(held);
            Ok(true)
        }
        Err((_, error)) if is_busy(error) => Ok(false),
        Err((_, error)) => Err(error.into()),
    }
}

fn is_busy(error: Errno) -> bool {
    matches!(error, Errno::EWOULDBLOCK | Errno::EINTR)
}

fn is_unsupported(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    matches!(
        code,
        Some(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EMLINK)
    )
}

/// Pauses between two tries, each longer than the previous one.
struct Wait(Duration);

impl Default for Wait {
    fn default() -> Self {
        Self(Duration::from_millis(1))
    }
}

impl Wait {
    fn pause(&mut self) {
        std::thread::sleep(self.0);
        self.0 = (self.0 * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(200);

    fn acquire(folder: &Path) -> Option<FolderLock> {
        FolderLock::acquire(folder, SOON).unwrap()
    }

    #[test]
    fn lock_cannot_be_blocked_by_a_read_only_user() {
        let folder = tempfile::tempdir().unwrap();
        let reader = || {
            Flock::lock(
                File::open(folder.path()).unwrap(),
                FlockArg::LockExclusiveNonblock,
            )
            .unwrap()
        };
        let held = reader();
        let lock = acquire(folder.path()).expect("the lock of the folder is not the lock");
        // A reader of the folder cannot take the lock while it is held, and waits for it in vain.
        let file = File::open(folder.path().join(NAME)).unwrap();
        let (file, _) = Flock::lock(file, FlockArg::LockSharedNonblock).unwrap_err();
        drop(lock);
        let _waited = Flock::lock(file, FlockArg::LockExclusive).unwrap();
        assert!(acquire(folder.path()).is_some());
        drop(held);
    }

    #[test]
    fn lock_admits_one_writer_and_is_free_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let lock = acquire(folder.path()).unwrap();
        assert!(acquire(folder.path()).is_none());
        // An older version waits too.
        let older = Flock::lock(
            File::open(folder.path()).unwrap(),
            FlockArg::LockExclusiveNonblock,
        );
        assert!(older.is_err());
        drop(lock);
        // The state after a process was killed.
        std::fs::write(folder.path().join(NAME), "").unwrap();
        let lock = acquire(folder.path()).unwrap();
        drop(lock);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn lock_waits_for_an_older_version() {
        let folder = tempfile::tempdir().unwrap();
        let older = Flock::lock(
            File::open(folder.path()).unwrap(),
            FlockArg::LockExclusiveNonblock,
        )
        .unwrap();
        let waits = std::thread::scope(|scope| {
            let path = folder.path();
            let waiting = scope.spawn(|| FolderLock::acquire(path, Duration::from_secs(30)).unwrap());
            let deadline = Instant::now() + Duration::from_secs(10);
            while !path.join(NAME).exists() {
                assert!(Instant::now() < deadline);
                std::thread::yield_now();
            }
            let waits = !waiting.is_finished();
            drop(older);
            assert!(waiting.join().unwrap().is_some_and(|lock| lock._folder.is_some()));
            waits
        });
        assert!(waits);
    }

    #[test]
    fn lock_excludes_many_writers_across_crashes() {
        let folder = tempfile::tempdir().unwrap();
        let inside = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for nth in 0..8 {
                let (folder, inside) = (folder.path(), &inside);
                scope.spawn(move || {
                    for round in 0..20 {
                        let mut lock = FolderLock::acquire(folder, Duration::from_secs(60))
                            .unwrap()
                            .unwrap();
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        if (nth + round) % 5 == 0 {
                            // Its name stays, as after a kill.
                            lock.name = None;
                        }
                    }
                });
            }
        });
    }
}
