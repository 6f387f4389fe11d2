//! `search_files`: lines that match a regular expression, with the engine of ripgrep.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use serde::Deserialize;
use serde_json::{Value, json};

use super::tool::ReadOnly;
use super::walk::{FoundFile, Pattern, Walk};
use super::{Tool, ToolContext, ToolError};
use crate::interrupt::Interrupt;

/// The maximum number of lines shown, including context lines.
const MAX_LINES: usize = 200;
/// The maximum size of the output, in bytes.
const MAX_BYTES: usize = 20 * 1024;
/// The maximum number of lines shown per file, so that others are visible.
const MAX_LINES_OF_FILE: usize = 60;
/// The maximum number of lines counted.
const MAX_COUNTED: usize = 10_000;
/// How much of a line is shown, in bytes.
const MAX_LINE_BYTES: usize = 300;
/// The maximum length of a searched line, in bytes.
const HEAP_BYTES: usize = 8 * 1024 * 1024;
/// The maximum number of context lines.
const MAX_CONTEXT: usize = 10;

#[derive(Debug, Deserialize)]
pub(crate) struct SearchFiles {
    pattern: String,
    path: Option<PathBuf>,
    glob: Option<String>,
    #[serde(default)]
    literal: bool,
    #[serde(default)]
    case_sensitive: bool,
    #[serde(default)]
    context: usize,
    #[serde(default)]
    files_only: bool,
    #[serde(default)]
    all: bool,
}

impl Tool for SearchFiles {
    const NAME: &'static str = "search_files";
    const ALIASES: &'static [&'static str] =
        &["grep", "rg", "ripgrep", "search", "grep_search", "search_text"];
    const DESCRIPTION: &'static str = "Search file contents by regex (smart case), as ripgrep does; ignored and hidden \
                                       files only with all.";
    type Kind = ReadOnly;
    const REQUIRED: &'static [&'static str] = &["pattern"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("query", "pattern"),
        ("regex", "pattern"),
        ("text", "pattern"),
        ("include", "glob"),
        ("file_pattern", "glob"),
        ("dir", "path"),
        ("directory", "path"),
        ("fixed_strings", "literal"),
        ("context_lines", "context"),
    ];
    const PATHS: &'static [&'static str] = &["path"];

    fn properties() -> Value {
        json!({"pattern": {"type": "string"}, "path": {"type": "string", "description": "file or directory"},
               "glob": {"type": "string", "description": "only these files, such as *.rs"},
               "literal": {"type": "boolean"}, "case_sensitive": {"type": "boolean"},
               "context": {"type": "integer", "minimum": 0, "maximum": MAX_CONTEXT},
               "files_only": {"type": "boolean"}, "all": {"type": "boolean"}})
    }

    fn run(self, context: &ToolContext<'_>) -> Result<String, ToolError> {
        let matcher = self.matcher()?;
        let mut searcher = self.searcher();
        let walk = Walk {
            path: self.path.unwrap_or_else(|| PathBuf::from(".")),
            glob: self.glob.as_deref().map(Pattern::new).transpose()?,
            all: self.all,
            only: Vec::new(),
        };
        let mut hits = Hits {
            files_only: self.files_only,
            ..Hits::default()
        };
        walk.files(context, |found| {
            search(context, &mut searcher, &matcher, &found, &mut hits)?;
            Ok(hits.lines < MAX_COUNTED)
        })?;
        Ok(hits.finish())
    }
}

impl SearchFiles {
    fn matcher(&self) -> Result<RegexMatcher, ToolError> {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .line_terminator(Some(b'\n'))
            .fixed_strings(self.literal)
            .case_smart(!self.case_sensitive);
        builder.build(&self.pattern).map_err(|error| {
            ToolError::Failed(format!(
                "the pattern is no regular expression of one line ({error}); set literal to search for the text as it is"
            ))
        })
    }

    fn searcher(&self) -> Searcher {
        let context = if self.files_only {
            0
        } else {
            self.context.min(MAX_CONTEXT)
        };
        SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(HEAP_BYTES))
            .binary_detection(BinaryDetection::quit(0))
            .max_matches(self.files_only.then_some(1))
            .build()
    }
}

