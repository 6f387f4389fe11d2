//! Splits the output of an agent into lines, in bounded memory.
//!
//! The ends of lines are searched as the file grows. Only the start of an unfinished line is
//! buffered; a longer line is read again from the file once its end is known. Of a line longer than
//! [`LONGEST_LINE`] only the start and the position in the file are kept. The result depends on the
//! bytes alone, not on the sizes of the reads.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The maximum number of bytes of a line that is read as a whole.
pub(in crate::attempt) const LONGEST_LINE: u64 = 8 * 1024 * 1024;

/// The maximum number of bytes that are buffered of an unfinished line.
const MAX_HELD: usize = 256 * 1024;

/// A buffer of at most this capacity is reused for the next line.
const KEPT_CAPACITY: usize = 16 * 1024;

/// One line, without its newline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Whole(&'a [u8]),
    /// The start of a line that is too long, or that is no longer in the file.
    Cut {
        /// The first bytes of the line.
        head: &'a [u8],
        /// The length of the line.
        bytes: u64,
        /// The offset of the line in the file.
        offset: u64,
    },
}

/// Splits one growing file into lines.
#[derive(Debug)]
pub(super) struct Lines {
    longest: u64,
    max_held: usize,
    /// The start of the current line.
    held: Vec<u8>,
    /// The offset of the current line in the file, and the number of its bytes that were read.
    offset: u64,
    length: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self::with(LONGEST_LINE, MAX_HELD)
    }
}

impl Lines {
    fn with(longest: u64, max_held: usize) -> Self {
        Self {
            longest,
            max_held,
            held: Vec::new(),
            offset: 0,
            length: 0,
        }
    }

    /// Processes the next bytes of `file`, and passes each line that ends in them to `sink`.
    pub(super) fn feed(&mut self, file: &File, mut fresh: &[u8], sink: &mut dyn FnMut(Line<'_>)) {
        while let Some(end) = memchr::memchr(b'\n', fresh) {
            let line = &fresh[..end];
            if self.length == 0 && line.len() as u64 <= self.longest {
                self.offset += line.len() as u64 + 1;
                sink(Line::Whole(line));
            } else {
                self.extend(line);
                self.end(file, sink);
            }
            fresh = &fresh[end + 1..];
        }
        self.extend(fresh);
    }

    /// Passes a last line without a newline to `sink`.
    pub(super) fn finish(&mut self, file: &File, sink: &mut dyn FnMut(Line<'_>)) {
        if self.length > 0 {
            self.end(file, sink);
        }
    }

    /// Returns whether the current line is already too long, so that only its end matters.
    pub(super) fn is_cutting(&self) -> bool {
        self.length > self.longest
    }

    /// Counts bytes of the current line that need not be read because they contain no newline.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.length = self.length.saturating_add(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = self.max_held - self.held.len();
        self.held.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.length = self.length.saturating_add(bytes.len() as u64);
    }

    fn end(&mut self, file: &File, sink: &mut dyn FnMut(Line<'_>)) {
        let (offset, bytes) = (self.offset, self.length);
        let held = std::mem::take(&mut self.held);
        self.offset = offset.saturating_add(bytes).saturating_add(1);
        self.length = 0;
        if held.len() as u64 == bytes && bytes <= self.longest {
            sink(Line::Whole(&held));
        } else {
            // The agent may have truncated the file.
            match self.read_back(file, offset, bytes) {
                Some(whole) => sink(Line::Whole(&whole)),
                None => sink(Line::Cut {
                    head: &held,
                    bytes,
                    offset,
                }),
            }
        }
        if held.capacity() <= KEPT_CAPACITY {
            self.held = held;
            self.held.clear();
        }
    }

    fn read_back(&self, file: &File, offset: u64, bytes: u64) -> Option<Vec<u8>> {
        if bytes > self.longest {
            return None;
        }
        let mut whole = vec![0; usize::try_from(bytes).ok()?];
        file.read_exact_at(&mut whole, offset).ok()?;
        Some(whole)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn split(content: &[u8], chunks: impl Iterator<Item = usize>) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let mut lines = Lines::with(12, 5);
        let mut found = Vec::new();
        let mut sink = |line: Line<'_>| {
            found.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::Cut { head, bytes, offset } => {
                    format!("{}... {bytes} at {offset}", String::from_utf8_lossy(head))
                }
            });
        };
        let mut remaining = content;
        for chunk in chunks {
            let (now, later) = remaining.split_at(chunk.min(remaining.len()));
            lines.feed(&file, now, &mut sink);
            assert!(lines.held.len() <= 5);
            remaining = later;
        }
        lines.feed(&file, remaining, &mut sink);
        lines.finish(&file, &mut sink);
        found
    }

    #[test]
    fn overlong_line_is_cut_and_the_next_is_complete() {
        let content = format!("short\n{}\n{}\nafter\nlast", "x".repeat(13), "y".repeat(12));
        let expected = ["short", "xxxxx... 13 at 6", "yyyyyyyyyyyy", "after", "last"];
        assert_eq!(split(content.as_bytes(), std::iter::repeat_n(3, 20)), expected);
    }

    #[test]
    fn line_missing_from_the_file_is_cut() {
        let file = tempfile::tempfile().unwrap();
        let mut lines = Lines::with(12, 5);
        let mut cut = false;
        let mut sink = |line: Line<'_>| {
            cut |= matches!(line, Line::Cut { bytes: 8, .. });
        };
        lines.feed(&file, b"12345678", &mut sink);
        lines.feed(&file, b"\n", &mut sink);
        assert!(cut);
    }

    proptest! {
        #[test]
        fn chunked_reading_yields_the_same_lines(
            content in proptest::collection::vec(
                prop_oneof![2 => Just(b'\n'), 8 => Just(b'a'), 1 => Just(0xff)], 0..120),
            chunks in proptest::collection::vec(1..40_usize, 0..60),
        ) {
            let at_once = split(&content, std::iter::empty());
            prop_assert_eq!(split(&content, chunks.into_iter()), at_once);
        }
    }
}
