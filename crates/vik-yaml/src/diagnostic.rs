//! Findings about a file: what is wrong, where, and what to do.

use serde::Serialize;

use super::document::Document;
use super::place::Place;
use super::text;

/// The maximum number of diagnostics for one file; one more states that there are others.
pub const MAX_DIAGNOSTICS: usize = 100;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The workflow cannot be used.
    Error,
    /// The workflow can be used, but probably not as intended. `--strict` makes it an error.
    Warning,
}

/// A finding. Lines and columns count from 1; columns are characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    pub severity: Severity,
    /// The stable code for scripts.
    pub code: &'static str,
    /// The message, in one sentence.
    pub message: String,
    pub line: u32,
    pub column: u32,
    /// The column after the last character on that line.
    pub end_column: u32,
    /// The dotted path of the value, such as `issue.stages.plan.agent`; empty for the whole file.
    pub path: String,
    pub hint: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Spot>,
}

/// A position that is related to a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spot {
    pub line: u32,
    pub column: u32,
    pub message: String,
}

impl Diagnostic {
    /// Creates an error about the value at `path`, positioned at the start of the file by default.
    pub fn error(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, path.into(), message.into())
    }

    /// Creates a warning about the value at `path`, positioned at the start of the file by default.
    pub fn warning(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, path.into(), message.into())
    }

    fn new(severity: Severity, code: &'static str, path: String, message: String) -> Self {
        Self {
            severity,
            code,
            message,
            line: 1,
            column: 1,
            end_column: 2,
            path,
            hint: None,
            related: Vec::new(),
        }
    }

    /// Adds a suggested action.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Positions the finding at the value of its path, or at the nearest enclosing key.
    #[must_use]
    pub fn at(self, document: &Document) -> Self {
        match document.nearest(&self.path) {
            Some(place) => self.place(place),
            None => self,
        }
    }

    /// Positions the finding inside of the text at its path: `line` and `column` (from 1) are
    /// positions in the value, as a template engine reports them. Exact inside of literal blocks
    /// (`|`); otherwise the position of the value is used.
    #[must_use]
    pub fn at_line(self, document: &Document, line: u32, column: Option<u32>) -> Self {
        match document.block_line(&self.path, line) {
            Some((file_line, indent)) => {
                let place = Place {
                    line: file_line,
                    column: indent + column.unwrap_or(1).max(1) - 1,
                    end_column: column.map_or(0, |column| indent + column.max(1)),
                };
                self.place(place.clamped(document.text()))
            }
            None => self.at(document),
        }
    }

    pub fn hint_opt(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    pub fn place(mut self, place: Place) -> Self {
        (self.line, self.column, self.end_column) = (place.line, place.column, place.end_column);
        self
    }

    pub fn related(mut self, spot: Spot) -> Self {
        self.related.push(spot);
        self
    }
}

/// Collects a limited number of diagnostics.
#[derive(Debug, Default)]
pub struct Sink {
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    dropped: usize,
    /// Paths of required keys that are there under another name.
    misspelled: Vec<String>,
}

impl Sink {
    pub fn push(&mut self, diagnostic: Diagnostic) {
        let is_error = diagnostic.severity == Severity::Error;
        // Many unknown keys must not hide the errors, so warnings take at most half of the space.
        let warnings = self.diagnostics.len() - self.errors;
        let is_full = if is_error { self.errors } else { warnings } >= MAX_DIAGNOSTICS / 2;
        if is_full {
            self.dropped += 1;
        } else {
            self.errors += usize::from(is_error);
            self.diagnostics.push(diagnostic);
        }
    }

    /// Notes that the required key of a path is there under another name, which was reported.
    pub fn add_misspelled(&mut self, path: String) {
        self.misspelled.push(path);
    }

    /// Returns whether the key of a path is there under another name: what its section lacks is
    /// then no finding of its own.
    pub fn has_misspelled(&self, path: &str) -> bool {
        self.misspelled.iter().any(|misspelled| misspelled == path)
    }

    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns the message of the first error.
    pub fn first_error(&self) -> Option<&str> {
        let mut found = self.diagnostics.iter();
        let error = found.find(|diagnostic| diagnostic.severity == Severity::Error)?;
        Some(&error.message)
    }

    /// Returns whether findings were dropped, so that computing hints is useless.
    pub fn dropped(&self) -> bool {
        self.dropped > 0
    }

    /// Returns all findings in the order of the file, with real end columns.
    pub fn finish(mut self, text: &str) -> Vec<Diagnostic> {
        // One pass over the file for all positions.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lengths: Vec<u32> = text::lines(text)
            .map(|line| line.chars().count() as u32)
            .collect();
        for diagnostic in &mut self.diagnostics {
            // The parser may report missing content after the end of the file.
            diagnostic.line = diagnostic.line.clamp(1, (lengths.len() as u32).max(1));
            let length = lengths.get(diagnostic.line as usize - 1).copied().unwrap_or(0);
            let end = if diagnostic.end_column == 0 {
                length + 1
            } else {
                diagnostic.end_column
            };
            diagnostic.end_column = end.max(diagnostic.column + 1);
        }
        self.diagnostics.sort_by_key(|d| (d.line, d.column, d.severity));
        if self.dropped > 0 {
            let severity = if self.errors > 0 {
                Severity::Error
            } else {
                Severity::Warning
            };
            self.diagnostics.push(Diagnostic::new(
                severity,
                "too_many",
                String::new(),
                format!("{} more diagnostics are not shown", self.dropped),
            ));
        }
        self.diagnostics
    }
}
