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
        Self::collect(all_records(sessions_dir)?)
    }

    /// Reads the attempts of one issue, oldest first.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read.
    pub fn of_issue(issue_sessions_dir: &Path) -> Result<Self, StoreError> {
        Self::collect(records(issue_sessions_dir)?)
    }

    fn collect(records: impl Iterator<Item = Result<PathBuf, StoreError>>) -> Result<Self, StoreError> {
        let mut history = Self::default();
        for record in records {
            let record = record?;
            match AttemptFiles::of(&record).and_then(PastAttempt::read) {
                Some(attempt) => history.attempts.push(attempt),
                None => history.unreadable.push(record),
            }
        }
        history
            .attempts
            .sort_by_key(|attempt| (attempt.record.started_at, attempt.record.session_id));
        Ok(history)
    }
}

/// Returns the attempts in a sessions folder whose log has no end, in no particular order and with
/// one attempt in memory at a time. Records that cannot be read are left out.
///
/// # Errors
/// Returns an error if the folder cannot be read. The iterator returns one for each folder of an
/// issue that cannot be read.
pub fn attempts_without_end(
    sessions_dir: &Path,
) -> Result<impl Iterator<Item = Result<PastAttempt, StoreError>>, StoreError> {
    let attempts = all_records(sessions_dir)?.map(|record| {
        let Some(files) = AttemptFiles::of(&record?) else {
            return Ok(None);
        };
        // Of the many attempts that have ended, only the last line of the log is read.
        Ok(read_ended(&files.log())
            .is_none()
            .then(|| PastAttempt::read(files))
            .flatten())
    });
    Ok(attempts.filter_map(Result::transpose))
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

/// Returns the paths of the records of all issues.
fn all_records(sessions_dir: &Path) -> Result<impl Iterator<Item = Result<PathBuf, StoreError>>, StoreError> {
    let of_issue = |issue: Result<PathBuf, StoreError>| -> Result<_, StoreError> {
        let issue = issue?;
        Ok(issue
            .is_dir()
            .then(|| records(&issue))
            .transpose()?
            .into_iter()
            .flatten())
    };
    Ok(entries(sessions_dir)?.flat_map(move |issue| {
        let (found, error) = match of_issue(issue) {
            Ok(found) => (Some(found), None),
            Err(error) => (None, Some(Err(error))),
        };
        found.into_iter().flatten().chain(error)
    }))
}

/// Returns the paths of the records in the folder of an issue.
fn records(dir: &Path) -> Result<impl Iterator<Item = Result<PathBuf, StoreError>> + use<>, StoreError> {
    let is_record = |path: &PathBuf| path.as_os_str().as_encoded_bytes().ends_with(b".attempt.json");
    Ok(entries(dir)?.filter(move |path| path.as_ref().map_or(true, is_record)))
}

fn entries(dir: &Path) -> Result<impl Iterator<Item = Result<PathBuf, StoreError>> + use<>, StoreError> {
    let dir = dir.to_owned();
    let found = match std::fs::read_dir(&dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(StoreError::read(&dir)(error)),
        Ok(found) => Some(found),
    };
    let entries = found.into_iter().flatten();
    Ok(entries.map(move |entry| entry.map(|entry| entry.path()).map_err(StoreError::read(&dir))))
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
    use vik_core::attempt::AttemptResult;
    use vik_core::ids::AttemptId;
    use vik_core::limits::Spend;
    use vik_core::outcome::Outcome;

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
    fn attempts_without_end_are_found_among_others() {
        let dir = tempfile::tempdir().unwrap();
        let attempt = |issue: &str, id: u128, log: &str| {
            let folder = dir.path().join(issue);
            std::fs::create_dir_all(&folder).unwrap();
            let id = AttemptId(uuid::Uuid::from_u128(id));
            let files = AttemptFiles::new(&folder, &"plan".into(), id);
            let record = serde_json::json!({
                "schema": 1, "run_id": id, "session_id": id, "issue_id": issue, "issue_title": "",
                "issue_state": "todo", "stage": "plan", "agent": "coder", "runtime": "codex",
                "model": null, "attempt": 1, "started_at": "2026-03-01T00:00:00Z", "workdir": "/w",
            });
            std::fs::write(files.record(), record.to_string()).unwrap();
            std::fs::write(files.log(), log).unwrap();
            id
        };
        let message = "{\"seq\":1,\"at\":\"2026-03-01T00:00:00Z\",\"kind\":\"message\",\"text\":\"a\"}\n";
        let result = AttemptResult::new(Outcome::Succeeded);
        let line = LogLine {
            seq: Some(2),
            at: Some(jiff::Timestamp::UNIX_EPOCH),
            event: LoggedEvent::Known(Event::Ended(Ended::new(result, Spend::default()))),
        };
        let end = serde_json::to_string(&line).unwrap() + "\n";
        attempt("A", 1, &format!("{message}{end}"));
        let cut_off = attempt("A", 2, message);
        let torn = attempt("B", 3, &format!("{message}{}", &end[..end.len() - 1]));
        let empty = attempt("C", 4, "");
        std::fs::write(dir.path().join("A/plan-x.attempt.json"), "{").unwrap();
        std::fs::write(dir.path().join("notes.txt"), "").unwrap();
        let found = attempts_without_end(dir.path()).unwrap();
        let mut found: Vec<_> = found.map(|attempt| attempt.unwrap().record.session_id).collect();
        found.sort();
        assert_eq!(found, [cut_off, torn, empty]);
        let missing = dir.path().join("missing");
        assert_eq!(attempts_without_end(&missing).unwrap().count(), 0);
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
