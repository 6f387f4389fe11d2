//! Access to files of a repository that an agent may have created: by handles, and never through a
//! link.

use std::ffi::{CStr, OsStr};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};
use vik_proc::untrusted;

use super::GitError;
use crate::fs::{FOLDER, file_type, if_exists};

/// The size limit of a file that is read completely, in bytes.
pub const MAX_READ_BYTES: u64 = 64 * 1024 * 1024;

/// The limit on the files that one command takes over from a repository.
const MAX_FILES: usize = 4_000_000;

/// The size limit of a ref, in bytes: a symbolic ref names another one by its path.
const MAX_REF_BYTES: u64 = 8 * 1024;

/// The limit on the refs that are separate files.
const MAX_REFS: usize = 250_000;

/// The size limit of a single file that is taken over, in bytes: an index has some hundred bytes
/// for each file.
const MAX_FILE_BYTES: i64 = 1024 * 1024 * 1024;

/// The limit on the depth of folders.
const MAX_DEPTH: usize = 64;

/// Opens a folder by its path, whose last part must not be a link.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(nix::fcntl::open(path, FOLDER, Mode::empty())?)
}

/// Opens a folder below another one. No part of the path may be a link.
pub fn descend(root: &impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    walk_down(root, path, false)
}

/// Opens a folder like [`descend`], and creates missing folders.
pub fn descend_or_make(root: &impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    walk_down(root, path, true)
}

fn walk_down(root: &impl AsFd, path: &Path, make: bool) -> io::Result<OwnedFd> {
    let mut folder = openat(root, ".", FOLDER, Mode::empty())?;
    for part in path.components() {
        let Component::Normal(name) = part else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if make {
            match mkdirat(&folder, name, Mode::from_bits_truncate(0o777)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        folder = openat(&folder, name, FOLDER, Mode::empty())?;
    }
    Ok(folder)
}

/// Reads a regular file completely. Returns `None` if there is none. It refuses a link and does not
/// block on a pipe.
pub fn read(folder: &impl AsFd, name: &str) -> io::Result<Option<Vec<u8>>> {
    if_exists(untrusted::read_at(folder, Path::new(name), MAX_READ_BYTES))
}

/// Reads a file like [`read`], as text.
pub fn read_text(folder: &impl AsFd, name: &str) -> io::Result<Option<String>> {
    let text = read(folder, name)?.map(String::from_utf8).transpose();
    text.map_err(io::Error::other)
}

/// Returns whether a folder has an entry of this name.
pub fn exists(folder: &impl AsFd, name: &str) -> bool {
    fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
}

/// Removes a file if it exists.
pub fn remove(folder: &impl AsFd, name: &str) -> io::Result<()> {
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Replaces the entry of this name in a folder by a file with this content. A link in its place is
/// replaced and not followed.
pub fn replace(folder: &impl AsFd, name: &OsStr, content: &[u8]) -> io::Result<()> {
    // Git does not interpret a file whose name starts with a dot as a ref.
    let temporary = format!(".vik-{}", uuid::Uuid::now_v7().simple());
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let file = openat(folder, temporary.as_str(), flags, Mode::from_bits_truncate(0o666))?;
    let written = std::fs::File::from(file).write_all(content);
    let moved = written.and_then(|()| Ok(nix::fcntl::renameat(folder, temporary.as_str(), folder, name)?));
    if moved.is_err() {
        let _ = remove(folder, &temporary);
    }
    moved
}

/// Takes over a tree into another one: every regular file gets a second name there, or a copy if
/// the file systems differ. Existing files stay. Git reads refs completely, so they are read with a
/// size limit and written as new files.
pub struct Takeover<'a> {
    /// The name of the tree in errors.
    pub name: &'a Path,
    /// Returns whether a path, relative to the root of the tree, is left out.
    pub leave_out: &'a dyn Fn(&Path) -> bool,
    /// Whether the files are refs.
    pub of_refs: bool,
}

impl Takeover<'_> {
    /// Takes over all of `from`.
    ///
    /// # Errors
    /// Returns an error if something in the tree is neither a folder nor a regular file, or if the
    /// tree is too large.
    pub fn run(&self, from: &OwnedFd, to: &OwnedFd) -> Result<(), GitError> {
        self.folder(from, to, Path::new(""), 0, &mut 0)
    }

    fn folder(
        &self,
        from: &OwnedFd,
        to: &OwnedFd,
        at: &Path,
        depth: usize,
        files: &mut usize,
    ) -> Result<(), GitError> {
        let read = |source| GitError::io("read", &self.name.join(at))(source);
        if depth > MAX_DEPTH {
            return Err(GitError::changed(&self.name.join(at), "is nested too deeply"));
        }
        let own = openat(from, ".", FOLDER, Mode::empty()).map_err(|error| read(error.into()))?;
        let mut entries = Dir::from_fd(own).map_err(|error| read(error.into()))?;
        for entry in entries.iter() {
            let entry = entry.map_err(|error| read(error.into()))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // Git is writing these files, or has left them behind.
            if name.to_bytes().ends_with(b".lock") || name.to_bytes().starts_with(b"tmp_") {
                continue;
            }
            let path = at.join(OsStr::from_bytes(name.to_bytes()));
            if (self.leave_out)(&path) {
                continue;
            }
            *files += 1;
            let max_files = if self.of_refs { MAX_REFS } else { MAX_FILES };
            if *files > max_files {
                return Err(GitError::changed(
                    self.name,
                    format!("contains more than {max_files} files"),
                ));
            }
            self.entry(from, to, name, &path, depth, files)?;
        }
        Ok(())
    }

    fn entry(
        &self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &CStr,
        path: &Path,
        depth: usize,
        files: &mut usize,
    ) -> Result<(), GitError> {
        let full = || self.name.join(path);
        let fail = |action: &'static str| move |error: Errno| GitError::io(action, &full())(error.into());
        let stat = match fstatat(from, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Removed in the meantime, as git does with its temporary files.
            Err(Errno::ENOENT) => return Ok(()),
            Err(error) => return Err(fail("read")(error)),
        };
        match file_type(&stat) {
            SFlag::S_IFDIR => {
                let inner = openat(from, name, FOLDER, Mode::empty()).map_err(fail("open"))?;
                match mkdirat(to, name, Mode::from_bits_truncate(0o777)) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(fail("make")(error)),
                }
                let target = openat(to, name, FOLDER, Mode::empty()).map_err(fail("open"))?;
                self.folder(&inner, &target, path, depth + 1, files)
            }
            SFlag::S_IFREG if self.of_refs => match take_ref(from, to, name) {
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    Err(GitError::changed(&full(), "is too large for a ref"))
                }
                taken => taken.map_err(GitError::io("take over", &full())),
            },
            SFlag::S_IFREG => take_file(from, to, name).map_err(GitError::io("take over", &full())),
            SFlag::S_IFLNK => Err(GitError::changed(&full(), "is a link, which Vik does not follow")),
            _ => Err(GitError::changed(&full(), "is not a regular file")),
        }
    }
}

