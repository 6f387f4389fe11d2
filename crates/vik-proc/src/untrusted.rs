//! Reads files that an agent may have written, or replaced by something else.
//!
//! Vik reads such files only through this module. Links below the folder that a caller trusts are
//! not followed, only regular files are opened, opening never blocks, and a file larger than the
//! caller's limit is an error. [`read`] and [`read_below`] return after [`READ_TIMEOUT`] at the
//! latest, even if the file system does not respond.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};

use crate::sys;

/// How long [`read`] and [`read_below`] wait for a file system.
pub const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The flags for a folder: a link in its place is not followed.
const FOLDER: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// The flags for a file: a link in its place is not followed. If a pipe or a terminal has replaced
/// the file since it was examined, opening neither blocks nor makes it the controlling terminal of
/// Vik.
const FILE: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_NOCTTY)
    .union(OFlag::O_CLOEXEC);

/// Reads a file of at most `limit` bytes. Links on the way to its folder are followed; a link in
/// place of the file is not.
///
/// # Errors
/// When there is no regular file, it is larger than `limit`, it cannot be read, or reading takes
/// too long.
pub fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    read_below(folder, Path::new(name), limit)
}

/// Reads a file of at most `limit` bytes below a folder. Links on the way to that folder are
/// followed; links below it are not.
///
/// # Errors
/// As [`read`]; and when the path leads out of the folder.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use vik_proc::untrusted::read_below;
///
/// let folder = tempfile::tempdir()?;
/// std::fs::write(folder.path().join("notes"), "done")?;
/// assert_eq!(read_below(folder.path(), Path::new("notes"), 1024)?, b"done");
/// assert!(read_below(folder.path(), Path::new("notes"), 3).is_err());
///
/// std::os::unix::fs::symlink("/etc/hosts", folder.path().join("link"))?;
/// assert!(read_below(folder.path(), Path::new("link"), 1024).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_below(folder: &Path, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (folder, path) = (folder.to_owned(), path.to_owned());
    within(READ_TIMEOUT, move || {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = open(&folder, flags, Mode::empty())?;
        read_at(folder, &path, limit)
    })
}

/// Reads like [`read_below`], but from an open folder and without a time limit: for callers that
/// have one of their own.
///
/// # Errors
/// As [`read_below`].
pub fn read_at(folder: impl AsFd, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, facts) = open_at(folder, path)?;
    let size = u64::try_from(facts.st_size).unwrap_or(0);
    if size > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // The file may grow meanwhile.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Opens a regular file below an open folder, and returns it with its status. Links are not
/// followed.
///
/// # Errors
/// When the file does not exist, is not a regular file, or cannot be opened; and when the path
/// leads out of the folder.
pub fn open_at(folder: impl AsFd, path: &Path) -> io::Result<(File, FileStat)> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => parts.push(name),
            Component::CurDir => {}
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    let Some((name, folders)) = parts.split_last() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut above: Option<OwnedFd> = None;
    for folder_name in folders {
        let inner = match &above {
            Some(above) => openat(above, *folder_name, FOLDER, Mode::empty()),
            None => openat(&folder, *folder_name, FOLDER, Mode::empty()),
        };
        above = Some(inner.map_err(|error| not_followed(error, folder_name))?);
    }
    match above {
        Some(above) => open_file(above, name),
        None => open_file(folder, name),
    }
}

fn open_file(folder: impl AsFd, name: &OsStr) -> io::Result<(File, FileStat)> {
    let facts = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    open_examined(folder, name, &facts)
}

/// Opens a regular file in an open folder like [`open_at`]. `facts` is the status that the caller
/// has just got for that name.
///
/// # Errors
/// As [`open_at`]. `name` must be the name of an entry, and not a path.
pub fn open_examined(folder: impl AsFd, name: &OsStr, facts: &FileStat) -> io::Result<(File, FileStat)> {
    // Opening a device may have side effects, so the file is examined before and after it is
    // opened.
    check_is_file(facts)?;
    let file = openat(&folder, name, FILE, Mode::empty()).map_err(|error| not_followed(error, name))?;
    let facts = fstat(&file)?;
    check_is_file(&facts)?;
    Ok((File::from(file), facts))
}

