//! The workspaces of issues: created once, marked ready last, never reached through a link.
//!
//! While a workspace is being created, a record of it exists outside of it. A folder with such a
//! record is incomplete, whatever it contains: it is cleaned and created again. The caller of these
//! functions for an issue holds the lock of that issue.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use vik_core::ids::IssueId;

use super::fs::{
    FOLDER, FOLDER_MODE, file_type, open_folder as open_own_folder, read, sync_dir, write_atomic,
};
use super::inspection::sweep_views;
use super::name::folder_name;
use super::{Layout, Removed, WorkspaceError, removal};

/// An open issue workspace.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    dir: OwnedFd,
    record: PathBuf,
}

/// An opened workspace, new or existing.
#[derive(Debug)]
pub enum Prepared {
    /// It was just created and is empty: run `after_create`, then [`Workspace::mark_ready`].
    Created(Workspace),
    Existing(Workspace),
}

impl Workspace {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the workspace as complete: from now on it is kept.
    ///
    /// # Errors
    /// When the creating record cannot be removed.
    pub fn mark_ready(&self) -> Result<(), WorkspaceError> {
        let empty = is_empty(&self.dir).map_err(WorkspaceError::io("open the folder", &self.path))?;
        if empty {
            // A workspace that a hook left empty on purpose must not look like one that a person
            // has emptied.
            let note = empty_note(&self.record);
            write_atomic(&note, folder_id(&self.dir, &self.path)?.as_bytes())
                .map_err(WorkspaceError::io("write", &note))?;
        }
        remove_record(&self.record)
    }

