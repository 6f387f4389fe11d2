//! Git for questions about a workspace that may have no [record](super::git::Record), without a copy
//! of its objects. An agent may have written settings that make git run programs.
//!
//! Therefore git never sees the repository's own settings. It gets a folder of Vik's with settings
//! of Vik's, and from the repository only data: its objects, refs, index and ignore lists. No hook,
//! file monitor, filter, external diff or text conversion is configured there. Git runs under a
//! shim, with limits of time and output. Commands that write, or that use the network, need a
//! [`View`](super::git::View).

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vik_proc::{Limits, Supervisor, untrusted};

use super::changes::small_file;
use super::fs::{create_private_dir_all, if_exists, list_folder, write_private};
use super::isolated_git::isolated_spec;

/// The time limit of one git call.
const GIT_TIMEOUT: Duration = Duration::from_secs(120);

/// The size limit of an index, or of a list of refs. A larger one is an error.
const MAX_INDEX_BYTES: u64 = 1024 * 1024 * 1024;

/// The limit of the output of one git call. A longer list is an error.
const GIT_BYTES: usize = 64 * 1024 * 1024;

/// A repository as git may see it: without its settings. Dropping it removes its folder.
pub struct InspectionView {
    workspace: PathBuf,
    git_dir: PathBuf,
    objects: PathBuf,
    index: PathBuf,
    /// Whether the repository is outside of the workspace (`git worktree`).
    pub(super) linked: bool,
}

/// Why no view could be made.
pub enum InspectionError {
    NoRepository,
    Io(io::Error),
}

impl From<io::Error> for InspectionError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The prefix of the names of view folders.
pub const VIEW_PREFIX: &str = "git-";

/// A view that is older than this was left by a process that was killed: no check takes that long.
const MAX_VIEW_AGE: Duration = Duration::from_secs(3600);

/// Removes views that are no longer in use.
///
/// # Errors
/// When the folder cannot be read.
pub(super) fn sweep_views(scratch: &Path) -> io::Result<()> {
    for entry in if_exists(list_folder(scratch))?.into_iter().flatten() {
        let entry = entry?;
        let age = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = age.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > MAX_VIEW_AGE));
        if is_old && entry.file_name().to_string_lossy().starts_with(VIEW_PREFIX) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

impl InspectionView {
    /// Makes a view; `None` if the workspace is empty.
    pub fn make(workspace: &Path, scratch: &Path) -> Result<Option<Self>, InspectionError> {
        if list_folder(workspace)?.next().is_none() {
            return Ok(None);
        }
        let dot_git = workspace.join(".git");
        let metadata = if_exists(dot_git.symlink_metadata())?.ok_or(InspectionError::NoRepository)?;
        let kind = metadata.file_type();
        let (own, common) = if kind.is_dir() {
            (dot_git.clone(), dot_git)
        } else if kind.is_file() {
            let text = small_file(&dot_git)?;
            let own = text
                .strip_prefix("gitdir:")
                .ok_or(InspectionError::NoRepository)?
                .trim();
            let own = workspace.join(own);
            let common = own.join(small_file(&own.join("commondir"))?.trim_end());
            (own, common)
        } else {
            return Err(InspectionError::NoRepository);
        };
        let git_dir = scratch.join(format!("{VIEW_PREFIX}{}", uuid::Uuid::now_v7().simple()));
        create_private_dir_all(&git_dir.join("info"))?;
        let view = Self {
            workspace: workspace.to_owned(),
            objects: common.join("objects"),
            index: own.join("index"),
            linked: own != common,
            git_dir,
        };
        view.fill(&own, &common)?;
        Ok(Some(view))
    }

    /// Replaces the index by a copy, which may be written to.
    pub fn with_own_index(mut self) -> io::Result<Self> {
        let index = self.git_dir.join("own-index");
        match untrusted::read(&self.index, MAX_INDEX_BYTES) {
            Ok(bytes) => write_private(&index, &bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.index = index;
        Ok(self)
    }

    /// Adds the new files of the work tree to the index, without their contents. Git stores an empty
    /// object for that, in the view: an agent can replace a folder of the workspace's objects by a
    /// link.
    pub async fn add_new_files(&mut self, supervisor: &Supervisor) -> Result<(), String> {
        let objects = self.git_dir.join("own-objects");
        create_private_dir_all(&objects).map_err(|error| error.to_string())?;
        let shared = std::mem::replace(&mut self.objects, objects);
        let args = ["add", "--intent-to-add", "--ignore-errors", "--", "."];
        let added = self.git(supervisor, &args).await;
        self.objects = shared;
        added.map(drop)
    }

    fn fill(&self, own: &Path, common: &Path) -> io::Result<()> {
        let settings = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = false\n\
             \tcommitGraph = false\n\tuntrackedCache = false\n\thooksPath = /dev/null\n\tattributesFile = /dev/null\n\
             \texcludesFile = /dev/null\n";
        write_private(&self.git_dir.join("config"), settings.as_bytes())?;
        let head = small_file(&own.join("HEAD"))?;
        write_private(&self.git_dir.join("HEAD"), head.as_bytes())?;
        symlink(common.join("refs"), self.git_dir.join("refs"))?;
        // Copies, because git would block on a pipe and follow a link that an agent put in their
        // place.
        for name in ["packed-refs", "shallow", "info/exclude"] {
            match untrusted::read(&common.join(name), MAX_INDEX_BYTES) {
                Ok(bytes) => write_private(&self.git_dir.join(name), &bytes)?,
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) async fn git(&self, supervisor: &Supervisor, args: &[&str]) -> Result<Vec<u8>, String> {
        let env = [
            ("HOME", self.git_dir.clone().into()),
            ("GIT_WORK_TREE", self.workspace.clone().into()),
            ("GIT_OBJECT_DIRECTORY", self.objects.clone().into()),
            ("GIT_INDEX_FILE", self.index.clone().into()),
            ("GIT_CONFIG_SYSTEM", "/dev/null".into()),
            ("GIT_ATTR_NOSYSTEM", "1".into()),
            ("GIT_OPTIONAL_LOCKS", "0".into()),
        ];
        let spec = isolated_spec(&self.workspace, &self.git_dir, args, env);
        let limits = Limits {
            timeout: GIT_TIMEOUT,
            max_bytes: GIT_BYTES,
        };
        let run = supervisor
            .output(&spec, limits, std::future::pending())
            .await
            .map_err(|error| vik_base::report::chain(&error))?;
        if run.flooded {
            return Err("git printed too much output".to_owned());
        }
        if run.timed_out {
            return Err("git took too long".to_owned());
        }
        if run.exit.code != Some(0) {
            let verb = args.first().copied().unwrap_or_default();
            return Err(format!(
                "`git {verb}` {}",
                vik_base::report::describe_exit(&run.exit)
            ));
        }
        Ok(run.stdout)
    }
}

impl Drop for InspectionView {
    fn drop(&mut self) {
        // It contains only links and settings, so a leftover does no harm.
        let _ = std::fs::remove_dir_all(&self.git_dir);
    }
}
