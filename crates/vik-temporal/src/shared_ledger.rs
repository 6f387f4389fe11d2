//! The ledger of a hub: a copy of the shared log.
//!
//! A hub that does not lead [follows](FollowingLedger::follow) the log. One that leads
//! [takes a term](FollowingLedger::lead), has all decisions of before, and stores its own as a
//! [`LeadingLedger`]: first in the log, which may refuse them, then in its copy.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use vik_core::changes::{Changes, Stored};
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;
use vik_orchestrator::{Closed, CommitFailure, CommitLog, Committing, Recalling};
use vik_store::ledger::{
    Answer, CommitError, InvalidLogId, LedgerCopy, LedgerError, LogId, Reader, schema_version,
};

use crate::lead::Leadership;
use crate::log::{AppendError, Appended, Appender, Follower, Log, LogError};

/// An entry of the log: the changes of decisions that are stored together.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// The number of the entry in the log, from 1.
    number: u64,
    /// The schema of the ledger of the hub that wrote it.
    schema: i64,
    changes: Changes,
}

/// What every version can read of an entry.
#[derive(Deserialize)]
struct Head {
    number: u64,
    schema: i64,
}

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
    copy: LedgerCopy,
    /// The number of entries that were in the copy when it was opened.
    copied: u64,
    /// The number of the last entry that was read.
    read: u64,
    last_commit: Option<Answer<()>>,
}

/// The ledger of the hub that leads.
#[derive(Debug)]
pub struct LeadingLedger {
    /// The copy on this machine, with all entries that are final.
    pub copy: Arc<LedgerCopy>,
    next: Mutex<Next>,
    leadership: Leadership,
}

/// The end of the log.
#[derive(Debug)]
struct Next {
    appender: Appender,
    /// The number of the next entry.
    number: u64,
    requests: mpsc::UnboundedSender<Request>,
}

/// What the copy is asked for, in order.
enum Request {
    Commit {
        entry: Entry,
        /// Resolves when the entry is final in the log.
        appended: BoxFuture<'static, Result<Appended, AppendError>>,
        reply: Reply<()>,
    },
    Recall(Vec<IssueId>, Reply<Vec<IssueMachine>>),
}

type Reply<T> = oneshot::Sender<Result<T, CommitFailure>>;

