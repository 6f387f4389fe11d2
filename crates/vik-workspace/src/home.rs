//! The folder of a workflow, `<home>/workflows/<key>/`, and every path in it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use vik_core::ids::{AgentName, IssueId, StageName};
use vik_core::worker::WorkerName;
use vik_core::workflow::model::WorkspaceRoot;

use super::WorkspaceError;
use super::fs::{create_private_dir_all, list_folder, read, write_atomic, write_private};
use super::name::{folder_name, short_hash};

/// The longest key without a hash, in bytes.
const MAX_KEY_BYTES: usize = 200;
/// The file with the path of the workflow that a folder belongs to.
const OWNER_FILE: &str = "workflow.path";

/// All paths of one workflow. Creating a value touches no file; see [`Layout::create`].
///
/// # Examples
///
/// ```
/// use vik_core::workflow::WorkspaceRoot;
/// use vik_workspace::Layout;
///
/// let folder = tempfile::tempdir()?;
/// let workflow = folder.path().join("workflow.yml");
/// let mut layout = Layout::resolve(&workflow, &WorkspaceRoot::BesideWorkflow)?;
/// assert!(layout.home().ends_with(".vik") && !layout.home().exists());
/// assert!(layout.issue_dir(&"7".into()).starts_with(layout.root()));
/// layout.create()?;
/// assert!(layout.service_dir().is_dir());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    workflow_path: PathBuf,
    home: PathBuf,
    root: PathBuf,
    beside_workflow: bool,
    is_of_worker: bool,
}

impl Layout {
    /// Returns the paths of a workflow. Reads which folder belongs to the workflow if two would
    /// have the same name; writes nothing.
    ///
    /// # Errors
    /// When the workflow path names no file, or the home directory is needed and unknown.
    pub fn resolve(workflow_path: &Path, root: &WorkspaceRoot) -> Result<Self, WorkspaceError> {
        let vik_home = std::env::var_os("VIK_HOME")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        Self::resolve_in(workflow_path, root, vik_home, user_home)
    }

    pub(super) fn resolve_in(
        workflow_path: &Path,
        root: &WorkspaceRoot,
        vik_home: Option<PathBuf>,
        user_home: impl Fn() -> Result<PathBuf, WorkspaceError>,
    ) -> Result<Self, WorkspaceError> {
        let workflow_path = absolute_workflow_path(workflow_path)?;
        let folder = workflow_path.parent().unwrap_or(Path::new("/"));
        let home = match (root, vik_home) {
            (WorkspaceRoot::BesideWorkflow, _) => folder.join(".vik"),
            (WorkspaceRoot::UserHome, Some(home)) => {
                std::path::absolute(&home).map_err(WorkspaceError::io("open the folder", &home))?
            }
            (WorkspaceRoot::UserHome, None) => user_home()?.join(".vik"),
            (WorkspaceRoot::Path(path), _) => match path.strip_prefix('~') {
                Some("") => user_home()?,
                Some(suffix) if suffix.starts_with('/') => user_home()?.join(suffix.trim_start_matches('/')),
                _ => folder.join(path),
            },
        };
        let home = normalize(&home);
        let root_dir = key_folder(&home.join("workflows"), &workflow_path);
        let beside_workflow = !matches!(root, WorkspaceRoot::UserHome);
        Ok(Self {
            workflow_path,
            home,
            root: root_dir,
            beside_workflow,
            is_of_worker: false,
        })
    }

    /// Returns the paths of a worker for the workflow. On one machine, hubs and workers of a workflow
    /// have nothing in common.
    #[must_use]
    pub fn of_worker(self, name: &WorkerName) -> Self {
        let home = self.home.join("workers").join(name.as_str());
        Self {
            root: key_folder(&home.join("workflows"), &self.workflow_path),
            home,
            is_of_worker: true,
            ..self
        }
    }

    /// Returns whether these are the paths of a worker.
    pub fn is_of_worker(&self) -> bool {
        self.is_of_worker
    }

    /// Returns the paths of a workflow whose folder ([`Layout::root`]) is known.
    pub fn at(workflow_path: &Path, root: &Path) -> Self {
        let home = root.parent().and_then(Path::parent).unwrap_or(root);
        Self {
            workflow_path: workflow_path.to_owned(),
            home: home.to_owned(),
            root: root.to_owned(),
            beside_workflow: false,
            is_of_worker: false,
        }
    }

