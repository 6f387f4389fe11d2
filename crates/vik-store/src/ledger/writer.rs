//! The thread that writes: it commits all waiting changes together.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::{io, path::PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;
use vik_core::changes::Changes;
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;

use super::files::{Files, Lock};
use super::reserve::Reserve;
use super::retention::{self, NewDecisions};
use super::{CommitError, LedgerError, copy, read, write};

/// The limit on waiting commits; further callers block until there is room.
const MAX_WAITING: usize = 4096;

/// A waiting commit, and the channel for its result.
pub(super) struct Item {
    pub(super) changes: Changes,
    /// The position of the entry of the shared log that has these changes; `None` for a decision of
    /// this daemon alone.
    pub(super) position: Option<u64>,
    pub(super) done: oneshot::Sender<Result<(), CommitError>>,
}

/// A request to delete old attempts, and the channel for their number.
pub(super) struct DeleteHistory {
    pub(super) before: Timestamp,
    pub(super) limit: u32,
    pub(super) done: oneshot::Sender<Result<u64, LedgerError>>,
}

/// What the writer is asked for.
pub(super) enum Request {
    Commit(Item),
    /// Read the machines of these issues, with all earlier changes.
    Recall {
        issues: Vec<IssueId>,
        answer: oneshot::Sender<Result<Vec<IssueMachine>, CommitError>>,
    },
    DeleteHistory(DeleteHistory),
}

pub(super) type Queue = std::sync::mpsc::SyncSender<Request>;
pub(super) type Thread = JoinHandle<Result<(), LedgerError>>;

/// The state of the writer thread, which writes until the queue is closed.
pub(super) struct Writer {
    pub(super) db: Connection,
    pub(super) path: PathBuf,
    pub(super) lock: Lock,
    pub(super) reserve: Reserve,
    pub(super) commits: u64,
    /// The position of the last entry that was received, if the ledger is a copy of a shared log; 0
    /// before the first one.
    pub(super) received: Option<u64>,
    /// Decisions that were written since old ones were deleted.
    pub(super) fresh: NewDecisions,
    /// The first error; nothing is stored after it.
    pub(super) first_error: Option<CommitError>,
}

impl Writer {
    pub(super) fn spawn(self, files: &Files) -> Result<(Queue, Thread), LedgerError> {
        let (queue, waiting) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new()
            .name("vik-ledger".to_owned())
            .spawn(move || self.run(&waiting))
            .map_err(|source: io::Error| LedgerError::of_io(&files.db(), source))?;
        Ok((queue, thread))
    }

    fn run(mut self, waiting: &Receiver<Request>) -> Result<(), LedgerError> {
        while let Ok(first) = waiting.recv() {
            let mut batch = Vec::new();
            let mut deletions = Vec::new();
            for request in std::iter::once(first).chain(waiting.try_iter().take(MAX_WAITING)) {
                match request {
                    Request::Commit(item) => batch.extend(self.in_order(item)),
                    Request::Recall { issues, answer } => {
                        self.commit(std::mem::take(&mut batch));
                        // The receiver may have stopped waiting.
                        let _ = answer.send(self.recall(&issues));
                    }
                    Request::DeleteHistory(deletion) => deletions.push(deletion),
                }
            }
            self.commit(batch);
            for deletion in deletions {
                let result = self.delete_history(deletion.before, deletion.limit);
                let _ = deletion.done.send(result);
            }
        }
        self.close()
    }

    /// Returns what is to be committed for an item. An entry that is already stored or waiting leaves
    /// nothing, but its result is that of the entries before it. An entry after a gap is refused.
    fn in_order(&mut self, mut item: Item) -> Option<Item> {
        let (Some(position), Some(received)) = (item.position, &mut self.received) else {
            return Some(item);
        };
        let next = received.saturating_add(1);
        match position.cmp(&next) {
            Ordering::Less => {
                item.changes = Changes::default();
                item.position = None;
            }
            Ordering::Equal => *received = position,
            Ordering::Greater => {
                let path = self.path.clone();
                let cause = Arc::new(LedgerError::Gap { path, position, next });
                // The receiver may have stopped waiting.
                let _ = item.done.send(Err(CommitError { cause }));
                return None;
            }
        }
        Some(item)
    }

