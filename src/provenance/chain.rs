//! The file of the trace: one record a line, each with the hash of the one before it; only ever appended to.
//!
//! A line ends with the hash of all bytes before that hash, so a line proves itself. Beside the file stands its head: how
//! many records there are, the hash of the last one, and how long the file is. It tells a file that was cut short from a
//! whole one, and a write that a death cut off from a line that was damaged later: what the head covers was whole once.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use vik_core::file_change::ContentHash;
use vik_proc::FileLock;

use super::record::{Record, VERSION};
use crate::crash;
use crate::workspace::changes::hash_of;
use crate::workspace::fs as private;
use crate::workspace::fs::{create_private_dir_all, write_atomic};

/// What stands after the hash in a line.
const END: &[u8] = b"\"}}}";

/// How long the hash is.
const DIGITS: usize = 64;

/// How long an append waits for another one.
const PATIENCE: Duration = Duration::from_secs(60);

/// The last record of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its place, from 1; 0 where there is none.
    pub seq: u64,
    /// Its hash.
    pub hash: ContentHash,
    /// How many bytes the file has, up to its end.
    pub bytes: u64,
}

impl Head {
    const NONE: Self = Self {
        seq: 0,
        hash: ContentHash([0; 32]),
        bytes: 0,
    };

    fn text(self) -> Vec<u8> {
        let mut text = serde_json::to_vec(&self).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// The head that was written, to the byte.
    fn parse(text: &[u8]) -> Option<Self> {
        let head: Self = serde_json::from_slice(text).ok()?;
        (head.text() == text).then_some(head)
    }
}

/// The trace of a workflow.
#[derive(Clone, Debug)]
pub struct Trace {
    dir: PathBuf,
}

/// What a trace was found to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// How many records are whole and follow each other, from the first one.
    pub records: u64,
    /// The last of them.
    pub head: Option<ContentHash>,
    /// The first that does not hold, if any.
    pub broken: Option<Broken>,
    /// Whether a death cut an append off: the next one clears it away.
    pub cut_off: bool,
}

/// Where a trace does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: &'static str,
}

/// A whole line of a trace.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its bytes, without the newline.
    pub text: Vec<u8>,
    /// What it says.
    pub record: Record,
}

impl Trace {
    /// The trace in a folder.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The file.
    pub fn file(&self) -> PathBuf {
        self.dir.join("trace.jsonl")
    }

    fn head_file(&self) -> PathBuf {
        self.dir.join("head.json")
    }

    /// Appends a record, unless the trace has one of that attempt. Gives its place. Blocks until it is on the disk.
    ///
    /// What a death cut off is cleared away first: it is beyond what the head covers, so it was never whole. A file that was
    /// damaged otherwise is left as it is, and the chain goes on from the head: [`verify`](Self::verify) names the place.
    ///
    /// # Errors
    /// When it cannot be written, or another append does not end.
    pub fn append(&self, record: &Record) -> io::Result<u64> {
        create_private_dir_all(&self.dir)?;
        let _lock = self.lock()?;
        let mut file = self.open()?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let stored = self.stored_head()?;
        let mut head = stored.unwrap_or_else(|| last_whole(&text));
        let own = lines(&text).find_map(|(line, end)| own(line, end, record));
        if let Some(own) = own {
            if stored.is_none() {
                self.keep_head(head)?;
            } else if own.seq == head.seq + 1 {
                // Death came between the record and the head.
                self.keep_head(own)?;
            }
            return Ok(own.seq);
        }
        let covered = usize::try_from(head.bytes).unwrap_or(usize::MAX);
        let beyond = text.get(covered..).unwrap_or_default();
        if let Some(next) = follows(beyond, head) {
            head = next;
        } else if !beyond.is_empty() && !beyond.contains(&b'\n') {
            file.set_len(head.bytes)?;
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
            // A part of a line must not stand before the next one.
            let _ = file.set_len(text.len() as u64);
            return Err(error);
        }
        crash::point("trace_appended");
        let head = Head {
            seq: head.seq + 1,
            hash,
            bytes: (text.len() + bytes.len()) as u64,
        };
        self.keep_head(head)?;
        Ok(head.seq)
    }

    /// The lines that are whole, in their order. What does not read as a record is left out: [`verify`](Self::verify) tells.
    ///
    /// # Errors
    /// When the file cannot be read.
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