    /// Creates the folders that a daemon needs, and marks them as those of this workflow.
    ///
    /// # Errors
    /// When a folder cannot be created or marked.
    pub fn create(&mut self) -> Result<(), WorkspaceError> {
        self.create_home()?;
        let workflows = self.home.join("workflows");
        private_dir(&workflows)?;
        for _ in 0..2 {
            private_dir(&self.root)?;
            if claim(&self.root, &self.workflow_path)? {
                break;
            }
            // Another workflow with the same key was faster.
            self.root = key_folder(&workflows, &self.workflow_path);
        }
        for folder in [
            self.service_dir(),
            self.records_dir(),
            self.logs_dir(),
            self.sessions_dir(),
            self.issues_dir(),
        ] {
            private_dir(&folder)?;
        }
        Ok(())
    }

    fn create_home(&self) -> Result<(), WorkspaceError> {
        let fresh = match list_folder(&self.home) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                private_dir(&self.home)?;
                true
            }
            Err(error) => return Err(WorkspaceError::io("open the folder", &self.home)(error)),
        };
        if !self.beside_workflow {
            return Ok(());
        }
        // The user's repository must not track what is Vik's. In a folder that also contains files
        // of the user, only Vik's part of it is ignored.
        let default = self.home.file_name() == Some(OsStr::new(".vik"));
        let folder = if fresh || default {
            self.home.clone()
        } else {
            self.home.join("workflows")
        };
        private_dir_if_missing(&folder)?;
        let ignore = folder.join(".gitignore");
        if ignore.symlink_metadata().is_ok() {
            return Ok(());
        }
        write_private(&ignore, b"*\n").map_err(WorkspaceError::io("write", &ignore))
    }

    /// The path of the workflow file: absolute, with the links of its folder resolved.
    pub fn workflow_path(&self) -> &Path {
        &self.workflow_path
    }

    pub fn workflow_dir(&self) -> &Path {
        self.workflow_path.parent().unwrap_or(Path::new("/"))
    }

    /// `.vik` beside the workflow, `VIK_HOME`, `~/.vik`, or the path in the workflow.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// `<home>/workflows/<key>`: everything that belongs to this workflow.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The daemon's own folder.
    pub fn service_dir(&self) -> PathBuf {
        self.root.join("service")
    }

    pub fn state_file(&self) -> PathBuf {
        self.service_dir().join("state.json")
    }

    /// The database with the ledger.
    pub fn ledger_file(&self) -> PathBuf {
        self.service_dir().join("vik.db")
    }

    /// The creation records and locks of the issue workspaces. They are outside of the workspaces,
    /// where no agent works.
    pub fn records_dir(&self) -> PathBuf {
        self.service_dir().join("issues")
    }

    /// The record that exists while an issue's workspace is being created.
    pub fn creating_record(&self, issue: &IssueId) -> PathBuf {
        self.records_dir().join(folder_name(issue) + ".creating")
    }

    /// The record of a removal in progress.
    pub fn removing_record(&self, issue: &IssueId) -> PathBuf {
        self.records_dir().join(folder_name(issue) + ".removing")
    }

    /// The checkout of a linked work tree, while its agent works in a separate repository.
    pub fn worktree_record(&self, issue: &IssueId) -> PathBuf {
        self.records_dir().join(folder_name(issue) + ".worktree")
    }

    /// The folder of what belongs to the sessions of people who have taken issues over.
    pub fn taken_over_dir(&self) -> PathBuf {
        self.root().join("taken-over")
    }

    /// The state of an issue's workspace when a person took it over.
    pub fn taken_over_base(&self, issue: &IssueId) -> PathBuf {
        self.taken_over_dir().join(folder_name(issue) + ".json")
    }

    /// The list of the processes of a person's session.
    pub fn taken_over_census(&self, issue: &IssueId) -> PathBuf {
        self.taken_over_dir().join(folder_name(issue) + ".census")
    }

    /// Vik's record of the git repository in an issue's workspace.
    pub fn git_record(&self, issue: &IssueId) -> PathBuf {
        self.records_dir().join(folder_name(issue) + ".git.json")
    }

    /// What is known on this machine about the saved work of an issue's workspace.
    pub fn durable_record(&self, issue: &IssueId) -> PathBuf {
        self.records_dir().join(folder_name(issue) + ".durable.json")
    }

    /// Since when the issues that have a workspace have been absent from pulls.
    pub fn unlisted_file(&self) -> PathBuf {
        self.service_dir().join("unlisted.json")
    }

    /// The file whose lock lets one process work in an issue's workspace.
    pub fn issue_lock(&self, issue: &IssueId) -> PathBuf {
        self.records_dir().join(folder_name(issue) + ".lock")
    }

    /// The folder of the locks of those stages of an issue that may run in parallel with another
    /// one.
    pub fn stage_locks_dir(&self, issue: &IssueId) -> PathBuf {
        self.records_dir().join(folder_name(issue) + ".stages")
    }

    /// The lock that an attempt holds for a stage that may run in parallel with another one.
    pub fn stage_lock(&self, issue: &IssueId, stage: &StageName) -> PathBuf {
        self.stage_locks_dir(issue).join(format!("{stage}.lock"))
    }

    pub fn logs_dir(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The folder outside of the workspace that an issue's agents may write to: temporary files and
    /// caches.
    pub fn scratch_dir(&self, issue: &IssueId) -> PathBuf {
        self.scratches_dir().join(folder_name(issue))
    }

    /// The folder of the scratch folders of all issues.
    pub fn scratches_dir(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// The folders outside of the workspaces that have one folder for each issue.
    pub(super) fn folders_of_issues(&self) -> [PathBuf; 3] {
        [
            self.scratches_dir(),
            self.root.join("issue-homes"),
            self.sessions_dir(),
        ]
    }

    /// The login of an agent profile with `home: private`. No agent can write it.
    pub fn agent_home(&self, agent: &AgentName) -> PathBuf {
        self.root.join("homes").join(agent.as_str())
    }

    /// The folder of the private homes of an issue's agents (`home: private`).
    pub fn issue_homes_dir(&self, issue: &IssueId) -> PathBuf {
        self.root.join("issue-homes").join(folder_name(issue))
    }

    /// The home of an agent profile with `home: private`, for one issue.
    pub fn issue_agent_home(&self, issue: &IssueId, agent: &AgentName) -> PathBuf {
        self.issue_homes_dir(issue).join(agent.as_str())
    }

    /// The folder of the session logs of all issues.
    pub fn sessions_dir(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// The folder of the session logs of one issue.
    pub fn issue_sessions_dir(&self, issue: &IssueId) -> PathBuf {
        self.sessions_dir().join(folder_name(issue))
    }

    /// The folder of the trace, and of the file contents that it refers to.
    pub fn trace_dir(&self) -> PathBuf {
        self.root.join("trace")
    }

    /// The folder of file contents, as attempts found and left them.
    pub fn contents_dir(&self) -> PathBuf {
        self.trace_dir().join("contents")
    }

    /// The last snapshot of an issue's workspace.
    pub fn last_snapshot(&self, issue: &IssueId) -> PathBuf {
        self.trace_dir().join("looks").join(folder_name(issue) + ".json")
    }

    /// The changes out of scope of a stage of an issue that were not taken back yet.
    pub fn unreverted_changes_file(&self, issue: &IssueId, stage: &StageName) -> PathBuf {
        let folder = self.trace_dir().join("owed").join(folder_name(issue));
        folder.join(format!("{stage}.json"))
    }

    /// The folder of the workspaces of all issues.
    pub fn issues_dir(&self) -> PathBuf {
        self.root.join("issues")
    }

    /// The workspace of one issue. Open it with [`super::prepare`] or [`super::open`]; the path
    /// alone proves nothing.
    pub fn issue_dir(&self, issue: &IssueId) -> PathBuf {
        self.issues_dir().join(folder_name(issue))
    }
}

/// Returns the workflow path as Vik uses it: absolute, with the links of its folder resolved if
/// that exists. The file may be missing.
///
/// # Errors
/// When the path names no file, or the current directory does not exist.
pub fn absolute_workflow_path(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let name = match path.components().next_back() {
        Some(Component::Normal(name)) => name,
        _ => {
            return Err(WorkspaceError::NotAFile {
                path: path.to_owned(),
            });
        }
    };
    let absolute = std::path::absolute(path).map_err(WorkspaceError::io("open the folder", path))?;
    let folder = absolute.parent().unwrap_or(Path::new("/"));
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| normalize(folder));
    Ok(folder.join(name))
}

/// Resolves a path from a workflow: absolute, below the user's home directory (`~/`), or relative
/// to a folder.
pub fn resolve_path(folder: &Path, path: &str) -> PathBuf {
    match (Path::new(path).strip_prefix("~"), user_home()) {
        (Ok(suffix), Ok(home)) => home.join(suffix),
        _ => folder.join(path),
    }
}

/// Returns the user's home directory.
pub(super) fn user_home() -> Result<PathBuf, WorkspaceError> {
    if let Some(home) = std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute())
    {
        return Ok(home);
    }
    match nix::unistd::User::from_uid(nix::unistd::getuid()) {
        Ok(Some(user)) if user.dir.is_absolute() => Ok(user.dir),
        _ => Err(WorkspaceError::NoHomeDirectory),
    }
}