    /// Checks by handles alone that the path still leads to this folder.
    ///
    /// # Errors
    /// When the path leads to something else.
    pub fn check(&self, layout: &Layout) -> Result<(), WorkspaceError> {
        let exchanged = || WorkspaceError::Replaced {
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

/// Opens the workspace of an issue, or creates it. Blocks.
///
/// If no hook fills it (`made_by_hook` is false), it cannot be incomplete: it needs no record, and
/// is [`Prepared::Existing`] immediately.
///
/// # Errors
/// When it cannot be created, or something that is no folder is in its place.
///
/// # Examples
///
/// ```
/// use vik_core::ids::IssueId;
/// use vik_core::workflow::WorkspaceRoot;
/// use vik_workspace::{Layout, Prepared, prepare};
///
/// let folder = tempfile::tempdir()?;
/// let workflow = folder.path().join("workflow.yml");
/// let mut layout = Layout::resolve(&workflow, &WorkspaceRoot::BesideWorkflow)?;
/// layout.create()?;
///
/// let issue = IssueId::new("ENG-7");
/// let Prepared::Created(workspace) = prepare(&layout, &issue, true)? else {
///     panic!("there was a workspace already");
/// };
/// std::fs::write(workspace.path().join("file"), "from `after_create`")?;
/// workspace.mark_ready()?;
/// assert!(matches!(prepare(&layout, &issue, true)?, Prepared::Existing(_)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn prepare(layout: &Layout, issue: &IssueId, made_by_hook: bool) -> Result<Prepared, WorkspaceError> {
    let (path, record) = (layout.issue_dir(issue), layout.creating_record(issue));
    let name = folder_name(issue);
    // This cancels an unfinished removal: the workspace is used again.
    remove_record(&layout.removing_record(issue))?;
    let issues = open_issues(layout)?;
    let half_made = record.symlink_metadata().is_ok();
    if half_made {
        // An attempt that failed or died left it incomplete. Anything may be there.
        removal::remove_at(&issues, OsStr::new(&name)).map_err(WorkspaceError::io("remove", &path))?;
        remove_record(&layout.last_snapshot(issue))?;
    }
    if let Some(dir) = open_folder(&issues, OsStr::new(&name), &path)? {
        let empty = is_empty(&dir).map_err(WorkspaceError::io("open the folder", &path))?;
        let made_empty = || -> Result<bool, WorkspaceError> {
            let noted = read(&empty_note(&record)).unwrap_or_default();
            Ok(noted == folder_id(&dir, &path)?.as_bytes())
        };
        let ready = !made_by_hook || !empty || made_empty()?;
        let workspace = Workspace { path, dir, record };
        if ready {
            return Ok(Prepared::Existing(workspace));
        }
        // A stage that runs in parallel may use it, so it stays the same folder.
        write_record(&workspace.record, issue)?;
        remove_record(&layout.git_record(issue))?;
        remove_record(&layout.durable_record(issue))?;
        return Ok(Prepared::Created(workspace));
    }
    if made_by_hook {
        write_record(&record, issue)?;
    } else if half_made {
        remove_record(&record)?;
    }
    // It describes a workspace that no longer exists.
    remove_record(&layout.git_record(issue))?;
    remove_record(&layout.durable_record(issue))?;
    // A folder that a power cut removes is created again: nothing here needs to be on the disk yet.
    mkdirat(&issues, name.as_str(), Mode::from_bits_truncate(FOLDER_MODE))
        .map_err(|error| WorkspaceError::io("create the folder", &path)(error.into()))?;
    match open_folder(&issues, OsStr::new(&name), &path)? {
        Some(dir) => {
            let workspace = Workspace { path, dir, record };
            Ok(if made_by_hook {
                Prepared::Created(workspace)
            } else {
                Prepared::Existing(workspace)
            })
        }
        None => Err(WorkspaceError::Replaced { path }),
    }
}

/// Opens the workspace of an issue if it is complete. Blocks.
///
/// # Errors
/// When something that is no folder is in its place.
pub fn open(layout: &Layout, issue: &IssueId) -> Result<Option<Workspace>, WorkspaceError> {
    let (path, record) = (layout.issue_dir(issue), layout.creating_record(issue));
    if record.symlink_metadata().is_ok() || layout.issues_dir().symlink_metadata().is_err() {
        return Ok(None);
    }
    let issues = open_issues(layout)?;
    let dir = open_folder(&issues, OsStr::new(&folder_name(issue)), &path)?;
    Ok(dir.map(|dir| Workspace { path, dir, record }))
}

/// Opens the workspace of an issue that is complete although its record exists, and removes the
/// record: the process that filled it died before that. `None` if there is no workspace. If the
/// record exists, calls `before_ready` before removing it. Blocks.
///
/// # Errors
/// When something that is no folder is in its place, or its record cannot be removed.
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

/// Removes the workspace of an issue with everything in it, and its folders beside it. Removes links
/// in it and does not follow them. Other processes see it disappear in one step. Blocks.
///
/// # Errors
/// When something in it cannot be removed; [`sweep`] retries.
pub fn remove(layout: &Layout, issue: &IssueId) -> Result<Removed, WorkspaceError> {
    if layout.issues_dir().symlink_metadata().is_err() {
        return Ok(Removed::default());
    }
    let issues = open_issues(layout)?;
    let mut removed = removal::remove_at(&issues, OsStr::new(&folder_name(issue)))
        .map_err(WorkspaceError::io("remove", &layout.issue_dir(issue)))?;
    for path in [layout.scratch_dir(issue), layout.issue_homes_dir(issue)] {
        removed.bytes += remove_beside(&path)?.bytes;
    }
    remove_record(&layout.creating_record(issue))?;
    remove_record(&layout.git_record(issue))?;
    remove_record(&layout.durable_record(issue))?;
    // The next workspace in its place is a different one.
    remove_record(&layout.last_snapshot(issue))?;
    Ok(removed)
}

/// Held during a removal with its sweep, which must not take what another removal is removing for
/// the remains of an earlier one.
static REMOVAL_BESIDE: Mutex<()> = Mutex::new(());

/// Removes the folder of an issue outside of its workspace, by the same rules, with the remains of
/// earlier removals beside it. Blocks, also while another thread does the same.
///
/// # Errors
/// When something in it cannot be removed; the next call and [`sweep`] retry.
pub fn remove_beside(path: &Path) -> Result<Removed, WorkspaceError> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Removed::default());
    };
    let fail = WorkspaceError::io("remove", path);
    let _turn = REMOVAL_BESIDE.lock().unwrap_or_else(PoisonError::into_inner);
    match nix::fcntl::open(folder, FOLDER, Mode::empty()) {
        Ok(folder) => {
            let removed = removal::remove_at(&folder, name).map_err(fail)?;
            removal::sweep(&folder).map_err(fail)?;
            Ok(removed)
        }
        Err(Errno::ENOENT) => Ok(Removed::default()),
        Err(error) => Err(fail(error.into())),
    }
}

