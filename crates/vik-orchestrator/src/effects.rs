//! The seam below the loop: what carries out its decisions.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_base::report::Failure;
use vik_core::attempt::Start;
use vik_core::ids::IssueId;
use vik_core::issue::{Issue, Pull, Wanted};
use vik_core::machine::TakenOver;
use vik_core::scheduler::{Expired, LookupResult, RemovalCause};
use vik_core::time::Now;
use vik_session::attempt::AttemptHandle;
use vik_workflow::LoadedWorkflow;

pub use vik_session::removal::Removal;

use crate::Progress;
use crate::expired::{ExpiryTimes, Inventory};
use crate::intake::PullError;

/// A result that comes later. Its work does not wait until somebody polls it, and dropping it does
/// not cancel the work.
pub type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the loop needs carried out, and where it learns the time.
///
/// The loop decides, commits, and only then calls these methods. None of them may block. The
/// implementation keeps the workflow in force: an attempt keeps the one it started with.
///
/// [`LocalEffects`](crate::LocalEffects) uses this machine. What needs the workspace of an issue may
/// be carried out on others: see [`WorkspaceEffects`].
pub trait Effects: Send {
    /// Returns what carries out the decisions that need a workspace.
    fn workspaces(&mut self) -> &mut dyn WorkspaceEffects;

    /// Returns the time. The monotonic clock starts anywhere and never goes back.
    fn now(&self) -> Now;

    fn sleep(&self, wait: Duration) -> Task<()>;

    /// Pulls issues from the tracker. The loop runs one pull at a time.
    fn pull(&mut self) -> Task<Result<PullOutput, PullError>>;

    /// Reads the output of a pull, of which the `wanted` issues are kept.
    fn read_pull(&mut self, output: PullOutput, wanted: Wanted) -> Task<Result<Pull, PullError>>;

    /// Looks up one issue. The error is a message for people.
    fn look_up(&mut self, issue: &IssueId) -> Task<Result<LookupResult, String>>;

    /// Moves an issue from one state to another in the tracker. The error is a message for people.
    fn move_issue(&mut self, issue: &IssueId, from: &str, to: &str) -> Task<Result<(), String>>;

    /// Searches for data that is older than the workflow keeps it. `listed` are the issues that
    /// pulls list.
    fn find_expired(&mut self, listed: HashSet<IssueId>) -> Task<ExpiryScan>;

    /// Removes data that was last used before a time. The error is the reason why it is kept.
    fn remove_expired(
        &mut self,
        expired: &Expired,
        before: Timestamp,
    ) -> Task<Result<ExpiredRemoval, String>>;

    /// Cancels pulls and lookups, now and later: nothing starts any more.
    fn cancel_lookups(&mut self);

    /// Returns why nothing should start now, such as a full disk. `is_held` tells whether starts
    /// are held already.
    fn pressure(&mut self, is_held: bool) -> Option<String>;

    /// Puts an edited workflow in force.
    ///
    /// # Errors
    /// When its agents cannot run. The previous workflow stays in force.
    fn adopt_workflow(&mut self, loaded: &LoadedWorkflow) -> Result<(), Failure>;

    /// Publishes what happened, for people.
    fn publish(&mut self, progress: &Progress<'_>);

    /// Records that the daemon entered another state, such as `draining`.
    fn record_state(&mut self, state: &str, error: Option<&str>);
}

/// What the loop needs carried out where the workspaces are, on this machine or on others.
///
/// It has the rules of [`Effects`].
pub trait WorkspaceEffects: Send {
    /// Starts an attempt, or recovers it if any daemon has started it before. The attempt reports
    /// its end to the handle, however it ends.
    fn start(&mut self, start: Arc<Start>) -> AttemptHandle;

    /// Repeats the hand-over of an attempt. Its end is reported to the handle, as
    /// [`Finish::HandedOver`](vik_session::attempt::Finish::HandedOver).
    fn hand_over(&mut self, start: Arc<Start>) -> AttemptHandle;

    /// Returns the path of the session log of an attempt, on the machine where the attempt runs.
    fn attempt_log(&self, start: &Start) -> PathBuf;

    /// Returns how long agents live without a daemon.
    fn orphan_grace(&self) -> Duration;

    /// Records what a person changed in the workspace of an issue that they have taken over, and
    /// returns the paths. The error is a message for people.
    fn record_changes(&mut self, issue: &IssueId, hold: &TakenOver) -> Task<Result<Vec<String>, String>>;

    /// Removes the workspace of an issue, if the workflow allows it.
    fn remove_workspace(&mut self, issue: Box<Issue>, cause: RemovalCause) -> Task<Removal>;

    /// Lists the workspaces, and the files that were last used before these times.
    fn take_inventory(&mut self, before: ExpiryTimes) -> Task<Inventory>;

    /// Removes files that were last used before a time. The error is the reason why they are kept.
    fn remove_expired_files(
        &mut self,
        expired: &Expired,
        before: Timestamp,
    ) -> Task<Result<ExpiredRemoval, String>>;

    /// Ends the hooks of removals without grace, now and later.
    fn kill_removals(&mut self);

    /// Puts an edited workflow in force.
    ///
    /// # Errors
    /// When its agents cannot run. The previous workflow stays in force.
    fn adopt_workflow(&mut self, loaded: &LoadedWorkflow) -> Result<(), Failure>;
}

/// A digest of the output of a pull, under a key of the process, so that nobody can craft a list
/// with an equal digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullDigest(pub u64);

/// What a pull printed.
#[derive(Debug)]
pub struct PullOutput {
    pub text: Vec<u8>,
    pub digest: PullDigest,
}

/// The findings of a search for data that is older than the workflow keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpiryScan {
    pub expired: Vec<Expired>,
    /// The issues that have a workspace.
    pub workspaces: BTreeSet<IssueId>,
    /// Since when the issues that have a workspace have been absent from pulls.
    pub unlisted: BTreeMap<IssueId, Timestamp>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// What a removal of old data removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiredRemoval {
    /// The number of folders or records.
    pub count: u64,
    /// On disk; 0 for the ledger, whose file keeps its size.
    pub bytes: u64,
    /// Whether there is more to remove.
    pub has_more: bool,
}
