//! Reading the files of earlier attempts.

use std::fs::File;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use vik_core::ended::Ended;
use vik_core::event::{Event, LogLine, LoggedEvent};

use crate::{AttemptFiles, AttemptRecord, StoreError};

/// The length limit of a line in a session log, in bytes. A longer event is written as `malformed`,
/// with its start.
pub const LONGEST_EVENT: usize = 16 * 1024 * 1024;

/// An attempt found on disk.
#[derive(Clone, Debug)]
pub struct PastAttempt {
    pub record: AttemptRecord,
    /// The end of the attempt; `None` while it runs, or if its end was never written.
    pub ended: Option<Ended>,
    /// The time of the last line of the log.
    pub ended_at: Option<jiff::Timestamp>,
    pub files: AttemptFiles,
}

/// The attempts in a sessions folder, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub attempts: Vec<PastAttempt>,
    /// The records that could not be read.
    pub unreadable: Vec<PathBuf>,
}

impl History {
    /// Reads `<sessions>/<issue>/*.attempt.json` and the last line of each log. A missing folder is
    /// an empty history.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn read(sessions_dir: &Path) -> Result<Self, StoreError> {
        let mut history = Self::default();
        for issue in list(sessions_dir)? {
            if issue.is_dir() {
                history.read_issue(&issue)?;
            }
        }
        history.sort();
        Ok(history)
    }

    /// Reads the attempts of one issue, oldest first.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn of_issue(issue_sessions_dir: &Path) -> Result<Self, StoreError> {
        let mut history = Self::default();
        history.read_issue(issue_sessions_dir)?;
        history.sort();
        Ok(history)
    }

    fn sort(&mut self) {
        self.attempts
            .sort_by_key(|attempt| (attempt.record.started_at, attempt.record.session_id));
    }

    fn read_issue(&mut self, dir: &Path) -> Result<(), StoreError> {
        for path in list(dir)? {
            if !path.to_string_lossy().ends_with(".attempt.json") {
                continue;
            }
            match AttemptFiles::of(&path).and_then(PastAttempt::read) {
                Some(attempt) => self.attempts.push(attempt),
                None => self.unreadable.push(path),
            }
        }
        Ok(())
    }
}

impl PastAttempt {
    /// Reads one attempt. Returns `None` if its record is missing or cannot be read.
    pub fn read(files: AttemptFiles) -> Option<Self> {
        let record = AttemptRecord::read(&files.record()).ok()??;
        let (ended_at, ended) = read_ended(&files.log()).unzip();
        Some(Self {
            record,
            ended,
            ended_at,
            files,
        })
    }
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let fail = StoreError::read(dir);
    match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(fail(error)),
        Ok(entries) => entries.map(|entry| Ok(entry.map_err(fail)?.path())).collect(),
    }
}

/// Returns the `ended` line of a session log and its time, if the log has one.
pub fn read_ended(log: &Path) -> Option<(jiff::Timestamp, Ended)> {
    let line: LogLine = serde_json::from_slice(&last_line(log).ok()??).ok()?;
    match line.event {
        LoggedEvent::Known(Event::Ended(ended)) => Some((line.at?, ended)),
        _ => None,
    }
}

/// The result of [`read_line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRead {
    /// The length of the line with its newline; 0 at the end of the file.
    pub bytes: u64,
    /// Whether the line ends with a newline.
    pub is_whole: bool,
}

/// Reads the next line with its newline, at most `max_bytes` bytes of it, and skips the remainder
/// of a longer line.
///
/// # Errors
/// Returns an error if reading fails.
pub fn read_line(reader: &mut impl BufRead, max_bytes: usize, line: &mut Vec<u8>) -> io::Result<LineRead> {
    line.clear();
    let mut bytes = 0;
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        let end = memchr::memchr(b'\n', buffer);
        let count = end.map_or(buffer.len(), |end| end + 1);
        line.extend_from_slice(&buffer[..count.min(max_bytes - line.len())]);
        bytes += count as u64;
        reader.consume(count);
        if end.is_some() || count == 0 {
            let is_whole = end.is_some();
            return Ok(LineRead { bytes, is_whole });
        }
    }
}

/// Returns the last complete line of a file without its newline. It reads only the end of the file,
/// and returns `None` for a line that is longer than [`LONGEST_EVENT`].
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn last_line(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    let mut tail_bytes: u64 = 8 * 1024;
    while tail_bytes <= 8 * LONGEST_EVENT as u64 {
        let start = size.saturating_sub(tail_bytes);
        file.seek(SeekFrom::Start(start))?;
        let mut tail = Vec::new();
        file.by_ref().take(size - start).read_to_end(&mut tail)?;
        // Bytes after the last newline are torn.
        let Some(end) = tail.iter().rposition(|&byte| byte == b'\n') else {
            if start == 0 {
                return Ok(None);
            }
            tail_bytes *= 8;
            continue;
        };
        tail.truncate(end);
        match tail.iter().rposition(|&byte| byte == b'\n') {
            Some(before) => return Ok(Some(tail.split_off(before + 1))),
            None if start == 0 => return Ok(Some(tail)),
            None => tail_bytes *= 8,
        }
    }
    Ok(None)
}

/// Splits a buffer at newlines. Returns the complete lines and the number of bytes they take.
pub fn lines_of(buffer: &[u8]) -> (impl Iterator<Item = &[u8]>, usize) {
    let whole = buffer
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |end| end + 1);
    let lines = buffer[..whole].split(|&byte| byte == b'\n');
    // The split yields one empty piece after the last newline, which is not a line.
    (
        lines.take(buffer[..whole].iter().filter(|&&byte| byte == b'\n').count()),
        whole,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_line_keeps_the_start_of_a_long_line() {
        let text = format!("short\n{}\nlast", "x".repeat(100));
        let mut reader = io::BufReader::with_capacity(7, text.as_bytes());
        let mut line = Vec::new();
        let mut next = || {
            let LineRead { bytes, is_whole } = read_line(&mut reader, 10, &mut line).unwrap();
            (bytes, is_whole, String::from_utf8(line.clone()).unwrap())
        };
        assert_eq!(next(), (6, true, "short\n".to_owned()));
        assert_eq!(next(), (101, true, "x".repeat(10)));
        assert_eq!(next(), (4, false, "last".to_owned()));
        assert_eq!(next(), (0, false, String::new()));
    }

    #[test]
    fn last_whole_line_is_found_before_a_torn_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let long = "x".repeat(100_000);
        for (text, expected) in [
            (String::new(), None),
            ("torn".to_owned(), None),
            ("a\n".to_owned(), Some("a")),
            ("a\nb\ntorn".to_owned(), Some("b")),
            (format!("a\n{long}\n"), Some(&*long)),
            (format!("{long}\nb\n{long}"), Some("b")),
        ] {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(
                last_line(&path).unwrap(),
                expected.map(|line| line.as_bytes().to_vec())
            );
        }
    }
}
