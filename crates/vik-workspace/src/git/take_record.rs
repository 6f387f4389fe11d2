//! Takes the record of a repository in its present state.

use std::collections::BTreeMap;

use vik_core::ids::IssueId;

use super::record::{Record, SavedRecord, local_settings, remotes, write_record};
use super::repository::{Head, Repository, RepositoryLocation, WorkTree};
use super::view::{Tracking, View};
use super::{GitError, files, submodules};
use crate::{Layout, Workspace};

/// Settings of the clone that determine how files are written to the work tree. None of them runs a
/// program or names a file.
const KEPT_SETTINGS: [&str; 10] = [
    "core.autocrlf",
    "core.bigfilethreshold",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.safecrlf",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.symlinks",
];

/// Records the repository of a workspace in which no agent has worked yet. Blocks.
///
/// # Errors
/// Returns an error if the record cannot be written. An unusable repository is not an error: the
/// record contains the reason.
pub fn take_record(layout: &Layout, issue: &IssueId, workspace: &Workspace) -> Result<(), GitError> {
    write_record(layout, issue, &SavedRecord::of(layout, workspace.into()))
}

impl SavedRecord {
    /// Returns the record of the repository in its present state, or the reason why it is unusable.
    pub(super) fn of(layout: &Layout, tree: WorkTree<'_>) -> Self {
        match Record::of(layout, tree) {
            Ok(Some(record)) => Self::Repository(Box::new(record)),
            Ok(None) => Self::Unusable(
                "the workspace was not a git repository when `after_create` finished".to_owned(),
            ),
            Err(error) => Self::Unusable(vik_base::report::chain(&error)),
        }
    }
}

impl Record {
    /// Returns the record of the repository in its present state; `None` if there is no repository.
    fn of(layout: &Layout, tree: WorkTree<'_>) -> Result<Option<Self>, GitError> {
        let Some(place) = RepositoryLocation::find(&tree.folder, tree.path)? else {
            return Ok(None);
        };
        let repository = Repository::open(&tree.folder, tree.path, &place)?;
        let mut settings = local_settings(layout, repository.read_common("config")?)?;
        settings.extend(local_settings(layout, repository.read_own("config.worktree")?)?);
        let value = |wanted: &str| {
            let found = settings.iter().rev().find(|(key, _)| key == wanted);
            found.map(|(_, value)| value.clone())
        };
        if let Some(storage) = value("extensions.refstorage").filter(|storage| storage != "files") {
            let reason = format!("its refs are stored as `{storage}`, which `vik git` does not support");
            return Err(GitError::NotUsable(reason));
        }
        let branch = match repository.head()? {
            Head::Branch(name) => name.strip_prefix("refs/heads/").map(str::to_owned),
            Head::Commit(_) => None,
        };
        let is_kept = |key: &str| KEPT_SETTINGS.contains(&key);
        let lfs_config = files::read_text(&tree.folder, ".lfsconfig").ok().flatten();
        let lfs_url = local_settings(layout, lfs_config)?
            .into_iter()
            .find(|(key, _)| key == "lfs.url")
            .map(|(_, value)| value);
        let mut record = Self {
            object_format: value("extensions.objectformat").unwrap_or_else(|| "sha1".to_owned()),
            alternates: repository
                .read_common("objects/info/alternates")?
                .unwrap_or_default(),
            exclude: repository.read_common("info/exclude")?.unwrap_or_default(),
            sparse_checkout: repository
                .read_own("info/sparse-checkout")
                .ok()
                .flatten()
                .unwrap_or_default(),
            branch,
            remotes: remotes(&settings, tree.path),
            lfs_url: value("lfs.url").or(lfs_url),
            settings: settings.into_iter().filter(|(key, _)| is_kept(key)).collect(),
            tracking: BTreeMap::new(),
            submodules: BTreeMap::new(),
            place,
        };
        let view = View::open(layout, tree, &record, Tracking::OfWorkspace)?;
        record.tracking = view.tracking()?;
        record.submodules = submodules::records(layout, tree, &view)?;
        Ok(Some(record))
    }
}
