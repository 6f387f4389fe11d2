//! The ledger of a hub: a copy of the shared log.
//!
//! A hub that does not lead [follows](FollowingLedger::follow) the log. One that leads
//! [takes a term](FollowingLedger::lead), has all decisions of before, and stores its own as a
//! [`LeadingLedger`]: first in the log, which may refuse them, then in its copy. It also
//! [compacts](CompactionLimits) the log.

use std::path::{Path, PathBuf};

use futures::FutureExt;
use vik_core::changes::Stored;
use vik_store::ledger::{
    Answer, CommitError, InvalidLogId, LedgerCopy, LedgerError, LogId, Reader, schema_version,
};

use crate::lead::Leadership;
use crate::log::{AppendError, Follower, Log, LogError};

mod compaction;
mod entry;
mod import;
mod leading;

pub use compaction::CompactionLimits;
use entry::Entry;
pub use import::{ImportError, import};
pub use leading::LeadingLedger;

/// The ledger of a hub does not have what the log has.
#[derive(Debug, thiserror::Error)]
pub enum SharedLedgerError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the shared log has an id that no ledger can have: {0}")]
    Id(#[from] InvalidLogId),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("the shared log cannot be extended: {0}")]
    Append(#[from] AppendError),
    #[error("an entry of the shared log cannot be written: {0}")]
    Encoding(#[from] serde_json::Error),
    #[error("the ledger of this machine cannot become the start of the shared log: {0}")]
    Import(#[from] ImportError),
    #[error("entry {number} of the shared log cannot be read: {reason}")]
    Entry { number: u64, reason: String },
    #[error(
        "the shared log was written by a later version of Vik (schema {found}, this one has {})",
        schema_version()
    )]
    Newer { found: i64 },
    #[error("the ledger has {copied} entries of the shared log, which has only {read}")]
    Ahead { copied: u64, read: u64 },
}

/// The ledger of a hub that does not lead.
#[derive(Debug)]
pub struct FollowingLedger {
    log: Log,
    follower: Follower,
    service_dir: PathBuf,
    copy: LedgerCopy,
    /// The number of the last entry that was in the copy when it was opened.
    copied: u64,
    /// The number of the last entry that was read.
    read: u64,
    last_commit: Option<Answer<()>>,
}

impl FollowingLedger {
    /// Opens the ledger in a service folder as a copy of the log. It is created if there is none. If
    /// it lacks entries with which the log no longer starts, its files are set aside, and a new copy
    /// starts with the state that is in the log.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read, or if the ledger is that of another log.
    pub async fn open(log: Log, service_dir: &Path) -> Result<Self, SharedLedgerError> {
        let mut follower = log.follow(None).await?;
        let id: LogId = follower.log_id().await?.parse()?;
        let (copy, _, copied) = LedgerCopy::open(service_dir, &id)?;
        let is_compacted = follower.segment() > 1;
        let mut ledger = Self {
            log,
            follower,
            service_dir: service_dir.to_owned(),
            copy,
            copied,
            read: 0,
            last_commit: None,
        };
        if is_compacted {
            // There is one: the log starts with the state.
            let first = ledger.follower.next().await?;
            ledger = ledger.start_at(&Entry::read(&first.text, 0)?, &id)?;
            ledger.add(&first.text)?;
        }
        Ok(ledger)
    }

    /// Makes the copy one that can continue with this entry.
    fn start_at(mut self, first: &Entry, id: &LogId) -> Result<Self, SharedLedgerError> {
        let before = first.number.saturating_sub(1);
        if self.copied < before {
            self.copy.close()?;
            let (copy, set_aside) = LedgerCopy::start_over(&self.service_dir, id, before)?;
            if let Some(old) = set_aside.first() {
                tracing::warn!(
                    entries = self.copied,
                    log_starts_after = before,
                    path = %old.display(),
                    "the ledger lacks entries that the shared log no longer has: it starts again from the \
                     state in the log, and the old file is kept for its history"
                );
            }
            self.copy = copy;
            self.copied = before;
        }
        Ok(self)
    }

    /// Copies entries as other hubs write them, until an error. Cancelling the call loses nothing.
    pub async fn follow(&mut self) -> SharedLedgerError {
        loop {
            let added = match self.follower.next().await {
                Ok(entry) => self.add(&entry.text),
                Err(error) => return error.into(),
            };
            if let Err(error) = added {
                return error;
            }
        }
    }

    /// Takes a term, and copies all entries of before. From then on, no other hub can add one.
    /// Returns the state from which the loop starts.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read further, or if the ledger cannot be written.
    pub async fn lead(
        mut self,
        leadership: Leadership,
        limits: CompactionLimits,
    ) -> Result<(LeadingLedger, Stored), SharedLedgerError> {
        let tenure = self.log.take_term(self.follower.segment()).await?;
        while let Some(entry) = self.follower.next_before(&tenure).await? {
            self.add(&entry.text)?;
        }
        if self.read < self.copied {
            return Err(SharedLedgerError::Ahead {
                copied: self.copied,
                read: self.read,
            });
        }
        // It is answered after all commits, and fails if one of them has failed.
        self.copy.recall(Vec::new()).await?;
        let stored = match Reader::open(&self.service_dir)? {
            Some(reader) => reader.stored()?,
            None => Stored::default(),
        };
        let leading = LeadingLedger::start(self, &tenure, leadership, limits);
        Ok((leading, stored))
    }

    /// Adds an entry to the copy, which leaves it out if it has it.
    fn add(&mut self, text: &str) -> Result<(), SharedLedgerError> {
        let entry = Entry::read(text, self.read)?;
        self.read = entry.number;
        let commit = self.copy.commit_entry(entry.number, entry.changes);
        // After a failure, all later commits fail.
        match self.last_commit.replace(commit).and_then(FutureExt::now_or_never) {
            Some(Err(error)) => Err(error.into()),
            Some(Ok(())) | None => Ok(()),
        }
    }
}
