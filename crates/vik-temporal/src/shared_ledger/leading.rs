//! The ledger of the hub that leads.

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot, watch};
use vik_core::changes::Changes;
use vik_core::ids::IssueId;
use vik_core::machine::IssueMachine;
use vik_orchestrator::{Closed, CommitFailure, CommitLog, Committing, Recalling};
use vik_store::ledger::{Answer, LedgerCopy};

use super::FollowingLedger;
use super::compaction::{self, ChangedIssues, CompactionError, CompactionLimits, Compactor, StartedSnapshot};
use super::entry::Entry;
use crate::lead::Leadership;
use crate::log::{AppendError, Appended, Appender, Tenure};

/// The ledger of the hub that leads. Cheap to clone: all clones add to the same log.
#[derive(Clone, Debug)]
pub struct LeadingLedger {
    /// The copy on this machine, with all entries that are final.
    pub copy: Arc<LedgerCopy>,
    requests: mpsc::UnboundedSender<Request>,
    leadership: Leadership,
}

/// What the log is asked for, in order.
pub(super) enum Request {
    Commit(Changes, Reply<()>),
    Recall(Vec<IssueId>, Reply<Vec<IssueMachine>>),
    /// Start to write the state again, in parts with machines of so many bytes.
    StartSnapshot(usize, oneshot::Sender<Result<StartedSnapshot, CompactionError>>),
    /// Write these machines again, as far as no entry has changed them since the snapshot started.
    SnapshotPart(Vec<IssueMachine>, Reply<()>),
    EndSnapshot,
}

/// What the copy is asked for, in order.
enum CopyRequest {
    Commit {
        entry: Entry,
        /// Resolves when the entry is final in the log.
        appended: BoxFuture<'static, Result<Appended, AppendError>>,
        reply: Reply<()>,
    },
    Recall(Vec<IssueId>, Reply<Vec<IssueMachine>>),
}

pub(super) type Reply<T> = oneshot::Sender<Result<T, CommitFailure>>;

impl LeadingLedger {
    pub(super) fn start(
        ledger: FollowingLedger,
        tenure: &Tenure,
        leadership: Leadership,
        limits: CompactionLimits,
    ) -> Self {
        let copy = Arc::new(ledger.copy);
        let (copy_requests, receiver) = mpsc::unbounded_channel();
        let (log_bytes, log_bytes_receiver) = watch::channel(tenure.bytes);
        tokio::spawn(serve_copy(Arc::clone(&copy), receiver, log_bytes));
        let sequencer = Sequencer {
            appender: ledger.log.appender(tenure),
            number: ledger.read + 1,
            copy_requests,
            service_dir: ledger.service_dir.clone(),
            changed: None,
        };
        let (requests, receiver) = mpsc::unbounded_channel();
        tokio::spawn(sequencer.run(receiver));
        let compactor = Compactor {
            log: ledger.log,
            // The compactor ends with the ledger.
            requests: requests.downgrade(),
            log_bytes: log_bytes_receiver,
            service_dir: ledger.service_dir,
            limits,
        };
        tokio::spawn(compactor.run());
        Self {
            copy,
            requests,
            leadership,
        }
    }

    fn request<T>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> oneshot::Receiver<Result<T, CommitFailure>> {
        let (reply, answer) = oneshot::channel();
        // If the task has ended, the reply is dropped with the request.
        let _ = self.requests.send(request(reply));
        answer
    }
}

impl CommitLog for LeadingLedger {
    fn commit(&self, changes: Changes) -> Committing {
        let committed = self.request(|reply| Request::Commit(changes, reply));
        let leadership = self.leadership.clone();
        Box::pin(async move {
            answered(committed).await?;
            // This process may have been frozen since. The decision is final, and its effects are
            // those of the next hub.
            match leadership.standing().is_leading() {
                true => Ok(()),
                false => Err(CommitFailure::Superseded),
            }
        })
    }

    fn recall(&self, issues: Vec<IssueId>) -> Recalling {
        Box::pin(answered(self.request(|reply| Request::Recall(issues, reply))))
    }

    fn closed(&self) -> Closed {
        let mut leadership = self.leadership.clone();
        Box::pin(async move {
            leadership.lost().await;
            CommitFailure::Superseded
        })
    }
}

pub(super) async fn answered<T>(
    reply: oneshot::Receiver<Result<T, CommitFailure>>,
) -> Result<T, CommitFailure> {
    reply.await.unwrap_or(Err(CommitFailure::Superseded))
}

