//! The log files of the daemon, read from their end.

use std::collections::VecDeque;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;
use vik_api::{DaemonLogLine, LogLevel};
use vik_workspace::fs as private;

/// The name of the daily files before their date.
const PREFIX: &str = "vik.log.";

/// The size of a read.
const BLOCK: u64 = 256 * 1024;

/// The number of bytes that one page reads at most, if few lines match.
const MAX_SCAN: u64 = 8 * 1024 * 1024;

/// The maximum size of a message; the end of a longer one is omitted.
const MAX_MESSAGE: usize = 16 * 1024;

/// Where a page ends: all lines before this offset of the file of this date are older.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogCursor {
    date: String,
    offset: u64,
}

impl LogCursor {
    /// Reads the form `DATE:OFFSET`.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, offset) = text.split_once(':')?;
        let is_form = |text: &str, form: &str| {
            let is_digit = |(byte, sample): (u8, u8)| match sample {
                b'0' => byte.is_ascii_digit(),
                sample => byte == sample,
            };
            text.len() == form.len() && text.bytes().zip(form.bytes()).all(is_digit)
        };
        let is_valid = is_form(date, "0000-00-00") && offset.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self {
            date: date.to_owned(),
            offset: offset.parse().ok().filter(|_| is_valid && offset.len() <= 19)?,
        })
    }
}

impl std::fmt::Display for LogCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.date, self.offset)
    }
}

/// The lines to list.
#[derive(Clone, Debug, Default)]
pub struct LogFilter {
    /// Only lines of this level or a more severe one.
    pub level: Option<LogLevel>,
    /// Only lines about this issue.
    pub issue: Option<String>,
    /// Only lines with this text, ignoring case.
    pub text: Option<String>,
}

impl LogFilter {
    fn matches(&self, line: &DaemonLogLine) -> bool {
        let contains = |text: &String| line.message.to_lowercase().contains(&text.to_lowercase());
        self.level.is_none_or(|level| line.level <= level)
            && (self.issue.is_none() || self.issue == line.issue)
            && self.text.as_ref().is_none_or(contains)
    }
}

/// Returns at most `limit` matching lines before the cursor, latest first, and the cursor of the
/// next page if there may be older ones. A page can have fewer lines: it reads a bounded part of the
/// files.
///
/// # Errors
/// When a file cannot be read.
pub fn page(
    folder: &Path,
    filter: &LogFilter,
    before: Option<&LogCursor>,
    limit: usize,
) -> io::Result<(Vec<DaemonLogLine>, Option<LogCursor>)> {
    let mut lines = Vec::new();
    let mut budget = MAX_SCAN;
    for date in dates(folder)? {
        if before.is_some_and(|cursor| date > cursor.date) {
            continue;
        }
        let mut file = private::open(&folder.join(format!("{PREFIX}{date}")))?;
        let size = file.seek(SeekFrom::End(0))?;
        let mut end = match before {
            Some(cursor) if cursor.date == date => cursor.offset.min(size),
            _ => size,
        };
        while end > 0 {
            let block_end = end;
            let start = end.saturating_sub(BLOCK);
            file.seek(SeekFrom::Start(start))?;
            let mut block = Vec::new();
            file.by_ref().take(block_end - start).read_to_end(&mut block)?;
            for (offset, line) in entries(&block, start) {
                end = offset;
                if filter.matches(&line) {
                    lines.push(line);
                }
                if lines.len() == limit {
                    return Ok((lines, Some(LogCursor { date, offset })));
                }
            }
            if end == block_end {
                // The block is a part of an entry that is too long to show.
                end = start;
            }
            budget = budget.saturating_sub(BLOCK);
            if budget == 0 {
                return Ok((lines, Some(LogCursor { date, offset: end })));
            }
        }
    }
    Ok((lines, None))
}

/// Returns the dates of the files, latest first.
fn dates(folder: &Path) -> io::Result<Vec<String>> {
    let mut dates = Vec::new();
    let files = match private::list_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(dates),
        files => files?,
    };
    for file in files {
        let name = file?.file_name();
        let date = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        dates.extend(
            date.filter(|date| date.parse::<jiff::civil::Date>().is_ok())
                .map(str::to_owned),
        );
    }
    dates.sort_unstable_by(|one, other| other.cmp(one));
    Ok(dates)
}

