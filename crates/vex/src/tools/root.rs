//! The workspace as an open directory: paths of the model are resolved below it, and nowhere else.
//!
//! A path is first resolved with its links, which may lead anywhere inside the workspace; then the
//! resolved path is walked again from the open root without following any link. A link that is
//! swapped in between makes the walk fail; it cannot lead outside.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use vik_scope::Scope;

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// It leads out of the workspace.
    #[error("{path} is outside of the workspace {root}", path = path.display(), root = root.display())]
    Outside {
        /// The path as given.
        path: PathBuf,
        root: PathBuf,
    },
    /// It may be read, but not changed.
    #[error("{path} is out of the scope of this task", path = path.display())]
    OutOfScope {
        /// The path as given.
        path: PathBuf,
        /// The globs of what may be changed.
        allowed: Vec<String>,
    },
    /// It is in a `.git` folder.
    #[error("{path} belongs to git: use git commands", path = path.display())]
    Git {
        /// The path as given.
        path: PathBuf,
    },
    /// It is not a regular file.
    #[error("{path} is not a regular file", path = path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },
    /// An error of the system.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        action: &'static str,
        /// The path as given.
        path: PathBuf,
        source: std::io::Error,
    },
}

impl RootError {
    /// Returns whether the path does not exist.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Self + Copy {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    handle: OwnedFd,
    /// Whether paths outside of it are allowed.
    allow_outside: bool,
    /// What may be changed; everything if `None`.
    scope: Option<Scope>,
    /// Folders outside of it, without links, that `read_file` and `list_dir` may read.
    readable: Vec<PathBuf>,
}

/// A resolved path: an open directory and a name in it.
#[derive(Debug)]
pub(crate) struct ResolvedPath {
    pub(crate) parent: OwnedFd,
    pub(crate) name: OsString,
    /// The path without links.
    pub(crate) resolved: PathBuf,
}

/// The purpose of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Show,
    Change,
    Create,
}

impl Root {
    /// Opens the workspace; `open` allows paths outside of it.
    ///
    /// # Errors
    /// When it is not a readable directory.
    pub fn open(path: &Path, open: bool) -> Result<Self, RootError> {
        let io = RootError::io("open the directory", path);
        let path = path.canonicalize().map_err(io)?;
        let handle = directory(&path).map_err(io)?;
        Ok(Self {
            path,
            handle,
            allow_outside: open,
            scope: None,
            readable: Vec::new(),
        })
    }

    /// Limits the changes of tools to this scope.
    #[must_use]
    pub fn with_scope(mut self, scope: Option<Scope>) -> Self {
        self.scope = scope;
        self
    }

    /// Also lets [`Root::place_to_show`] read in these folders, whose paths are without links.
    #[must_use]
    pub(crate) fn with_readable(mut self, folders: impl Iterator<Item = PathBuf>) -> Self {
        let outside = folders.filter(|folder| !folder.starts_with(&self.path));
        self.readable = outside.collect();
        self
    }

