//! Pages of session logs by event number, from anywhere in a log of any length.
//!
//! Line `n` of a log is event `n`. An index keeps the offset of every 256th line while the log is
//! in use, so that a page in the middle costs a seek instead of a read of everything before it.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::value::RawValue;
use vik_core::event::LogLine;

use super::event_filter::EventFilter;
use vik_workspace::fs as private;

/// The number of lines between two indexed offsets.
const STEP: u64 = 256;

/// The maximum number of logs whose index is kept.
const LOGS: usize = 64;

/// The maximum size of a page of the API in bytes. A single event is returned whatever its length.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The maximum number of events that one request searches, and their maximum size in bytes.
const SCANNED_EVENTS: u64 = 20_000;
const SCANNED_BYTES: u64 = 32 * 1024 * 1024;

/// A page of events that match a filter.
#[derive(Debug)]
pub struct Page {
    /// The events as they are in the log.
    pub events: Vec<Box<RawValue>>,
    /// The number of the last event that was compared with the filter.
    pub scanned_to: u64,
    /// The number of the last event in the log.
    pub last: u64,
    /// Whether the last event is the end of the attempt.
    pub ended: bool,
}

/// The indexes of the logs in use.
#[derive(Debug)]
pub struct Logs {
    indexes: Mutex<Vec<Index>>,
    page_bytes: usize,
    event_bytes: usize,
}

/// The maximum size of a page.
#[derive(Clone, Copy, Debug)]
struct PageLimit {
    events: usize,
    bytes: usize,
    /// Of a longer event, only the start is returned.
    event_bytes: usize,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            indexes: Mutex::default(),
            page_bytes: PAGE_BYTES,
            event_bytes: vik_store::LONGEST_EVENT,
        }
    }
}

/// The offsets of the lines of one log.
#[derive(Clone, Debug)]
struct Index {
    path: PathBuf,
    /// The offset of line `n * STEP + 1`.
    starts: Vec<u64>,
    /// The number of complete lines, and their size in bytes.
    lines: u64,
    bytes: u64,
}

impl Logs {
    /// Creates logs whose pages have at most `bytes`. Of an event that is longer, only the start is
    /// returned.
    pub(super) fn with_page_bytes(bytes: usize) -> Self {
        Self {
            indexes: Mutex::default(),
            page_bytes: bytes,
            event_bytes: bytes,
        }
    }

    /// Returns at most `limit` events after `after` that match the filter. A missing log is empty.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn page(&self, path: &Path, after: u64, limit: usize, filter: &EventFilter) -> io::Result<Page> {
        let mut file = match private::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Page {
                    events: Vec::new(),
                    scanned_to: 0,
                    last: 0,
                    ended: false,
                });
            }
            file => file?,
        };
        let index = self.index(path, &mut file)?;
        let limit = PageLimit {
            events: limit,
            bytes: self.page_bytes,
            event_bytes: self.event_bytes,
        };
        let (events, scanned_to) = if after < index.lines {
            read(&mut file, &index, after, limit, filter)?
        } else {
            (Vec::new(), index.lines)
        };
        Ok(Page {
            events,
            scanned_to,
            last: index.lines,
            ended: vik_store::read_ended(path).is_some(),
        })
    }

    /// Returns the index, extended to the end of the log. It is taken out of the list meanwhile, so
    /// that concurrent requests may both read the log.
    fn index(&self, path: &Path, file: &mut File) -> io::Result<Index> {
        let size = file.metadata()?.len();
        let cached = {
            let mut logs = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
            let at = logs.iter().position(|index| index.path == path);
            at.map(|at| logs.remove(at))
        };
        let mut index = cached
            // A shorter file is another file with the same name.
            .filter(|index| index.bytes <= size)
            .unwrap_or_else(|| Index {
                path: path.to_owned(),
                starts: vec![0],
                lines: 0,
                bytes: 0,
            });
        index.extend(file)?;
        let mut logs = self.indexes.lock().unwrap_or_else(PoisonError::into_inner);
        logs.insert(0, index.clone());
        logs.truncate(LOGS);
        Ok(index)
    }
}

impl Index {
    fn extend(&mut self, file: &mut File) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.bytes))?;
        let mut slice = vec![0; 256 * 1024];
        let mut offset = self.bytes;
        loop {
            let count = file.read(&mut slice)?;
            if count == 0 {
                return Ok(());
            }
            for end in memchr::memchr_iter(b'\n', &slice[..count]) {
                self.lines += 1;
                self.bytes = offset + end as u64 + 1;
                if self.lines.is_multiple_of(STEP) {
                    self.starts.push(self.bytes);
                }
            }
            offset += count as u64;
        }
    }
}

