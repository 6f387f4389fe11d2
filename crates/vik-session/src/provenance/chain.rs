//! The file of the trace: one record per line, each with the hash of the previous one. It is
//! append-only, but for the oldest records, which [`trim`](super::trim) removes.
//!
//! A line ends with the hash of all bytes before that hash, so each line can be verified on its
//! own. The head is a file beside the trace, with the number of records, the hash of the last one,
//! and the size of the trace. It distinguishes a truncated file from a complete one, and an append
//! that was interrupted by a death from a line that was damaged later: everything that the head
//! covers was complete once.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use vik_base::failpoint;
use vik_core::file_change::ContentHash;
use vik_proc::FileLock;
use vik_workspace::changes::hash_of;
use vik_workspace::fs as private;
use vik_workspace::fs::{create_private_dir_all, if_exists, write_atomic};

use super::record::{Record, VERSION};
use super::trim::Start;

/// The end of a line, after the hash.
const END: &[u8] = b"\"}}}";

/// The length of the hash.
const DIGITS: usize = 64;

/// The time for which an append waits for another one.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// The last record of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The position of the record, from 1; 0 if there is none.
    pub seq: u64,
    pub hash: ContentHash,
    /// The size of the trace up to the end of the record, in bytes, with what was removed.
    pub bytes: u64,
}

impl Head {
    pub(super) const NONE: Self = Self {
        seq: 0,
        hash: ContentHash([0; 32]),
        bytes: 0,
    };

    fn text(self) -> Vec<u8> {
        let mut text = serde_json::to_vec(&self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// Parses a head; it must match the written format byte for byte.
    fn parse(text: &[u8]) -> Option<Self> {
        let head: Self = serde_json::from_slice(text).ok()?;
        (head.text() == text).then_some(head)
    }
}

/// The trace of a workflow.
///
/// # Examples
///
/// ```
/// use vik_session::provenance::Trace;
///
/// let folder = tempfile::tempdir()?;
/// let trace = Trace::new(folder.path());
/// assert!(trace.verify()?.broken.is_none());
///
/// std::fs::write(trace.file(), "not a record\n")?;
/// assert_eq!(trace.verify()?.broken.map(|broken| broken.line), Some(1));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trace {
    dir: PathBuf,
}

/// The result of verifying a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The number of valid consecutive records, from the first one in the file.
    pub records: u64,
    /// The number of records before it, which were removed because of their age.
    pub removed: u64,
    /// The hash of the last valid record.
    pub head: Option<ContentHash>,
    /// The first invalid record, if any.
    pub broken: Option<Broken>,
    /// Whether a death interrupted an append; the next append removes the remains.
    pub cut_off: bool,
}

/// An invalid place in a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The line, from 1.
    pub line: u64,
    #[serde(rename = "what")]
    pub problem: &'static str,
}

/// A valid line of a trace.
#[derive(Clone, Debug)]
pub struct Line {
    /// The bytes of the line, without the newline.
    pub text: Vec<u8>,
    pub record: Record,
}

impl Trace {
    /// Returns the trace in a folder.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Returns the path of the trace file.
    pub fn file(&self) -> PathBuf {
        self.dir.join("trace.jsonl")
    }

    fn head_file(&self) -> PathBuf {
        self.dir.join("head.json")
    }

    /// Returns the size of the trace up to its last record, in bytes: 0 if the head is missing.
    ///
    /// # Errors
    /// Returns an error if the head cannot be read.
    pub fn end(&self) -> io::Result<u64> {
        let head = Head::parse(&read_or_empty(&self.head_file())?);
        Ok(head.map_or(0, |head| head.bytes))
    }

