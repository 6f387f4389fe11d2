//! Checks whether a workspace can be removed without losing work. It asks git, and an agent may
//! have written settings that make git run programs.
//!
//! Therefore git never sees the repository's own settings. It gets a folder of Vik's with settings
//! of Vik's, and from the repository only data: its objects, refs, index and ignore lists. No hook,
//! file monitor, filter, external diff or text conversion is configured there. What such a view
//! cannot determine counts as work to keep.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vik_proc::{Limits, ShimSpec, Supervisor, untrusted};

use super::changes::small_file;
use super::fs::{create_private_dir_all, list_folder, write_private};

/// The time limit of one git call.
const GIT_TIMEOUT: Duration = Duration::from_secs(120);

/// The size limit of an index, or of a list of refs. A larger one is an error.
const MAX_INDEX_BYTES: u64 = 1024 * 1024 * 1024;

/// The limit of the output of one git call. A longer list is an error.
const GIT_BYTES: usize = 64 * 1024 * 1024;

/// The work that removing a workspace would lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnsavedWork {
    Nothing,
    /// Files that are in no repository.
    Files,
    /// Changes that are in no commit.
    Uncommitted,
    /// Commits that are on no remote branch.
    Unpushed,
    /// Repositories inside the repository. Vik does not inspect them.
    Submodules,
    /// The check failed, for this reason.
    Unknown(String),
}

impl UnsavedWork {
    /// Returns the reason why the workspace is kept, for people.
    pub fn reason(&self) -> Option<String> {
        Some(match self {
            Self::Nothing => return None,
            Self::Files => "it contains files and is not a git work tree".to_owned(),
            Self::Uncommitted => "it contains uncommitted changes".to_owned(),
            Self::Unpushed => "it contains unpushed commits".to_owned(),
            Self::Submodules => "it contains submodules, which Vik does not inspect".to_owned(),
            Self::Unknown(why) => format!("cannot determine whether it contains work: {why}"),
        })
    }
}

/// Checks a workspace. `scratch` is a folder of Vik's for the view, which is removed afterwards.
pub async fn unsaved_work(supervisor: &Supervisor, workspace: &Path, scratch: &Path) -> UnsavedWork {
    let view = match View::make(workspace, scratch) {
        Ok(Some(view)) => view,
        Ok(None) => return UnsavedWork::Nothing,
        Err(ViewError::NoRepository) => return UnsavedWork::Files,
        Err(ViewError::Io(error)) => return UnsavedWork::Unknown(error.to_string()),
    };
    let found = classify(supervisor, &view).await;
    view.remove();
    found.unwrap_or_else(UnsavedWork::Unknown)
}

async fn classify(supervisor: &Supervisor, view: &View) -> Result<UnsavedWork, String> {
    // `git status` would run git in each submodule, with the settings of that submodule.
    let staged = view.git(supervisor, &["ls-files", "--stage", "-z"]).await?;
    if staged
        .split(|byte| *byte == 0)
        .any(|entry| entry.starts_with(b"160000 "))
    {
        return Ok(UnsavedWork::Submodules);
    }
    let status = [
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
    ];
    if !view.git(supervisor, &status).await?.is_empty() {
        return Ok(UnsavedWork::Uncommitted);
    }
    // In a linked work tree, only the commits of its `HEAD` count: its branches belong to the main
    // repository, which stays.
    let own: &[&str] = if view.linked {
        &["rev-list", "--max-count=1", "HEAD", "--not", "--remotes"]
    } else {
        &[
            "rev-list",
            "--max-count=1",
            "--exclude=refs/tags/*",
            "--all",
            "--not",
            "--remotes",
        ]
    };
    if !view.git(supervisor, own).await?.is_empty() {
        return Ok(UnsavedWork::Unpushed);
    }
    Ok(UnsavedWork::Nothing)
}

/// A repository as git may see it: without its settings.
pub struct View {
    workspace: PathBuf,
    git_dir: PathBuf,
    objects: PathBuf,
    index: PathBuf,
    /// Whether the repository is outside of the workspace (`git worktree`).
    linked: bool,
}

/// Why no view could be made.
pub enum ViewError {
    NoRepository,
    Io(io::Error),
}

impl From<io::Error> for ViewError {
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
    let entries = match list_folder(scratch) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let age = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = age.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > MAX_VIEW_AGE));
        if is_old && entry.file_name().to_string_lossy().starts_with(VIEW_PREFIX) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

impl View {
    /// Makes a view; `None` if the workspace is empty.
    pub fn make(workspace: &Path, scratch: &Path) -> Result<Option<Self>, ViewError> {
        if list_folder(workspace)?.next().is_none() {
            return Ok(None);
        }
        let dot_git = workspace.join(".git");
        let kind = match dot_git.symlink_metadata() {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ViewError::NoRepository),
            Err(error) => return Err(error.into()),
        };
        let (own, common) = if kind.is_dir() {
            (dot_git.clone(), dot_git)
        } else if kind.is_file() {
            let text = small_file(&dot_git)?;
            let own = text
                .strip_prefix("gitdir:")
                .ok_or(ViewError::NoRepository)?
                .trim();
            let own = workspace.join(own);
            let common = own.join(small_file(&own.join("commondir"))?.trim_end());
            (own, common)
        } else {
            return Err(ViewError::NoRepository);
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
        view.fill(&own, &common).inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&view.git_dir);
        })?;
        Ok(Some(view))
    }

    /// Removes the folder of the view.
    pub fn remove(&self) {
        // It contains only links and settings, so a leftover does no harm.
        let _ = std::fs::remove_dir_all(&self.git_dir);
    }

    /// Returns the same view with a copy of the index, which may be written to.
    pub fn with_own_index(&self) -> io::Result<Self> {
        let index = self.git_dir.join("own-index");
        match untrusted::read(&self.index, MAX_INDEX_BYTES) {
            Ok(bytes) => write_private(&index, &bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self {
            workspace: self.workspace.clone(),
            git_dir: self.git_dir.clone(),
            objects: self.objects.clone(),
            index,
            linked: self.linked,
        })
    }

    fn fill(&self, own: &Path, common: &Path) -> io::Result<()> {
        let settings = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = false\n\
             \tuntrackedCache = false\n\thooksPath = /dev/null\n\tattributesFile = /dev/null\n\
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
        let mut spec = ShimSpec::command("git", &self.workspace);
        spec.args = args.iter().map(OsString::from).collect();
        let env: BTreeMap<&str, OsString> = [
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("LC_ALL", "C".into()),
            ("HOME", self.git_dir.clone().into()),
            ("GIT_DIR", self.git_dir.clone().into()),
            ("GIT_WORK_TREE", self.workspace.clone().into()),
            ("GIT_OBJECT_DIRECTORY", self.objects.clone().into()),
            ("GIT_INDEX_FILE", self.index.clone().into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_CONFIG_SYSTEM", "/dev/null".into()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
            ("GIT_ATTR_NOSYSTEM", "1".into()),
            ("GIT_OPTIONAL_LOCKS", "0".into()),
            ("GIT_NO_LAZY_FETCH", "1".into()),
            ("GIT_NO_REPLACE_OBJECTS", "1".into()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
        ]
        .into();
        spec.env = env
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
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
