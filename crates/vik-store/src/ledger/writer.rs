//! The one thread that writes: whatever waits is committed together.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::{io, path::PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;
use vik_core::changes::Changes;

use super::files::{Files, Lock};
use super::reserve::Reserve;
use super::retention::Fresh;
use super::{CommitError, LedgerError, write};

/// How many commits may wait; whoever comes then waits for room.
const MOST_WAITING: usize = 4096;

/// One commit that waits, and who is told.
pub(super) struct Item {
    pub(super) changes: Changes,
    pub(super) done: oneshot::Sender<Result<(), CommitError>>,
}

pub(super) type Queue = std::sync::mpsc::SyncSender<Item>;
pub(super) type Thread = JoinHandle<Result<(), LedgerError>>;

/// Writes until the queue is closed.
pub(super) struct Writer {
    pub(super) db: Connection,
    pub(super) path: PathBuf,
    pub(super) lock: Lock,
    pub(super) reserve: Reserve,
    /// The number of the last commit.
    pub(super) commits: u64,
    /// Decisions that were written since old ones were taken away.
    pub(super) fresh: Fresh,
    /// The first error: nothing is kept after it.
    pub(super) broken: Option<CommitError>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn spawn(self, files: &Files) -> Result<(Queue, Thread), LedgerError> {
        let (queue, waiting) = sync_channel(MOST_WAITING);
        let thread = std::thread::Builder::new()
            .name("vik-ledger".to_owned())
            .spawn(move || self.run(&waiting))
            .map_err(|source: io::Error| LedgerError::of_io(&files.db(), source))?;
        Ok((queue, thread))
    }

    fn run(mut self, waiting: &Receiver<Item>) -> Result<(), LedgerError> {
        while let Ok(first) = waiting.recv() {
            let mut batch = vec![first];
            batch.extend(waiting.try_iter().take(MOST_WAITING));
            let result = self.keep(&batch);
            for item in batch {
                // Who does not wait any more need not be told.
                let _ = item.done.send(result.clone());
            }
        }
        self.close()
    }

    /// Commits a batch. After an error nothing more is tried: what is on the disk is not known until it is read. A full disk
    /// is different, as SQLite has taken the whole transaction back then.
    fn keep(&mut self, batch: &[Item]) -> Result<(), CommitError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        self.commit(batch).map_err(|error| {
            let cause = Arc::new(error);
            self.broken.insert(CommitError { cause }).clone()
        })
    }

    /// Where the disk is full, the room that was set aside is used.
    fn commit(&mut self, batch: &[Item]) -> Result<(), LedgerError> {
        if batch.iter().all(|item| item.changes == Changes::default()) {
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
        self.lock.acknowledge(commit);
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
        self.fresh.trim(&transaction, Timestamp::now())?;
        write::put_meta(&transaction, super::COMMITS, &commit.to_string())?;
        transaction.commit()
    }

    /// Brings everything into the database itself, so that one file is the whole ledger.
    fn close(self) -> Result<(), LedgerError> {
        if self.broken.is_none() {
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
