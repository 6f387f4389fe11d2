//! A private, append-only file of JSON lines: a line is complete, or it was never written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

/// The file, open at its end.
#[derive(Debug)]
pub(crate) struct AppendOnlyFile {
    path: PathBuf,
    file: File,
    /// The number of bytes in complete lines.
    size: u64,
}

impl AppendOnlyFile {
    /// Opens or creates the file (0600) and returns its lines. A torn last line is cut off: its
    /// action was not started.
    pub(crate) fn open<L: DeserializeOwned>(path: &Path) -> Result<(Self, Vec<L>), StoreError> {
        let read = StoreError::read(path);
        let write = StoreError::write(path);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(write)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(read)?;
        let (lines, whole) = crate::lines_of(&text);
        let lines = lines
            .map(serde_json::from_slice)
            .collect::<Result<_, _>>()
            .map_err(|error| read(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        if whole < text.len() {
            file.set_len(whole as u64).map_err(write)?;
        }
        let appended = Self {
            path: path.to_owned(),
            file,
            size: whole as u64,
        };
        Ok((appended, lines))
    }

    /// Appends a line with its secrets masked. The line survives the death of this process.
    pub(crate) fn append(&mut self, line: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string(line).map_err(|error| self.failed(error.into()))?;
        let mut text = vik_mask::mask_json(&text).into_owned();
        text.push('\n');
        let written = crate::fault::before_write().and_then(|()| self.file.write_all(text.as_bytes()));
        if let Err(error) = written {
            // A part of a line must not precede the next one.
            let _ = self.file.set_len(self.size);
            return Err(self.failed(error));
        }
        self.size += text.len() as u64;
        Ok(())
    }

    /// Waits until the appended lines survive a death of the machine.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|source| self.failed(source))
    }

    /// Returns a file that refuses all writes.
    #[cfg(test)]
    pub(crate) fn full() -> io::Result<Self> {
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Self { path, file, size: 0 })
    }

    fn failed(&self, source: io::Error) -> StoreError {
        StoreError::write(&self.path)(source)
    }
}