fn take_ref(from: &OwnedFd, to: &OwnedFd, name: &CStr) -> io::Result<()> {
    let name = OsStr::from_bytes(name.to_bytes());
    let content = if_exists(untrusted::read_at(from, Path::new(name), MAX_REF_BYTES))?;
    content.map_or(Ok(()), |content| replace(to, name, &content))
}

/// Gives a file a second name in another folder, or copies it if that is not possible.
fn take_file(from: &OwnedFd, to: &OwnedFd, name: &CStr) -> io::Result<()> {
    match linkat(from, name, to, name, AtFlags::empty()) {
        Ok(()) => {
            // The name may refer to another file since it was checked.
            let stat = fstatat(to, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
            if file_type(&stat) == SFlag::S_IFREG {
                return Ok(());
            }
            unlinkat(to, name, UnlinkatFlags::NoRemoveDir)?;
            Err(io::Error::other("it is not a regular file"))
        }
        Err(Errno::EEXIST | Errno::ENOENT) => Ok(()),
        Err(_) => copy(from, to, name),
    }
}

fn copy(from: &OwnedFd, to: &OwnedFd, name: &CStr) -> io::Result<()> {
    let (source, _) = untrusted::open_at(from, Path::new(OsStr::from_bytes(name.to_bytes())))?;
    let metadata = source.metadata()?;
    // A sparse file would occupy disk space as a copy.
    if metadata.len() > MAX_READ_BYTES && metadata.blocks() * 512 < metadata.len() / 2 {
        return Err(io::Error::other("it is a sparse file"));
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut target = match openat(to, name, flags, Mode::from_bits_truncate(0o444)) {
        Ok(target) => std::fs::File::from(target),
        Err(Errno::EEXIST) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    io::copy(&mut source.take(metadata.len()), &mut target).map(drop)
}

/// Replaces the entry of this name in a folder by a file of Vik.
pub fn install(file: &Path, folder: &OwnedFd, name: &str) -> io::Result<()> {
    let source = open_folder(file.parent().unwrap_or(Path::new("/")))?;
    let temporary = format!(".vik-{}", uuid::Uuid::now_v7().simple());
    let from = file.file_name().unwrap_or_default();
    match linkat(&source, from, folder, temporary.as_str(), AtFlags::empty()) {
        Ok(()) => {}
        Err(_) => {
            let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
            let target = openat(folder, temporary.as_str(), flags, Mode::from_bits_truncate(0o644))?;
            io::copy(&mut crate::fs::open(file)?, &mut std::fs::File::from(target))?;
        }
    }
    let moved = nix::fcntl::renameat(folder, temporary.as_str(), folder, name);
    // If both names refer to the same file, the rename does nothing and leaves both.
    let _ = remove(folder, &temporary);
    Ok(moved?)
}

/// Takes over one file into a folder, under its own name. Returns `false` if there is none.
pub fn take_over_file(from: &OwnedFd, name: &CStr, to: &Path) -> io::Result<bool> {
    let Ok(stat) = fstatat(from, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
        return Ok(false);
    };
    if file_type(&stat) != SFlag::S_IFREG {
        return Err(io::Error::other("it is not a regular file"));
    }
    if stat.st_size > MAX_FILE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    take_file(from, &open_folder(to)?, name)?;
    Ok(true)
}

/// Returns a path without links, for comparisons.
pub fn canonical(path: &Path) -> Result<PathBuf, GitError> {
    path.canonicalize().map_err(GitError::io("find", path))
}

/// Returns whether a text has the form of an object id.
pub fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
