//! The removal of the oldest records of a trace.
//!
//! The file of a trimmed trace begins with a line that names the last removed record: its position,
//! its hash, and where it ended. The first record that is left contains the same hash, so the chain
//! stays verifiable from there on. All positions in a trace count the removed bytes too, so the head
//! and what attempts remember stay valid, and one rename is the whole change.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use vik_workspace::fs::{self as private, if_exists};

use super::chain::{Head, Trace, follow};

/// The maximum length of the first line of a trimmed trace.
const MAX_START: u64 = 256;

/// Records are removed when they are this part of the file: a removal copies the rest.
const LEAST_PART: u64 = 4;

/// The first line of a trimmed trace.
#[derive(Serialize, Deserialize)]
struct StartLine {
    removed: Head,
}

/// Where the records of a trace start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The last removed record.
    pub(super) removed: Head,
    /// The place of the first record in the file.
    pub(super) place: u64,
}

/// What was removed from a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    pub records: u64,
    pub bytes: u64,
}

impl Start {
    /// Reads the start of a file. The line must match the written format byte for byte.
    pub(super) fn of(text: &[u8]) -> Self {
        let line = text
            .split_inclusive(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let start = serde_json::from_slice::<StartLine>(line).ok();
        let start = start.filter(|start| start.text() == line);
        start.map_or(
            Self {
                removed: Head::NONE,
                place: 0,
            },
            |start| Self {
                removed: start.removed,
                place: line.len() as u64,
            },
        )
    }

    pub(super) fn read(file: &mut (impl Read + Seek)) -> io::Result<Self> {
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.by_ref().take(MAX_START).read_to_end(&mut text)?;
        Ok(Self::of(&text))
    }

    /// Returns the place in the file of a position in the trace.
    pub(super) fn place_of(self, position: u64) -> u64 {
        self.place + position.saturating_sub(self.removed.bytes)
    }

    /// Returns the position in the trace of a place in the file.
    pub(super) fn position_of(self, place: u64) -> u64 {
        self.removed.bytes + place.saturating_sub(self.place)
    }
}

impl StartLine {
    fn text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

impl Trace {
    /// Returns the number of records that were removed from the start.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn removed(&self) -> io::Result<u64> {
        let Some(mut file) = if_exists(private::open(&self.file()))? else {
            return Ok(0);
        };
        Ok(Start::read(&mut file)?.removed.seq)
    }

    /// Returns whether [`trim`](Self::trim) would remove anything. Blocks.
    ///
    /// # Errors
    /// Returns an error if the files cannot be read.
    pub fn has_expired(&self, before: Timestamp) -> io::Result<bool> {
        Ok(self.expired(before)?.is_some())
    }

    /// Removes the records that were written before this time, if they are a large part of the
    /// file. Stops at a damaged record, and keeps the last one. Blocks.
    ///
    /// # Errors
    /// Returns an error if the rest cannot be written, in which case nothing is removed, or if timed
    /// out waiting for an append.
    pub fn trim(&self, before: Timestamp) -> io::Result<Trimmed> {
        if self.expired(before)?.is_none() {
            return Ok(Trimmed::default());
        }
        let _lock = self.lock()?;
        let Some((start, removed)) = self.expired(before)? else {
            return Ok(Trimmed::default());
        };
        let mut old = private::open(&self.file())?;
        old.seek(SeekFrom::Start(start.place_of(removed.bytes)))?;
        let path = self.file().with_extension("new");
        let mut new = private::create_private(&path)?;
        let written = new
            .write_all(&StartLine { removed }.text())
            .and_then(|()| io::copy(&mut old, &mut new))
            .and_then(|_| new.sync_all())
            .and_then(|()| std::fs::rename(&path, self.file()));
        if let Err(error) = written {
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        if let Some(folder) = path.parent() {
            private::sync_dir(folder)?;
        }
        Ok(Trimmed {
            records: removed.seq - start.removed.seq,
            bytes: removed.bytes - start.removed.bytes,
        })
    }

    /// Returns where the records start and the last one that can be removed, if any.
    fn expired(&self, before: Timestamp) -> io::Result<Option<(Start, Head)>> {
        let Some(file) = if_exists(private::open(&self.file()))? else {
            return Ok(None);
        };
        let Some(head) = self.stored_head()? else {
            return Ok(None);
        };
        let size = file.metadata()?.len();
        let mut file = BufReader::new(file);
        let start = Start::read(&mut file)?;
        file.seek(SeekFrom::Start(start.place))?;
        let mut last = start.removed;
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = file.read_until(b'\n', &mut line)?;
            if line.pop() != Some(b'\n') {
                break;
            }
            let Ok((next, record)) = follow(&line, last.bytes + length as u64, last) else {
                break;
            };
            if record.timestamp >= before || next.seq >= head.seq {
                break;
            }
            last = next;
        }
        let bytes = last.bytes - start.removed.bytes;
        let is_large = bytes > 0 && bytes >= (size - start.place) / LEAST_PART;
        Ok(is_large.then_some((start, last)))
    }
}
