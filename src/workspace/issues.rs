//! The workspaces of issues: made once, marked ready last, never reached through a link.
//!
//! While a workspace is being made, a record of it stands outside of it. A folder whose record stands is half made,
//! whatever it holds: it is cleaned and made anew. Whoever calls these functions for an issue holds that issue's lock.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use vik_core::ids::IssueId;

use super::clean::sweep_views;
use super::fs::{FOLDER_MODE, open_folder as open_own_folder, read, sync_dir, write_atomic};
use super::name::folder_name;
use super::{Layout, WorkspaceError, removal};

/// An open issue workspace.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    dir: OwnedFd,
    record: PathBuf,
}

/// A workspace that is there.
#[derive(Debug)]
pub enum Prepared {
    /// It was made just now and is empty: run `after_create`, then [`Workspace::mark_ready`].
    Created(Workspace),
    /// It was made before.
    Existing(Workspace),
}

impl Workspace {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says that it is whole: from now on it is kept.
    ///
    /// # Errors
    /// When the creating record cannot be removed.
    pub fn mark_ready(&self) -> Result<(), WorkspaceError> {
        let empty = is_empty(&self.dir).map_err(|source| WorkspaceError::Open {
            path: self.path.clone(),
            source,
        })?;
        if empty {
            // What was made on purpose without a file must not look like what a person has emptied.
            let note = empty_note(&self.record);
            write_atomic(&note, folder_id(&self.dir, &self.path)?.as_bytes())
                .map_err(|source| WorkspaceError::Write { path: note, source })?;
        }
        remove_record(&self.record)
    }

    /// Proves that the path still leads to this folder, by handles alone.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn check(&self, layout: &Layout) -> Result<(), WorkspaceError> {
        let exchanged = || WorkspaceError::Exchanged {
            path: self.path.clone(),
        };
        let name = self.path.file_name().ok_or_else(exchanged)?;
        let now = open_folder(&open_issues(layout)?, name, &self.path)?.ok_or_else(exchanged)?;
        let same = |a: &FileStat, b: &FileStat| a.st_dev == b.st_dev && a.st_ino == b.st_ino;
        match (fstat(&self.dir), fstat(&now)) {
            (Ok(then), Ok(now)) if same(&then, &now) => Ok(()),
            _ => Err(exchanged()),
        }
    }
}

impl AsFd for Workspace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Opens the workspace of an issue, or makes it. Blocks.
///
/// Where no hook is to fill it (`made_by_hook` is false) it cannot be half made: it needs no record, and is
/// [`Prepared::Existing`] at once.
///
/// # Errors
/// When it cannot be made, or something that is no folder stands in its place.
pub fn prepare(layout: &Layout, issue: &IssueId, made_by_hook: bool) -> Result<Prepared, WorkspaceError> {
    let (path, record) = (layout.issue_dir(issue), layout.creating_record(issue));
    let name = folder_name(issue);
    // A removal that was begun is off: the workspace is used again.
    remove_record(&layout.removing_record(issue))?;
    let issues = open_issues(layout)?;
    let half_made = record.symlink_metadata().is_ok();
    if half_made {
        // Half made by an attempt that failed or died. What stands there may be anything.
        removal::remove_at(&issues, OsStr::new(&name)).map_err(|source| WorkspaceError::Remove {
            path: path.clone(),
            source,
        })?;
        remove_record(&layout.last_snapshot(issue))?;
    }
    if let Some(dir) = open_folder(&issues, OsStr::new(&name), &path)? {
        let empty = is_empty(&dir).map_err(|source| WorkspaceError::Open {
            path: path.clone(),
            source,
        })?;
        let made_empty = || -> Result<bool, WorkspaceError> {
            let noted = read(&empty_note(&record)).unwrap_or_default();
            Ok(noted == folder_id(&dir, &path)?.as_bytes())
        };
        let ready = !made_by_hook || !empty || made_empty()?;
        let workspace = Workspace { path, dir, record };
        if ready {
            return Ok(Prepared::Existing(workspace));
        }
        // It may be in use by a stage that runs in parallel, so it stays the same folder.
        write_record(&workspace.record, issue)?;
        remove_record(&layout.git_record(issue))?;
        return Ok(Prepared::Created(workspace));
    }
    if made_by_hook {
        write_record(&record, issue)?;
    } else if half_made {
        remove_record(&record)?;
    }
    // It tells of a workspace that is gone.
    remove_record(&layout.git_record(issue))?;
    // A folder that a power cut takes back is made again: nothing here has to be on the disk yet.
    mkdirat(&issues, name.as_str(), Mode::from_bits_truncate(FOLDER_MODE)).map_err(|error: Errno| {
        WorkspaceError::CreateFolder {
            path: path.clone(),
            source: error.into(),
        }
    })?;
    match open_folder(&issues, OsStr::new(&name), &path)? {
        Some(dir) => {
            let workspace = Workspace { path, dir, record };
            Ok(if made_by_hook {
                Prepared::Created(workspace)
            } else {
                Prepared::Existing(workspace)
            })
        }
        None => Err(WorkspaceError::Exchanged { path }),
    }
}

