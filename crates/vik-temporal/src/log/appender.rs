//! Extends the log. While one append is under way, the next entries wait and go together.

use std::collections::VecDeque;
use std::time::Duration;

use temporalio_client::errors::WorkflowUpdateError;
use temporalio_client::{Client, WorkflowExecuteUpdateOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Tenure;
use super::pieces::{MAX_APPEND_BYTES, Piece, split, take_batch};
use super::segment::{Accepted, Append, Refusal};
use super::workflows::{Index, SegmentWorkflow};
use crate::names::Queue;
use crate::rpc::{Backoff, failure_message, is_temporary, once};

/// After this time without an answer, an append is repeated. It is the same one for the server.
const APPEND_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a segment may be missing: the next one exists soon after one is sealed.
const MAX_MISSING: Duration = Duration::from_secs(30);

/// The log cannot be extended: nothing more can be appended with this term.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    #[error("another hub leads: it has taken term {term}")]
    Superseded { term: u64 },
    #[error("another process has extended the log with the same term, up to position {position}")]
    Diverged { position: u64 },
    #[error("segment {segment} of the log is missing")]
    Missing { segment: u64 },
    #[error("the server refuses an append: {0}")]
    Refused(String),
    #[error("the log is no longer extended by this process")]
    Stopped,
}

/// Where an entry is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    pub segment: u64,
    /// The number of pieces in the log up to the end of the entry.
    pub position: u64,
    /// The size of the log, in bytes, with everything that was appended together.
    pub bytes: u64,
}

/// The end of the log, for the hub that leads. If it is dropped, entries that wait are not appended.
#[derive(Debug)]
pub struct Appender {
    requests: mpsc::UnboundedSender<Request>,
}

#[derive(Debug)]
enum Request {
    Append(String, Reply<Appended>),
    Seal(Reply<Index>),
}

type Reply<T> = oneshot::Sender<Result<T, AppendError>>;

impl Appender {
    pub(super) fn start(client: Client, queue: Queue, tenure: &Tenure) -> Self {
        let (requests, receiver) = mpsc::unbounded_channel();
        let task = Task {
            client,
            queue,
            term: tenure.term,
            segment: tenure.segment,
            position: tenure.position,
            pieces: VecDeque::new(),
            replies: VecDeque::new(),
        };
        tokio::spawn(task.run(receiver));
        Self { requests }
    }

    /// Appends an entry. The order of entries is that of the calls, not of the futures. The future
    /// resolves once the entry is final; if it is dropped, the entry is appended all the same.
    ///
    /// # Errors
    ///
    /// After an error, all further entries are refused with the same one. Failures of the connection
    /// are no errors: the append is repeated until the server has decided.
    pub fn append(
        &self,
        text: String,
    ) -> impl Future<Output = Result<Appended, AppendError>> + Send + 'static {
        self.request(|reply| Request::Append(text, reply))
    }

    /// Seals the present segment, so that the next entry is the first of the next segment. Returns
    /// the index of a log that starts there. If the state is written from there on,
    /// [`Log::compacted`](super::Log::compacted) removes everything before.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn seal(&self) -> impl Future<Output = Result<Index, AppendError>> + Send + 'static {
        self.request(Request::Seal)
    }

    fn request<T: Send + 'static>(
        &self,
        request: impl FnOnce(Reply<T>) -> Request,
    ) -> impl Future<Output = Result<T, AppendError>> + Send + 'static {
        let (reply, answer) = oneshot::channel();
        // If the task has ended, the reply is dropped with the request.
        let _ = self.requests.send(request(reply));
        async { answer.await.unwrap_or(Err(AppendError::Stopped)) }
    }
}

struct Task {
    client: Client,
    queue: Queue,
    term: u64,
    segment: u64,
    position: u64,
    pieces: VecDeque<Piece>,
    /// One for each entry that has pieces in `pieces`.
    replies: VecDeque<Reply<Appended>>,
}

impl Task {
    async fn run(mut self, mut requests: mpsc::UnboundedReceiver<Request>) {
        let error = match self.serve(&mut requests).await {
            Ok(()) => return,
            Err(error) => error,
        };
        for reply in self.replies {
            let _ = reply.send(Err(error.clone()));
        }
        while let Some(request) = requests.recv().await {
            match request {
                Request::Append(_, reply) => drop(reply.send(Err(error.clone()))),
                Request::Seal(reply) => drop(reply.send(Err(error.clone()))),
            }
        }
    }

