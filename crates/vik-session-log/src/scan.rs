//! Counts the events of a log without decoding them.

use std::fs::File;
use std::io::BufReader;

use vik_core::event::EventKind;

/// The size of the buffer for reading.
const READ_BYTES: usize = 128 * 1024;

/// The length of the part of a line that contains its kind.
const HEAD_BYTES: usize = 128;

/// The result of scanning a log.
#[derive(Debug, Default)]
pub(super) struct LogScan {
    pub(super) lines: u64,
    /// The number of lines that are Vik's own events.
    pub(super) own: u64,
    pub(super) ended: bool,
    /// The number of bytes in complete lines.
    pub(super) whole: u64,
    /// Whether bytes follow the last complete line.
    pub(super) torn: bool,
}

impl LogScan {
    /// Reads a log from its start.
    pub(super) fn read(file: &mut File) -> std::io::Result<Self> {
        let mut found = Self::default();
        let mut reader = BufReader::with_capacity(READ_BYTES, file);
        let mut line = Vec::new();
        loop {
            let read = vik_store::read_line(&mut reader, HEAD_BYTES, &mut line)?;
            if !read.is_whole {
                found.torn = read.bytes > 0;
                return Ok(found);
            }
            found.whole += read.bytes;
            found.lines += 1;
            let kind = kind_of(&line);
            found.own += u64::from(kind.is_some_and(|kind| is_own(kind, &line)));
            found.ended = kind == Some(EventKind::Ended);
        }
    }
}

/// Returns whether the line is one of Vik's own events.
fn is_own(kind: EventKind, line: &[u8]) -> bool {
    const OWN_APPROVAL: &[u8] = b"\"kind\":\"approval\",\"by\":";
    let head = &line[..line.len().min(HEAD_BYTES)];
    kind.is_own()
        || (kind == EventKind::Approval
            && head
                .windows(OWN_APPROVAL.len())
                .any(|window| window == OWN_APPROVAL))
}

/// Returns the kind of a line, which follows its number and its time; `None` if the line has none,
/// or one of another version.
fn kind_of(line: &[u8]) -> Option<EventKind> {
    const KEY: &[u8] = b"\"kind\":\"";
    let head = &line[..line.len().min(HEAD_BYTES)];
    let at = head.windows(KEY.len()).position(|window| window == KEY)?;
    let kind = &head[at + KEY.len()..];
    let end = kind.iter().position(|&byte| byte == b'"')?;
    EventKind::from_name(std::str::from_utf8(&kind[..end]).ok()?)
}
