//! A repository of Vik's own for one command in a workspace.

mod fill;
mod write_back;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::files;
use super::record::{REPOSITORY_VARIABLES, Record, Remote, local_settings, remotes, safe_path};
use super::repository::{Repository, WorkTree, is_ref};
use super::run::{output, run_with_input};
use super::{GitError, programs, settings};
use crate::fs::write_private;
use crate::{Layout, VIEW_PREFIX};

/// The folder of received objects in the view.
pub(super) const CHECKED_FOLDER: &str = "checked";

/// Settings that apply whatever the user's settings are: git runs no hook and no daemon, enters no
/// submodule, leaves no process running, and reads commits instead of a file that summarizes them.
/// `-c` outranks every settings file.
const FIXED: [&str; 16] = [
    "core.commitGraph=false",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.multiPackIndex=false",
    "core.logAllRefUpdates=false",
    "submodule.recurse=false",
    "push.recurseSubmodules=no",
    "push.followTags=false",
    "fetch.recurseSubmodules=no",
    "fetch.writeCommitGraph=false",
    "diff.ignoreSubmodules=dirty",
    "diff.submodule=short",
    "status.submoduleSummary=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// The source of a view's remote-tracking refs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracking {
    /// The record: the refs that Vik saw at the remote.
    OfRecord,
    /// The workspace, before an agent has worked there.
    OfWorkspace,
}

/// A repository with Vik's settings, the user's settings, and the objects and refs of a workspace.
/// Dropping it removes it.
#[derive(Debug)]
pub struct View {
    pub(super) folder: PathBuf,
    workspace: PathBuf,
    work_tree: PathBuf,
    repository: Repository,
    settings: Vec<String>,
    /// Whether objects may be missing because the remote has them.
    pub(super) is_partial: bool,
}

