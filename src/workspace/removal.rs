//! Removing a tree that is hostile: by handles, never through a link, however deep it is and whatever its modes are.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::issues::file_type;

/// What is being removed stands under such a name: no issue's folder begins with a dot.
const PREFIX: &str = ".removing-";
/// How often a folder is emptied that something still writes into.
const ROUNDS: usize = 8;

/// Removes what stands under `name` in `parent`. It is moved aside first, so that it is gone at once. `false` where
/// nothing stood there.
pub(super) fn remove_at(parent: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    // A folder of its own for each removal: folders from below move up into it, so no depth needs more handles.
    let pit = format!("{PREFIX}{}", uuid::Uuid::now_v7().simple());
    match fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(_) => {}
        Err(Errno::ENOENT) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    mkdirat(parent, pit.as_str(), Mode::S_IRWXU)?;
    let result = open(parent, c_name(pit.as_bytes())?.as_c_str()).and_then(|dir| {
        make_writable(parent, &c_name(name.as_bytes())?);
        renameat(parent, name, &dir, "0")?;
        empty(&dir)
    });
    // Where the move itself failed, the pit is empty and goes; where emptying failed, it stays for the sweep.
    let removed = unlinkat(parent, pit.as_str(), UnlinkatFlags::RemoveDir);
    result?;
    removed?;
    Ok(true)
}

/// Removes what earlier removals left.
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

/// Empties a folder. Each folder in it is emptied in turn, and the folders found there move up beside it.
fn empty(pit: &OwnedFd) -> io::Result<()> {
    let mut next = 0_u64;
    for _ in 0..ROUNDS {
        let mut waiting = names(pit)?;
        if waiting.is_empty() {
            return Ok(());
        }
        while let Some(name) = waiting.pop() {
            if !is_folder(pit, &name)? {
                unlink(pit, &name)?;
                continue;
            }
            make_writable(pit, &name);
            let dir = open(pit, &name)?;
            for inner in names(&dir)? {
                if !is_folder(&dir, &inner)? {
                    unlink(&dir, &inner)?;
                    continue;
                }
                // A folder can only change its parent if it may be written to.
                make_writable(&dir, &inner);
                let moved = loop {
                    next += 1;
                    let moved = c_name(format!("v{next}").as_bytes())?;
                    if fstatat(pit, moved.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) == Err(Errno::ENOENT) {
                        break moved;
                    }
                };
                match renameat(&dir, inner.as_c_str(), pit, moved.as_c_str()) {
                    Ok(()) => waiting.push(moved),
                    Err(Errno::ENOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            match unlinkat(pit, name.as_c_str(), UnlinkatFlags::RemoveDir) {
                // Something wrote into it meanwhile: the next round sees it again.
                Ok(()) | Err(Errno::ENOENT | Errno::ENOTEMPTY | Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Err(io::Error::from(Errno::ENOTEMPTY))
}

fn unlink(dir: &OwnedFd, name: &CStr) -> io::Result<()> {
    match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_folder(dir: &OwnedFd, name: &CStr) -> io::Result<bool> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(file_type(&stat) == SFlag::S_IFDIR),
        Err(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Gives the owner every right to a folder; of no use to a link, which is left alone. Whether it worked shows later.
fn make_writable(dir: &OwnedFd, name: &CStr) {
    if let Ok(stat) = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW)
        && file_type(&stat) == SFlag::S_IFDIR
        && !Mode::from_bits_truncate(stat.st_mode).contains(Mode::S_IRWXU)
    {
        let _ = fchmodat(dir, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink);
    }
}

fn open(dir: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

fn names(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    // A handle of its own: reading moves its place.
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