    /// Returns its path, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path as it is shown: relative to the workspace if inside it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.path).unwrap_or(path);
        inside.strip_prefix(".").unwrap_or(inside).display().to_string()
    }

    /// Returns the path without links, if it may be used at all. Parts of it may be missing.
    pub(crate) fn resolve(&self, path: &Path) -> Result<PathBuf, RootError> {
        let resolved = resolve(&self.path.join(path)).map_err(RootError::io("resolve", path))?;
        if self.allow_outside || resolved.starts_with(&self.path) {
            return Ok(resolved);
        }
        Err(RootError::Outside {
            path: path.to_owned(),
            root: self.path.clone(),
        })
    }

    /// Returns the path without links, if it is in a readable folder outside of the workspace.
    fn resolve_readable(&self, path: &Path) -> Result<PathBuf, RootError> {
        let resolved = self.real(path);
        let resolved = resolved.filter(|path| self.readable.iter().any(|folder| path.starts_with(folder)));
        resolved.ok_or_else(|| RootError::Outside {
            path: path.to_owned(),
            root: self.path.clone(),
        })
    }

    /// Returns the path without links, wherever it is.
    pub(crate) fn real(&self, path: &Path) -> Option<PathBuf> {
        resolve(&self.path.join(path)).ok()
    }

    /// Resolves a path for reading.
    pub(crate) fn place_to_read(&self, path: &Path) -> Result<ResolvedPath, RootError> {
        self.place(path, Purpose::Read)
    }

    /// Resolves a path for showing it to the model: like reading, and also in the folders outside
    /// of the workspace that are readable.
    pub(crate) fn place_to_show(&self, path: &Path) -> Result<ResolvedPath, RootError> {
        self.place(path, Purpose::Show)
    }

    /// Resolves a path to change or remove; its directory must exist.
    pub(crate) fn place_to_change(&self, path: &Path) -> Result<ResolvedPath, RootError> {
        self.place(path, Purpose::Change)
    }

    /// Resolves a path to write to; missing directories are created.
    pub(crate) fn place_to_create(&self, path: &Path) -> Result<ResolvedPath, RootError> {
        self.place(path, Purpose::Create)
    }

    /// Checks the target of a path, so that no link leads out of the scope.
    fn in_scope(&self, path: &Path, resolved: &Path) -> Result<(), RootError> {
        let Some(scope) = &self.scope else {
            return Ok(());
        };
        let below = resolved.strip_prefix(&self.path);
        if below.is_ok_and(|below| scope.matches(below)) {
            return Ok(());
        }
        Err(RootError::OutOfScope {
            path: path.to_owned(),
            allowed: scope.globs().map(|globs| globs.join(", ")).collect(),
        })
    }

    /// Resolves a path to an open directory and a name in it.
    fn place(&self, path: &Path, purpose: Purpose) -> Result<ResolvedPath, RootError> {
        let io = RootError::io("resolve", path);
        let resolved = match self.resolve(path) {
            Err(RootError::Outside { .. }) if purpose == Purpose::Show => self.resolve_readable(path)?,
            resolved => resolved?,
        };
        let (start, below) = match resolved.strip_prefix(&self.path) {
            Ok(below) => (self.handle.try_clone().map_err(io)?, below),
            Err(_) => (
                directory(Path::new("/")).map_err(io)?,
                resolved.strip_prefix("/").unwrap_or(&resolved),
            ),
        };
        let changes = matches!(purpose, Purpose::Change | Purpose::Create);
        if changes
            && !self.allow_outside
            && below
                .components()
                .any(|c| c.as_os_str().eq_ignore_ascii_case(".git"))
        {
            return Err(RootError::Git {
                path: path.to_owned(),
            });
        }
        if changes {
            self.in_scope(path, &resolved)?;
        }
        let mut parent = start;
        let mut names = below.components().map(|c| c.as_os_str()).peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return Ok(ResolvedPath {
                    parent,
                    name: name.to_owned(),
                    resolved: resolved.clone(),
                });
            }
            let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let next = match openat(&parent, name, flags, Mode::empty()) {
                Err(Errno::ENOENT) if purpose == Purpose::Create => {
                    match mkdirat(&parent, name, Mode::from_bits_truncate(0o777)) {
                        Ok(()) | Err(Errno::EEXIST) => openat(&parent, name, flags, Mode::empty()),
                        Err(error) => Err(error),
                    }
                }
                other => other,
            };
            parent = next.map_err(|errno| io(errno.into()))?;
        }
        Ok(ResolvedPath {
            parent,
            name: OsString::from("."),
            resolved: resolved.clone(),
        })
    }
}