/// Removes the remains of an earlier removal, or of an earlier check of a workspace. Blocks.
///
/// # Errors
/// When something cannot be removed.
pub fn sweep(layout: &Layout) -> Result<(), WorkspaceError> {
    let service = layout.service_dir();
    sweep_views(&service).map_err(WorkspaceError::io("remove", &service))?;
    for path in layout.folders_of_issues() {
        match nix::fcntl::open(&path, FOLDER, Mode::empty()) {
            Ok(folder) => removal::sweep(&folder).map_err(WorkspaceError::io("remove", &path))?,
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(WorkspaceError::io("remove", &path)(error.into())),
        }
    }
    if layout.issues_dir().symlink_metadata().is_err() {
        return Ok(());
    }
    let issues = open_issues(layout)?;
    removal::sweep(&issues).map_err(WorkspaceError::io("remove", &layout.issues_dir()))
}

/// Opens `<home>/workflows/<key>/issues`. Below the home no component of the path may be a link.
fn open_issues(layout: &Layout) -> Result<OwnedFd, WorkspaceError> {
    let mut path = layout.home().to_owned();
    let mut dir = open_own_folder(&path).map_err(WorkspaceError::io("open the folder", &path))?;
    let issues = layout.issues_dir();
    let below = issues.strip_prefix(layout.home()).unwrap_or(Path::new(""));
    for part in below.components() {
        path.push(part);
        let missing = || WorkspaceError::io("open the folder", &path)(io::ErrorKind::NotFound.into());
        dir = open_folder(&dir, part.as_os_str(), &path)?.ok_or_else(missing)?;
    }
    Ok(dir)
}

/// Opens a folder in a folder. Returns `None` if there is nothing, and an error if something else
/// is in its place.
fn open_folder(parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<Option<OwnedFd>, WorkspaceError> {
    match nix::fcntl::openat(parent, name, FOLDER, Mode::empty()) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error @ (Errno::ENOTDIR | Errno::ELOOP | Errno::EMLINK)) => {
            let found = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW).map(|stat| file_type(&stat));
            let kind = match found {
                Ok(SFlag::S_IFLNK) => "a link",
                Ok(SFlag::S_IFREG) => "a file",
                Ok(_) => "a special file",
                Err(_) => return Err(WorkspaceError::io("open the folder", path)(error.into())),
            };
            Err(WorkspaceError::NotAFolder {
                path: path.to_owned(),
                kind,
            })
        }
        Err(error) => Err(WorkspaceError::io("open the folder", path)(error.into())),
    }
}

fn is_empty(dir: &OwnedFd) -> io::Result<bool> {
    // Opened again, because a clone would continue where the last read ended.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut dir = nix::dir::Dir::from_fd(nix::fcntl::openat(dir, ".", flags, Mode::empty())?)?;
    for entry in dir.iter() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the file that marks a workspace as empty on creation.
fn empty_note(record: &Path) -> PathBuf {
    record.with_extension("empty")
}

/// Returns an identifier that differs from that of any other folder in the same place.
fn folder_id(dir: &OwnedFd, path: &Path) -> Result<String, WorkspaceError> {
    let stat = fstat(dir).map_err(|error| WorkspaceError::io("open the folder", path)(error.into()))?;
    Ok(format!("{} {}\n", stat.st_dev, stat.st_ino))
}

fn write_record(record: &Path, issue: &IssueId) -> Result<(), WorkspaceError> {
    let fail = WorkspaceError::io("write", record);
    match std::fs::remove_file(empty_note(record)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    write_atomic(record, format!("{issue}\n").as_bytes()).map_err(fail)
}

fn remove_record(record: &Path) -> Result<(), WorkspaceError> {
    let fail = WorkspaceError::io("remove", record);
    match std::fs::remove_file(record) {
        Ok(()) => record.parent().map_or(Ok(()), sync_dir).map_err(fail),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(fail(error)),
    }
}
