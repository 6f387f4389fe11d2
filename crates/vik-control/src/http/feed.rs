//! The event stream: `GET /api/v1/events`.
//!
//! Facts are numbered and encoded once, in batches that all readers share. A reader that does not
//! keep up is disconnected. It reconnects with the number of the last fact that it received, and
//! gets the facts that it missed, or a request to reload everything.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use tokio::sync::{broadcast, mpsc};
use vik_api::{Fact, FeedEvent};

use super::sign_ins::SignInRef;
use super::transport::Connection;

/// Facts within this time are sent in one batch.
const BATCH: Duration = Duration::from_millis(50);

/// The interval of heartbeats to a reader.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The maximum number of facts that wait to be encoded. Further facts are dropped, and the readers
/// are notified.
const WAITING: usize = 65_536;

/// The maximum number of facts that are kept for readers that reconnect.
const KEPT_FACTS: usize = 10_000;

/// The maximum size of the kept facts, in bytes.
const KEPT_BYTES: usize = 4 * 1024 * 1024;

/// The maximum number of batches that a reader may lag behind.
const BEHIND: usize = 32;

/// The feed of facts; cheap to clone.
#[derive(Clone, Debug)]
pub struct Feed(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    facts: mpsc::Sender<FeedEvent>,
    receiver: Mutex<Option<mpsc::Receiver<FeedEvent>>>,
    lost: AtomicBool,
    batches: broadcast::Sender<Bytes>,
    kept: Mutex<Kept>,
    readers: AtomicUsize,
}

/// The latest facts, encoded.
#[derive(Debug, Default)]
struct Kept {
    facts: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first kept fact.
    first: u64,
    /// Distinguishes the numbers of this daemon from those of the previous one.
    epoch: u32,
}

impl Kept {
    fn next(&self) -> u64 {
        self.first + self.facts.len() as u64
    }

    fn push(&mut self, fact: Bytes) {
        self.bytes += fact.len();
        self.facts.push_back(fact);
        while self.facts.len() > KEPT_FACTS || self.bytes > KEPT_BYTES {
            let Some(old) = self.facts.pop_front() else { break };
            self.bytes -= old.len();
            self.first += 1;
        }
    }

    /// Returns the facts after this id, or `None` if some of them are no longer kept.
    fn after(&self, id: &str) -> Option<Vec<Bytes>> {
        let (epoch, number) = id.split_once('-')?;
        let (epoch, number) = (epoch.parse::<u32>().ok()?, number.parse::<u64>().ok()?);
        if epoch != self.epoch || number + 1 < self.first || number >= self.next() {
            return None;
        }
        let skip = usize::try_from(number + 1 - self.first).ok()?;
        Some(self.facts.iter().skip(skip).cloned().collect())
    }
}

impl Default for Feed {
    fn default() -> Self {
        let (facts, receiver) = mpsc::channel(WAITING);
        let kept = Kept {
            first: 1,
            epoch: uuid::Uuid::new_v4().as_fields().0,
            ..Kept::default()
        };
        Self(Arc::new(Inner {
            facts,
            receiver: Mutex::new(Some(receiver)),
            lost: AtomicBool::new(false),
            batches: broadcast::channel(BEHIND).0,
            kept: Mutex::new(kept),
            readers: AtomicUsize::new(0),
        }))
    }
}

impl Feed {
    /// Publishes a fact. Never waits: if the queue is full, the fact is dropped and the readers are
    /// notified.
    pub fn publish(&self, fact: Fact) {
        let event = FeedEvent {
            at: Timestamp::now(),
            fact,
        };
        if self.0.facts.try_send(event).is_err() {
            self.0.lost.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the number of readers.
    pub fn readers(&self) -> usize {
        self.0.readers.load(Ordering::Relaxed)
    }

    /// Sends facts to the readers until the feed is closed.
    pub async fn run(&self) {
        let receiver = self
            .0
            .receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut receiver) = receiver else { return };
        let mut events = Vec::new();
        while receiver.recv_many(&mut events, WAITING).await > 0 {
            // Facts that arrive close together are sent together.
            tokio::time::sleep(BATCH).await;
            while let Ok(event) = receiver.try_recv() {
                events.push(event);
            }
            if self.0.lost.swap(false, Ordering::Relaxed) {
                events.push(FeedEvent {
                    at: Timestamp::now(),
                    fact: Fact::Reset,
                });
            }
            self.send_batch(&events);
            events.clear();
        }
    }

    /// Numbers, encodes and keeps facts, and sends them to all readers.
    fn send_batch(&self, events: &[FeedEvent]) {
        if events.is_empty() {
            return;
        }
        let mut batch = String::new();
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            let Ok(data) = serde_json::to_string(event) else {
                continue;
            };
            let start = batch.len();
            let data = vik_mask::mask_json(&data);
            let (epoch, number) = (kept.epoch, kept.next());
            let _ = write!(
                batch,
                "id: {epoch}-{number}\nevent: {}\ndata: {data}\n\n",
                name(&event.fact)
            );
            kept.push(Bytes::copy_from_slice(&batch.as_bytes()[start..]));
        }
        // The lock is held while sending, so that a new subscriber gets each fact exactly once.
        let _ = self.0.batches.send(Bytes::from(batch));
    }