fn check_is_file(facts: &FileStat) -> io::Result<()> {
    let kind = match SFlag::from_bits_truncate(facts.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFREG => return Ok(()),
        SFlag::S_IFLNK => "a link",
        SFlag::S_IFDIR => "a folder",
        SFlag::S_IFIFO => "a pipe",
        SFlag::S_IFSOCK => "a socket",
        _ => "a device",
    };
    Err(io::Error::other(format!("it is {kind}, not a regular file")))
}

fn not_followed(error: Errno, name: &OsStr) -> io::Error {
    match error {
        Errno::ELOOP => io::Error::other(format!("`{}` is a link", name.display())),
        error => error.into(),
    }
}

/// Runs blocking work on a separate thread and waits for at most `limit`. Work that takes longer is
/// abandoned, with its thread.
///
/// # Errors
/// Those of the work; [`io::ErrorKind::TimedOut`] when it takes too long.
pub fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, result) = sync_channel(1);
    std::thread::Builder::new()
        .name("untrusted-read".to_owned())
        .spawn(move || {
            let _ = done.send(work());
        })?;
    match result.recv_timeout(limit) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the file system does not respond",
        )),
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("reading failed")),
    }
}

/// Attributes that security modules of the kernel set.
const SYSTEM_ATTRIBUTES: [&[u8]; 3] = [b"security.selinux", b"security.ima", b"security.evm"];

/// Returns the extended attributes of an open file or folder, each as `NAME\0VALUE\0`; empty if
/// there are none, or the file system has none. Those of security modules are omitted.
///
/// # Errors
/// When they cannot be read.
pub fn attributes(file: impl AsFd) -> io::Result<Vec<u8>> {
    let names = sys::attribute_names(file.as_fd())?;
    let mut all = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if SYSTEM_ATTRIBUTES.contains(&name) {
            continue;
        }
        all.extend_from_slice(name);
        all.push(0);
        all.extend(sys::attribute(file.as_fd(), &CString::new(name)?)?);
        all.push(0);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn read_accepts_only_regular_files_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "12345").unwrap();
        assert_eq!(read(&at("file"), 5).unwrap(), b"12345");
        assert_eq!(
            read(&at("file"), 4).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        assert_eq!(read(&at("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
        // Files of the kernel report a size of 0.
        assert_eq!(
            read(Path::new("/proc/self/status"), 8).unwrap_err().kind(),
            io::ErrorKind::FileTooLarge
        );
        std::fs::create_dir(at("folder")).unwrap();
        symlink("file", at("link")).unwrap();
        symlink("loop", at("loop")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        File::create(at("sparse")).unwrap().set_len(1 << 40).unwrap();
        for name in ["folder", "link", "loop", "pipe", "socket", "sparse"] {
            assert!(read(&at(name), 1 << 20).is_err(), "{name}");
        }
        assert!(read(Path::new("/dev/zero"), 8).is_err());
        assert!(read(Path::new("/dev/null"), 8).is_err());
    }

    #[test]
    fn read_below_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("real/deep")).unwrap();
        std::fs::write(at("real/deep/file"), "x").unwrap();
        symlink("real", at("linked")).unwrap();
        let read = |path: &str| read_below(folder.path(), Path::new(path), 8);
        assert_eq!(read("real/./deep/file").unwrap(), b"x");
        for path in [
            "linked/deep/file",
            "real/../real/deep/file",
            "/etc/passwd",
            "",
            ".",
        ] {
            assert!(read(path).is_err(), "{path}");
        }
        assert_eq!(
            read_below(&at("linked"), Path::new("deep/file"), 8).unwrap(),
            b"x"
        );
    }

    #[test]
    fn unresponsive_file_system_times_out() {
        let (hold, held) = sync_channel::<()>(0);
        let started = std::time::Instant::now();
        let result = within(Duration::from_millis(50), move || {
            let _ = held.recv();
            Ok(())
        });
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(5));
        drop(hold);
    }
}
