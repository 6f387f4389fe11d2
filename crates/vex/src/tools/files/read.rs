//! `read_file`: a page of a text, always with its content.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::text::{BOM, binary_kind, short_line};
use super::{PATH_NAMES, count_of_lines, path_schema};
use crate::tools::root::{Root, RootError};
use crate::tools::tool::ReadOnly;
use crate::tools::{MAX_OUTPUT_BYTES, Tool, ToolContext, ToolError};

/// The default number of lines per page.
const PAGE_LINES: usize = 1000;
/// The maximum size of a page, in bytes; the notes need the remaining space.
const PAGE_BYTES: usize = MAX_OUTPUT_BYTES - 1024;
/// How much of a line is shown, in bytes.
const MAX_LINE_BYTES: usize = 4000;
/// The maximum size of a file, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// How much is read at once.
const CHUNK: usize = 64 * 1024;

#[derive(Debug, Deserialize)]
pub(crate) struct ReadFile {
    pub(crate) path: PathBuf,
    pub(crate) offset: Option<usize>,
    pub(crate) limit: Option<usize>,
}

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const ALIASES: &'static [&'static str] = &["read", "view", "view_file", "open_file", "cat"];
    const DESCRIPTION: &'static str = "Read a text file, by pages of lines.";
    type Kind = ReadOnly;
    const REQUIRED: &'static [&'static str] = &["path"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &PATH_NAMES;
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"path": path_schema(),
               "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
               "limit": {"type": "integer", "minimum": 1, "description": "number of lines"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let path = self.path.display();
        let fail = |reason: String| Err(ToolError::Failed(format!("{path}: {reason}")));
        let missing = || format!("there is no such file{}", alike(context.root, &self.path));
        let place = match context.root.place_to_show(&self.path) {
            Err(error) if error.is_not_found() => return fail(missing()),
            other => other?,
        };
        let file = match place.read(&self.path) {
            Err(RootError::NotAFile { .. }) if place.directory(&self.path).is_ok() => {
                return fail("it is a directory; use list_dir".to_owned());
            }
            Err(error) if error.is_not_found() => return fail(missing()),
            other => other?,
        };
        let size = file.metadata().map_or(0, |meta| meta.len());
        if size > MAX_BYTES {
            return fail(format!(
                "it has {size} bytes; use search_files, or run_command with sed or tail"
            ));
        }
        let first = self.offset.unwrap_or(1).max(1);
        let mut page = Page::new(first, self.limit.unwrap_or(PAGE_LINES).clamp(1, PAGE_LINES));
        let mut hash = Sha256::new();
        let mut reader = file.take(MAX_BYTES);
        let mut chunk = vec![0; CHUNK];
        let mut kind = None;
        let mut at_start = true;
        loop {
            if context.interrupt.is_set() {
                return fail("interrupted".to_owned());
            }
            let n = match reader.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return fail(format!("cannot read it: {error}")),
            };
            let bytes = &chunk[..n];
            if std::mem::take(&mut at_start) {
                kind = binary_kind(bytes);
            }
            hash.update(bytes);
            if kind.is_none() {
                page.push(bytes);
            }
        }
        context.files.remember(&place.resolved, hash.finalize().into());
        match kind {
            Some(kind) => Ok(format!("[{path}: {kind}, {size} bytes; not shown]\n")),
            None => page.finish(&path.to_string()),
        }
    }
}

/// The lines of a page, taken from a stream of bytes.
struct Page {
    first: usize,
    limit: usize,
    /// The number of the current line, from 1.
    line: usize,
    /// The start of the current line, up to the limit.
    current: Vec<u8>,
    /// The length of the current line so far.
    length: usize,
    text: String,
    taken: usize,
    full: bool,
    crlf: bool,
    lossy: bool,
}

impl Page {
    fn new(first: usize, limit: usize) -> Self {
        Self {
            first,
            limit,
            line: 1,
            current: Vec::new(),
            length: 0,
            text: String::new(),
            taken: 0,
            full: false,
            crlf: false,
            lossy: false,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.full && self.line >= self.first {
                // A little more than is shown, so that a character is not cut.
                let room = (MAX_LINE_BYTES + 8).saturating_sub(self.current.len());
                self.current.extend_from_slice(&part[..part.len().min(room)]);
            }
            self.length += part.len();
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        if !self.full && self.line >= self.first {
            self.take();
        }
        self.line += 1;
        self.length = 0;
        self.current.clear();
    }

    fn take(&mut self) {
        let whole = self.length == self.current.len();
        let mut bytes = self.current.as_slice();
        if whole {
            bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            if let Some(line) = bytes.strip_suffix(b"\r") {
                self.crlf = true;
                bytes = line;
            }
        }
        let line = String::from_utf8_lossy(bytes);
        self.lossy |= whole && matches!(line, std::borrow::Cow::Owned(_));
        let mut line = line.as_ref();
        if self.line == 1 {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        let shown = if whole {
            short_line(line, MAX_LINE_BYTES)
        } else {
            let cut = line.floor_char_boundary(MAX_LINE_BYTES);
            format!(
                "{} [… {} bytes more]",
                &line[..cut],
                self.length.saturating_sub(cut + 1)
            )
            .into()
        };
        // At least one line, so that the next page is a different one.
        if self.taken > 0 && self.text.len() + shown.len() + 1 > PAGE_BYTES {
            self.full = true;
            return;
        }
        self.text.push_str(&shown);
        self.text.push('\n');
        self.taken += 1;
        self.full = self.taken == self.limit;
    }

    fn finish(mut self, path: &str) -> Result<String, ToolError> {
        let unended = self.length > 0;
        if unended {
            self.end_line();
        }
        let total = self.line - 1;
        if total == 0 {
            return Ok("[empty file]\n".to_owned());
        }
        if self.first > total {
            return Err(ToolError::Failed(format!(
                "{path} has only {}",
                count_of_lines(total)
            )));
        }
        let last = self.first + self.taken - 1;
        let mut notes = Vec::new();
        if last < total {
            notes.push(format!(
                "lines {} to {last} of {total}; next: read_file with offset {}",
                self.first,
                last + 1
            ));
        } else if unended {
            notes.push("no newline at the end".to_owned());
        }
        if self.crlf {
            notes.push("lines end with CR LF".to_owned());
        }
        if self.lossy {
            notes.push("not UTF-8: bytes that could not be read are shown as \u{fffd}".to_owned());
        }
        if !notes.is_empty() {
            self.text.push_str(&format!("[{}]\n", notes.join("; ")));
        }
        Ok(self.text)
    }
}

/// Returns names in the same directory that the model may have meant.
fn alike(root: &Root, path: &Path) -> String {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let wanted = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let Ok(place) = root.place_to_show(parent) else {
        return String::new();
    };
    let Ok(entries) = place
        .directory(parent)
        .map_err(drop)
        .and_then(|handle| nix::dir::Dir::from_fd(handle).map_err(drop))
    else {
        return format!(", and no directory {}", parent.display());
    };
    let names: Vec<String> = entries
        .into_iter()
        .take(2000)
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let mut near: Vec<(f64, &str)> = names
        .iter()
        .map(|name| (strsim::jaro_winkler(&wanted, name), name.as_str()))
        .filter(|(likeness, _)| *likeness > 0.8)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let near: Vec<&str> = near.into_iter().take(3).map(|(_, name)| name).collect();
    if near.is_empty() {
        String::new()
    } else {
        format!("; there is {}", near.join(", "))
    }
}