/// Removes `.` and `..` from an absolute path, by its text alone.
pub fn normalize(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            other => result.push(other),
        }
    }
    result
}

/// Returns the folder of a workflow below `<home>/workflows`.
fn key_folder(workflows: &Path, workflow_path: &Path) -> PathBuf {
    let bytes = workflow_path.as_os_str().as_bytes();
    let hash = short_hash(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        let text = String::from_utf8_lossy(bytes).replace('/', "-");
        return workflows.join(shortened(&text, &hash));
    };
    let key = text.replace('/', "-");
    let hashed = workflows.join(shortened(&key, &hash));
    if key.len() > MAX_KEY_BYTES {
        return hashed;
    }
    // `/a-b/c` and `/a/b-c` have the same key: the first workflow keeps it, the other one gets a
    // hash.
    let plain = workflows.join(&key);
    let foreign = owner(&plain).is_some_and(|owner| owner != bytes);
    let moved = owner(&hashed).is_some_and(|owner| owner == bytes);
    if foreign || moved { hashed } else { plain }
}

/// Returns the end of a key, which is more specific than its start, and a hash.
fn shortened(key: &str, hash: &str) -> String {
    let mut start = key.len().saturating_sub(MAX_KEY_BYTES - hash.len() - 1);
    while !key.is_char_boundary(start) {
        start += 1;
    }
    format!("{}-{hash}", &key[start..])
}

