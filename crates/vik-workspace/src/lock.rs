//! The locks of an issue's workspace: while any process of an attempt lives in it, one of them is
//! held.

use std::io;
use std::path::{Path, PathBuf};

use vik_core::ids::IssueId;
use vik_proc::FileLock;

use super::{Layout, WorkspaceError, fs as private};

/// All locks of an issue's workspace: nothing lives in it, and no attempt can enter it.
#[derive(Debug)]
pub struct WorkspaceLock {
    issue: FileLock,
    stages: Vec<FileLock>,
}

impl WorkspaceLock {
    /// Returns the lock of the issue, for a process that outlives its caller, and the other ones.
    pub fn into_parts(self) -> (FileLock, Vec<FileLock>) {
        (self.issue, self.stages)
    }

    /// The lock of the issue, for commands that run in the workspace meanwhile.
    pub fn issue(&self) -> &FileLock {
        &self.issue
    }
}

/// Takes the lock of the issue and those of its stages that may run in parallel. `None` if another
/// process holds one of them. Blocks.
///
/// # Errors
/// When the locks cannot be found or opened.
pub fn lock(layout: &Layout, issue: &IssueId) -> Result<Option<WorkspaceLock>, WorkspaceError> {
    create_records_dir(layout)?;
    let Some(held) = try_lock(&layout.issue_lock(issue))? else {
        return Ok(None);
    };
    let mut stages = Vec::new();
    for path in stage_locks(&layout.stage_locks_dir(issue))? {
        match try_lock(&path)? {
            Some(lock) => stages.push(lock),
            None => return Ok(None),
        }
    }
    Ok(Some(WorkspaceLock { issue: held, stages }))
}

/// Takes all free locks of a workspace, so that no attempt starts there. `None` if more than `held`
/// of them are held: by the caller's own attempt, and by other running attempts. Blocks.
///
/// # Errors
/// When the locks cannot be found or opened.
pub fn lock_free_stages(
    layout: &Layout,
    issue: &IssueId,
    held: usize,
) -> Result<Option<Vec<FileLock>>, WorkspaceError> {
    create_records_dir(layout)?;
    let mut paths = stage_locks(&layout.stage_locks_dir(issue))?;
    paths.insert(0, layout.issue_lock(issue));
    let locks: Vec<FileLock> = paths
        .iter()
        .filter_map(|path| try_lock(path).transpose())
        .collect::<Result<_, _>>()?;
    Ok((paths.len() - locks.len() <= held).then_some(locks))
}

fn create_records_dir(layout: &Layout) -> Result<(), WorkspaceError> {
    let folder = layout.records_dir();
    private::create_private_dir_all(&folder).map_err(WorkspaceError::io("create the folder", &folder))
}

fn try_lock(path: &Path) -> Result<Option<FileLock>, WorkspaceError> {
    FileLock::try_acquire(path).map_err(WorkspaceError::io("lock", path))
}

fn stage_locks(folder: &Path) -> Result<Vec<PathBuf>, WorkspaceError> {
    let names = match private::list_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect()),
    };
    names.map_err(WorkspaceError::io("open the folder", folder))
}