fn search(
    context: &ToolContext<'_>,
    searcher: &mut Searcher,
    matcher: &RegexMatcher,
    found: &FoundFile,
    hits: &mut Hits,
) -> Result<(), ToolError> {
    // Opened through the workspace, which follows no link out of it, even if a path was replaced
    // after the walk.
    let opened = context
        .root
        .place_to_read(&found.path)
        .and_then(|place| place.read(&found.path));
    let Ok(file) = opened else {
        hits.unread += 1;
        return Ok(());
    };
    let reader = InterruptibleFile {
        file,
        interrupt: context.interrupt,
    };
    let mut of_file = FileHits {
        matcher,
        text: String::new(),
        shown: 0,
        lines: 0,
        binary: false,
        gap: false,
    };
    let searched = searcher.search_reader(matcher, reader, &mut of_file);
    if context.interrupt.is_set() {
        return Err(ToolError::Failed("interrupted".to_owned()));
    }
    match searched {
        Ok(()) => hits.add(&found.shown, &of_file),
        Err(_) => hits.unread += 1,
    }
    Ok(())
}

/// A file whose reads end once the run is interrupted.
struct InterruptibleFile<'a> {
    file: File,
    interrupt: &'a Interrupt,
}

impl Read for InterruptibleFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.interrupt.is_set() {
            return Err(io::Error::other("interrupted"));
        }
        self.file.read(buffer)
    }
}

/// The matching lines of one file.
struct FileHits<'a> {
    matcher: &'a RegexMatcher,
    text: String,
    shown: usize,
    lines: usize,
    binary: bool,
    gap: bool,
}

impl FileHits<'_> {
    fn show(&mut self, number: Option<u64>, mark: char, line: &[u8]) {
        if self.shown == MAX_LINES_OF_FILE {
            return;
        }
        if std::mem::take(&mut self.gap) {
            self.text.push_str("--\n");
        }
        let number = number.unwrap_or(0);
        self.text
            .push_str(&format!("{number}{mark} {}\n", self.cut(line)));
        self.shown += 1;
    }

    /// Returns the line, or the part around the first match of a long one.
    fn cut(&self, line: &[u8]) -> String {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() <= MAX_LINE_BYTES {
            return String::from_utf8_lossy(line).into_owned();
        }
        let start = match self.matcher.find(line) {
            Ok(Some(found)) => found.start().saturating_sub(MAX_LINE_BYTES / 3),
            _ => 0,
        };
        let end = line.len().min(start + MAX_LINE_BYTES);
        let (before, after) = (
            if start > 0 { "…" } else { "" },
            if end < line.len() { "…" } else { "" },
        );
        format!("{before}{}{after}", String::from_utf8_lossy(&line[start..end]))
    }
}

impl Sink for FileHits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.lines += 1;
        self.show(found.line_number(), ':', found.bytes());
        Ok(self.lines < MAX_COUNTED)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.show(context.line_number(), '-', context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        self.gap = self.shown > 0;
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

/// The matches in all files.
#[derive(Default)]
struct Hits {
    files_only: bool,
    text: String,
    shown: usize,
    lines: usize,
    files: usize,
    cut: bool,
    unread: usize,
}

impl Hits {
    fn add(&mut self, shown: &str, of_file: &FileHits<'_>) {
        if of_file.binary || of_file.lines == 0 {
            return;
        }
        self.files += 1;
        self.lines += of_file.lines;
        let text = if self.files_only {
            format!("{shown}\n")
        } else {
            format!("{shown}\n{}", of_file.text)
        };
        let shown_lines = if self.files_only { 1 } else { of_file.shown };
        if self.shown > 0
            && (self.shown + shown_lines > MAX_LINES || self.text.len() + text.len() > MAX_BYTES)
        {
            self.cut = true;
            return;
        }
        self.cut |= of_file.shown == MAX_LINES_OF_FILE && of_file.lines > of_file.shown;
        self.text.push_str(&text);
        self.shown += shown_lines;
    }

    fn finish(mut self) -> String {
        let plural = |n: usize, suffix: &str| match n {
            1 => format!("1 {suffix}"),
            n => format!("{n} {suffix}s"),
        };
        let least = if self.lines >= MAX_COUNTED {
            "at least "
        } else {
            ""
        };
        let (lines, files) = (plural(self.lines, "line"), plural(self.files, "file"));
        let mut note = match (self.files, self.files_only) {
            (0, _) => "nothing found; ignored and hidden files are only searched with all".to_owned(),
            (_, true) => format!("{least}{files}"),
            (_, false) => format!("{least}{lines} in {files}"),
        };
        if self.cut {
            note.push_str("; not all are shown: narrow it with path, glob or pattern");
        }
        if self.unread > 0 {
            note.push_str(&format!(
                "; {} could not be searched",
                plural(self.unread, "file")
            ));
        }
        self.text.push_str(&format!("[{note}]\n"));
        self.text
    }
}

#[cfg(test)]
mod tests;
