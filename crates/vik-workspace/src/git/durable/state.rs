//! What the ref of an issue says: which attempt holds the issue, and its saved work.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use vik_core::ids::IssueId;

use crate::git::is_id;
use crate::name::unique_name;

/// The ref of an issue at the remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkRef(String);

impl WorkRef {
    /// Returns the ref of an issue. `queue` separates workflows with the same remote.
    pub fn new(queue: &str, issue: &IssueId) -> Self {
        Self(format!(
            "refs/vik/{}/{}",
            unique_name(queue),
            unique_name(issue.as_str())
        ))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The work of a workspace, as commits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedWork {
    /// The fencing number of the attempt that saved it.
    pub number: u64,
    /// The branch that was checked out; `None` for a detached `HEAD`.
    pub branch: Option<String>,
    /// The commit that was checked out; `None` if there was none.
    pub head: Option<String>,
    /// A commit with the staged files, with `head` as its parent; `None` during a merge with
    /// conflicts.
    pub index: Option<String>,
    /// A commit with all files that are not ignored, with `head` and `index` as its parents.
    pub files: String,
    /// Whether there was something uncommitted.
    pub is_uncommitted: bool,
}

impl SavedWork {
    /// Returns whether two workspaces have the same commits and files.
    pub fn is_same_work(&self, other: &Self) -> bool {
        let numbered = Self {
            number: other.number,
            ..self.clone()
        };
        numbered == *other
    }
}

impl SavedWork {
    /// Returns whether all of its commits are ids, and not other text of the remote.
    pub(super) fn names_commits(&self) -> bool {
        let ids = self.head.iter().chain(&self.index).chain([&self.files]);
        ids.into_iter().all(|id| is_id(id))
    }
}

impl fmt::Display for SavedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.head {
            Some(head) => write!(f, "commit {head}")?,
            None => f.write_str("no commit")?,
        }
        if let Some(branch) = &self.branch {
            write!(f, " of branch `{branch}`")?;
        }
        if self.is_uncommitted {
            write!(f, ", with uncommitted changes in {}", self.files)?;
        }
        Ok(())
    }
}

/// The message of the commit that the ref names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The fencing number of the attempt that holds the issue.
    pub holder: u64,
    pub saved: Option<SavedWork>,
    /// Makes each commit a different one, so that a push of it is never skipped.
    pub id: Uuid,
}

impl State {
    pub fn new(holder: u64, saved: Option<SavedWork>) -> Self {
        Self {
            holder,
            saved,
            id: Uuid::now_v7(),
        }
    }

    /// Returns the same state as another commit.
    pub fn renewed(self) -> Self {
        Self::new(self.holder, self.saved)
    }
}
