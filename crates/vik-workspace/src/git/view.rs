//! A repository of Vik's own for one command in a workspace.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::files::{self, Takeover};
use super::record::{REPOSITORY_VARIABLES, Record, Remote, local_settings, remotes, safe_path};
use super::repository::{Head, Repository, WorkTree, is_id, is_ref};
use super::run::{could_not_start, output, run_with_input};
use super::{GitError, programs, settings};
use crate::fs::{create_private_dir_all, write_private};
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

/// The hook through which Git LFS sends its files. It is the only hook that runs.
const LFS_PRE_PUSH: &[u8] = b"#!/bin/sh\nexec git lfs pre-push \"$@\"\n";

/// Files that mark an unfinished merge or similar operation; a reset ends it.
const UNFINISHED: [&str; 8] = [
    "AUTO_MERGE",
    "CHERRY_PICK_HEAD",
    "MERGE_HEAD",
    "MERGE_MODE",
    "MERGE_MSG",
    "REVERT_HEAD",
    "SQUASH_MSG",
    "index.lock",
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

/// Returns whether a ref (by its name below `refs/`) is left out: refs that replace objects, and
/// refs that imitate or hide recorded refs.
fn is_left_out(name: &str, record: &Record, tracking: Tracking) -> bool {
    let (kind, suffix) = name.split_once('/').unwrap_or((name, ""));
    match tracking {
        Tracking::OfWorkspace => kind == "replace",
        Tracking::OfRecord => {
            let shadows = |remote: &String| {
                suffix
                    .strip_prefix(remote.as_str())
                    .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('/'))
            };
            !matches!(kind, "heads" | "tags") || record.remotes.keys().any(shadows)
        }
    }
}

