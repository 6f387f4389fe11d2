//! The pipes of a server, bounded: whatever a server prints, little of it stays in memory.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::redact::redact;
use crate::skills::text::one_line;

/// The maximum length of a message of a server, in bytes. A longer one ends the connection.
pub(super) const MAX_MESSAGE: usize = 8 * 1024 * 1024;
/// How much of its standard error is kept, in bytes.
const KEPT_ERRORS: usize = 2 * 1024;

/// Returns text of a server in quotes: one line without secrets and control characters, cut to a
/// readable length.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(&redact(text), 200).replace('"', "'"))
}

/// Reads lines of a bounded length; a longer one is an error.
pub(super) struct BoundedLines<R> {
    source: R,
    /// The length of the line so far.
    line: usize,
    too_long: Arc<Mutex<bool>>,
}

impl<R> BoundedLines<R> {
    pub(super) fn new(source: R) -> (Self, TooLong) {
        let too_long = Arc::new(Mutex::new(false));
        let lines = Self {
            source,
            line: 0,
            too_long: Arc::clone(&too_long),
        };
        (lines, TooLong(too_long))
    }
}

/// Whether a line was too long.
pub(super) struct TooLong(Arc<Mutex<bool>>);

impl TooLong {
    /// Returns the reason for the end of the connection, if that was it.
    pub(super) fn reason(&self) -> Option<String> {
        let is_set = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        is_set.then(|| format!("it sent a message longer than {} MiB", MAX_MESSAGE >> 20))
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.source).poll_read(context, buffer))?;
        for piece in buffer.filled()[before..].split_inclusive(|&byte| byte == b'\n') {
            self.line += piece.len();
            if self.line > MAX_MESSAGE {
                *self.too_long.lock().unwrap_or_else(PoisonError::into_inner) = true;
                buffer.set_filled(before);
                return Poll::Ready(Err(io::Error::other("the message is too long")));
            }
            if piece.ends_with(b"\n") {
                self.line = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The last part of what a server printed to its standard error.
#[derive(Clone, Default)]
pub(super) struct ErrorTail(Arc<Mutex<Vec<u8>>>);

impl ErrorTail {
    /// Reads to the end, and keeps the last part.
    pub(super) async fn fill(self, mut source: impl AsyncRead + Unpin) {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = source.read(&mut buffer).await {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.extend_from_slice(&buffer[..count]);
            let excess = kept.len().saturating_sub(KEPT_ERRORS);
            kept.drain(..excess);
        }
    }

    /// Returns its last line that is not empty, in quotes.
    pub(super) fn last_line(&self) -> Option<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(quoted(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(source: &[u8]) -> (io::Result<usize>, Option<String>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (mut lines, too_long) = BoundedLines::new(source);
        let mut all = Vec::new();
        let read = runtime.block_on(lines.read_to_end(&mut all));
        (read, too_long.reason())
    }

    #[test]
    fn long_lines_end_the_connection() {
        let mut lines = vec![b'x'; MAX_MESSAGE - 1];
        lines.push(b'\n');
        lines.extend_from_within(..);
        let (read, reason) = read_all(&lines);
        assert_eq!((read.unwrap(), reason), (2 * MAX_MESSAGE, None));
        lines.insert(0, b'x');
        let (read, reason) = read_all(&lines);
        assert!(read.is_err());
        assert_eq!(reason.unwrap(), "it sent a message longer than 8 MiB");
    }

    #[test]
    fn only_the_end_of_errors_is_kept() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tail = ErrorTail::default();
        let flood = format!("{}\nno such file: x\n\n", "y".repeat(1 << 20));
        runtime.block_on(tail.clone().fill(flood.as_bytes()));
        assert_eq!(tail.last_line().unwrap(), "\"no such file: x\"");
        assert!(tail.0.lock().unwrap().len() <= KEPT_ERRORS);
    }
}
