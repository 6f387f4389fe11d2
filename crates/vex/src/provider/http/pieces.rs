//! The pieces of an answer, as they arrive. Servers send an answer in thousands of pieces, and a
//! switch from the connection to the reader and back for each would cost more than to read it. A
//! task collects what has arrived, and the reader gets it at once. While pieces follow each other
//! closely, the task also pauses between reads, so that the process does not wake for each of them.

use std::time::Duration;

use reqwest::Response;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

/// The most pieces that wait for the reader.
const MAX_WAITING: usize = 16;

/// How long the task pauses, and how soon a piece must follow for that.
const PAUSE: Duration = Duration::from_millis(10);

/// The number of pieces that must have followed closely before the task pauses: short answers are
/// read without delay.
const BEFORE_PAUSES: u32 = 64;

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
    pub(super) fn of(response: Response) -> Self {
        let (sender, waiting) = channel(MAX_WAITING);
        let mut task = JoinSet::new();
        task.spawn(read(response, sender));
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

/// Sends the pieces of a body until its end, an error, or the end of the receiver.
async fn read(mut response: Response, pieces: Sender<reqwest::Result<Vec<u8>>>) {
    let mut followed_closely = 0;
    loop {
        let arrived = tokio::select! {
            biased;
            piece = response.chunk() => Some(piece),
            () = turn_of_connection() => None,
        };
        let piece = match arrived {
            Some(piece) => piece,
            None => {
                if followed_closely >= BEFORE_PAUSES {
                    sleep(PAUSE).await;
                }
                let since = Instant::now();
                let piece = response.chunk().await;
                followed_closely = if since.elapsed() < PAUSE {
                    followed_closely + 1
                } else {
                    0
                };
                piece
            }
        };
        let Some(piece) = piece.transpose() else {
            return;
        };
        let is_last = piece.is_err();
        let sent = pieces.send(piece.map(Vec::from)).await;
        if is_last || sent.is_err() {
            return;
        }
    }
}

/// Lets the task of the connection pass on a piece that is in its buffer.
async fn turn_of_connection() {
    for _ in 0..2 {
        yield_now().await;
    }
}