    /// Whether every record is what was recorded, follows the one before it, and none is missing at the end.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn verify(&self) -> io::Result<Verified> {
        // The head first: a record that is appended meanwhile is beyond it.
        let head = read_or_empty(&self.head_file())?;
        Ok(verify(&self.text()?, &head))
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        read_or_empty(&self.file())
    }

    fn lock(&self) -> io::Result<FileLock> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(lock) = FileLock::try_acquire(&self.dir.join("lock"))? {
                return Ok(lock);
            }
            if Instant::now() >= deadline {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another append does not end",
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

    /// `None` where there is none that can be read; a damaged one is said.
    fn stored_head(&self) -> io::Result<Option<Head>> {
        let text = read_or_empty(&self.head_file())?;
        let head = Head::parse(&text);
        if head.is_none() && !text.is_empty() {
            tracing::error!("the head of the trace is damaged; it goes on from its last whole record");
        }
        Ok(head)
    }

    fn keep_head(&self, head: Head) -> io::Result<()> {
        write_atomic(&self.head_file(), &head.text())
    }
}

/// [`Trace::verify`], of what the files hold.
pub fn verify(text: &[u8], head: &[u8]) -> Verified {
    let mut found = Verified {
        records: 0,
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
    let mut last = Head::NONE;
    let mut meets_head = stored == Head::NONE;
    for (at, (line, end)) in (1..).zip(lines(text)) {
        let next = match next(line, end, last) {
            Ok(next) => next,
            Err(what) => {
                found.broken = broken(at, what);
                return found;
            }
        };
        last = next;
        found.records += 1;
        found.head = Some(next.hash);
        if next.seq == stored.seq {
            if next != stored {
                found.broken = broken(at, "it is not the last record that the head of the trace names");
                return found;
            }
            meets_head = true;
        }
    }
    let rest = text.len() as u64 - last.bytes;
    if !meets_head {
        found.broken = broken(found.records + 1, "records are missing at the end");
    } else if last.seq > stored.seq + 1 {
        // Death leaves one record at most that the head does not know.
        found.broken = broken(stored.seq + 1, "the head of the trace does not know it");
    } else {
        found.cut_off = rest > 0;
    }
    found
}

fn broken(line: u64, what: &'static str) -> Option<Broken> {
    Some(Broken { line, what })
}

/// The head after a line that follows another one.
fn next(line: &[u8], end: usize, last: Head) -> Result<Head, &'static str> {
    let hash = own_hash(line).ok_or("its content is not what was recorded")?;
    let record: Record = serde_json::from_slice(line).map_err(|_| "it is no record")?;
    let vik = record.vik();
    if vik.prev != last.hash || vik.seq != last.seq + 1 {
        return Err("it does not follow the one before it");
    }
    Ok(Head {
        seq: vik.seq,
        hash,
        bytes: end as u64,
    })
}

/// What one line beyond a head makes of it, if that is all there is and it follows.
fn follows(beyond: &[u8], head: Head) -> Option<Head> {
    let mut beyond_lines = lines(beyond);
    let (line, end) = beyond_lines.next()?;
    let alone = beyond_lines.next().is_none() && end == beyond.len();
    let next = next(line, end, head).ok().filter(|_| alone)?;
    Some(Head {
        bytes: head.bytes + next.bytes,
        ..next
    })
}

/// The last whole record, where no head tells.
fn last_whole(text: &[u8]) -> Head {
    let whole = lines(text).filter_map(|(line, _)| {
        let record: Record = serde_json::from_slice(line).ok()?;
        Some((record.vik().seq, own_hash(line)?))
    });
    let end = lines(text).last().map_or(0, |(_, end)| end);
    whole.last().map_or(Head::NONE, |(seq, hash)| Head {
        seq,
        hash,
        bytes: end as u64,
    })
}

/// The whole lines, and where each ends with its newline.
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

/// The line of a record in its place after a head, and its hash.
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

/// The hash of a line that proves itself.
fn own_hash(line: &[u8]) -> Option<ContentHash> {
    let place = line.len().checked_sub(END.len() + DIGITS)?;
    let digits = line.strip_suffix(END)?.get(place..)?;
    let hash = hash_of(&line[..place]);
    // To the letter: `A` and `a` are the same digit.
    (hash.to_string().as_bytes() == digits).then_some(hash)
}

/// The head that a line would be, if it is that of the attempt of a record.
fn own(line: &[u8], end: usize, record: &Record) -> Option<Head> {
    let start = format!("{{\"version\":\"{VERSION}\",\"id\":\"{}\"", record.id);
    if !line.starts_with(start.as_bytes()) {
        return None;
    }
    let hash = own_hash(line)?;
    let record: Record = serde_json::from_slice(line).ok()?;
    Some(Head {
        seq: record.vik().seq,
        hash,
        bytes: end as u64,
    })
}

fn read_or_empty(path: &Path) -> io::Result<Vec<u8>> {
    match private::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        text => text,
    }
}