/// Opens the workspace of an issue if it has one that is whole. Blocks.
///
/// # Errors
/// When something that is no folder stands in its place.
pub fn open(layout: &Layout, issue: &IssueId) -> Result<Option<Workspace>, WorkspaceError> {
    let (path, record) = (layout.issue_dir(issue), layout.creating_record(issue));
    if record.symlink_metadata().is_ok() || layout.issues_dir().symlink_metadata().is_err() {
        return Ok(None);
    }
    let issues = open_issues(layout)?;
    let dir = open_folder(&issues, OsStr::new(&folder_name(issue)), &path)?;
    Ok(dir.map(|dir| Workspace { path, dir, record }))
}

/// Opens the workspace of an issue that is whole though its record stands, and takes the record away: whoever filled it
/// died before that. `None` where there is none. Where the record stands, `before_ready` is called before it goes. Blocks.
///
/// # Errors
/// When something that is no folder stands in its place, or its record cannot be removed.
pub fn finish(
    layout: &Layout,
    issue: &IssueId,
    before_ready: impl FnOnce(&Workspace),
) -> Result<Option<Workspace>, WorkspaceError> {
    let (path, record) = (layout.issue_dir(issue), layout.creating_record(issue));
    let issues = open_issues(layout)?;
    let Some(dir) = open_folder(&issues, OsStr::new(&folder_name(issue)), &path)? else {
        return Ok(None);
    };
    let workspace = Workspace { path, dir, record };
    if workspace.record.symlink_metadata().is_ok() {
        before_ready(&workspace);
    }
    workspace.mark_ready()?;
    Ok(Some(workspace))
}

/// Removes the workspace of an issue with all that is in it; links in it are removed, not followed. `false` where there
/// was none. Seen from outside it is gone at once. Blocks.
///
/// # Errors
/// When something in it cannot be removed; [`sweep`] tries again.
pub fn remove(layout: &Layout, issue: &IssueId) -> Result<bool, WorkspaceError> {
    if layout.issues_dir().symlink_metadata().is_err() {
        return Ok(false);
    }
    let issues = open_issues(layout)?;
    let removed = removal::remove_at(&issues, OsStr::new(&folder_name(issue))).map_err(|source| {
        WorkspaceError::Remove {
            path: layout.issue_dir(issue),
            source,
        }
    })?;
    for path in [layout.scratch_dir(issue), layout.issue_homes_dir(issue)] {
        remove_beside(&path).map_err(|source| WorkspaceError::Remove { path, source })?;
    }
    remove_record(&layout.creating_record(issue))?;
    remove_record(&layout.git_record(issue))?;
    // What is made in its place is another one.
    remove_record(&layout.last_snapshot(issue))?;
    Ok(removed)
}

