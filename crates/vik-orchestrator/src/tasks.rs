//! Lookups of issues and removals that run beside the loop.

use std::collections::{HashMap, HashSet};
use std::future::Future;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use jiff::Timestamp;
use vik_core::ids::{IssueId, StageName};
use vik_core::issue::Issue;
use vik_core::machine::TakenOver;
use vik_core::scheduler::{Actor, Expired, LookupResult, Recalled, RemovalCause};

use crate::commit_queue::{CommitFailure, CommitQueue};
use crate::effects::{Effects, ExpiredRemoval, ExpiryScan, Removal, Task};

/// The number of issues of which the last error of a lookup is kept, so that it is logged once.
const MAX_LOOKUP_ERRORS: usize = 1000;

/// The end of a task.
pub(crate) enum TaskEnd {
    LookedUp(IssueId, Result<LookupResult, String>),
    Removed(IssueId, RemovalCause, Removal),
    Scanned(ExpiryScan),
    /// An issue was looked up for [`Action::RunAgain`](vik_api::Action::RunAgain).
    FoundForMove(Box<MoveBack>, Result<LookupResult, String>),
    /// It was moved from this state.
    MovedBack(Box<MoveBack>, String, Result<(), String>),
    /// What a person changed was recorded for [`Action::HandBack`](vik_api::Action::HandBack).
    ChangesRecorded(Box<ReturnedIssue>, Result<Vec<String>, String>),
    ExpiredRemoved(Expired, Result<ExpiredRemoval, String>),
    /// The ledger was asked for an issue that a lookup has found.
    Recalled(IssueId, LookupResult, Result<Recall, CommitFailure>),
}

/// A request to run a stage again.
pub(crate) struct MoveBack {
    pub(crate) issue: IssueId,
    pub(crate) stage: StageName,
    /// The state of the stage.
    pub(crate) to: String,
    pub(crate) by: Actor,
    /// The number of the request that is to be answered.
    pub(crate) request: u64,
}

/// A request to hand an issue back that a person had taken over.
pub(crate) struct ReturnedIssue {
    pub(crate) issue: IssueId,
    pub(crate) message: Option<String>,
    pub(crate) by: Actor,
    /// The number of the request that is to be answered.
    pub(crate) request: u64,
}

/// What the ledger has of an issue, and how often the scheduler had dropped issues when it was
/// asked.
pub(crate) struct Recall {
    pub(crate) recalled: Recalled,
    pub(crate) evictions: u64,
}

/// The running lookups and removals.
#[derive(Default)]
pub(crate) struct BackgroundTasks {
    tasks: FuturesUnordered<Task<TaskEnd>>,
    /// The issues whose last lookup failed, and why.
    lookup_errors: HashMap<IssueId, String>,
}

impl BackgroundTasks {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(crate) fn look_up(&self, issue: IssueId, effects: &mut dyn Effects) {
        let lookup = effects.look_up(&issue);
        self.push(async { TaskEnd::LookedUp(issue, lookup.await) });
    }

    pub(crate) fn look_up_for_move(&self, request: MoveBack, effects: &mut dyn Effects) {
        let result = effects.look_up(&request.issue);
        self.push(async move { TaskEnd::FoundForMove(Box::new(request), result.await) });
    }

    pub(crate) fn move_back(&self, request: MoveBack, from: String, effects: &mut dyn Effects) {
        let result = effects.move_issue(&request.issue, &from, &request.to);
        self.push(async move { TaskEnd::MovedBack(Box::new(request), from, result.await) });
    }

    pub(crate) fn record_changes(&self, request: ReturnedIssue, hold: &TakenOver, effects: &mut dyn Effects) {
        let result = effects.workspaces().record_changes(&request.issue, hold);
        self.push(async move { TaskEnd::ChangesRecorded(Box::new(request), result.await) });
    }

    pub(crate) fn remove_workspace(&self, issue: Box<Issue>, cause: RemovalCause, effects: &mut dyn Effects) {
        let id = issue.id.clone();
        let removal = effects.workspaces().remove_workspace(issue, cause);
        self.push(async move { TaskEnd::Removed(id, cause, removal.await) });
    }

    pub(crate) fn find_expired(&self, listed: HashSet<IssueId>, effects: &mut dyn Effects) {
        let scan = effects.find_expired(listed);
        self.push(async { TaskEnd::Scanned(scan.await) });
    }

    pub(crate) fn remove_expired(&self, expired: Expired, before: Timestamp, effects: &mut dyn Effects) {
        let removal = effects.remove_expired(&expired, before);
        self.push(async { TaskEnd::ExpiredRemoved(expired, removal.await) });
    }

    /// Asks the ledger for the issue of a lookup.
    pub(crate) fn recall(&self, issue: IssueId, result: LookupResult, evictions: u64, commits: &CommitQueue) {
        let machines = commits.recall(vec![issue.clone()]);
        self.push(async move {
            let recall = machines.await.map(|machines| Recall {
                recalled: Recalled::new([issue.clone()], machines),
                evictions,
            });
            TaskEnd::Recalled(issue, result, recall)
        });
    }

    fn push(&self, task: impl Future<Output = TaskEnd> + Send + 'static) {
        self.tasks.push(Box::pin(task));
    }

    /// Waits for the next end; never returns if nothing runs. Cancelling the call loses nothing.
    pub(crate) async fn next(&mut self) -> TaskEnd {
        match self.tasks.next().await {
            Some(end) => end,
            None => std::future::pending().await,
        }
    }

    /// Logs the error of a lookup, and returns its result for the scheduler.
    pub(crate) fn lookup_result(
        &mut self,
        issue: &IssueId,
        result: Result<LookupResult, String>,
    ) -> LookupResult {
        match result {
            Ok(result) => {
                self.lookup_errors.remove(issue);
                result
            }
            Err(error) => {
                // Each pull repeats the lookup, so the same error is logged once.
                if self.lookup_errors.get(issue) != Some(&error) {
                    tracing::warn!(issue = issue.as_str(), error, "cannot look up an issue");
                    if self.lookup_errors.len() >= MAX_LOOKUP_ERRORS {
                        self.lookup_errors.clear();
                    }
                    self.lookup_errors.insert(issue.clone(), error);
                }
                LookupResult::Unknown
            }
        }
    }
}
