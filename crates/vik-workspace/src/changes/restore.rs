//! Restores files to their state before an attempt's agent ran: by open folders, never through a
//! link.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmod, fchmodat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, symlinkat, unlinkat};
use vik_core::file_change::{RelPath, Side};
use vik_proc::untrusted;

use super::store::Store;
use super::walk::{MarkKind, Snapshot};
use crate::fs::{FOLDER, file_type, if_exists};
use crate::removal;

/// The result of restoring a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The file is as before.
    Restored,
    /// The file did not exist before, and was removed.
    Removed,
    /// The old content is not stored: it was too big, or was lost. The file stays as it is.
    ContentMissing,
}

/// Restores a file to its state in a snapshot, or removes it if the snapshot has none. Blocks.
///
/// Removes everything in its way: a link or a file in place of a folder above it, a folder in its
/// own place. Does not touch the repository: commits stay.
///
/// # Errors
/// When something cannot be removed or written.
pub fn restore(
    store: &Store,
    workspace: impl AsFd,
    before: &Snapshot,
    path: &RelPath,
) -> io::Result<Restored> {
    let side = before.files.get(path).map(|found| &found.side);
    let content = match side {
        None => None,
        Some(side) => match side.hash.and_then(|hash| store.get(hash)) {
            Some(content) => Some((side, content)),
            None => return Ok(Restored::ContentMissing),
        },
    };
    let Some(folder) = parent(workspace, path, content.is_some())? else {
        return Ok(Restored::Removed);
    };
    let name = OsStr::from_bytes(path.name());
    match content {
        None => {
            clear(&folder, name, true)?;
            Ok(Restored::Removed)
        }
        Some((side, content)) => {
            clear(&folder, name, false)?;
            write(&folder, name, side, &content)?;
            Ok(Restored::Restored)
        }
    }
}

/// Restores the mark of a path: the mode of a folder, or its absence. Special files of the
/// snapshot, and extended attributes, cannot be restored. Blocks.
///
/// # Errors
/// When something cannot be removed or created.
pub fn restore_mark(
    store: &Store,
    workspace: impl AsFd,
    before: &Snapshot,
    now: &Snapshot,
    path: &RelPath,
) -> io::Result<Restored> {
    let mark = match before.mark(path) {
        // A file that had no extended attributes is written again without them.
        None => return restore(store, workspace, before, path),
        Some(mark) if mark.kind == MarkKind::Folder => mark,
        Some(_) => return Ok(Restored::ContentMissing),
    };
    let now = now.mark(path).filter(|now| now.kind == MarkKind::Folder);
    if now.and_then(|now| now.attributes) != mark.attributes {
        return Ok(Restored::ContentMissing);
    }
    let Some(folder) = parent(workspace, path, true)? else {
        return Ok(Restored::ContentMissing);
    };
    let name = OsStr::from_bytes(path.name());
    let there = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW);
    if !there.is_ok_and(|stat| file_type(&stat) == SFlag::S_IFDIR) {
        clear(&folder, name, true)?;
        mkdirat(&folder, name, Mode::S_IRWXU)?;
    }
    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    let mode = Mode::from_bits_truncate(mark.mode as nix::libc::mode_t);
    fchmodat(&folder, name, mode, FchmodatFlags::NoFollowSymlink)?;
    Ok(Restored::Restored)
}

/// The size limit of a file of a workspace that is shown.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Returns the current content of a file in a workspace; `None` if there is none. Follows no link.
/// Blocks.
///
/// # Errors
/// When it is no file, or cannot be read.
pub fn read_file(workspace: impl AsFd, path: &RelPath) -> io::Result<Option<Vec<u8>>> {
    let Some(folder) = parent(workspace, path, false)? else {
        return Ok(None);
    };
    let name = Path::new(OsStr::from_bytes(path.name()));
    if_exists(untrusted::read_at(&folder, name, MAX_FILE_BYTES))
}

/// Opens the folder of a path, and creates missing folders if `make` is set. `None` if it does not
/// exist.
fn parent(workspace: impl AsFd, path: &RelPath, make: bool) -> io::Result<Option<OwnedFd>> {
    let parts: Vec<&[u8]> = path.parts().collect();
    let is_name = |part: &&[u8]| !matches!(**part, [] | [b'.'] | [b'.', b'.']);
    // The workspace's own repository is never touched.
    if !parts.iter().all(is_name) || parts.first() == Some(&&b".git"[..]) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not the path of a file",
        ));
    }
    let mut dir = openat(workspace, ".", FOLDER, Mode::empty())?;
    for part in &parts[..parts.len() - 1] {
        let name = OsStr::from_bytes(part);
        dir = match openat(&dir, name, FOLDER, Mode::empty()) {
            Ok(inner) => inner,
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) if !make => return Ok(None),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {
                clear(&dir, name, true)?;
                mkdirat(&dir, name, Mode::from_bits_truncate(0o755))?;
                openat(&dir, name, FOLDER, Mode::empty())?
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(Some(dir))
}

/// Removes what is at a name; a file only if `files` is set, since otherwise it is replaced.
fn clear(folder: &OwnedFd, name: &OsStr, files: bool) -> io::Result<()> {
    let kind = match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => file_type(&stat),
        Err(Errno::ENOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if kind == SFlag::S_IFDIR {
        removal::remove_at(folder, name)?;
    } else if files {
        unlinkat(folder, name, UnlinkatFlags::NoRemoveDir)?;
    }
    Ok(())
}

fn write(folder: &OwnedFd, name: &OsStr, side: &Side, content: &[u8]) -> io::Result<()> {
    let temporary = format!(".vik-{}", uuid::Uuid::now_v7().simple());
    let made = if side.link {
        symlinkat(OsStr::from_bytes(content), folder, temporary.as_str()).map_err(io::Error::from)
    } else {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(folder, temporary.as_str(), flags, Mode::from_bits_truncate(0o600))
            .map_err(io::Error::from)
            .and_then(|file| {
                let mut file = std::fs::File::from(file);
                file.write_all(content)?;
                #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
                Ok(fchmod(
                    &file,
                    Mode::from_bits_truncate(side.mode as nix::libc::mode_t),
                )?)
            })
    };
    let written = made.and_then(|()| Ok(renameat(folder, temporary.as_str(), folder, name)?));
    if written.is_err() {
        let _ = unlinkat(folder, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
    }
    written
}