impl View {
    /// Creates the view of a workspace, or of a submodule in it.
    ///
    /// # Errors
    /// Returns an error if the repository does not match its record, or contains links.
    pub fn open<'w>(
        layout: &Layout,
        tree: impl Into<WorkTree<'w>>,
        record: &Record,
        tracking: Tracking,
    ) -> Result<Self, GitError> {
        let tree = tree.into();
        let repository = Repository::open(&tree.folder, tree.path, &record.place)?;
        repository.check_head(&record.place, record.branch.as_deref())?;
        let id = uuid::Uuid::now_v7().simple();
        let view = Self {
            folder: layout.service_dir().join(format!("{VIEW_PREFIX}{id}")),
            workspace: tree.workspace.to_owned(),
            work_tree: tree.path.to_owned(),
            repository,
            settings: Vec::new(),
            is_partial: record.remotes.values().any(|remote| remote.promisor),
        };
        view.fill(record, tracking)?;
        Ok(view)
    }

    /// Adds settings of the command line, `KEY=VALUE`.
    pub fn add_settings(&mut self, settings: &[String]) {
        self.settings.extend_from_slice(settings);
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), GitError> {
        let path = self.folder.join(name);
        write_private(&path, text.as_bytes()).map_err(GitError::io("write", &path))
    }

    pub(super) fn open_own(&self, name: &str) -> Result<OwnedFd, GitError> {
        let path = self.folder.join(name);
        files::open_folder(&path).map_err(GitError::io("open", &path))
    }

    /// Returns a git command in this view, outside of the work tree, so that relative paths in the
    /// user's settings do not refer to files of the work tree.
    pub fn git<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = self.base(&self.folder);
        command.args(["-c", "core.bare=true"]).args(args);
        command
    }

    /// Returns a git command in this view and in the work tree.
    pub fn git_in_work_tree<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = self.base(&self.work_tree);
        command
            .env("GIT_WORK_TREE", &self.work_tree)
            .args(["-c", "core.bare=false"])
            .args(args);
        command
    }

    fn base(&self, folder: &Path) -> Command {
        let mut command = Command::new("git");
        for name in REPOSITORY_VARIABLES {
            command.env_remove(name);
        }
        command
            .current_dir(folder)
            .env("PATH", safe_path(&self.workspace))
            .env("GIT_DIR", &self.folder)
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .stdin(Stdio::null())
            .arg("--no-pager");
        if std::env::var_os("GIT_TERMINAL_PROMPT").is_none() {
            command.env("GIT_TERMINAL_PROMPT", "0");
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let mut hooks = OsString::from("core.hooksPath=");
        hooks.push(self.folder.join("hooks"));
        command.arg("-c").arg(hooks);
        for setting in FIXED {
            command.args(["-c", setting]);
        }
        command
    }

    /// Refuses settings of the user that would run a program of the work tree, because git runs
    /// filters there.
    ///
    /// # Errors
    /// Returns an error if there is such a setting, or if the settings cannot be read.
    pub fn check_programs(&self) -> Result<(), GitError> {
        let list = output(&mut self.git(["config", "--list", "-z"]))?;
        match programs::in_work_tree(&settings::parse(&list.stdout), &self.workspace) {
            None => Ok(()),
            Some((key, program)) => Err(GitError::NotUsable(format!(
                "your git setting `{key}` runs `{program}`, which would be a file in the workspace"
            ))),
        }
    }

    /// Creates an index with the entries of the workspace's index, but without its flags and times,
    /// so that an agent cannot hide a file from git through the index.
    ///
    /// # Errors
    /// Returns an error if the index cannot be created.
    pub fn make_index(&self) -> Result<(), GitError> {
        self.make_entries()?;
        // The command exits with 1 if files differ.
        let _ = self.refresh().status();
        Ok(())
    }

    /// Creates the index like [`make_index`](Self::make_index), without comparing the entries with
    /// the files.
    pub(super) fn make_entries(&self) -> Result<(), GitError> {
        let own = self.folder.join("own");
        let taken = files::take_over_file(&self.repository.own, c"index", &own);
        let taken = taken.map_err(GitError::io("read", &self.work_tree.join(".git/index")))?;
        let entries = taken.then(|| {
            let mut list = self.git_in_work_tree(["ls-files", "--stage", "--full-name", "-z"]);
            list.env("GIT_INDEX_FILE", own.join("index"));
            output(&mut list)
        });
        match entries {
            Some(Ok(entries)) => {
                let mut update = self.git_in_work_tree(["update-index", "-z", "--index-info"]);
                run_with_input(&mut update, &entries.stdout)?;
            }
            // An unreadable index contains no entry beyond the commit.
            Some(Err(_)) => {
                let _ = output(&mut self.git_in_work_tree(["read-tree", "HEAD"]));
            }
            None => {}
        }
        Ok(())
    }

    /// Returns the command that compares the entries of the index with the files.
    pub(super) fn refresh(&self) -> Command {
        let mut refresh = self.git_in_work_tree(["update-index", "-q", "--really-refresh"]);
        refresh.stdout(Stdio::null()).stderr(Stdio::null());
        refresh
    }

    /// Returns the remote-tracking refs of the view.
    ///
    /// # Errors
    /// Returns an error if git does not list them.
    pub fn tracking(&self) -> Result<BTreeMap<String, String>, GitError> {
        self.refs("refs/remotes/")
    }

    /// Returns the refs of the view below a prefix.
    ///
    /// # Errors
    /// Returns an error if git does not list them.
    pub fn refs(&self, prefix: &str) -> Result<BTreeMap<String, String>, GitError> {
        let format = "--format=%(objectname) %(symref) %(refname)";
        let list = output(&mut self.git(["for-each-ref", format, prefix]))?;
        let text = String::from_utf8_lossy(&list.stdout).into_owned();
        let entries = text.lines().filter_map(|line| {
            let (id, remaining) = line.split_once(' ')?;
            let (target, name) = remaining.split_once(' ')?;
            let value = if target.is_empty() {
                id.to_owned()
            } else {
                format!("ref: {target}")
            };
            is_ref(name).then(|| (name.to_owned(), value))
        });
        Ok(entries.collect())
    }

    /// Returns the commit that a name refers to in the view; `None` if there is none.
    ///
    /// # Errors
    /// Returns an error if git cannot be started.
    pub fn commit(&self, name: &str) -> Result<Option<String>, GitError> {
        self.resolve(self.git(["rev-parse"]), &format!("{name}^{{commit}}"))
    }

    /// Refuses a remote whose URL in the workspace's own settings differs from the recorded one.
    ///
    /// # Errors
    /// Returns an error if the URLs differ.
    pub fn check_url(&self, layout: &Layout, name: &str, recorded: &Remote) -> Result<(), GitError> {
        let settings = local_settings(layout, self.repository.read_common("config")?)?;
        let now = remotes(&settings, &self.work_tree);
        let changed = |url: &str| {
            let violation = format!(
                "names another URL for the remote `{name}` than when `after_create` finished: {}",
                vik_base::report::one_line(&vik_mask::mask(url), 200)
            );
            Err(GitError::changed(
                &self.repository.common_path("config"),
                violation,
            ))
        };
        let Some(now) = now.get(name) else { return Ok(()) };
        if now.url != recorded.url {
            return changed(&now.url);
        }
        match (&now.push_url, &recorded.push_url) {
            (Some(now), recorded) if Some(now) != recorded.as_ref() => changed(now),
            _ => Ok(()),
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // The view contains only second names of files; files that remain are removed by the next
        // sweep.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
