//! Reads, writes and edits files.

mod diff;
mod edit;
mod limits;
mod list;
mod nearest;
mod read;
pub(crate) mod text;
mod write;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, unlinkat};

pub(crate) use diff::brief;
pub(crate) use edit::EditFile;
pub use limits::WriteLimits;
pub(crate) use list::ListDir;
pub(crate) use nearest::explain;
pub(crate) use read::ReadFile;
pub(crate) use text::count_of_lines;
pub(crate) use write::{NOT_READ, WriteFile};

use super::{ToolContext, ToolError};
use serde_json::{Value, json};

use super::memory::{FileState, digest};
use super::root::{ResolvedPath, RootError};

/// Other names of `path` that models use.
const PATH_NAMES: [(&str, &str); 3] = [("file_path", "path"), ("file", "path"), ("filename", "path")];

fn path_schema() -> Value {
    json!({"type": "string"})
}

/// The maximum size of an edited file, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The content and mode of a file.
#[derive(Debug)]
pub(crate) struct StoredFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

/// Reads a file. Returns `None` if it does not exist.
pub(crate) fn load(place: &ResolvedPath, path: &Path) -> Result<Option<StoredFile>, ToolError> {
    let io = |source| {
        ToolError::from(RootError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        })
    };
    let file = match place.read(path) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let meta = file.metadata().map_err(io)?;
    if meta.len() > MAX_FILE_BYTES {
        return Err(ToolError::Failed(format!(
            "{} is too large to be edited: {} bytes",
            path.display(),
            meta.len()
        )));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(io)?;
    Ok(Some(StoredFile {
        bytes,
        mode: meta.permissions().mode(),
    }))
}

/// Checks that a file may be replaced: it is writable, and the model has seen its current content.
pub(crate) fn replaceable(
    context: &ToolContext<'_>,
    place: &ResolvedPath,
    path: &Path,
    stored: &StoredFile,
) -> Result<FileState, ToolError> {
    let fail = |reason: String| Err(ToolError::Failed(format!("{} {reason}", path.display())));
    // Replacing a file requires only permission for the directory, so the file itself is checked
    // here.
    let access = faccessat(
        &place.parent,
        place.name.as_os_str(),
        AccessFlags::W_OK,
        AtFlags::AT_EACCESS,
    );
    if stored.mode & 0o222 == 0 || access.is_err() {
        return fail(format!(
            "is read-only (mode {:o}); nothing was written",
            stored.mode & 0o7777
        ));
    }
    match context.files.state_of(&place.resolved, &stored.bytes) {
        FileState::Changed => {
            fail("was changed by something else since you last saw it; read it again".to_owned())
        }
        seen => Ok(seen),
    }
}

/// Writes a temporary file, then renames it: a reader sees the old or the new content, never a
/// part.
pub(crate) fn save(
    context: &ToolContext<'_>,
    place: &ResolvedPath,
    path: &Path,
    content: &[u8],
    mode: Option<u32>,
) -> Result<String, ToolError> {
    TemporaryFile::write(place, path, content, mode)?.take_place()?;
    context.files.remember(&place.resolved, digest(content));
    Ok(context.root.shown(path))
}

/// A temporary file before its rename; it is removed when dropped.
pub(crate) struct TemporaryFile<'a> {
    place: &'a ResolvedPath,
    path: &'a Path,
    name: Option<String>,
}

impl<'a> TemporaryFile<'a> {
    /// Writes the content beside the target.
    pub(crate) fn write(
        place: &'a ResolvedPath,
        path: &'a Path,
        content: &[u8],
        mode: Option<u32>,
    ) -> Result<Self, ToolError> {
        let name = format!(".vex-{}.tmp", uuid::Uuid::now_v7().simple());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let handle = openat(
            place.parent.as_fd(),
            name.as_str(),
            flags,
            Mode::from_bits_truncate(0o666),
        )
        .map_err(|errno| cannot_write(path, errno.into()))?;
        let temporary = Self {
            place,
            path,
            name: Some(name),
        };
        let mut file = std::fs::File::from(handle);
        file.write_all(content)
            .and_then(|()| match mode {
                Some(mode) => file.set_permissions(std::fs::Permissions::from_mode(mode & 0o7777)),
                None => Ok(()),
            })
            .map_err(|error| cannot_write(path, error))?;
        Ok(temporary)
    }

    /// Renames the file to the target.
    pub(crate) fn take_place(mut self) -> Result<(), ToolError> {
        let parent = self.place.parent.as_fd();
        if let Some(name) = &self.name {
            renameat(parent, name.as_str(), parent, self.place.name.as_os_str())
                .map_err(|errno| cannot_write(self.path, errno.into()))?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(
                self.place.parent.as_fd(),
                name.as_str(),
                UnlinkatFlags::NoRemoveDir,
            );
        }
    }
}

pub(crate) fn remove(place: &ResolvedPath, path: &Path) -> Result<(), ToolError> {
    unlinkat(
        place.parent.as_fd(),
        place.name.as_os_str(),
        UnlinkatFlags::NoRemoveDir,
    )
    .map_err(|errno| {
        ToolError::from(RootError::Io {
            action: "remove",
            path: path.to_owned(),
            source: errno.into(),
        })
    })
}

fn cannot_write(path: &Path, source: std::io::Error) -> ToolError {
    ToolError::from(RootError::Io {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
