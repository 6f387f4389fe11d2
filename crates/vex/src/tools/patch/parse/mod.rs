//! The two forms of a patch, read into one: unified diffs, and `*** Begin Patch`.
//!
//! What a model writes is read as it was meant where there is only one way to read it (wrong counts in a hunk's
//! header, an empty line for an empty context line, a fence around all); everything else is an error with its line.

mod hunk;
mod sections;
mod unified;

/// Files of a patch, at most.
const MAX_FILES: usize = 500;

/// What is to become of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its path, as given.
    pub path: String,
    /// What is to become of it.
    pub action: Action,
}

/// What is to become of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is new, with this content.
    Add(String),
    /// It goes.
    Delete,
    /// Its lines change, and its name where another is given.
    Update {
        /// The new path.
        to: Option<String>,
        /// The changes; none where it is only renamed.
        hunks: Vec<Hunk>,
    },
}

/// One change of some lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The first line of it in the old file, from 1, where it is told.
    pub line: Option<usize>,
    /// Lines that stand somewhere before it, one after the other.
    pub anchors: Vec<String>,
    /// Whether it stands at the end of the file.
    pub at_end: bool,
    /// Its lines.
    pub lines: Vec<HunkLine>,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkLine {
    /// What becomes of it.
    pub kind: LineKind,
    /// Its text without the line feed.
    pub text: String,
    /// Whether it ends with a line feed.
    pub ended: bool,
}

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// It stays.
    Keep,
    /// It goes.
    Remove,
    /// It comes.
    Add,
}

/// Why a text is no patch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A line that fits nowhere.
    #[error("line {line} of the patch: {reason}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// There is nothing in it.
    #[error(
        "there is no change in it; it must be a unified diff (--- a/file, +++ b/file, @@), or begin with \
         *** Begin Patch"
    )]
    Empty,
    /// It is too long.
    #[error("it changes more than {MAX_FILES} files")]
    TooMany,
}

/// The lines that are still to be read, each with its number.
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

/// Reads a patch of either form.
///
/// # Errors
/// When the text is none.
pub fn parse(text: &str) -> Result<Vec<FileChange>, ParseError> {
    let mut lines: Vec<(usize, &str)> = (1..).zip(text.split('\n')).collect();
    // The last line feed ends a line and begins none.
    if lines.last().is_some_and(|(_, line)| line.is_empty()) {
        lines.pop();
    }
    // A patch that was written with CR LF throughout; else a CR belongs to its line.
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

/// Takes off a Markdown fence around all of it.
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