impl ResolvedPath {
    /// Opens it for reading if it is a regular file. Never blocks, whatever is there.
    pub(crate) fn read(&self, path: &Path) -> Result<File, RootError> {
        let io = RootError::io("read", path);
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let handle = openat(self.parent.as_fd(), self.name.as_os_str(), flags, Mode::empty())
            .map_err(|errno| io(errno.into()))?;
        let file = File::from(handle);
        if !file.metadata().map_err(io)?.is_file() {
            return Err(RootError::NotAFile {
                path: path.to_owned(),
            });
        }
        Ok(file)
    }

    /// Opens it as a directory.
    pub(crate) fn directory(&self, path: &Path) -> Result<OwnedFd, RootError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        openat(self.parent.as_fd(), self.name.as_os_str(), flags, Mode::empty())
            .map_err(|errno| RootError::io("list", path)(errno.into()))
    }
}

fn directory(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_CLOEXEC).bits();
    Ok(std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?
        .into())
}

/// Resolves all links of the existing part; the remaining part may contain plain names only.
fn resolve(path: &Path) -> std::io::Result<PathBuf> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut here = path.to_owned();
    loop {
        match here.canonicalize() {
            Ok(mut resolved) => {
                // A dangling link is not a missing file: writing there would follow it.
                if let Some(first) = missing.last()
                    && resolved.join(first).symlink_metadata().is_ok()
                {
                    return Err(std::io::Error::new(
                        std::io::ErrorKind::NotFound,
                        "a link on the way leads nowhere",
                    ));
                }
                resolved.extend(missing.iter().rev());
                return Ok(resolved);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                match here.components().next_back() {
                    Some(Component::Normal(name)) => missing.push(name.to_owned()),
                    _ => return Err(error),
                }
                here.pop();
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn root_paths_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let root_dir = dir.path().join("root");
        std::fs::create_dir_all(root_dir.join("sub")).unwrap();
        std::fs::write(root_dir.join("sub/a"), "a").unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        symlink("../secret", root_dir.join("out")).unwrap();
        symlink("sub", root_dir.join("in")).unwrap();
        symlink("nowhere", root_dir.join("dangling")).unwrap();
        symlink("loop", root_dir.join("loop")).unwrap();
        symlink("..", root_dir.join("up")).unwrap();
        let root = Root::open(&root_dir, false).unwrap();
        for path in ["sub/a", "in/a", "./sub/../sub/a", "up/root/sub/a"] {
            root.place_to_read(Path::new(path))
                .unwrap()
                .read(Path::new(path))
                .unwrap();
        }
        let absolute = root_dir.join("sub/a");
        root.place_to_read(&absolute).unwrap().read(&absolute).unwrap();
        for path in [
            "../secret",
            "out",
            "up/secret",
            "/etc/passwd",
            "sub/../../secret",
            "up/new",
        ] {
            let error = root.place_to_create(Path::new(path)).unwrap_err();
            assert!(matches!(error, RootError::Outside { .. }), "{path}: {error}");
        }
        for path in ["dangling", "loop", "missing/../x"] {
            let error = root.place_to_create(Path::new(path)).unwrap_err();
            assert!(matches!(error, RootError::Io { .. }), "{path}: {error}");
        }
        for path in [".git/config", "sub/.GIT/hooks/pre-commit"] {
            assert!(
                matches!(root.place_to_create(Path::new(path)), Err(RootError::Git { .. })),
                "{path}"
            );
        }
        assert!(!root_dir.join("sub/.GIT").exists());
        let open = Root::open(&root_dir, true).unwrap();
        open.place_to_read(Path::new("../secret"))
            .unwrap()
            .read(Path::new("../secret"))
            .unwrap();
    }

    #[test]
    fn pipe_or_directory_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&dir.path().join("pipe"), Mode::S_IRWXU).unwrap();
        let root = Root::open(dir.path(), false).unwrap();
        for path in ["pipe", "."] {
            let error = root
                .place_to_read(Path::new(path))
                .unwrap()
                .read(Path::new(path))
                .unwrap_err();
            assert!(matches!(error, RootError::NotAFile { .. }), "{path}: {error}");
        }
    }
}