    /// Deletes old attempts. A failure rolls back and changes nothing, so that it does not end the
    /// ledger.
    fn delete_history(&mut self, before: Timestamp, limit: u32) -> Result<u64, LedgerError> {
        if self.first_error.is_some() {
            return Err(LedgerError::Stopped);
        }
        let mut delete = || -> rusqlite::Result<u64> {
            let transaction = self
                .db
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            let deleted = retention::delete_history(&transaction, before, limit)?;
            transaction.commit()?;
            Ok(deleted)
        };
        delete().map_err(|error| LedgerError::of(&self.path, error))
    }

    fn recall(&self, issues: &[IssueId]) -> Result<Vec<IssueMachine>, CommitError> {
        if let Some(broken) = &self.first_error {
            return Err(broken.clone());
        }
        read::recall(&self.db, &self.path, issues).map_err(|error| CommitError {
            cause: Arc::new(error),
        })
    }

    fn commit(&mut self, batch: Vec<Item>) {
        let result = self.commit_batch(&batch);
        for item in batch {
            // The receiver may have stopped waiting.
            let _ = item.done.send(result.clone());
        }
    }

    /// Commits a batch. After an error no further commit is tried, because the state on the disk is
    /// unknown until it is read. A full disk is different, because SQLite then rolls back the whole
    /// transaction.
    fn commit_batch(&mut self, batch: &[Item]) -> Result<(), CommitError> {
        if let Some(broken) = &self.first_error {
            return Err(broken.clone());
        }
        self.commit_with_reserve(batch).map_err(|error| {
            let cause = Arc::new(error);
            self.first_error.insert(CommitError { cause }).clone()
        })
    }

    /// Commits a batch and releases the reserve step by step while the disk is full.
    fn commit_with_reserve(&mut self, batch: &[Item]) -> Result<(), LedgerError> {
        let is_empty = |item: &Item| item.changes == Changes::default() && item.position.is_none();
        if batch.iter().all(is_empty) {
            return Ok(());
        }
        let mut result = self.commit_once(batch);
        while matches!(result, Err(LedgerError::Full { .. })) && self.reserve.release() {
            result = self.commit_once(batch);
        }
        if result.is_ok() {
            self.reserve.restore();
        }
        result
    }

    fn commit_once(&mut self, batch: &[Item]) -> Result<(), LedgerError> {
        crate::fault::before_commit().map_err(|error| LedgerError::of(&self.path, error))?;
        let commit = self.commits + 1;
        self.write(batch, commit)
            .map_err(|error| LedgerError::of(&self.path, error))?;
        self.commits = commit;
        if self.received.is_none() {
            self.lock.acknowledge(commit);
        }
        Ok(())
    }

    fn write(&mut self, batch: &[Item], commit: u64) -> rusqlite::Result<()> {
        let transaction = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for item in batch {
            write::apply(&transaction, &item.changes)?;
            for decision in &item.changes.decisions {
                self.fresh.note(decision.issue.as_ref());
            }
        }
        if let Some(position) = batch.iter().filter_map(|item| item.position).next_back() {
            copy::put_position(&transaction, position)?;
        }
        self.fresh.trim(&transaction, Timestamp::now())?;
        write::put_meta(&transaction, super::COMMITS, &commit.to_string())?;
        transaction.commit()
    }

    /// Merges the write-ahead log into the database, so that one file is the whole ledger.
    fn close(self) -> Result<(), LedgerError> {
        if self.first_error.is_none() {
            let checkpoint = self
                .db
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            checkpoint.map_err(|error| LedgerError::of(&self.path, error))?;
        }
        self.db
            .close()
            .map_err(|(_, error)| LedgerError::of(&self.path, error))
    }
}
