//! Writes a log: each line with one write, by one process at a time.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use jiff::Timestamp;
use nix::fcntl::Flock;

use super::entry::LogLine;
use super::{Entry, SessionError};

/// A log for appending, or a null log that stores nothing.
#[derive(Debug)]
pub struct Log(Option<OpenLog>);

#[derive(Debug)]
struct OpenLog {
    file: Flock<File>,
    path: PathBuf,
    /// The number of the next line.
    seq: u64,
    /// The length of all complete lines.
    length: u64,
}

impl Log {
    /// Creates a null log: the conversation ends with its process.
    pub fn none() -> Self {
        Self(None)
    }

    pub(super) fn open(file: Flock<File>, path: PathBuf, seq: u64, length: u64) -> Self {
        Self(Some(OpenLog {
            file,
            path,
            seq,
            length,
        }))
    }

    /// Appends an entry, without its secrets. When this returns, the line survives the end of the
    /// process, and, if other actions depend on it, the loss of power.
    ///
    /// # Errors
    /// When it cannot be written. Even then the file contains only complete lines.
    pub fn append(&mut self, entry: &Entry) -> Result<(), SessionError> {
        match &mut self.0 {
            Some(open) => open.append(entry),
            None => Ok(()),
        }
    }
}

impl OpenLog {
    fn append(&mut self, entry: &Entry) -> Result<(), SessionError> {
        let durable = entry.is_durable();
        let line = LogLine {
            seq: self.seq,
            at: Timestamp::now(),
            entry: entry.clone().redacted(),
        };
        let written = serde_json::to_vec(&line)
            .map_err(std::io::Error::from)
            .and_then(|mut bytes| {
                bytes.push(b'\n');
                self.file.write_all(&bytes)?;
                if durable {
                    self.file.sync_data()?;
                }
                Ok(bytes.len() as u64)
            });
        match written {
            Ok(bytes) => {
                self.seq += 1;
                self.length += bytes;
                Ok(())
            }
            Err(source) => {
                // Half a line would end the file for every reader, so it is removed if possible.
                let _ = self.file.set_len(self.length);
                Err(SessionError::Io {
                    action: "write",
                    path: self.path.clone(),
                    source,
                })
            }
        }
    }
}
