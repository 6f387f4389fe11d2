//! What Vik knows on this machine about the saved work of a workspace.

use serde::{Deserialize, Serialize};
use vik_core::ids::IssueId;

use super::{GitError, SavedWork};
use crate::Layout;
use crate::fs::{read_json_if_exists, write_json_atomic};

/// What is known on this machine about the saved work of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurableRecord {
    /// Whether `after_create` has just made the workspace: it has no work of its own.
    #[serde(default)]
    pub is_new: bool,
    /// The number of the last attempt that held the issue while it worked here.
    #[serde(default)]
    pub claimed: Option<u64>,
    /// The work that was last saved from this workspace, or restored to it.
    #[serde(default)]
    pub saved: Option<SavedWork>,
    /// The work that is being sent.
    #[serde(default)]
    pub sending: Option<SavedWork>,
    /// The work that is being restored: until it is done, the workspace has nothing else.
    #[serde(default)]
    pub restoring: Option<SavedWork>,
}

/// Notes that the workspace of an issue was made by `after_create`, before an agent works there.
///
/// # Errors
/// Returns an error if the record cannot be written.
pub fn note_created(layout: &Layout, issue: &IssueId) -> Result<(), GitError> {
    let record = DurableRecord {
        is_new: true,
        ..DurableRecord::default()
    };
    record.write(layout, issue)
}

impl DurableRecord {
    /// Reads the record of an issue's workspace. Without one, nothing is known.
    ///
    /// # Errors
    /// Returns an error if it cannot be read.
    pub fn read(layout: &Layout, issue: &IssueId) -> Result<Self, GitError> {
        let path = layout.durable_record(issue);
        let found = read_json_if_exists(&path).map_err(GitError::io("read", &path))?;
        Ok(found.unwrap_or_default())
    }

    /// Writes the record of an issue's workspace.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn write(&self, layout: &Layout, issue: &IssueId) -> Result<(), GitError> {
        let path = layout.durable_record(issue);
        write_json_atomic(&path, self).map_err(GitError::io("write", &path))
    }

    /// Returns whether the workspace has this work, or newer work.
    pub(super) fn has(&self, work: &SavedWork) -> bool {
        let known = self.saved.iter().chain(&self.sending);
        !self.is_new && self.restoring.is_none() && known.map(|known| known.number).max() >= Some(work.number)
    }
}