/// Returns whether a file of the folder `objects` contains objects or the index of their pack.
/// Files are excluded that lead to other repositories, or that claim without proof what commits
/// contain.
fn is_object(path: &Path) -> bool {
    let name = path.to_str().unwrap_or_default();
    let left_out = ["info/", "pack/multi-pack-index"];
    !left_out.iter().any(|start| name.starts_with(start))
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

    fn fill(&self, record: &Record, tracking: Tracking) -> Result<(), GitError> {
        for folder in [
            "refs",
            "hooks",
            "info",
            "lfs",
            "objects/info",
            "objects/pack",
            "taken",
            CHECKED_FOLDER,
            "own",
        ] {
            let folder = self.folder.join(folder);
            create_private_dir_all(&folder).map_err(GitError::io("make", &folder))?;
        }
        self.write("config", settings::of_record(record).text())?;
        self.write("info/exclude", &record.exclude)?;
        if !record.sparse_checkout.is_empty() {
            self.write("info/sparse-checkout", &record.sparse_checkout)?;
        }
        self.take_objects(record)?;
        self.take("refs", "refs", &|path| {
            path.to_str()
                .is_none_or(|name| is_left_out(name, record, tracking))
        })?;
        self.write_packed_refs(record, tracking)?;
        if let Some(shallow) = self.repository.read_common("shallow")? {
            self.write("shallow", &shallow)?;
        }
        self.write(
            "HEAD",
            &match self.repository.head()? {
                Head::Branch(name) => format!("ref: {name}\n"),
                Head::Commit(id) => format!("{id}\n"),
            },
        )
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), GitError> {
        let path = self.folder.join(name);
        write_private(&path, text.as_bytes()).map_err(GitError::io("write", &path))
    }

    /// Takes over the objects of the workspace. Git writes new objects to another folder, so that
    /// they can be distinguished.
    fn take_objects(&self, record: &Record) -> Result<(), GitError> {
        let alternates = self
            .repository
            .read_common("objects/info/alternates")?
            .unwrap_or_default();
        let file = self.repository.common_path("objects/info/alternates");
        if alternates != record.alternates {
            let violation = "was changed since `after_create` finished: it points to other repositories";
            return Err(GitError::changed(&file, violation));
        }
        self.take("objects", "taken", &|path| !is_object(path))?;
        let mut list = format!("{}\n", self.folder.join("taken").display());
        for line in alternates
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let path = self.repository.common_path("objects").join(line);
            list.push_str(&format!("{}\n", path.display()));
        }
        self.write("objects/info/alternates", &list)?;
        let has_lfs = files::descend(&self.repository.common, Path::new("lfs/objects")).is_ok();
        if has_lfs {
            let objects = self.folder.join("lfs/objects");
            create_private_dir_all(&objects).map_err(GitError::io("make", &objects))?;
            self.take("lfs/objects", "lfs/objects", &|_| false)?;
            let hook = self.folder.join("hooks/pre-push");
            #[expect(clippy::disallowed_methods, reason = "Vik's own file")]
            let made = write_private(&hook, LFS_PRE_PUSH)
                .and_then(|()| std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o700)));
            made.map_err(GitError::io("write", &hook))?;
        }
        Ok(())
    }

    /// Takes over a folder of the workspace's repository into one of the view.
    fn take(&self, from: &str, to: &str, leave_out: &dyn Fn(&Path) -> bool) -> Result<(), GitError> {
        let name = self.repository.common_path(from);
        let source = files::descend(&self.repository.common, Path::new(from)).map_err(|error| {
            GitError::changed(
                &name,
                format!("cannot be opened as a folder without following a link ({error})"),
            )
        })?;
        let takeover = Takeover {
            name: &name,
            leave_out,
            of_refs: from == "refs",
        };
        takeover.run(&source, &self.open_own(to)?)
    }

    pub(super) fn open_own(&self, name: &str) -> Result<OwnedFd, GitError> {
        let path = self.folder.join(name);
        files::open_folder(&path).map_err(GitError::io("open", &path))
    }

    fn write_packed_refs(&self, record: &Record, tracking: Tracking) -> Result<(), GitError> {
        let packed = self.repository.read_common("packed-refs")?.unwrap_or_default();
        let mut text = String::new();
        for line in packed.lines() {
            let Some((id, name)) = line.split_once(' ') else {
                continue;
            };
            let is_taken = name
                .strip_prefix("refs/")
                .is_some_and(|name| !is_left_out(name, record, tracking));
            if is_id(id) && is_ref(name) && is_taken {
                text.push_str(&format!("{id} {name}\n"));
            }
        }
        if tracking == Tracking::OfRecord {
            for (name, value) in &record.tracking {
                match value.strip_prefix("ref: ") {
                    None => text.push_str(&format!("{value} {name}\n")),
                    Some(_) => {
                        let path = self.folder.join(name);
                        let folder = path.parent().unwrap_or(&self.folder);
                        create_private_dir_all(folder).map_err(GitError::io("make", folder))?;
                        self.write(name, &format!("{value}\n"))?;
                    }
                }
            }
        }
        self.write("packed-refs", &text)
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
        let name = format!("{name}^{{commit}}");
        let mut command = self.git(["rev-parse", "--verify", "--quiet", "--end-of-options", &name]);
        let found = command
            .output()
            .map_err(|error| could_not_start("rev-parse", &error))?;
        let id = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        Ok(is_id(&id).then_some(id))
    }

    /// Copies the objects that were added to this view into the workspace.
    ///
    /// # Errors
    /// Returns an error if the objects cannot be written without following a link.
    pub fn copy_objects_to_workspace(&self) -> Result<(), GitError> {
        let is_alternates = |path: &Path| path == Path::new("info/alternates");
        self.give("objects", &is_alternates)?;
        if self.folder.join("lfs/objects").is_dir() {
            self.give("lfs/objects", &|_| false)?;
        }
        Ok(())
    }

    fn give(&self, name: &str, leave_out: &dyn Fn(&Path) -> bool) -> Result<(), GitError> {
        let target = files::descend_or_make(&self.repository.common, Path::new(name))
            .map_err(GitError::io("open", &self.repository.common_path(name)))?;
        let path = self.folder.join(name);
        let takeover = Takeover {
            name: &path,
            leave_out,
            of_refs: false,
        };
        takeover.run(&self.open_own(name)?, &target)
    }

    /// Writes refs into the workspace.
    ///
    /// # Errors
    /// Returns an error if a ref cannot be written without following a link; the other refs are
    /// written.
    pub fn write_refs_to_workspace<'r>(
        &self,
        refs: impl IntoIterator<Item = (&'r String, &'r String)>,
    ) -> Result<(), GitError> {
        let mut result = Ok(());
        for (name, value) in refs {
            let written = self.repository.write_ref(name, value);
            result = result.and(written);
        }
        result
    }

    /// Detaches the `HEAD` of the workspace at a commit, so that a reset moves no branch.
    ///
    /// # Errors
    /// Returns an error if `HEAD` cannot be written without following a link.
    pub fn detach(&self, commit: &str) -> Result<(), GitError> {
        let content = format!("{commit}\n");
        files::replace(&self.repository.own, OsStr::new("HEAD"), content.as_bytes())
            .map_err(GitError::io("write", Path::new("HEAD")))
    }

    /// Applies the reset of the view to the workspace: its branch, its index, and the end of an
    /// unfinished merge.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written without following a link.
    pub fn apply_reset_to_workspace(&self, commit: &str, before: Option<&str>) -> Result<(), GitError> {
        let own = |name: &'static str| GitError::io("write", Path::new(name));
        let folder = &self.repository.own;
        for name in UNFINISHED {
            files::remove(folder, name).map_err(own("index"))?;
        }
        files::install(&self.folder.join("index"), folder, "index").map_err(own("index"))?;
        if let Some(before) = before {
            // The previous commit stays reachable by this name.
            files::replace(folder, OsStr::new("ORIG_HEAD"), format!("{before}\n").as_bytes())
                .map_err(own("ORIG_HEAD"))?;
        }
        match self.repository.head()? {
            Head::Branch(name) => self.repository.write_ref(&name, commit),
            Head::Commit(_) => self.detach(commit),
        }
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
