//! Vik's own files and folders, which only the user can access, and atomic writes.
//!
//! Agents cannot write these. [`vik_proc::untrusted`] reads what they can write.
#![expect(
    clippy::disallowed_methods,
    reason = "opens Vik's own files, and nothing but regular files"
)]

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, ReadDir};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The flags that open a folder and follow no link in its place.
pub(crate) const FOLDER: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// The mode of Vik's folders.
pub const FOLDER_MODE: u32 = 0o700;
/// The mode of Vik's files.
pub const FILE_MODE: u32 = 0o600;

/// Creates a folder of Vik's, and the missing folders above it, accessible to the user alone.
/// Closes a folder that exists already to others, and refuses a link in its place. Agents must not
/// be able to write above it: see [`create_private_dir_below`].
///
/// # Errors
/// When it cannot be created, or is no folder.
pub fn create_private_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
    match (path.parent(), path.file_name()) {
        (Some(above), Some(name)) if !above.as_os_str().is_empty() => {
            close_to_others(&open_folder(above)?, name)
        }
        (_, Some(name)) => close_to_others(&open_folder(Path::new("."))?, name),
        _ => Ok(()),
    }
}

/// Creates a folder below one of Vik's, accessible to the user alone, where an agent may have put
/// anything on the path. Follows no link, and removes what is no folder.
///
/// # Errors
/// When something cannot be created or removed.
pub fn create_private_dir_below(base: &Path, path: &Path) -> io::Result<()> {
    let mut folder = open_folder(base)?;
    for part in path.components() {
        let Component::Normal(name) = part else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        match fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(facts) if is_folder(&facts) => {}
            Ok(_) => unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir)?,
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        match mkdirat(&folder, name, Mode::from_bits_truncate(FOLDER_MODE)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        close_to_others(&folder, name)?;
        folder = openat(&folder, name, FOLDER, Mode::empty())?;
    }
    Ok(())
}

/// Sets the mode of Vik's folders on a folder.
fn close_to_others(above: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let facts = fstatat(above, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    if !is_folder(&facts) {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let mode = Mode::from_bits_truncate(FOLDER_MODE);
    if Mode::from_bits_truncate(facts.st_mode) & Mode::from_bits_truncate(0o777) != mode {
        // By name and not by handle: an agent may have removed the permission to open it.
        fchmodat(above, name, mode, FchmodatFlags::NoFollowSymlink)?;
    }
    Ok(())
}

pub(crate) fn file_type(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn is_folder(facts: &FileStat) -> bool {
    file_type(facts) == SFlag::S_IFDIR
}

/// Opens a file of Vik's for reading. Refuses a link in its place, and does not wait for a pipe.
///
/// # Errors
/// When it is no regular file, or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(file)
}

/// Reads a file of Vik's completely.
///
/// # Errors
/// Those of [`open`], and when it cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a file of Vik's own with JSON, as [`read`] does.
///
/// # Errors
/// When the file cannot be read, or is not the JSON of the value.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&read(path)?)?)
}

/// Reads a file with JSON as [`read_json`] does; `None` if it does not exist.
///
/// # Errors
/// As [`read_json`].
pub fn read_json_if_exists<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    if_exists(read_json(path))
}

/// Returns `None` for the result of an access to a file or a folder that does not exist.
///
/// # Errors
/// The other errors of the result.
pub fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        value => value.map(Some),
    }
}

/// Creates the folder of a file of Vik's own, as [`create_private_dir_all`] does.
///
/// # Errors
/// As [`create_private_dir_all`].
pub fn create_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), create_private_dir_all)
}

/// Lists a folder without opening anything in it.
///
/// # Errors
/// When it cannot be read.
pub fn list_folder(path: &Path) -> io::Result<ReadDir> {
    std::fs::read_dir(path)
}

/// Opens a folder. Links on the path to it are followed.
///
/// # Errors
/// When it is no folder, or cannot be opened.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(path, flags, Mode::empty())?)
}

/// Opens a file of Vik's for writing from its start; creates or empties it. Refuses a link in its
/// place.
///
/// # Errors
/// When it cannot be opened.
pub fn create_private(path: &Path) -> io::Result<File> {
    open_private(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Creates a file of Vik's that must not exist yet.
///
/// # Errors
/// With [`io::ErrorKind::AlreadyExists`] when the name is taken.
pub fn create_new_private(path: &Path) -> io::Result<File> {
    open_private(OpenOptions::new().write(true).create_new(true), path)
}

fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options
        .mode(FILE_MODE)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(path)?;
    // A file that existed before keeps its mode, which may have been open to others.
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Writes a complete private file in place. A crash may leave it half written; see
/// [`write_atomic`].
///
/// # Errors
/// When it cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_private(path)?.write_all(bytes)
}

/// Replaces a private file: readers, and a start after a power cut, see either the old content or
/// the new one.
///
/// # Errors
/// When it cannot be written; the old content remains.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, temporary) = temporary(path)?;
    replace(path, &temporary, bytes, true)?;
    sync_dir(&folder)
}

/// Does the same as [`write_atomic`] without waiting for the disk: the file is complete even if Vik
/// dies, but a power cut may lose it.
///
/// # Errors
/// When it cannot be written.
pub fn write_atomic_nosync(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (_, temporary) = temporary(path)?;
    replace(path, &temporary, bytes, false)
}

fn replace(path: &Path, temporary: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    let result = create_new_private(temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            if durable { file.sync_all() } else { Ok(()) }
        })
        .and_then(|()| std::fs::rename(temporary, path));
    if result.is_err() {
        let _ = std::fs::remove_file(temporary);
    }
    result
}

/// Writes a value as JSON and a newline with [`write_atomic`].
///
/// # Errors
/// When it cannot be written, or cannot be serialised.
pub fn write_json_atomic<T: Serialize + ?Sized>(path: &Path, value: &T) -> io::Result<()> {
    write_atomic(path, &json(value)?)
}

/// Writes a value as JSON and a newline with [`write_atomic_nosync`].
///
/// # Errors
/// When it cannot be written, or cannot be serialised.
pub fn write_json_atomic_nosync<T: Serialize + ?Sized>(path: &Path, value: &T) -> io::Result<()> {
    write_atomic_nosync(path, &json(value)?)
}

fn json<T: Serialize + ?Sized>(value: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Makes changes of the names in a folder survive a power cut.
///
/// # Errors
/// When the folder cannot be opened or synced.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        // Some file systems cannot sync a folder.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Returns the folder of `path`, and a unique temporary name in it.
fn temporary(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not the path of a file", path.display()),
        )
    })?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(
        ".{}-{number}-{}.tmp",
        std::process::id(),
        uuid::Uuid::now_v7().simple()
    ));
    Ok((folder.clone(), folder.join(temporary)))
}
