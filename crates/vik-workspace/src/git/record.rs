//! The record of a workspace's repository, taken when `after_create` has ended and before an agent
//! could change it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use vik_core::ids::IssueId;

use super::GitError;
use super::repository::{Repository, RepositoryLocation};
use super::settings::parse;
use crate::fs::{create_private_dir_all, read_json_if_exists, write_json_atomic, write_private};
use crate::{Layout, VIEW_PREFIX, Workspace, normalize};

/// The repository of a workspace when `after_create` had ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The location of the repository.
    pub place: RepositoryLocation,
    /// The hash algorithm of its object ids, `sha1` or `sha256`.
    pub object_format: String,
    /// The content of `objects/info/alternates`; empty if there is none.
    #[serde(default)]
    pub alternates: String,
    /// The content of `info/exclude`; empty if there is none.
    #[serde(default)]
    pub exclude: String,
    /// The content of `info/sparse-checkout`; empty if there is none.
    #[serde(default)]
    pub sparse_checkout: String,
    /// The branch that was checked out.
    pub branch: Option<String>,
    /// The remotes by name.
    pub remotes: BTreeMap<String, Remote>,
    /// The settings that determine how files are written to the work tree.
    #[serde(default)]
    pub settings: Vec<(String, String)>,
    /// The URL of the Git LFS server, if the project or the clone specified one.
    #[serde(default)]
    pub lfs_url: Option<String>,
    /// The remote-tracking refs: an id, or `ref: NAME`. Only Vik's own fetches and pushes change
    /// them.
    #[serde(default)]
    pub tracking: BTreeMap<String, String>,
    /// The submodules that were checked out, by path.
    #[serde(default)]
    pub submodules: BTreeMap<String, SavedRecord>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remote {
    /// The URL for fetches.
    pub url: String,
    /// The URL for pushes, if it is another one.
    #[serde(default)]
    pub push_url: Option<String>,
    /// The refspecs of fetches.
    #[serde(default)]
    pub fetch: Vec<String>,
    /// Whether objects may be missing locally because this remote has them (a partial clone).
    #[serde(default)]
    pub promisor: bool,
    /// The filter that defines which objects are left out.
    #[serde(default)]
    pub filter: Option<String>,
}

/// The contents of a record file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SavedRecord {
    /// The workspace has a repository.
    Repository(Box<Record>),
    /// The workspace has no usable repository, for this reason.
    Unusable(String),
}

/// Reads the record of an issue's workspace. Returns `None` if there is none.
///
/// # Errors
/// Returns an error if it cannot be read.
pub fn read_record(layout: &Layout, issue: &IssueId) -> Result<Option<SavedRecord>, GitError> {
    let path = layout.git_record(issue);
    read_json_if_exists(&path).map_err(GitError::io("read", &path))
}

/// Writes the record of an issue's workspace.
///
/// # Errors
/// Returns an error if it cannot be written.
pub fn write_record(layout: &Layout, issue: &IssueId, record: &SavedRecord) -> Result<(), GitError> {
    let path = layout.git_record(issue);
    write_json_atomic(&path, record).map_err(GitError::io("write", &path))
}

impl Record {
    /// Creates a record on behalf of a person or a hook, for a workspace in which an agent has
    /// already worked: the push target is given, and no setting comes from the workspace.
    ///
    /// # Errors
    /// Returns an error if there is no repository in the workspace, or if the repository does not
    /// refer back to the workspace.
    pub fn from_remote(
        layout: &Layout,
        workspace: &Workspace,
        remote: &str,
        url: &str,
        branch: Option<&str>,
    ) -> Result<Self, GitError> {
        let place = RepositoryLocation::find(workspace, workspace.path())?
            .ok_or_else(|| GitError::NotUsable("the workspace is not a git repository".to_owned()))?;
        if matches!(&place, RepositoryLocation::Linked { own, common } if own == common) {
            let reason = "its repository is outside of the workspace and does not refer back to it";
            return Err(GitError::NotUsable(reason.to_owned()));
        }
        let repository = Repository::open(workspace, workspace.path(), &place)?;
        let settings = local_settings(layout, repository.read_common("config")?)?;
        let is_sha256 =
            |(key, value): &(String, String)| key == "extensions.objectformat" && value == "sha256";
        let remote_settings = Remote {
            url: absolute_url(url, workspace.path()),
            ..Remote::default()
        };
        Ok(Self {
            place,
            object_format: if settings.iter().any(is_sha256) {
                "sha256"
            } else {
                "sha1"
            }
            .to_owned(),
            alternates: String::new(),
            exclude: String::new(),
            sparse_checkout: String::new(),
            branch: branch.map(str::to_owned),
            remotes: [(remote.to_owned(), remote_settings)].into(),
            settings: Vec::new(),
            lfs_url: None,
            tracking: BTreeMap::new(),
            submodules: BTreeMap::new(),
        })
    }

