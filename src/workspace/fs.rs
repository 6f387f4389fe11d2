//! Private files and folders, and writes that are whole or not at all.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::OFlag;
use serde::Serialize;

/// The mode of Vik's folders.
pub const FOLDER_MODE: u32 = 0o700;
/// The mode of Vik's files.
pub const FILE_MODE: u32 = 0o600;

/// Makes a folder of Vik's, and the missing ones above it, open to the user alone. A folder that is there already is
/// closed to others.
///
/// # Errors
/// When it cannot be made, or is no folder.
pub fn create_private_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
    let mode = std::fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & 0o777 != FOLDER_MODE {
        std::fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))?;
    }
    Ok(())
}

/// Opens a file of Vik's for writing from its start; it is made, or emptied. A link in its place is refused.
///
/// # Errors
/// When it cannot be opened.
pub fn create_private(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Opens a file of Vik's for appending; it is made where it is missing. A link in its place is refused.
///
/// # Errors
/// When it cannot be opened.
pub fn append_private(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().append(true).create(true), path)
}

/// Makes a file of Vik's that must not be there yet.
///
/// # Errors
/// With [`io::ErrorKind::AlreadyExists`] when something stands there already.
pub fn create_new_private(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().write(true).create_new(true), path)
}

fn private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options
        .mode(FILE_MODE)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)?;
    // A file that was there before keeps the mode it had, and it may have been open to others.
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Writes a whole private file in place. A crash may leave it half written; see [`write_atomic`].
///
/// # Errors
/// When it cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_private(path)?.write_all(bytes)
}

/// Replaces a private file: readers, and a start after a power cut, see the old content or the new one.
///
/// # Errors
/// When it cannot be written; the old content stands.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (folder, temporary) = temporary(path)?;
    replace(path, &temporary, bytes, true)?;
    sync_dir(&folder)
}

/// [`write_atomic`] without waiting for the disk: whole whenever Vik dies, but a power cut may lose it.
///
/// # Errors
/// When it cannot be written.
pub fn write_soon(path: &Path, bytes: &[u8]) -> io::Result<()> {
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

/// [`write_atomic`] with a value as JSON and a newline.
///
/// # Errors
/// When it cannot be written, or is no JSON.
pub fn write_json_atomic<T: Serialize + ?Sized>(path: &Path, value: &T) -> io::Result<()> {
    write_atomic(path, &json(value)?)
}

/// [`write_soon`] with a value as JSON and a newline.
///
/// # Errors
/// When it cannot be written, or is no JSON.
pub fn write_json_soon<T: Serialize + ?Sized>(path: &Path, value: &T) -> io::Result<()> {
    write_soon(path, &json(value)?)
}

fn json<T: Serialize + ?Sized>(value: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Makes changes of the names in a folder last through a power cut.
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

/// A name beside `path` that nobody else uses.
fn temporary(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} names no file", path.display()),
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