    async fn serve(&mut self, requests: &mut mpsc::UnboundedReceiver<Request>) -> Result<(), AppendError> {
        while let Some(request) = requests.recv().await {
            let mut next = Some(request);
            while let Some(request) = next {
                match request {
                    Request::Append(text, reply) => {
                        self.pieces.extend(split(&text, MAX_APPEND_BYTES));
                        self.replies.push_back(reply);
                    }
                    Request::Seal(reply) => {
                        let sealed = match self.flush().await {
                            Ok(()) => self.seal().await,
                            Err(error) => Err(error),
                        };
                        let _ = reply.send(sealed.clone());
                        sealed?;
                    }
                }
                next = requests.try_recv().ok();
            }
            self.flush().await?;
        }
        Ok(())
    }

    /// Appends all pieces that wait.
    async fn flush(&mut self) -> Result<(), AppendError> {
        while !self.pieces.is_empty() {
            let pieces = take_batch(&mut self.pieces, MAX_APPEND_BYTES);
            let ends = pieces.iter().map(|piece| piece.is_last);
            let ends: Vec<u64> = (self.position + 1..)
                .zip(ends)
                .filter_map(|(position, is_last)| is_last.then_some(position))
                .collect();
            let segment = self.segment;
            let accepted = self.append(pieces, false).await?;
            for position in ends {
                if let Some(reply) = self.replies.pop_front() {
                    let _ = reply.send(Ok(Appended {
                        segment,
                        position,
                        bytes: accepted.bytes,
                    }));
                }
            }
        }
        Ok(())
    }

    async fn seal(&mut self) -> Result<Index, AppendError> {
        let accepted = self.append(Vec::new(), true).await?;
        Ok(Index {
            first: self.segment,
            bytes: accepted.bytes,
        })
    }

    async fn append(&mut self, pieces: Vec<Piece>, seal: bool) -> Result<Accepted, AppendError> {
        let append = Append {
            term: self.term,
            position: self.position,
            pieces,
            seal,
        };
        let accepted = self.send(&append).await?;
        self.position = accepted.position;
        if accepted.sealed {
            self.segment += 1;
        }
        Ok(accepted)
    }

    /// Sends an append until the server has decided. All repetitions have the same id, and the
    /// server carries out only one of them.
    async fn send(&self, append: &Append) -> Result<Accepted, AppendError> {
        let seal = if append.seal { "-seal" } else { "" };
        let update_id = format!("{}-{}{seal}", append.term, append.position);
        let handle = self
            .client
            .get_workflow_handle::<SegmentWorkflow>(self.queue.segment(self.segment));
        let mut backoff = Backoff::default();
        let mut missing_since: Option<Instant> = None;
        loop {
            let options = WorkflowExecuteUpdateOptions::builder()
                .update_id(update_id.clone())
                .rpc_options(once(APPEND_TIMEOUT))
                .build();
            let result = handle
                .execute_update(SegmentWorkflow::append, append.clone(), options)
                .await;
            match result {
                Ok(accepted) => return Ok(accepted),
                Err(WorkflowUpdateError::NotFound(_)) => {
                    let since = missing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > MAX_MISSING {
                        return Err(AppendError::Missing {
                            segment: self.segment,
                        });
                    }
                }
                Err(WorkflowUpdateError::Rpc(status)) if is_temporary(status.code()) => {
                    missing_since = None;
                    tracing::debug!(%status, "an append has no answer, repeating it");
                }
                Err(error) => return Err(self.append_error(error).await),
            }
            backoff.pause().await;
        }
    }

    async fn append_error(&self, error: WorkflowUpdateError) -> AppendError {
        let text = match error {
            WorkflowUpdateError::Failed(failure) => failure_message(&self.client, &failure).await,
            error => error.to_string(),
        };
        match serde_json::from_str(&text) {
            Ok(Refusal::OldTerm { term }) => AppendError::Superseded { term },
            Ok(Refusal::WrongPosition { position }) => AppendError::Diverged { position },
            Ok(Refusal::Sealed) | Err(_) => AppendError::Refused(text),
        }
    }
}
