//! Parses the two forms of a patch: unified diffs, and `*** Begin Patch`.
//!
//! Common mistakes of models with a single reading are accepted (wrong counts in a hunk's header,
//! an empty line for an empty context line, a fence around all); everything else is an error with
//! its line.

mod hunk;
mod sections;
mod unified;

/// The maximum number of files of a patch.
const MAX_FILES: usize = 500;

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub path: String,
    pub action: Action,
}

/// What happens to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates it with this content.
    Add(String),
    Delete,
    /// Changes its lines, and its name if another one is given.
    Update {
        to: Option<String>,
        /// The changes; none if it is only renamed.
        hunks: Vec<Hunk>,
    },
}

/// One change of some lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Its first line in the old file, from 1, if known.
    pub line: Option<usize>,
    /// Lines that occur before it, in this order.
    pub anchors: Vec<String>,
    /// Whether it is at the end of the file.
    pub at_end: bool,
    pub lines: Vec<HunkLine>,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    pub kind: LineKind,
    /// Its text without the line feed.
    pub text: String,
    /// Whether it ends with a line feed.
    pub ended: bool,
}

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    Keep,
    Remove,
    Add,
}

/// Why a text is not a patch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("line {line} of the patch: {reason}")]
    Line {
        /// The line, from 1.
        line: usize,
        reason: String,
    },
    #[error(
        "there is no change in it; it must be a unified diff (--- a/file, +++ b/file, @@), or begin with \
         *** Begin Patch"
    )]
    Empty,
    #[error("it changes more than {MAX_FILES} files")]
    TooMany,
}

/// The remaining lines, each with its number.
#[derive(Clone, Copy)]
struct Lines<'a, 'b>(&'b [(usize, &'a str)]);

impl<'a> Lines<'a, '_> {
    fn peek(&self) -> Option<&'a str> {
        self.ahead(0)
    }

    fn ahead(&self, n: usize) -> Option<&'a str> {
        self.0.get(n).map(|(_, line)| *line)
    }

    fn next(&mut self) -> Option<(usize, &'a str)> {
        let (first, remaining) = self.0.split_first()?;
        self.0 = remaining;
        Some(*first)
    }

    fn next_if(&mut self, fits: impl FnOnce(&str) -> bool) -> Option<(usize, &'a str)> {
        if self.peek().is_some_and(fits) {
            self.next()
        } else {
            None
        }
    }
}

fn wrong<T>(line: usize, reason: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError::Line {
        line,
        reason: reason.into(),
    })
}

/// Parses a patch of either form.
///
/// # Errors
/// When the text is not a patch.
pub fn parse(text: &str) -> Result<Vec<FileChange>, ParseError> {
    let mut lines: Vec<(usize, &str)> = (1..).zip(text.split('\n')).collect();
    // The last line feed ends a line and starts none.
    if lines.last().is_some_and(|(_, line)| line.is_empty()) {
        lines.pop();
    }
    // A patch with CR LF throughout; otherwise a CR belongs to its line.
    if lines.iter().all(|(_, line)| line.ends_with('\r')) {
        for (_, line) in &mut lines {
            *line = &line[..line.len() - 1];
        }
    }
    unfence(&mut lines);
    let begun = lines
        .iter()
        .position(|(_, line)| line.trim() == "*** Begin Patch");
    let headless = lines
        .iter()
        .find(|(_, line)| !line.trim().is_empty())
        .is_some_and(|(_, line)| sections::section(line).is_some());
    let changes = match begun {
        Some(at) => sections::read(Lines(&lines[at + 1..]))?,
        None if headless => sections::read(Lines(&lines))?,
        None => unified::read(Lines(&lines))?,
    };
    match changes.len() {
        0 => Err(ParseError::Empty),
        n if n > MAX_FILES => Err(ParseError::TooMany),
        _ => Ok(changes),
    }
}

/// Removes a Markdown fence around all of it.
fn unfence(lines: &mut Vec<(usize, &str)>) {
    let blank = |(_, line): &(usize, &str)| line.trim().is_empty();
    let Some(first) = lines.iter().position(|line| !blank(line)) else {
        return;
    };
    if !lines[first].1.starts_with("```") {
        return;
    }
    let last = lines.iter().rposition(|(_, line)| line.trim_end() == "```");
    if let Some(last) = last.filter(|last| *last > first) {
        lines.truncate(last);
    }
    lines.drain(..=first);
}

#[cfg(test)]
mod tests;