    /// Appends a record, unless the trace already has one of the same attempt. Returns the record's
    /// position. Blocks until the record is on the disk.
    ///
    /// `since` is an [`end`](Self::end) of the trace from before the attempt: only what follows it
    /// is read, so that an append costs the same however long the trace is.
    ///
    /// The remains of an interrupted append are removed first: they are beyond the part that the
    /// head covers, so they were never complete. A file that was damaged in another way stays
    /// unchanged, and the chain continues from the head: [`verify`](Self::verify) reports the
    /// place.
    ///
    /// # Errors
    /// Returns an error if the record cannot be written, or if timed out waiting for another append.
    pub fn append(&self, record: &Record, since: u64) -> io::Result<u64> {
        create_private_dir_all(&self.dir)?;
        let _lock = self.lock()?;
        let mut file = self.open()?;
        let stored = self.stored_head()?;
        let start = Start::read(&mut file)?;
        let end = start.position_of(file.metadata()?.len());
        // With the end of the line before, so that a line that lacks it is noticed. Without a head,
        // and in a file that is too short, the whole file is read.
        let skipped = match stored {
            Some(head) if head.bytes <= end => {
                since.min(head.bytes).saturating_sub(1).max(start.removed.bytes)
            }
            _ => start.removed.bytes,
        };
        file.seek(SeekFrom::Start(start.place_of(skipped)))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let mut head = stored.unwrap_or_else(|| last_whole(&text, start.removed));
        let own = lines(&text).find_map(|(line, end)| head_of_attempt(line, skipped + end as u64, record));
        if let Some(own) = own {
            if stored.is_none() {
                self.write_head(head)?;
            } else if own.seq == head.seq + 1 {
                // A death occurred between the writes of the record and of the head.
                self.write_head(own)?;
            }
            return Ok(own.seq);
        }
        let covered = usize::try_from(head.bytes.saturating_sub(skipped)).unwrap_or(usize::MAX);
        let beyond = text.get(covered..).unwrap_or_default();
        if let Some(next) = follows(beyond, head) {
            head = next;
        } else if !beyond.is_empty() && !beyond.contains(&b'\n') {
            file.set_len(start.place_of(head.bytes))?;
            text.truncate(covered);
        }
        let mut bytes = Vec::new();
        if text.last().is_some_and(|byte| *byte != b'\n') {
            bytes.push(b'\n');
        }
        let (line, hash) = line_of(record, head)?;
        bytes.extend_from_slice(&line);
        bytes.push(b'\n');
        let written = file.write_all(&bytes).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // A part of a line must not precede the next one.
            let _ = file.set_len(start.place_of(skipped + text.len() as u64));
            return Err(error);
        }
        failpoint::reach("trace_appended");
        let head = Head {
            seq: head.seq + 1,
            hash,
            bytes: skipped + (text.len() + bytes.len()) as u64,
        };
        self.write_head(head)?;
        Ok(head.seq)
    }

    /// Returns the valid lines in order. Lines that are no records are left out;
    /// [`verify`](Self::verify) reports them.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn read(&self) -> io::Result<Vec<Line>> {
        let text = self.text()?;
        let whole = lines(&text).filter_map(|(line, _)| {
            own_hash(line)?;
            let record = serde_json::from_slice(line).ok()?;
            let text = line.to_vec();
            Some(Line { text, record })
        });
        Ok(whole.collect())
    }

    /// Verifies that every record is unchanged and follows the previous one, and that none is
    /// missing at the end.
    ///
    /// # Errors
    /// Returns an error if the files cannot be read.
    pub fn verify(&self) -> io::Result<Verified> {
        // The head is read first, because a record that is appended in the meantime is beyond it.
        let head = read_or_empty(&self.head_file())?;
        Ok(verify(&self.text()?, &head))
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        read_or_empty(&self.file())
    }

    pub(super) fn lock(&self) -> io::Result<FileLock> {
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            if let Some(lock) = FileLock::try_acquire(&self.dir.join("lock"))? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "timed out waiting for another append",
                ));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn open(&self) -> io::Result<File> {
        #[expect(clippy::disallowed_methods, reason = "Vik's own file")]
        OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(self.file())
    }

    /// Returns the stored head; `None` if it is missing or damaged. Damage is logged.
    pub(super) fn stored_head(&self) -> io::Result<Option<Head>> {
        let text = read_or_empty(&self.head_file())?;
        let head = Head::parse(&text);
        if head.is_none() && !text.is_empty() {
            tracing::error!("the head of the trace is damaged; continuing after the last complete record");
        }
        Ok(head)
    }

    fn write_head(&self, head: Head) -> io::Result<()> {
        write_atomic(&self.head_file(), &head.text())
    }
}

/// Verifies the contents of the files, as [`Trace::verify`] does.
pub fn verify(text: &[u8], head: &[u8]) -> Verified {
    let start = Start::of(text);
    let text = text
        .get(usize::try_from(start.place).unwrap_or(0)..)
        .unwrap_or_default();
    let mut found = Verified {
        records: 0,
        removed: start.removed.seq,
        head: None,
        broken: None,
        cut_off: false,
    };
    let stored = if head.is_empty() {
        Some(Head::NONE)
    } else {
        Head::parse(head)
    };
    let Some(stored) = stored else {
        found.broken = broken(1, "the head of the trace is damaged");
        return found;
    };
    let mut last = start.removed;
    let mut meets_head = stored == last;
    // The first line of a trimmed trace is no record.
    let first = 1 + u64::from(start.place > 0);
    for (at, (line, end)) in (first..).zip(lines(text)) {
        let next = match next_head(line, start.removed.bytes + end as u64, last) {
            Ok(next) => next,
            Err(problem) => {
                found.broken = broken(at, problem);
                return found;
            }
        };
        last = next;
        found.records += 1;
        found.head = Some(next.hash);
        if next.seq == stored.seq {
            if next != stored {
                found.broken = broken(
                    at,
                    "it differs from the last record that the head of the trace names",
                );
                return found;
            }
            meets_head = true;
        }
    }
    let remaining = start.removed.bytes + text.len() as u64 - last.bytes;
    if !meets_head {
        found.broken = broken(found.records + first, "records are missing at the end");
    } else if last.seq > stored.seq + 1 {
        // A death leaves at most one record that the head does not cover.
        let line = stored.seq - start.removed.seq + first;
        found.broken = broken(line, "the head of the trace does not include it");
    } else {
        found.cut_off = remaining > 0;
    }
    found
}

