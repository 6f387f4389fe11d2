//! Writing a session log.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use vik_core::event::Event;

use crate::StoreError;

/// How much is gathered before it is written.
const BUFFER_BYTES: usize = 128 * 1024;

/// How much memory a log that waits for events keeps for them.
const KEPT_BYTES: usize = 4 * 1024;

/// The writer of one session log: numbers the events, stamps them, and never drops one.
#[derive(Debug)]
pub struct SessionLog {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    seq: u64,
    /// The last stamp as text: many events share a millisecond.
    stamp: (i64, String),
}

impl SessionLog {
    /// Creates the log (0600).
    ///
    /// # Errors
    /// When the file cannot be created, or exists.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| StoreError::Write {
                path: path.to_owned(),
                source,
            })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            buffer: Vec::new(),
            seq: 0,
            stamp: (i64::MIN, String::new()),
        })
    }

    /// Opens a log whose writer broke off, to end it: numbers go on after its last whole line.
    ///
    /// # Errors
    /// When the file cannot be read or opened.
    pub fn reopen(path: &Path) -> Result<Self, StoreError> {
        #[derive(serde::Deserialize)]
        struct Line {
            seq: u64,
        }
        let last = crate::last_line(path).map_err(|source| StoreError::Read {
            path: path.to_owned(),
            source,
        })?;
        let seq = last
            .and_then(|line| serde_json::from_slice::<Line>(&line).ok())
            .map_or(0, |line| line.seq);
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .map_err(|source| StoreError::Write {
                path: path.to_owned(),
                source,
            })?;
        // A torn last line stays as it is, on a line of its own.
        let torn = ends_torn(path).map_err(|source| StoreError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            buffer: if torn { vec![b'\n'] } else { Vec::new() },
            seq,
            stamp: (i64::MIN, String::new()),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many events it has.
    pub fn len(&self) -> u64 {
        self.seq
    }

    /// Whether it has no event yet.
    pub fn is_empty(&self) -> bool {
        self.seq == 0
    }

    /// Adds one event. It reaches the file at the next [`flush`](Self::flush) at the latest.
    ///
    /// # Errors
    /// When the gathered events cannot be written; they stay gathered and are tried again.
    pub fn push(&mut self, at: Timestamp, event: &Event<'_>) -> Result<(), StoreError> {
        self.seq += 1;
        let millis = at.as_millisecond();
        if self.stamp.0 != millis {
            self.stamp = (millis, format!("{at:.3}"));
        }
        let start = self.buffer.len();
        // Writing to a Vec cannot fail, and an event always serialises to an object.
        let _ = write!(self.buffer, "{{\"seq\":{},\"at\":\"{}\"", self.seq, self.stamp.1);
        let comma = self.buffer.len();
        if serde_json::to_writer(&mut self.buffer, event).is_err() {
            self.buffer.truncate(start);
            self.seq -= 1;
            return Ok(());
        }
        self.buffer[comma] = b',';
        self.buffer.push(b'\n');
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_out()
        } else {
            Ok(())
        }
    }

    /// Writes what is gathered, and keeps no memory for more: call it when nothing more comes for a while.
    ///
    /// # Errors
    /// When it cannot be written; what was not is kept.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.write_out()?;
        if self.buffer.capacity() > KEPT_BYTES {
            // Hundreds of sessions wait at a time.
            self.buffer = Vec::new();
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), StoreError> {
        let mut written = 0;
        let result = loop {
            match self.file.write(&self.buffer[written..]) {
                _ if written == self.buffer.len() => break Ok(()),
                Ok(count) => written += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    break Err(StoreError::Write {
                        path: self.path.clone(),
                        source,
                    });
                }
            }
        };
        self.buffer.drain(..written);
        result
    }

    /// Writes what is gathered and waits until it is on the disk.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.flush()?;
        self.file.sync_data().map_err(|source| StoreError::Write {
            path: self.path.clone(),
            source,
        })
    }
}

/// Whether a file is not empty and does not end with a newline.
fn ends_torn(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != [b'\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_stamped_and_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan-x.jsonl");
        let mut log = SessionLog::create(&path).unwrap();
        let at = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        log.push(
            at,
            &Event::Message {
                text: "a\n\"b\"".into(),
            },
        )
        .unwrap();
        log.push(at, &Event::Malformed { line: "?".into() }).unwrap();
        log.sync().unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "{\"seq\":1,\"at\":\"2023-11-14T22:13:20.123Z\",\"kind\":\"message\",\"text\":\"a\\n\\\"b\\\"\"}\n\
             {\"seq\":2,\"at\":\"2023-11-14T22:13:20.123Z\",\"kind\":\"malformed\",\"line\":\"?\"}\n"
        );
        assert!(SessionLog::create(&path).is_err(), "a log is never written twice");
    }

    #[test]
    fn a_log_that_was_cut_off_can_be_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan-x.jsonl");
        std::fs::write(&path, "{\"seq\":1,\"kind\":\"message\"}\n{\"seq\":2,\"ki").unwrap();
        let mut log = SessionLog::reopen(&path).unwrap();
        log.push(Timestamp::UNIX_EPOCH, &Event::Malformed { line: "?".into() })
            .unwrap();
        log.sync().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let last = text.lines().last().unwrap();
        assert!(last.starts_with("{\"seq\":2,"), "{text}");
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn a_full_disk_is_an_error_and_keeps_what_was_not_written() {
        let mut log = SessionLog {
            path: "/dev/full".into(),
            file: OpenOptions::new().append(true).open("/dev/full").unwrap(),
            buffer: Vec::new(),
            seq: 0,
            stamp: (i64::MIN, String::new()),
        };
        log.push(Timestamp::UNIX_EPOCH, &Event::Message { text: "a".into() })
            .unwrap();
        assert!(log.flush().is_err());
        assert!(!log.buffer.is_empty());
    }
}