/// Returns the entries that begin in a block, latest first, with their offsets. The part before the
/// first of them belongs to an earlier block.
fn entries(block: &[u8], start: u64) -> Vec<(u64, DaemonLogLine)> {
    let mut entries = Vec::new();
    // The lines of an entry whose first line is not reached yet.
    let mut following = VecDeque::<String>::new();
    let mut end = block.len();
    while end > 0 {
        let line_start = block[..end - 1]
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |newline| newline + 1);
        let text = String::from_utf8_lossy(&block[line_start..end]);
        let text = text.trim_end_matches('\n');
        // The first line of a block may be torn, unless it is the first of the file.
        let is_torn = line_start == 0 && start > 0;
        match parse(text).filter(|_| !is_torn) {
            Some(mut line) => {
                for text in following.drain(..) {
                    line.message.push('\n');
                    line.message.push_str(&text);
                }
                line.message
                    .truncate(line.message.floor_char_boundary(MAX_MESSAGE));
                entries.push((start + line_start as u64, line));
            }
            // A JSON entry that the end of the block cuts is too long to show.
            None if end == block.len() && !block.ends_with(b"\n") && text.starts_with('{') => {}
            None => following.push_front(text.to_owned()),
        }
        end = line_start;
    }
    entries
}

/// Parses the first line of an entry, in either format.
fn parse(line: &str) -> Option<DaemonLogLine> {
    if line.starts_with('{') {
        return parse_json(line);
    }
    let (at, tail) = line.split_once(' ')?;
    let at: Timestamp = at.parse().ok()?;
    let (level, mut message) = tail.trim_start().split_once(' ')?;
    let mut line = DaemonLogLine::new(at, level.parse().ok()?);
    if let Some(fields) = message.strip_prefix("attempt{") {
        let mut tail = fields;
        while let Some((key, value, after)) = field(tail) {
            line.set(key, &value);
            tail = after.trim_start_matches(' ');
        }
        message = tail.strip_prefix("}: ").unwrap_or(tail);
    } else if let Some(at) = message.find(" issue=\"")
        && let Some((key, value, tail)) = field(&message[at + 1..])
    {
        line.set(key, &value);
        if let Some((key @ "stage", value, _)) = field(tail.trim_start_matches(' ')) {
            line.set(key, &value);
        }
    }
    line.message = message.to_owned();
    Some(line)
}

/// Splits `key=value` from the start of a text; the value may be quoted.
fn field(text: &str) -> Option<(&str, String, &str)> {
    let (key, tail) = text.split_once('=')?;
    if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
        return None;
    }
    let Some(quoted) = tail.strip_prefix('"') else {
        let end = tail.find([' ', '}']).unwrap_or(tail.len());
        return Some((key, tail[..end].to_owned(), &tail[end..]));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((key, value, &quoted[at + 1..])),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            c => value.push(c),
        }
    }
    None
}