fn broken(line: u64, problem: &'static str) -> Option<Broken> {
    Some(Broken { line, problem })
}

/// Returns the head after a line that follows another one.
fn next_head(line: &[u8], end: u64, last: Head) -> Result<Head, &'static str> {
    follow(line, end, last).map(|(head, _)| head)
}

/// Returns the head after a line that follows another one, and the record of the line.
pub(super) fn follow(line: &[u8], end: u64, last: Head) -> Result<(Head, Record), &'static str> {
    let hash = own_hash(line).ok_or("its content does not match its hash")?;
    let record: Record = serde_json::from_slice(line).map_err(|_| "it is not a record")?;
    let vik = record.vik();
    if vik.prev != last.hash || vik.seq != last.seq + 1 {
        return Err("it does not follow the previous record");
    }
    let head = Head {
        seq: vik.seq,
        hash,
        bytes: end,
    };
    Ok((head, record))
}

/// Returns the head after the line beyond a head, if that is the only line and it follows the head.
fn follows(beyond: &[u8], head: Head) -> Option<Head> {
    let mut beyond_lines = lines(beyond);
    let (line, end) = beyond_lines.next()?;
    let alone = beyond_lines.next().is_none() && end == beyond.len();
    let next = next_head(line, end as u64, head).ok().filter(|_| alone)?;
    Some(Head {
        bytes: head.bytes + next.bytes,
        ..next
    })
}

/// Returns the head of the last valid record, for a trace without a head.
fn last_whole(text: &[u8], removed: Head) -> Head {
    let whole = lines(text).filter_map(|(line, _)| {
        let record: Record = serde_json::from_slice(line).ok()?;
        Some((record.vik().seq, own_hash(line)?))
    });
    let end = lines(text).last().map_or(0, |(_, end)| end);
    whole.last().map_or(removed, |(seq, hash)| Head {
        seq,
        hash,
        bytes: removed.bytes + end as u64,
    })
}

/// Returns the complete lines, each with the offset after its newline.
fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let ends = text
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at);
    let mut start = 0;
    ends.map(move |end| {
        let line = &text[start..end];
        start = end + 1;
        (line, start)
    })
}

/// Returns the line of a record that follows a head, and its hash.
fn line_of(record: &Record, head: Head) -> io::Result<(Vec<u8>, ContentHash)> {
    let mut record = record.clone();
    let vik = &mut record.metadata.vik;
    (vik.seq, vik.prev, vik.hash) = (head.seq + 1, head.hash, ContentHash::default());
    let mut line = serde_json::to_vec(&record)?;
    let place = line
        .len()
        .checked_sub(END.len() + DIGITS)
        .filter(|_| line.ends_with(END));
    let place = place.ok_or_else(|| io::Error::other("the hash is not at the end of the record"))?;
    let hash = hash_of(&line[..place]);
    line[place..place + DIGITS].copy_from_slice(hash.to_string().as_bytes());
    Ok((line, hash))
}

/// Returns the hash of a line if it matches the content.
fn own_hash(line: &[u8]) -> Option<ContentHash> {
    let place = line.len().checked_sub(END.len() + DIGITS)?;
    let digits = line.strip_suffix(END)?.get(place..)?;
    let hash = hash_of(&line[..place]);
    // The digits are compared as text, because `A` and `a` are the same digit.
    (hash.to_string().as_bytes() == digits).then_some(hash)
}

/// Returns the head after a line if the line is the record of the same attempt.
fn head_of_attempt(line: &[u8], end: u64, record: &Record) -> Option<Head> {
    let start = format!("{{\"version\":\"{VERSION}\",\"id\":\"{}\"", record.id);
    if !line.starts_with(start.as_bytes()) {
        return None;
    }
    let hash = own_hash(line)?;
    let record: Record = serde_json::from_slice(line).ok()?;
    Some(Head {
        seq: record.vik().seq,
        hash,
        bytes: end,
    })
}

fn read_or_empty(path: &Path) -> io::Result<Vec<u8>> {
    Ok(if_exists(private::read(path))?.unwrap_or_default())
}
