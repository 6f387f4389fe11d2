//! Removal of a hostile tree: by handles, never through a link, regardless of its depth and its
//! modes.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, openat, renameat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::fs::{FOLDER, file_type};

/// The prefix of a folder that is being removed: no issue's folder starts with a dot.
const PREFIX: &str = ".removing-";
/// How many times a folder is emptied if a process still writes into it.
const ROUNDS: usize = 8;

/// What a removal removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Whether there was anything.
    pub found: bool,
    /// The freed space in bytes. Files with another name elsewhere free none.
    pub bytes: u64,
}

/// Removes `name` from `parent`. Moves it away first, so that it disappears in one step.
pub(super) fn remove_at(parent: &OwnedFd, name: &OsStr) -> io::Result<Removed> {
    // Each removal has its own folder. Nested folders move up into it, so the number of handles
    // does not depend on the depth.
    let trash = format!("{PREFIX}{}", uuid::Uuid::now_v7().simple());
    match fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(_) => {}
        Err(Errno::ENOENT) => return Ok(Removed::default()),
        Err(error) => return Err(error.into()),
    }
    mkdirat(parent, trash.as_str(), Mode::S_IRWXU)?;
    let result = open(parent, c_name(trash.as_bytes())?.as_c_str()).and_then(|dir| {
        make_writable(parent, &c_name(name.as_bytes())?);
        renameat(parent, name, &dir, "0")?;
        empty(&dir)
    });
    // If the move failed, the folder is empty and is removed here. If emptying it failed, it stays
    // for the sweep.
    let removed = unlinkat(parent, trash.as_str(), UnlinkatFlags::RemoveDir);
    let bytes = result?;
    removed?;
    Ok(Removed { found: true, bytes })
}

/// Removes the remains of earlier removals.
pub(super) fn sweep(parent: &OwnedFd) -> io::Result<()> {
    for name in names(parent)? {
        if name.as_bytes().starts_with(PREFIX.as_bytes()) {
            let dir = match open(parent, &name) {
                Ok(dir) => dir,
                Err(error) if error.raw_os_error() == Some(Errno::ENOTDIR as i32) => continue,
                Err(error) => return Err(error),
            };
            empty(&dir)?;
            unlinkat(parent, name.as_c_str(), UnlinkatFlags::RemoveDir)?;
        }
    }
    Ok(())
}

/// Empties a folder. Empties each folder in it in turn, after moving the nested folders up beside
/// it. Returns the freed space in bytes.
fn empty(trash: &OwnedFd) -> io::Result<u64> {
    let mut next = 0_u64;
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        let mut pending = names(trash)?;
        if pending.is_empty() {
            return Ok(bytes);
        }
        while let Some(name) = pending.pop() {
            if let Some(size) = unlink_unless_folder(trash, &name)? {
                bytes += size;
                continue;
            }
            make_writable(trash, &name);
            let dir = open(trash, &name)?;
            for inner in names(&dir)? {
                if let Some(size) = unlink_unless_folder(&dir, &inner)? {
                    bytes += size;
                    continue;
                }
                // A folder can change its parent only if it is writable.
                make_writable(&dir, &inner);
                let moved = loop {
                    next += 1;
                    let moved = c_name(format!("v{next}").as_bytes())?;
                    if fstatat(trash, moved.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) == Err(Errno::ENOENT) {
                        break moved;
                    }
                };
                match renameat(&dir, inner.as_c_str(), trash, moved.as_c_str()) {
                    Ok(()) => pending.push(moved),
                    Err(Errno::ENOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            match unlinkat(trash, name.as_c_str(), UnlinkatFlags::RemoveDir) {
                // A process wrote into it meanwhile: the next round lists it again.
                Ok(()) | Err(Errno::ENOENT | Errno::ENOTEMPTY | Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Err(io::Error::from(Errno::ENOTEMPTY))
}

/// Removes a file, link or special file. Returns the freed space in bytes; `None` for a folder,
/// which stays.
fn unlink_unless_folder(dir: &OwnedFd, name: &CStr) -> io::Result<Option<u64>> {
    let stat = match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) if file_type(&stat) == SFlag::S_IFDIR => return Ok(None),
        Ok(stat) => stat,
        Err(Errno::ENOENT) => return Ok(Some(0)),
        Err(error) => return Err(error.into()),
    };
    match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) => Ok(Some(space(&stat))),
        Err(Errno::ENOENT) => Ok(Some(0)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the space that the removal of a file frees.
fn space(stat: &FileStat) -> u64 {
    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
    if stat.st_nlink > 1 { 0 } else { blocks * 512 }
}

/// Gives the owner all permissions on a folder. Skips links. A failure shows in the next operation.
fn make_writable(dir: &OwnedFd, name: &CStr) {
    if let Ok(stat) = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)
        && file_type(&stat) == SFlag::S_IFDIR
        && !Mode::from_bits_truncate(stat.st_mode).contains(Mode::S_IRWXU)
    {
        let _ = fchmodat(dir, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink);
    }
}

fn open(dir: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    Ok(openat(dir, name, FOLDER, Mode::empty())?)
}

fn names(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    // A separate handle, because reading moves its position.
    let mut dir = Dir::from_fd(open(dir, c".")?)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

fn c_name(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(io::Error::from)
}