fn parse_json(line: &str) -> Option<DaemonLogLine> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else {
        return None;
    };
    let mut take = |key: &str| match fields.remove(key) {
        Some(Value::String(text)) => Some(text),
        value => value.map(|value| value.to_string()),
    };
    let at = take("timestamp")?.parse().ok()?;
    let mut line = DaemonLogLine::new(at, take("level")?.parse().ok()?);
    line.message = take("message")?;
    for key in ["issue", "stage", "attempt", "session"] {
        if let Some(value) = take(key) {
            line.set(key, &value);
        }
    }
    for (key, value) in fields {
        line.message.push_str(&format!(" {key}={value}"));
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01a21865-7392-74a5-9f00-000001403314";

    fn listed(folder: &Path, filter: &LogFilter, limit: usize) -> Vec<String> {
        let mut messages = Vec::new();
        let mut before = None;
        loop {
            let (lines, next) = page(folder, filter, before.as_ref(), limit).unwrap();
            messages.extend(lines.into_iter().map(|line| line.message));
            match next {
                // A cursor survives the way through an address.
                Some(next) => before = LogCursor::parse(&next.to_string()),
                None => return messages,
            }
        }
    }

    fn log(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (date, text) in files {
            std::fs::write(folder.path().join(format!("{PREFIX}{date}")), text).unwrap();
        }
        folder
    }

    #[test]
    fn pages_lead_through_all_days_in_both_formats() {
        let day = "2026-11-25T09:00:00.000001Z  INFO first\n\
            2026-11-25T09:00:01Z ERROR panicked:\n  at a line\n\nend\n\
            2026-11-25T09:00:02Z  WARN torn";
        let next = r#"{"timestamp":"2026-11-26T00:00:00Z","level":"INFO","message":"json","count":3}"#;
        let folder = log(&[("2026-11-25", day), ("2026-11-26", next), ("nothing", "x")]);
        let all = ["json count=3", "torn", "panicked:\n  at a line\n\nend", "first"];
        for limit in 1..6 {
            assert_eq!(
                listed(folder.path(), &LogFilter::default(), limit),
                all,
                "{limit}"
            );
        }
        let severe = LogFilter {
            level: Some(LogLevel::Warn),
            ..LogFilter::default()
        };
        assert_eq!(listed(folder.path(), &severe, 2), all[1..3]);
        let text = LogFilter {
            text: Some("AT A".to_owned()),
            ..LogFilter::default()
        };
        assert_eq!(listed(folder.path(), &text, 2), all[2..3]);
        assert!(listed(&folder.path().join("none"), &text, 2).is_empty());
    }

    #[test]
    fn fields_of_an_attempt_are_read_from_both_formats() {
        let text = format!(
            "2026-11-25T09:00:00Z ERROR attempt{{issue=\"7 \\\"}}: x\" stage=review attempt=2 session={ID}}}: cannot write file=\"a\"\n"
        );
        let json = format!(
            r#"{{"timestamp":"2026-11-25T09:00:00Z","level":"ERROR","issue":"7 \"}}: x","stage":"review","attempt":2,"session":"{ID}","file":"a","message":"cannot write"}}"#
        );
        for text in [text, json] {
            let line = parse(text.trim_end()).unwrap();
            assert_eq!(line.issue.as_deref(), Some("7 \"}: x"));
            assert_eq!(line.stage.as_deref(), Some("review"));
            assert_eq!((line.attempt, line.session.as_deref()), (Some(2), Some(ID)));
            assert_eq!(line.message, "cannot write file=\"a\"");
        }
        let line = parse("2026-11-25T09:00:00Z  WARN parked issue=\"8\" stage=work reason=\"x\"").unwrap();
        assert_eq!(
            (line.issue.as_deref(), line.stage.as_deref()),
            (Some("8"), Some("work"))
        );
        // A quoted text cannot pretend to be about another issue.
        let line = parse(r#"2026-11-25T09:00:00Z  WARN skipped reason="a issue=\"9\"""#).unwrap();
        assert_eq!(line.issue, None);
    }

    #[test]
    fn long_entries_and_few_matches_end_each_page() {
        let long = "x".repeat(BLOCK as usize * 3);
        let day = format!(
            "2026-11-25T09:00:00Z  INFO first\n2026-11-25T09:00:01Z  INFO {long}\n2026-11-25T09:00:02Z  INFO last\n"
        );
        let folder = log(&[("2026-11-25", &day)]);
        let all = listed(folder.path(), &LogFilter::default(), 10);
        assert_eq!((all[0].as_str(), all[2].as_str()), ("last", "first"));
        assert!(all[1].starts_with('x') && all[1].len() <= MAX_MESSAGE);

        let entry = |message: &str| {
            format!(
                "{{\"timestamp\":\"2026-11-25T09:00:00Z\",\"level\":\"INFO\",\"message\":\"{message}\"}}\n"
            )
        };
        let day = [entry("first"), entry(&long), entry("last")].concat();
        let folder = log(&[("2026-11-25", &day)]);
        assert_eq!(
            listed(folder.path(), &LogFilter::default(), 10),
            ["last", "first"]
        );

        let many = "2026-11-25T09:00:00Z  INFO line\n".repeat(MAX_SCAN as usize / 20);
        let folder = log(&[("2026-11-25", &many)]);
        let none = LogFilter {
            level: Some(LogLevel::Error),
            ..LogFilter::default()
        };
        let (lines, next) = page(folder.path(), &none, None, 10).unwrap();
        assert!(lines.is_empty() && next.is_some());
        assert!(listed(folder.path(), &none, 10).is_empty());
    }
}
