//! The writer of session logs: it numbers the events, adds timestamps, and never drops an event.
//!
//! Readers of logs are in `vik-store`.

#![forbid(unsafe_code)]

mod scan;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use vik_core::event::Event;
use vik_store::{LONGEST_EVENT, StoreError};

use self::scan::LogScan;

/// The size at which buffered events are written.
const BUFFER_BYTES: usize = 128 * 1024;

/// The number of bytes kept of an event that is too long.
const TRUNCATED_EVENT_BYTES: usize = 64 * 1024;

/// The buffer capacity that an idle log keeps.
const KEPT_BYTES: usize = 4 * 1024;

/// The writer of one session log: it numbers the events, adds timestamps, and never drops an event.
///
/// # Examples
///
/// ```
/// use jiff::Timestamp;
/// use vik_core::event::Event;
/// use vik_session_log::SessionLog;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("plan.jsonl");
/// let mut log = SessionLog::create(&path)?;
/// log.push(Timestamp::UNIX_EPOCH, &Event::Message { text: "Hello".into() })?;
/// log.sync()?;
///
/// let reopened = SessionLog::reopen(&path)?;
/// assert_eq!((reopened.log.len(), reopened.is_ended), (1, false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SessionLog {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    seq: u64,
    /// The last timestamp in milliseconds and as text, because many events share a millisecond.
    stamp: (i64, String),
}

impl SessionLog {
    /// Creates the log (0600).
    ///
    /// # Errors
    /// Returns an error if the file cannot be created or already exists.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(StoreError::write(path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            buffer: Vec::new(),
            seq: 0,
            stamp: (i64::MIN, String::new()),
        })
    }

    /// Opens a log whose writer was interrupted, to append to it. A torn last line is cut off: its
    /// event is in the raw file. The numbering continues after the last complete line.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, truncated or opened.
    pub fn reopen(path: &Path) -> Result<Reopened, StoreError> {
        let write = StoreError::write(path);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map_err(write)?;
        let found = LogScan::read(&mut file).map_err(StoreError::read(path))?;
        if found.torn {
            file.set_len(found.whole).map_err(write)?;
        }
        let log = Self {
            path: path.to_owned(),
            file,
            buffer: Vec::new(),
            seq: found.lines,
            stamp: (i64::MIN, String::new()),
        };
        Ok(Reopened {
            log,
            agent_events: found.lines - found.own,
            is_ended: found.ended,
        })
    }

    /// Returns the path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of events.
    pub fn len(&self) -> u64 {
        self.seq
    }

    /// Returns whether the log has no event.
    pub fn is_empty(&self) -> bool {
        self.seq == 0
    }

    /// Adds one event. It reaches the file at the next [`flush`](Self::flush) at the latest.
    ///
    /// # Errors
    /// Returns an error if the buffered events cannot be written; they stay buffered for the next
    /// try.
    pub fn push(&mut self, at: Timestamp, event: &Event<'_>) -> Result<(), StoreError> {
        self.seq += 1;
        let millis = at.as_millisecond();
        if self.stamp.0 != millis {
            self.stamp = (millis, format!("{at:.3}"));
        }
        let start = self.buffer.len();
        // Writing to a `Vec` cannot fail, and an event always serializes to an object.
        self.buffer.extend_from_slice(br#"{"seq":"#);
        let _ = serde_json::to_writer(&mut self.buffer, &self.seq);
        self.buffer.extend_from_slice(br#","at":""#);
        self.buffer.extend_from_slice(self.stamp.1.as_bytes());
        self.buffer.push(b'"');
        let comma = self.buffer.len();
        let mut bounded = Bounded {
            room: LONGEST_EVENT - (comma - start) - 1,
            buffer: &mut self.buffer,
            left_out: 0,
        };
        if serde_json::to_writer(&mut bounded, event).is_err() {
            self.buffer.truncate(start);
            self.seq -= 1;
            return Ok(());
        }
        let left_out = bounded.left_out;
        if left_out > 0 {
            let bytes = (self.buffer.len() - comma) as u64 + left_out;
            let text =
                String::from_utf8_lossy(&self.buffer[comma..comma + TRUNCATED_EVENT_BYTES]).into_owned();
            self.buffer.truncate(comma);
            self.buffer.shrink_to(BUFFER_BYTES);
            let long = Event::Malformed {
                line: text.into(),
                bytes: Some(bytes),
                offset: None,
            };
            let _ = serde_json::to_writer(&mut self.buffer, &long);
        }
        self.buffer[comma] = b',';
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_out()
        } else {
            Ok(())
        }
    }

    /// Writes the buffered events and frees the buffer. Call it when no event is expected for a
    /// while.
    ///
    /// # Errors
    /// Returns an error if the events cannot be written; events that were not written stay
    /// buffered.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.write_out()?;
        if self.buffer.capacity() > KEPT_BYTES {
            // Hundreds of sessions wait at the same time.
            self.buffer = Vec::new();
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), StoreError> {
        let mut written = 0;
        if !self.buffer.is_empty() {
            vik_store::fault::before_write().map_err(StoreError::write(&self.path))?;
        }
        let result = loop {
            match self.file.write(&self.buffer[written..]) {
                _ if written == self.buffer.len() => break Ok(()),
                Ok(count) => written += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => break Err(StoreError::write(&self.path)(source)),
            }
        };
        self.buffer.drain(..written);
        result
    }

    /// Writes the buffered events and waits until they are on the disk.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.file.sync_data().map_err(StoreError::write(&self.path))
    }
}

/// A writer that appends to a buffer up to a limit and counts the bytes that do not fit.
struct Bounded<'b> {
    buffer: &'b mut Vec<u8>,
    room: usize,
    left_out: u64,
}

impl Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    // A serializer writes many small pieces, each with this function.
    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let taken = bytes.len().min(self.room);
        self.buffer.extend_from_slice(&bytes[..taken]);
        self.room -= taken;
        self.left_out += (bytes.len() - taken) as u64;
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub struct Reopened {
    pub log: SessionLog,
    /// The number of the agent's events: all except Vik's own.
    pub agent_events: u64,
    /// Whether the last line is `ended`.
    pub is_ended: bool,
}

#[cfg(test)]
mod tests;
