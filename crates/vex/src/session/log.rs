//! Writing a log: one line at a time, each with one write, by one process.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::fcntl::Flock;

use super::entry::LogLine;
use super::{Entry, SessionError};

/// A log that entries are appended to, or the place where none is kept.
#[derive(Debug)]
pub struct Log(Option<OpenLog>);

#[derive(Debug)]
struct OpenLog {
    file: Flock<File>,
    path: PathBuf,
    /// The number of the next line.
    seq: u64,
    /// The length of all whole lines.
    length: u64,
}

impl Log {
    /// Keeps nothing: the conversation ends with its process.
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

    /// The file, where there is one.
    pub fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|open| open.path.as_path())
    }

    /// Appends an entry, without the secrets in it. When this returns, the line survives the end of the process; if
    /// anything follows from it, the end of the machine too.
    ///
    /// # Errors
    /// When it cannot be written. What stands in the file is whole lines also then.
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
                // Half a line would end the file for every reader; it is cut off if that still can be done.
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
