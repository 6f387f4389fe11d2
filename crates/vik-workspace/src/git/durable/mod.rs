//! Durable workspaces: the work of an issue in a ref of its remote, `workspace.durable`.
//!
//! Each issue has one ref at the remote. Its commit says which attempt holds the issue, by a fencing
//! number, and what was saved last; its parents are the saved commits. Every push replaces this ref
//! only if it still has the commit that was read before, so an attempt of which a newer one has
//! taken the ref over can push no more.

mod claim;
mod record;
mod remote;
mod save;
mod state;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use vik_core::ids::IssueId;

pub use record::{DurableRecord, note_created};
pub use state::{SavedWork, WorkRef};

use super::{GitError, Record, View};
use crate::{Layout, Workspace};

/// How often a step is tried while other processes move the ref of the issue.
const MAX_TRIES: usize = 5;

/// An attempt that works in a durable workspace.
#[derive(Debug)]
pub struct Durable<'a> {
    pub layout: &'a Layout,
    pub issue: &'a IssueId,
    pub workspace: &'a Workspace,
    pub record: &'a Record,
    /// The name of the remote.
    pub remote: &'a str,
    pub work_ref: WorkRef,
    /// The fencing number of the attempt.
    pub number: u64,
}

/// The variable with the fencing number of an attempt in a durable workspace, for `vik git push`.
pub const NUMBER_VARIABLE: &str = "VIK_FENCING_NUMBER";

/// The variable with the queue of the workflow of such an attempt.
pub const QUEUE_VARIABLE: &str = "VIK_DURABLE_QUEUE";

/// The variable with the remote of such an attempt, if the workflow names one.
pub const REMOTE_VARIABLE: &str = "VIK_DURABLE_REMOTE";

/// The arguments that make a push succeed only while the attempt holds the issue: together with what
/// it pushes, it replaces the ref of the issue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushFence {
    pub options: [String; 2],
    pub refspec: String,
}

/// The result of a step of a durable workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum DurableResult {
    /// The attempt holds the issue, and the workspace has the work that was saved last.
    Claimed {
        work_ref: WorkRef,
        /// The work that was restored, if the workspace did not have it.
        restored: Option<SavedWork>,
    },
    /// The work of the workspace is at the remote.
    Saved {
        work_ref: WorkRef,
        work: SavedWork,
        /// Whether anything had to be sent.
        is_new: bool,
        /// Folders with repositories of their own, which are not saved.
        left_out: Vec<String>,
    },
    /// The ref was removed, or it belongs to a newer attempt, or there is none.
    Removed,
    /// The attempt did not get as far as holding the issue, so it has nothing to save.
    NotClaimed,
    /// An attempt with this number holds the issue; 0 if the ref was removed.
    Fenced { holder: u64 },
    /// The workspace has work that was never saved, and the remote has newer work of another
    /// machine.
    Diverged { saved: SavedWork },
    /// Nothing was done, or not all of it.
    Failed {
        reason: String,
        /// Whether it may succeed if nothing is changed, such as after an error of the network.
        is_temporary: bool,
    },
}

impl Durable<'_> {
    fn open_view(&self) -> Result<View, GitError> {
        if !self.record.sparse_checkout.is_empty() {
            let reason = "`workspace.durable` does not support a sparse checkout";
            return Err(GitError::NotUsable(reason.to_owned()));
        }
        let view = View::open(
            self.layout,
            self.workspace,
            self.record,
            super::Tracking::OfRecord,
        )?;
        view.check_programs()?;
        Ok(view)
    }

    fn read_record(&self) -> Result<DurableRecord, GitError> {
        DurableRecord::read(self.layout, self.issue)
    }

    /// Removes the ref of the issue, if the last attempt in this workspace still holds it.
    ///
    /// # Errors
    /// Returns an error if the remote cannot be read, or refuses the removal.
    pub fn remove(&self) -> Result<DurableResult, GitError> {
        let record = self.read_record()?;
        let Some(number) = record.claimed else {
            return Ok(DurableResult::Removed);
        };
        let view = self.open_view()?;
        for _ in 0..MAX_TRIES {
            let found = self.read_remote(&view)?;
            let Some(found) = found.filter(|found| found.state.holder == number) else {
                return Ok(DurableResult::Removed);
            };
            if self.push(&view, Some(&found.id), None)? {
                return Ok(DurableResult::Removed);
            }
        }
        Err(self.busy())
    }

    /// Prepares a push of something else from a view of the workspace. Returns the number of the
    /// attempt that holds the issue as an error, if it is another one.
    ///
    /// # Errors
    /// Returns an error if the remote cannot be read.
    pub fn fence(&self, view: &View) -> Result<Result<PushFence, u64>, GitError> {
        let found = match self.read_remote(view)? {
            Some(found) if found.state.holder == self.number => found,
            found => return Ok(Err(found.map_or(0, |found| found.state.holder))),
        };
        let next = self.write_state(view, &found.state.renewed())?;
        Ok(Ok(PushFence {
            options: [
                "--atomic".to_owned(),
                format!("--force-with-lease={}:{}", self.work_ref, found.id),
            ],
            refspec: format!("{next}:{}", self.work_ref),
        }))
    }

    /// Returns the error for a ref that other processes keep moving.
    fn busy(&self) -> GitError {
        GitError::Git {
            verb: "push".to_owned(),
            how: format!("failed {MAX_TRIES} times: {} keeps changing", self.work_ref),
        }
    }
}
