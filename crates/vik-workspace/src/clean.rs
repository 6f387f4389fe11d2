//! Checks whether a workspace can be removed without losing work. What an [`InspectionView`] cannot
//! determine counts as work to keep.

use std::path::Path;

use vik_proc::Supervisor;

use super::inspection::{InspectionError, InspectionView};

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
    let view = match InspectionView::make(workspace, scratch) {
        Ok(Some(view)) => view,
        Ok(None) => return UnsavedWork::Nothing,
        Err(InspectionError::NoRepository) => return UnsavedWork::Files,
        Err(InspectionError::Io(error)) => return UnsavedWork::Unknown(error.to_string()),
    };
    let found = classify(supervisor, &view).await;
    found.unwrap_or_else(UnsavedWork::Unknown)
}

async fn classify(supervisor: &Supervisor, view: &InspectionView) -> Result<UnsavedWork, String> {
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
