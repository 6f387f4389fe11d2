//! The pieces of an answer, as they arrive. Servers send an answer in thousands of pieces, and a
//! switch from the connection to the reader and back for each would cost more than to read it. A
//! task collects what has arrived, and the reader gets it at once.

use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinSet;

/// The most pieces that wait for the reader.
const MAX_WAITING: usize = 16;

/// The body of a response. When it is dropped, the rest of the body is not read.
pub(super) struct Pieces {
    waiting: Receiver<reqwest::Result<Vec<u8>>>,
    /// Why the connection broke, if bytes that arrived before it were returned last.
    failure: Option<reqwest::Error>,
    /// Holds the one task that reads the response, and aborts it when it is dropped.
    _task: JoinSet<()>,
}

impl Pieces {
    /// Starts to read a body, on the current runtime.
    pub(super) fn of(mut response: reqwest::Response) -> Self {
        let (sender, waiting) = channel(MAX_WAITING);
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Some(piece) = response.chunk().await.transpose() {
                let is_last = piece.is_err();
                let sent = sender.send(piece.map(Vec::from)).await;
                if is_last || sent.is_err() {
                    return;
                }
            }
        });
        Self {
            waiting,
            failure: None,
            _task: task,
        }
    }

    /// Waits for more of the body and returns all that has arrived; `None` at its end.
    ///
    /// # Errors
    /// When the connection broke. What arrived before is returned first.
    pub(super) async fn next(&mut self) -> reqwest::Result<Option<Vec<u8>>> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let Some(piece) = self.waiting.recv().await else {
            return Ok(None);
        };
        let mut bytes = piece?;
        for _ in 1..MAX_WAITING {
            match self.waiting.try_recv() {
                Ok(Ok(more)) => bytes.extend_from_slice(&more),
                Ok(Err(error)) => {
                    self.failure = Some(error);
                    break;
                }
                Err(_) => break,
            }
        }
        Ok(Some(bytes))
    }
}