/// Returns matching events, and the number of the last event that was compared.
fn read(
    file: &mut File,
    index: &Index,
    after: u64,
    limit: PageLimit,
    filter: &EventFilter,
) -> io::Result<(Vec<Box<RawValue>>, u64)> {
    let step = usize::try_from(after / STEP).unwrap_or(usize::MAX);
    let start = index.starts.get(step).copied().unwrap_or(0);
    file.seek(SeekFrom::Start(start))?;
    let mut lines = BufReader::with_capacity(64 * 1024, file.take(index.bytes - start));
    let mut line = Vec::new();
    for _ in 0..after % STEP {
        vik_store::read_line(&mut lines, 0, &mut line)?;
    }
    let (mut events, mut bytes) = (Vec::new(), 0);
    let (mut seq, mut scanned_bytes) = (after, 0);
    while events.len() < limit.events && seq - after < SCANNED_EVENTS && scanned_bytes < SCANNED_BYTES {
        let read = vik_store::read_line(&mut lines, limit.event_bytes, &mut line)?;
        if read.bytes == 0 {
            break;
        }
        scanned_bytes += read.bytes;
        let text = String::from_utf8_lossy(line.trim_ascii_end());
        let is_cut = read.bytes > line.len() as u64;
        if filter.matches(&text) {
            bytes += line.len();
            if bytes > limit.bytes && !events.is_empty() {
                break;
            }
            events.push(event(&text, seq + 1, is_cut)?);
        }
        seq += 1;
    }
    Ok((events, seq))
}

/// The maximum number of bytes shown of a line that is too long to be an event.
const SHOWN_OF_CUT: usize = 64 * 1024;

/// Converts a line of the log. A line that a disk fault has damaged, and the start of an overlong
/// line of an earlier version, are returned as text in a `malformed` event.
fn event(line: &str, seq: u64, is_cut: bool) -> io::Result<Box<RawValue>> {
    let line = if is_cut {
        &line[..line.floor_char_boundary(SHOWN_OF_CUT)]
    } else {
        line
    };
    if line.starts_with('{')
        && let Ok(value) = RawValue::from_string(line.to_owned())
    {
        return Ok(value);
    }
    let malformed = LogLine::malformed(Some(seq), line.to_owned(), None);
    serde_json::value::to_raw_value(&malformed).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn line(seq: u64) -> String {
        format!(
            "{{\"seq\":{seq},\"kind\":\"message\",\"text\":\"{}\"}}\n",
            "x".repeat(40)
        )
    }

    fn seqs(page: &Page) -> Vec<u64> {
        page.events
            .iter()
            .map(|event| {
                serde_json::from_str::<serde_json::Value>(event.get()).unwrap()["seq"]
                    .as_u64()
                    .unwrap()
            })
            .collect()
    }

    #[test]
    fn pages_of_a_growing_log_match_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let logs = Logs::default();
        assert_eq!(logs.page(&path, 0, 10, &EventFilter::default()).unwrap().last, 0);
        let mut file = File::create(&path).unwrap();
        let mut written = 0;
        for part in [1, 254, 1, 1, 3000, 7] {
            for _ in 0..part {
                written += 1;
                file.write_all(line(written).as_bytes()).unwrap();
            }
            // An incomplete line is not an event.
            file.write_all(b"{\"seq\"").unwrap();
            for after in [
                0,
                1,
                100,
                254,
                255,
                256,
                257,
                511,
                2999,
                written - 1,
                written,
                written + 5,
            ] {
                let page = logs.page(&path, after, 300, &EventFilter::default()).unwrap();
                let expected: Vec<_> = (after + 1..=written).take(300).collect();
                assert_eq!(seqs(&page), expected, "after {after} of {written}");
                assert_eq!((page.last, page.ended), (written, false));
            }
            let size = file.metadata().unwrap().len();
            file.set_len(size - 6).unwrap();
            file.seek(SeekFrom::End(0)).unwrap();
        }
    }

    #[test]
    fn malformed_line_is_shown_and_long_line_comes_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let long = format!("{{\"seq\":2,\"text\":\"{}\"}}", "y".repeat(PAGE_BYTES + 1));
        std::fs::write(&path, format!("no json \u{fffd}\n{long}\n{}", line(3))).unwrap();
        let logs = Logs::default();
        let page = logs.page(&path, 0, 10, &EventFilter::default()).unwrap();
        assert_eq!(seqs(&page), [1]);
        assert!(page.events[0].get().contains("\"malformed\""));
        assert_eq!(
            seqs(&logs.page(&path, 1, 10, &EventFilter::default()).unwrap()),
            [2]
        );
        assert_eq!(
            seqs(&logs.page(&path, 2, 10, &EventFilter::default()).unwrap()),
            [3]
        );
    }

    #[test]
    fn search_goes_on_after_the_scanned_events() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log.jsonl");
        let count = SCANNED_EVENTS + 10;
        let mut text: String = (1..count).map(line).collect();
        text.push_str(&format!(
            "{{\"seq\":{count},\"kind\":\"message\",\"text\":\"Needle\"}}\n"
        ));
        std::fs::write(&path, text).unwrap();
        let logs = Logs::default();
        let filter = EventFilter::new(Some("needle"), Vec::new(), false).unwrap();
        let first = logs.page(&path, 0, 10, &filter).unwrap();
        assert_eq!(
            (first.events.len(), first.scanned_to, first.last),
            (0, SCANNED_EVENTS, count)
        );
        let second = logs.page(&path, first.scanned_to, 10, &filter).unwrap();
        assert_eq!((seqs(&second), second.scanned_to), (vec![count], count));
        // A full page ends the search early.
        let all = logs.page(&path, 0, 3, &EventFilter::default()).unwrap();
        assert_eq!((seqs(&all), all.scanned_to), (vec![1, 2, 3], 3));
    }
}
