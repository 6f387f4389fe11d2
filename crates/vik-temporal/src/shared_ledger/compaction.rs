//! Compaction of the shared log: the hub that leads writes the state again, as ordinary changes, so
//! that the entries of before are no longer needed.
//!
//! 1. When the copy has all entries, the segment is sealed, and the next one starts with the attempts
//!    that have not ended, their issues, the sums of the days and the pause.
//! 2. Parts with the machines of all other issues follow. Between them, decisions are written as
//!    always. A machine that one of them has changed is in no later part, so that each part has what
//!    every other copy has at this position.
//! 3. When the last part is final, the index of the log moves to the segment of step 1 and closes
//!    those before.
//!
//! If the hub ends before step 3, the log has a few entries that change nothing, and its old start.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use vik_base::failpoint;
use vik_core::changes::Changes;
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;
use vik_orchestrator::CommitFailure;
use vik_store::ledger::{LedgerError, Reader, Snapshot};

use super::leading::{Request, answered, refused};
use crate::log::{AppendError, Index, Log, LogError};

/// A log is compacted when it is so many times as large as the state: the state itself, which it
/// starts with, and four times as much of decisions.
const MAX_STATES: u64 = 5;

/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// When the log is compacted, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionLimits {
    /// A log that is smaller is not compacted, however small the state is.
    pub min_bytes: u64,
    /// The size of the machines in an entry. While it is written, decisions wait.
    pub max_part_bytes: usize,
}

impl Default for CompactionLimits {
    fn default() -> Self {
        Self {
            min_bytes: 4 * 1024 * 1024,
            max_part_bytes: 128 * 1024,
        }
    }
}

/// A snapshot whose first part is being written.
pub(super) struct StartedSnapshot {
    /// The parts after the first one, which are read when they are written.
    pub state: Snapshot,
    /// Where the log can start when all parts are written.
    pub sealed: BoxFuture<'static, Result<Index, AppendError>>,
    pub written: oneshot::Receiver<Result<(), CommitFailure>>,
}

/// The issues that entries have changed since a snapshot started.
#[derive(Debug, Default)]
pub(super) struct ChangedIssues(HashSet<IssueId>);

impl ChangedIssues {
    /// Adds those of an entry.
    pub fn add(&mut self, changes: &Changes) {
        let issues = changes.machines.iter().map(|machine| machine.issue().id.clone());
        self.0.extend(issues);
    }

    /// Removes machines that may be older or newer than this position of the log.
    pub fn remove_from(&self, machines: &mut Vec<IssueMachine>) {
        machines.retain(|machine| !self.0.contains(&machine.issue().id));
    }
}

/// The log was not compacted.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompactionError {
    #[error(transparent)]
    Commit(#[from] CommitFailure),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("this hub leads no longer")]
    Stopped,
}

/// Reads the first part of the state, and returns the source of the others.
pub(super) async fn read_head(
    service_dir: &Path,
    max_bytes: usize,
) -> Result<(Changes, Snapshot), CompactionError> {
    let folder = service_dir.to_owned();
    blocking(move || {
        let mut state = open(&folder)?.into_snapshot(max_bytes);
        let head = state.next().unwrap_or_else(|| Ok(Changes::default()))?;
        Ok((head, state))
    })
    .await
}

/// Compacts the log while this hub leads.
pub(super) struct Compactor {
    pub log: Log,
    pub requests: mpsc::WeakUnboundedSender<Request>,
    /// The size of everything that was ever in the log, in bytes.
    pub log_bytes: watch::Receiver<u64>,
    pub service_dir: PathBuf,
    pub limits: CompactionLimits,
}

impl Compactor {
    pub async fn run(mut self) {
        loop {
            match self.compact_when_due().await {
                CompactionError::Stopped | CompactionError::Commit(CommitFailure::Superseded) => return,
                error => tracing::error!(%error, "the shared log was not compacted, trying again later"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
            if self.requests.strong_count() == 0 {
                return;
            }
        }
    }

    /// Compacts the log each time when it is large, until an error.
    async fn compact_when_due(&mut self) -> CompactionError {
        let mut start = match self.log.index().await {
            Ok(index) => index.bytes,
            Err(error) => return error.into(),
        };
        let mut limit = self.limits.min_bytes;
        loop {
            let due = start.saturating_add(limit);
            let Ok(bytes) = self
                .log_bytes
                .wait_for(|bytes| *bytes >= due)
                .await
                .map(|bytes| *bytes)
            else {
                return CompactionError::Stopped;
            };
            let state = match self.state_bytes().await {
                Ok(state) => state,
                Err(error) => return error,
            };
            limit = self.limits.limit(state);
            if bytes < start.saturating_add(limit) {
                continue;
            }
            match self.compact().await {
                Ok(index) => start = index.bytes,
                Err(error) => return error,
            }
            tracing::info!(state_bytes = state, "compacted the shared log");
        }
    }

    async fn compact(&self) -> Result<Index, CompactionError> {
        let max_bytes = self.limits.max_part_bytes;
        let started = self.request(|reply| Request::StartSnapshot(max_bytes, reply))?;
        let StartedSnapshot {
            mut state,
            sealed,
            written,
        } = started.await.unwrap_or(Err(CompactionError::Stopped))?;
        let index = sealed.await.map_err(|error| refused(&error))?;
        failpoint::reach("log_sealed");
        answered(written).await?;
        failpoint::reach("snapshot_started");
        loop {
            let part;
            (state, part) = blocking(move || {
                let part = state.next().transpose()?;
                Ok((state, part))
            })
            .await?;
            let Some(Changes { machines, .. }) = part else {
                break;
            };
            let written = self.request(|reply| Request::SnapshotPart(machines, reply))?;
            answered(written).await?;
            failpoint::reach("snapshot_part_written");
        }
        failpoint::reach("snapshot_written");
        self.send(Request::EndSnapshot)?;
        self.log.compacted(index).await?;
        failpoint::reach("log_compacted");
        Ok(index)
    }

    async fn state_bytes(&self) -> Result<u64, CompactionError> {
        let folder = self.service_dir.clone();
        blocking(move || open(&folder)?.machine_bytes()).await
    }

    fn request<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<oneshot::Receiver<T>, CompactionError> {
        let (reply, answer) = oneshot::channel();
        self.send(request(reply))?;
        Ok(answer)
    }

    fn send(&self, request: Request) -> Result<(), CompactionError> {
        let requests = self.requests.upgrade().ok_or(CompactionError::Stopped)?;
        requests.send(request).map_err(|_| CompactionError::Stopped)
    }
}

impl CompactionLimits {
    /// Returns the size from which on a log with a state of this size is compacted, in bytes.
    fn limit(self, state_bytes: u64) -> u64 {
        state_bytes.saturating_mul(MAX_STATES).max(self.min_bytes)
    }
}

fn open(service_dir: &Path) -> Result<Reader, LedgerError> {
    // The copy is open.
    Reader::open(service_dir)?.ok_or(LedgerError::Stopped)
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, CompactionError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(read) => Ok(read?),
        // The runtime ends.
        Err(_) => Err(CompactionError::Stopped),
    }
}

#[cfg(test)]
mod tests;
