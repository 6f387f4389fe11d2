//! Whether a workspace may be removed without losing work: asked of git, of whose settings an agent may have made
//! programs to run.
//!
//! So git never sees the repository's own settings: it is given a folder of Vik's with settings of Vik's, and from the
//! repository only what is no program: its objects, refs, index and lists of ignored files. No hook, file monitor,
//! filter, external diff or text conversion is known there. What such a view cannot tell counts as work to be kept.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vik_proc::{Limits, ShimSpec, Supervisor, untrusted};

use super::changes::small_file;
use super::fs::{create_private_dir_all, list_folder, write_private};

/// How long one look of git may take.
const GIT_TIMEOUT: Duration = Duration::from_secs(120);

/// A larger index, or list of refs, is not taken.
const MAX_INDEX_BYTES: u64 = 1024 * 1024 * 1024;

/// How much of what git lists is read: more files than that are not looked at.
const GIT_BYTES: usize = 64 * 1024 * 1024;

/// What of a workspace would be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Nothing.
    Nothing,
    /// Files that no repository keeps.
    Files,
    /// Changes that are in no commit.
    Uncommitted,
    /// Commits that no remote branch has.
    Unpushed,
    /// Repositories within the repository, which are not looked into.
    Submodules,
    /// It cannot be told, and why.
    Unknown(String),
}

impl Leftover {
    /// Why it is kept, for people.
    pub fn reason(&self) -> Option<String> {
        Some(match self {
            Self::Nothing => return None,
            Self::Files => "it holds files and is no git work tree".to_owned(),
            Self::Uncommitted => "it holds uncommitted changes".to_owned(),
            Self::Unpushed => "it holds commits that were not pushed".to_owned(),
            Self::Submodules => "it holds submodules, which are not looked into".to_owned(),
            Self::Unknown(why) => format!("it cannot be told whether it holds work: {why}"),
        })
    }
}

/// Looks at a workspace. `scratch` is a folder of Vik's for the time of the look.
pub async fn leftover(supervisor: &Supervisor, workspace: &Path, scratch: &Path) -> Leftover {
    let view = match View::make(workspace, scratch) {
        Ok(Some(view)) => view,
        Ok(None) => return Leftover::Nothing,
        Err(Blind::NoRepository) => return Leftover::Files,
        Err(Blind::Io(error)) => return Leftover::Unknown(error.to_string()),
    };
    let found = classify(supervisor, &view).await;
    view.remove();
    found.unwrap_or_else(Leftover::Unknown)
}

async fn classify(supervisor: &Supervisor, view: &View) -> Result<Leftover, String> {
    // Status would ask git in each submodule, with that one's own settings.
    let staged = view.git(supervisor, &["ls-files", "--stage", "-z"]).await?;
    if staged
        .split(|byte| *byte == 0)
        .any(|entry| entry.starts_with(b"160000 "))
    {
        return Ok(Leftover::Submodules);
    }
    let status = [
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
    ];
    if !view.git(supervisor, &status).await?.is_empty() {
        return Ok(Leftover::Uncommitted);
    }
    // Of a linked work tree only its own commits: the branches belong to the repository, which stays.
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
        return Ok(Leftover::Unpushed);
    }
    Ok(Leftover::Nothing)
}

/// A repository as git may see it.
pub(super) struct View {
    workspace: PathBuf,
    git_dir: PathBuf,
    objects: PathBuf,
    index: PathBuf,
    /// Whether the repository itself lies elsewhere (`git worktree`).
    linked: bool,
}

/// Why there is no view.
pub(super) enum Blind {
    NoRepository,
    Io(io::Error),
}

impl From<io::Error> for Blind {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// What the folders of views are called, before their id.
pub(crate) const VIEW_PREFIX: &str = "git-";

/// No look at a workspace takes that long: an older view is what a kill left.
const MAX_VIEW_AGE: Duration = Duration::from_secs(3600);

/// Removes views that nobody uses any more.
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
    /// `None`: the workspace is empty.
    pub(super) fn make(workspace: &Path, scratch: &Path) -> Result<Option<Self>, Blind> {
        if list_folder(workspace)?.next().is_none() {
            return Ok(None);
        }
        let dot_git = workspace.join(".git");
        let kind = match dot_git.symlink_metadata() {
            Ok(metadata) => metadata.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Blind::NoRepository),
            Err(error) => return Err(error.into()),
        };
        let (own, common) = if kind.is_dir() {
            (dot_git.clone(), dot_git)
        } else if kind.is_file() {
            let text = small_file(&dot_git)?;
            let own = text.strip_prefix("gitdir:").ok_or(Blind::NoRepository)?.trim();
            let own = workspace.join(own);
            let common = own.join(small_file(&own.join("commondir"))?.trim_end());
            (own, common)
        } else {
            return Err(Blind::NoRepository);
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

    /// Removes what was made for the look.
    pub(super) fn remove(&self) {
        // It holds links and settings only: what stays does no harm.
        let _ = std::fs::remove_dir_all(&self.git_dir);
    }

    /// The same with a copy of the index, which may be written to.
    pub(super) fn with_own_index(&self) -> io::Result<Self> {
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
        // Copies: git would wait for a pipe, and follow a link, that came to their place.
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
            .map_err(|error| crate::report::chain(&error))?;
        if run.flooded {
            return Err("git lists too much".to_owned());
        }
        if run.timed_out {
            return Err("git took too long".to_owned());
        }
        if run.exit.code != Some(0) {
            let verb = args.first().copied().unwrap_or_default();
            return Err(format!("`git {verb}` {}", crate::hooks::how_ended(&run.exit)));
        }
        Ok(run.stdout)
    }
}