    /// Returns the remote that is used if none is named.
    pub fn default_remote(&self) -> Option<&str> {
        let only = self.remotes.keys().next().filter(|_| self.remotes.len() == 1);
        let origin = self.remotes.contains_key("origin").then_some("origin");
        origin.or(only.map(String::as_str))
    }
}

/// Has git parse the settings in the text of a file; keys are in lower case except for subsections.
/// Includes are not followed.
///
/// # Errors
/// If git cannot be run, or the text is not a valid file of settings.
pub fn local_settings(layout: &Layout, text: Option<String>) -> Result<Vec<(String, String)>, GitError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let id = uuid::Uuid::now_v7().simple();
    let folder = layout.service_dir().join(format!("{VIEW_PREFIX}{id}"));
    let file = folder.join("config");
    create_private_dir_all(&folder).map_err(GitError::io("make", &folder))?;
    write_private(&file, text.as_bytes()).map_err(GitError::io("write", &file))?;
    let output = Command::new("git")
        .args(["config", "--file"])
        .arg(&file)
        .args(["--no-includes", "--list", "-z"])
        .env_remove("GIT_DIR")
        .env("GIT_CEILING_DIRECTORIES", "/")
        .current_dir("/")
        .stdin(Stdio::null())
        .output();
    let _ = std::fs::remove_dir_all(&folder);
    let failed = |how: String| GitError::Git {
        verb: "config".to_owned(),
        how,
    };
    let output = output.map_err(|error| failed(format!("could not be started: {error}")))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(parse(&output.stdout))
}

/// Returns the remotes in the settings, which have keys of the form `remote.NAME.KEY`.
pub fn remotes(settings: &[(String, String)], workspace: &Path) -> BTreeMap<String, Remote> {
    let mut remotes: BTreeMap<String, Remote> = BTreeMap::new();
    for (key, value) in settings {
        let named = key
            .strip_prefix("remote.")
            .and_then(|suffix| suffix.rsplit_once('.'));
        let Some((name, key)) = named else { continue };
        let remote = remotes.entry(name.to_owned()).or_default();
        match key {
            "url" if remote.url.is_empty() => remote.url = absolute_url(value, workspace),
            "pushurl" if remote.push_url.is_none() => remote.push_url = Some(absolute_url(value, workspace)),
            "fetch" => remote.fetch.push(value.clone()),
            "promisor" => remote.promisor = value == "true",
            "partialclonefilter" => remote.filter = Some(value.clone()),
            _ => {}
        }
    }
    remotes.retain(|_, remote| !remote.url.is_empty());
    remotes
}

/// Makes a URL absolute if git interprets it as a relative path, because git runs in another
/// folder. Other URLs stay unchanged.
fn absolute_url(url: &str, workspace: &Path) -> String {
    match local_path(url) {
        Some(path) if path.is_relative() => normalize(&workspace.join(path)).to_string_lossy().into_owned(),
        _ => url.to_owned(),
    }
}

/// Returns the path of a URL that names a local path.
pub fn local_path(url: &str) -> Option<PathBuf> {
    if let Some(path) = url.strip_prefix("file://") {
        return Some(path.into());
    }
    let colon = url.find(':');
    let slash = url.find('/').unwrap_or(url.len());
    // Not local: `host:path`, `https://…`, `helper::address`.
    colon.is_none_or(|colon| colon >= slash).then(|| url.into())
}

/// The variables that would direct git to another repository.
pub const REPOSITORY_VARIABLES: [&str; 17] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_ATTR_SOURCE",
    "GIT_CEILING_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_DEFAULT_HASH",
    "GIT_DEFAULT_REF_FORMAT",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];

/// Returns `PATH` without folders that are relative or in the workspace.
pub fn safe_path(workspace: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).filter(|folder| folder.is_absolute() && !folder.starts_with(workspace));
    std::env::join_paths(folders).unwrap_or_default()
}