fn owner(root: &Path) -> Option<Vec<u8>> {
    let mut bytes = read(&root.join(OWNER_FILE)).ok()?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Some(bytes)
}

/// Marks a folder as that of this workflow; returns `false` if it belongs to another one.
fn claim(root: &Path, workflow_path: &Path) -> Result<bool, WorkspaceError> {
    let bytes = workflow_path.as_os_str().as_bytes();
    if let Some(owner) = owner(root) {
        return Ok(owner == bytes);
    }
    let mut content = bytes.to_vec();
    content.push(b'\n');
    let path = root.join(OWNER_FILE);
    write_atomic(&path, &content).map_err(WorkspaceError::io("write", &path))?;
    // If two processes write at once, the last one wins, and the first one detects it here.
    Ok(owner(root).is_some_and(|owner| owner == bytes))
}

fn private_dir(path: &Path) -> Result<(), WorkspaceError> {
    create_private_dir_all(path).map_err(WorkspaceError::io("create the folder", path))
}

/// Creates a private folder if it is missing. The mode of an existing folder is the choice of its
/// owner.
fn private_dir_if_missing(path: &Path) -> Result<(), WorkspaceError> {
    if path.is_dir() { Ok(()) } else { private_dir(path) }
}

/// Returns the paths of the censuses in a home: those of attempts whose processes are not proven to
/// have ended.
pub fn censuses(root: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        list_folder(folder)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    };
    list(&root.join("sessions"))
        .iter()
        .flat_map(|issue| list(issue))
        .filter(|path| path.extension().is_some_and(|extension| extension == "census"))
        .collect()
}