impl FollowingLedger {
    /// Opens the ledger in a service folder as a copy of the log. It is created if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be read, or if the ledger is that of another log.
    pub async fn open(log: Log, service_dir: &Path) -> Result<Self, SharedLedgerError> {
        let mut follower = log.follow(None).await?;
        let id: LogId = follower.log_id().await?.parse()?;
        let (copy, _, copied) = LedgerCopy::open(service_dir, &id)?;
        Ok(Self {
            log,
            follower,
            copy,
            copied,
            read: 0,
            last_commit: None,
        })
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
        service_dir: &Path,
        leadership: Leadership,
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
        let stored = match Reader::open(service_dir)? {
            Some(reader) => reader.stored()?,
            None => Stored::default(),
        };
        let appender = self.log.appender(&tenure);
        Ok((
            LeadingLedger::new(appender, self.copy, self.read, leadership),
            stored,
        ))
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

impl Entry {
    /// Reads the entry after the one with the number `last`, which is 0 if none was read.
    fn read(text: &str, last: u64) -> Result<Self, SharedLedgerError> {
        let number = last + 1;
        let damaged = |reason: String| SharedLedgerError::Entry { number, reason };
        // The changes of a later version may not be readable.
        let head: Head = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        if head.schema > schema_version() {
            return Err(SharedLedgerError::Newer { found: head.schema });
        }
        // A log that was compacted starts later.
        if head.number != number && last != 0 {
            return Err(damaged(format!("it has the number {}", head.number)));
        }
        serde_json::from_str(text).map_err(|error| damaged(error.to_string()))
    }
}

impl LeadingLedger {
    fn new(appender: Appender, copy: LedgerCopy, last: u64, leadership: Leadership) -> Self {
        let copy = Arc::new(copy);
        let (requests, receiver) = mpsc::unbounded_channel();
        tokio::spawn(serve(Arc::clone(&copy), receiver));
        let next = Next {
            appender,
            number: last + 1,
            requests,
        };
        Self {
            copy,
            next: Mutex::new(next),
            leadership,
        }
    }
}

impl CommitLog for LeadingLedger {
    fn commit(&self, changes: Changes) -> Committing {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Entry {
            number: next.number,
            schema: schema_version(),
            changes,
        };
        let text = match serde_json::to_string(&entry) {
            Ok(text) => text,
            Err(error) => {
                let failure = CommitFailure::Log(error.to_string().into());
                return Box::pin(async { Err(failure) });
            }
        };
        next.number += 1;
        let (reply, committed) = oneshot::channel();
        let request = Request::Commit {
            appended: next.appender.append(text).boxed(),
            entry,
            reply,
        };
        // If the task has ended, the reply is dropped with the request.
        let _ = next.requests.send(request);
        let leadership = self.leadership.clone();
        Box::pin(async move {
            answer(committed).await?;
            // This process may have been frozen since. The decision is final, and its effects are
            // those of the next hub.
            match leadership.standing().is_leading() {
                true => Ok(()),
                false => Err(CommitFailure::Superseded),
            }
        })
    }

    fn recall(&self, issues: Vec<IssueId>) -> Recalling {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let (reply, recalled) = oneshot::channel();
        let _ = next.requests.send(Request::Recall(issues, reply));
        Box::pin(answer(recalled))
    }

    fn closed(&self) -> Closed {
        let mut leadership = self.leadership.clone();
        Box::pin(async move {
            leadership.lost().await;
            CommitFailure::Superseded
        })
    }
}

async fn answer<T>(reply: oneshot::Receiver<Result<T, CommitFailure>>) -> Result<T, CommitFailure> {
    reply.await.unwrap_or(Err(CommitFailure::Superseded))
}

/// Copies entries when they are final in the log. The copy answers in order, so that an answer has
/// what was decided before. After an entry was refused, all later requests fail.
async fn serve(copy: Arc<LedgerCopy>, mut requests: mpsc::UnboundedReceiver<Request>) {
    let mut refusal: Option<CommitFailure> = None;
    while let Some(request) = requests.recv().await {
        match (request, refusal.clone()) {
            (Request::Commit { reply, .. }, Some(refusal)) => drop(reply.send(Err(refusal))),
            (Request::Recall(_, reply), Some(refusal)) => drop(reply.send(Err(refusal))),
            (
                Request::Commit {
                    entry,
                    appended,
                    reply,
                },
                None,
            ) => match appended.await {
                // Several of them share one write.
                Ok(_) => send(reply, copy.commit_entry(entry.number, entry.changes)),
                Err(error) => {
                    let failure = refused(&error);
                    refusal = Some(failure.clone());
                    let _ = reply.send(Err(failure));
                }
            },
            (Request::Recall(issues, reply), None) => send(reply, copy.recall(issues)),
        }
    }
}

/// Passes the answer of the copy on, when there is one.
fn send<T: Send + 'static>(reply: Reply<T>, answer: Answer<T>) {
    tokio::spawn(async move {
        // The loop may have ended.
        let _ = reply.send(answer.await.map_err(CommitFailure::from));
    });
}

fn refused(error: &AppendError) -> CommitFailure {
    match error {
        AppendError::Superseded { .. } | AppendError::Diverged { .. } => CommitFailure::Superseded,
        AppendError::Missing { .. } | AppendError::Refused(_) | AppendError::Stopped => {
            CommitFailure::Log(error.to_string().into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u64, schema: i64) -> String {
        let entry = Entry {
            number,
            schema,
            changes: Changes {
                paused: Some(true),
                ..Changes::default()
            },
        };
        serde_json::to_string(&entry).unwrap()
    }

    #[test]
    fn entry_follows_the_one_before() {
        let schema = schema_version();
        assert_eq!(Entry::read(&entry(1, schema), 0).unwrap().number, 1);
        assert_eq!(
            Entry::read(&entry(8, schema), 7).unwrap().changes.paused,
            Some(true)
        );
        assert_eq!(
            Entry::read(&entry(5, schema), 0).unwrap().number,
            5,
            "a compacted log"
        );
        let error = Entry::read(&entry(9, schema), 7).unwrap_err();
        assert_eq!(
            error.to_string(),
            "entry 8 of the shared log cannot be read: it has the number 9"
        );
    }

    #[test]
    fn entry_of_a_later_version_is_refused_before_it_is_read() {
        let schema = schema_version() + 1;
        let text = format!(r#"{{"number":1,"schema":{schema},"changes":{{"unknown":[]}}}}"#);
        let error = Entry::read(&text, 0).unwrap_err();
        assert!(
            matches!(error, SharedLedgerError::Newer { found } if found == schema),
            "{error}"
        );
        assert!(matches!(
            Entry::read("{}", 0),
            Err(SharedLedgerError::Entry { number: 1, .. })
        ));
    }
}
