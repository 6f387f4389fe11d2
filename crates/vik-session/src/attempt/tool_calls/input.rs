//! The standard input of an agent: a file to which lines are appended, and which the shim forwards.
//!
//! The file is the only record of the sent lines. A daemon that reads the agent's output again
//! produces the same lines again, and finds in the file which of them were already sent.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use vik_store::StoreError;

/// Ends the input; see [`vik_proc::Stdin::Follow`].
const END: u8 = 0;

pub(in crate::attempt) struct Input {
    path: PathBuf,
    file: File,
    /// The complete lines that the file contained when it was opened.
    found: BTreeSet<String>,
    /// The start of a line that a daemon was writing when it died. The agent may have read it, so
    /// it must be completed.
    torn: Vec<u8>,
    /// The lines that are written after the torn line is complete.
    queued: Vec<String>,
    ended: bool,
}

impl Input {
    /// Opens the file and reads the lines that were sent before.
    pub(in crate::attempt) fn open(path: &Path) -> Result<Self, StoreError> {
        let read = |source| StoreError::Read {
            path: path.to_owned(),
            source,
        };
        #[expect(clippy::disallowed_methods, reason = "Vik's own file")]
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map_err(read)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(read)?;
        let ended = text.contains(&END);
        let whole = memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1);
        let torn = if ended { Vec::new() } else { text.split_off(whole) };
        let found = String::from_utf8_lossy(&text)
            .lines()
            .map(str::to_owned)
            .collect();
        Ok(Self {
            path: path.to_owned(),
            file,
            found,
            torn,
            queued: Vec::new(),
            ended,
        })
    }

    /// Returns whether an earlier daemon sent a line that starts with `head`.
    pub(super) fn has(&self, head: &str) -> bool {
        let next = self
            .found
            .range::<str, _>((Bound::Included(head), Bound::Unbounded))
            .next();
        next.is_some_and(|line| line.starts_with(head))
    }

    /// Sends a line, unless it was sent before.
    pub(in crate::attempt) fn write_once(&mut self, line: &str) -> Result<(), StoreError> {
        if self.ended || self.found.contains(line) {
            return Ok(());
        }
        if self.torn.is_empty() {
            return self.write(format!("{line}\n").as_bytes());
        }
        let Some(tail) = line.as_bytes().strip_prefix(&*self.torn) else {
            self.queued.push(line.to_owned());
            return Ok(());
        };
        let mut tail = tail.to_owned();
        tail.push(b'\n');
        for line in std::mem::take(&mut self.queued) {
            tail.extend(line.into_bytes());
            tail.push(b'\n');
        }
        self.torn = Vec::new();
        self.write(&tail)
    }

    /// Returns whether nothing more can be sent.
    pub(in crate::attempt) fn is_ended(&self) -> bool {
        self.ended
    }

    pub(in crate::attempt) fn end(&mut self) -> Result<(), StoreError> {
        if self.ended {
            return Ok(());
        }
        self.ended = true;
        self.write(&[END])
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let written = self.file.write_all(bytes);
        written.map_err(|source: io::Error| StoreError::Write {
            path: self.path.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Daemons die anywhere between and within lines; each sends all lines from the start. The
        /// agent reads each line once, including torn ones.
        #[test]
        fn input_lines_are_written_once_across_crashes(
            lines in prop::collection::btree_set("[a-zä]{1,6}", 1..8),
            cuts in prop::collection::vec((0..8_usize, 0..8_usize), 0..4),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("stdin");
            std::fs::write(&path, "").unwrap();
            let lines: Vec<String> = lines.into_iter().enumerate().map(|(at, text)| format!("{at}:{text}")).collect();
            for (count, cut) in cuts {
                let mut input = Input::open(&path).unwrap();
                for line in lines.iter().take(count) {
                    input.write_once(line).unwrap();
                }
                // The daemon dies while it writes the next line.
                if let Some(next) = lines.get(count)
                    && input.torn.is_empty()
                    && !input.found.contains(next)
                {
                    let bytes = &next.as_bytes()[..cut.min(next.len())];
                    input.write(bytes).unwrap();
                }
            }
            let mut input = Input::open(&path).unwrap();
            for line in &lines {
                input.write_once(line).unwrap();
            }
            input.end().unwrap();
            Input::open(&path).unwrap().end().unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            prop_assert!(text.ends_with("\n\0"), "{text:?}");
            let mut sent: Vec<&str> = text[..text.len() - 1].lines().collect();
            sent.sort_unstable();
            let mut all: Vec<&str> = lines.iter().map(String::as_str).collect();
            all.sort_unstable();
            prop_assert_eq!(sent, all);
        }
    }

    #[test]
    fn answer_is_recognised_by_its_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdin");
        std::fs::write(&path, "{\"id\":1,\"a\":2}\n{\"id\":12}\n").unwrap();
        let input = Input::open(&path).unwrap();
        assert!(input.has("{\"id\":1,") && input.has("{\"id\":12}"));
        assert!(!input.has("{\"id\":2") && !input.has("{\"id\":1}"));
    }
}