/// What its agents wrote beside the workspace goes with it.
fn remove_beside(path: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match nix::fcntl::open(folder, flags, Mode::empty()) {
        Ok(folder) => {
            removal::remove_at(&folder, name)?;
            removal::sweep(&folder)
        }
        Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes what an earlier removal, or a look at a workspace, left behind. Blocks.
///
/// # Errors
/// When something cannot be removed.
pub fn sweep(layout: &Layout) -> Result<(), WorkspaceError> {
    let service = layout.service_dir();
    sweep_views(&service).map_err(|source| WorkspaceError::Remove {
        path: service,
        source,
    })?;
    if layout.issues_dir().symlink_metadata().is_err() {
        return Ok(());
    }
    let issues = open_issues(layout)?;
    removal::sweep(&issues).map_err(|source| WorkspaceError::Remove {
        path: layout.issues_dir(),
        source,
    })
}

/// Opens `<home>/workflows/<key>/issues`; below the home no part may be a link.
fn open_issues(layout: &Layout) -> Result<OwnedFd, WorkspaceError> {
    let fail = |path: &Path, source: io::Error| WorkspaceError::Open {
        path: path.to_owned(),
        source,
    };
    let mut path = layout.home().to_owned();
    let mut dir = open_own_folder(&path).map_err(|source| fail(&path, source))?;
    let issues = layout.issues_dir();
    let below = issues.strip_prefix(layout.home()).unwrap_or(Path::new(""));
    for part in below.components() {
        path.push(part);
        let missing = || fail(&path, io::ErrorKind::NotFound.into());
        dir = open_folder(&dir, part.as_os_str(), &path)?.ok_or_else(missing)?;
    }
    Ok(dir)
}

/// Opens a folder in a folder; `None` where nothing stands, an error where something else does.
fn open_folder(parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<Option<OwnedFd>, WorkspaceError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match nix::fcntl::openat(parent, name, flags, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error @ (Errno::ENOTDIR | Errno::ELOOP | Errno::EMLINK)) => {
            let kind = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(|stat| file_type(&stat));
            match kind {
                Ok(SFlag::S_IFLNK) => Err(WorkspaceError::NotAFolder {
                    path: path.to_owned(),
                    what: "a link",
                }),
                Ok(SFlag::S_IFREG) => Err(WorkspaceError::NotAFolder {
                    path: path.to_owned(),
                    what: "a file",
                }),
                Ok(_) => Err(WorkspaceError::NotAFolder {
                    path: path.to_owned(),
                    what: "a special file",
                }),
                Err(_) => Err(WorkspaceError::Open {
                    path: path.to_owned(),
                    source: error.into(),
                }),
            }
        }
        Err(error) => Err(WorkspaceError::Open {
            path: path.to_owned(),
            source: error.into(),
        }),
    }
}

pub(super) fn file_type(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn is_empty(dir: &OwnedFd) -> io::Result<bool> {
    // Opened anew: a clone would go on reading where the last look ended.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut dir = nix::dir::Dir::from_fd(nix::fcntl::openat(dir, ".", flags, Mode::empty())?)?;
    for entry in dir.iter() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The file that says that a workspace was empty when it was made.
fn empty_note(record: &Path) -> PathBuf {
    record.with_extension("empty")
}

/// What tells a folder from any other that is made in its place.
fn folder_id(dir: &OwnedFd, path: &Path) -> Result<String, WorkspaceError> {
    let stat = fstat(dir).map_err(|source| WorkspaceError::Open {
        path: path.to_owned(),
        source: source.into(),
    })?;
    Ok(format!("{} {}\n", stat.st_dev, stat.st_ino))
}

fn write_record(record: &Path, issue: &IssueId) -> Result<(), WorkspaceError> {
    let fail = |source| WorkspaceError::Write {
        path: record.to_owned(),
        source,
    };
    match std::fs::remove_file(empty_note(record)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    write_atomic(record, format!("{issue}\n").as_bytes()).map_err(fail)
}

fn remove_record(record: &Path) -> Result<(), WorkspaceError> {
    let fail = |source| WorkspaceError::Remove {
        path: record.to_owned(),
        source,
    };
    match std::fs::remove_file(record) {
        Ok(()) => record.parent().map_or(Ok(()), sync_dir).map_err(fail),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(fail(error)),
    }
}