    /// Returns the response for one reader: the facts that it missed since `last`, then new facts
    /// for as long as its sign-in is valid.
    pub fn answer(&self, last: Option<&str>, connection: Connection, sign_in: Option<SignInRef>) -> Response {
        let (missed, mut batches) = {
            let kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let missed = match last {
                None => Some(Vec::new()),
                Some(id) => kept.after(id),
            };
            (missed, self.0.batches.subscribe())
        };
        let (sender, mut receiver) = mpsc::channel::<Bytes>(BEHIND);
        let reader = Reader::enter(self.clone());
        tokio::spawn(async move {
            let _reader = reader;
            let hello = Bytes::from_static(b"retry: 1000\n: this is what happens in vik\n\n");
            let mut first = vec![hello];
            match missed {
                Some(missed) if missed.is_empty() => {}
                Some(missed) => first.push(Bytes::from(missed.concat())),
                None => first.push(reset()),
            }
            for bytes in first {
                if sender.try_send(bytes).is_err() {
                    return;
                }
            }
            let revoked = sign_in.as_ref().map(|sign_in| sign_in.revoked.clone());
            let revoked = revoked.unwrap_or_default();
            loop {
                let wait = sign_in
                    .as_ref()
                    .map_or(HEARTBEAT, |sign_in| sign_in.left().min(HEARTBEAT));
                let bytes = tokio::select! {
                    () = connection.0.cancelled() => return,
                    () = revoked.cancelled() => return,
                    () = sender.closed() => return,
                    batch = batches.recv() => match batch {
                        Ok(batch) => batch,
                        Err(broadcast::error::RecvError::Lagged(_)) => break,
                        Err(broadcast::error::RecvError::Closed) => return,
                    },
                    () = tokio::time::sleep(wait) => Bytes::from_static(b": alive\n\n"),
                };
                if sign_in.as_ref().is_some_and(|sign_in| sign_in.left().is_zero()) {
                    return;
                }
                if sender.try_send(bytes).is_err() {
                    break;
                }
            }
            // The client does not read. Closing its connection frees the data that waits for it.
            tracing::debug!("a client of the feed is too slow: closing its connection");
            connection.0.cancel();
        });
        let bytes = futures_util::stream::poll_fn(move |context| {
            receiver
                .poll_recv(context)
                .map(|bytes| bytes.map(Ok::<_, std::io::Error>))
        });
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        (headers, Body::from_stream(bytes)).into_response()
    }
}

/// Counts a reader while it is connected.
struct Reader(Feed);

impl Reader {
    fn enter(feed: Feed) -> Self {
        feed.0.readers.fetch_add(1, Ordering::Relaxed);
        Self(feed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.0.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

fn name(fact: &Fact) -> &'static str {
    match fact {
        Fact::Reset => "reset",
        Fact::State => "state",
        Fact::Pulled { .. } => "pulled",
        Fact::Session(_) => "session",
        Fact::SessionEnded { .. } => "session_ended",
        Fact::Issue { .. } => "issue",
    }
}

/// Returns the reset event. It has no number, because it concerns earlier facts.
fn reset() -> Bytes {
    let event = FeedEvent {
        at: Timestamp::now(),
        fact: Fact::Reset,
    };
    let data = serde_json::to_string(&event).unwrap_or_default();
    Bytes::from(format!("event: reset\ndata: {data}\n\n"))
}
