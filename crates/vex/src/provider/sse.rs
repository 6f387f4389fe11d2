//! Parses server-sent events from bytes as they arrive.
//!
//! The parser is the one of `sse-stream`. It is made for async streams; here a queue replaces the
//! stream, so that the reader of the bytes keeps its own timeouts, and tests can cut a stream
//! anywhere.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Cursor;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use sse_stream::SseByteStream;

use super::stream::StreamError;

/// The maximum size of an event, in bytes. The last event of a Responses stream holds the whole
/// answer.
const MAX_EVENT_BYTES: usize = 32 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    pub name: String,
    pub data: String,
}

type Chunk = Cursor<Vec<u8>>;

/// The unparsed bytes. The stream never ends; more bytes may always be pushed.
#[derive(Clone, Default)]
struct Queue(Rc<RefCell<VecDeque<Chunk>>>);

impl Stream for Queue {
    type Item = Result<Chunk, Infallible>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.borrow_mut().pop_front() {
            Some(chunk) => Poll::Ready(Some(Ok(chunk))),
            None => Poll::Pending,
        }
    }
}

/// Converts bytes to events. Comments are skipped, and an event without a final empty line is never
/// returned.
pub struct SseParser {
    queue: Queue,
    events: SseByteStream<Queue>,
    /// Bytes since the last event.
    pending: usize,
}

impl Default for SseParser {
    fn default() -> Self {
        let queue = Queue::default();
        Self {
            events: SseByteStream::new(queue.clone()),
            queue,
            pending: 0,
        }
    }
}

impl SseParser {
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending += bytes.len();
        self.queue.0.borrow_mut().push_back(Cursor::new(bytes.to_vec()));
    }

    /// Returns the next event, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// When it is not UTF-8, or an event is too large. No event follows after an error.
    pub fn next_event(&mut self) -> Result<Option<SseEvent>, StreamError> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut self.events).poll_next(&mut context) {
                Poll::Ready(Some(Ok(event))) => {
                    self.pending = 0;
                    let Some(data) = event.data else { continue };
                    let name = event.event.unwrap_or_default();
                    return Ok(Some(SseEvent { name, data }));
                }
                Poll::Ready(Some(Err(error))) => {
                    return Err(StreamError::Malformed {
                        event: String::new(),
                        reason: error.to_string(),
                    });
                }
                Poll::Pending if self.pending > MAX_EVENT_BYTES => return Err(StreamError::TooLarge),
                Poll::Pending | Poll::Ready(None) => return Ok(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for chunk in chunks {
            parser.push(chunk);
            while let Some(event) = parser.next_event().unwrap() {
                events.push((event.name, event.data));
            }
        }
        events
    }

    #[test]
    fn sse_event_forms_survive_cuts_at_every_byte() {
        let stream = "\u{feff}data: a\n\n: comment\n\nevent: ping\r\ndata: {}\r\n\r\ndata:b\rdata: ü—c\r\rid: 7\nretry: 5\n\n\
            event: e\n\nwhat: x\ndata\n\ndata: never ended\n"
            .as_bytes();
        let whole = parse([stream]);
        let expected = [("", "a"), ("ping", "{}"), ("", "b\nü—c"), ("", "")];
        assert_eq!(
            whole,
            expected.map(|(name, data)| (name.to_owned(), data.to_owned()))
        );
        for at in 0..=stream.len() {
            assert_eq!(parse([&stream[..at], &stream[at..]]), whole, "cut at {at}");
        }
        assert_eq!(parse(stream.chunks(1)), whole);
    }

    #[test]
    fn sse_rejects_invalid_utf8() {
        let mut parser = SseParser::default();
        parser.push(b"data: a\n\ndata: \xff\n\ndata: b\n\n");
        assert_eq!(parser.next_event().unwrap().unwrap().data, "a");
        assert!(matches!(parser.next_event(), Err(StreamError::Malformed { .. })));
        assert_eq!(parser.next_event().unwrap(), None);
    }

    #[test]
    fn sse_rejects_an_endless_event() {
        let mut parser = SseParser::default();
        parser.push(b"data: ");
        let piece = vec![b'x'; 1024 * 1024];
        let failed = (0..40).find_map(|_| {
            parser.push(&piece);
            parser.next_event().err()
        });
        assert!(matches!(failed, Some(StreamError::TooLarge)));
    }
}