/// Gives entries their numbers, which are their order in the log.
struct Sequencer {
    appender: Appender,
    /// The number of the next entry.
    number: u64,
    copy_requests: mpsc::UnboundedSender<CopyRequest>,
    service_dir: PathBuf,
    /// The issues that entries have changed since the snapshot started, while one is written.
    changed: Option<ChangedIssues>,
}

impl Sequencer {
    async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        while let Some(request) = requests.recv().await {
            match request {
                Request::Commit(changes, reply) => self.append(changes, reply),
                Request::Recall(issues, reply) => self.recall(issues, reply),
                Request::StartSnapshot(max_bytes, reply) => {
                    let _ = reply.send(self.start_snapshot(max_bytes).await);
                }
                Request::SnapshotPart(machines, reply) => self.append_part(machines, reply),
                Request::EndSnapshot => self.changed = None,
            }
        }
    }

    fn append(&mut self, changes: Changes, reply: Reply<()>) {
        if let Some(changed) = &mut self.changed {
            changed.add(&changes);
        }
        let entry = Entry::new(self.number, changes);
        let text = match entry.to_text() {
            Ok(text) => text,
            Err(error) => {
                let failure = CommitFailure::Log(error.to_string().into());
                return drop(reply.send(Err(failure)));
            }
        };
        self.number += 1;
        // If the task has ended, the reply is dropped with the request.
        let _ = self.copy_requests.send(CopyRequest::Commit {
            appended: self.appender.append(text).boxed(),
            entry,
            reply,
        });
    }

    fn recall(&self, issues: Vec<IssueId>, reply: Reply<Vec<IssueMachine>>) {
        let _ = self.copy_requests.send(CopyRequest::Recall(issues, reply));
    }

    /// Writes the first part of the state at the start of a new segment. Meanwhile, no other entry is
    /// written: that takes about as long as one commit.
    async fn start_snapshot(&mut self, max_bytes: usize) -> Result<StartedSnapshot, CompactionError> {
        let (reply, copied) = oneshot::channel();
        self.recall(Vec::new(), reply);
        // The copy now has all entries, so that the state is that of this position.
        answered(copied).await?;
        let (head, state) = compaction::read_head(&self.service_dir, max_bytes).await?;
        self.changed = Some(ChangedIssues::default());
        let sealed = self.appender.seal().boxed();
        let (reply, written) = oneshot::channel();
        self.append(head, reply);
        Ok(StartedSnapshot {
            state,
            sealed,
            written,
        })
    }

    /// Appends the machines that are still those of the start of the snapshot. Entries after the start
    /// have the others.
    fn append_part(&mut self, mut machines: Vec<IssueMachine>, reply: Reply<()>) {
        if let Some(changed) = &self.changed {
            changed.remove_from(&mut machines);
        }
        if machines.is_empty() {
            return drop(reply.send(Ok(())));
        }
        let part = Changes {
            machines,
            ..Changes::default()
        };
        self.append(part, reply);
    }
}

/// Copies entries when they are final in the log. The copy answers in order, so that an answer has
/// what was decided before. After an entry was refused, all later requests fail.
async fn serve_copy(
    copy: Arc<LedgerCopy>,
    mut requests: mpsc::UnboundedReceiver<CopyRequest>,
    log_bytes: watch::Sender<u64>,
) {
    let mut refusal: Option<CommitFailure> = None;
    while let Some(request) = requests.recv().await {
        match (request, refusal.clone()) {
            (CopyRequest::Commit { reply, .. }, Some(refusal)) => drop(reply.send(Err(refusal))),
            (CopyRequest::Recall(_, reply), Some(refusal)) => drop(reply.send(Err(refusal))),
            (
                CopyRequest::Commit {
                    entry,
                    appended,
                    reply,
                },
                None,
            ) => match appended.await {
                Ok(appended) => {
                    // Several of them share one write.
                    send(reply, copy.commit_entry(entry.number, entry.changes));
                    log_bytes.send_replace(appended.bytes);
                }
                Err(error) => {
                    let failure = refused(&error);
                    refusal = Some(failure.clone());
                    let _ = reply.send(Err(failure));
                }
            },
            (CopyRequest::Recall(issues, reply), None) => send(reply, copy.recall(issues)),
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

pub(super) fn refused(error: &AppendError) -> CommitFailure {
    match error {
        AppendError::Superseded { .. } | AppendError::Diverged { .. } => CommitFailure::Superseded,
        AppendError::Missing { .. } | AppendError::Refused(_) | AppendError::Stopped => {
            CommitFailure::Log(error.to_string().into())
        }
    }
}
