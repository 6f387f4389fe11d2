//! Findings about a workflow file: what is wrong, where, and what to do.

use serde::Serialize;

use super::{Loaded, text};

/// The maximum number of diagnostics for one file; one more states that there are others.
pub const MAX_DIAGNOSTICS: usize = 100;

/// The stable codes of all diagnostics of loading a workflow, each with its meaning.
pub const CODES: &[(&str, &str)] = &[
    ("bad_address", "An address is not an IP address with a port."),
    (
        "bad_alias",
        "An alias refers to itself, or aliases expand to too much data.",
    ),
    ("bad_arg", "A flag name or value in `args` is invalid."),
    ("bad_character", "The file contains a control character."),
    ("bad_cron", "A cron pattern is invalid or never matches."),
    ("bad_duration", "A duration is invalid, negative or too long."),
    ("bad_env_name", "The name of an environment variable is invalid."),
    ("bad_glob", "A glob of a scope or an allow-list is invalid."),
    ("bad_header", "The name of an HTTP header is invalid."),
    ("bad_host", "A host name, optionally with a port, is invalid."),
    ("bad_key", "A key is a list or a map."),
    (
        "bad_merge",
        "The value of a merge key `<<` is not a map or a list of maps.",
    ),
    (
        "bad_name",
        "A name, such as that of a stage or an agent, is invalid.",
    ),
    (
        "bad_path",
        "A path contains a variable or the home directory of another user, or `..` in a sandbox.",
    ),
    (
        "bad_secret",
        "A secret has an invalid name, or not exactly one source.",
    ),
    ("bad_size", "An amount of bytes is invalid or too large."),
    ("bad_tag", "A YAML tag is unknown."),
    ("bad_text", "A string contains an invalid character, such as NUL."),
    ("bad_time", "A time of day is invalid."),
    (
        "bool_word",
        "`yes`, `no`, `on` or `off` is a string in YAML 1.2; probably `true` or `false` was intended.",
    ),
    (
        "cannot_ask",
        "`approve.calls` is set for an agent whose calls cannot be approved.",
    ),
    ("dashed_arg", "A flag in `args` is written with dashes."),
    ("duplicate_key", "A map contains the same key twice."),
    ("empty", "The file contains no workflow."),
    ("empty_value", "A required value is empty."),
    ("missing_key", "A required key is missing."),
    (
        "multiple_documents",
        "The file contains more than one YAML document.",
    ),
    ("no_agents", "No agent profile is defined."),
    (
        "no_price",
        "A limit in USD applies to an agent that reports no cost and has no price.",
    ),
    ("no_stages", "No stage is defined."),
    (
        "open_listener",
        "The webhook server accepts unencrypted connections from other machines.",
    ),
    ("out_of_range", "A number or duration is too small or too large."),
    (
        "output_credential",
        "The agent of a stage with `outputs` gets a credential of a tracker or a git remote.",
    ),
    (
        "output_permission",
        "The agent of a stage with `outputs` has no tool that can write them.",
    ),
    (
        "output_sandbox",
        "The agent of a stage with `outputs` has no sandbox, or one that permits Unix sockets.",
    ),
    (
        "parallel_writers",
        "Two agents with write access can run in one workspace at the same time.",
    ),
    (
        "prompt_source",
        "A stage needs exactly one of `prompt` and `prompt_file`.",
    ),
    (
        "schedule_job",
        "An entry of the schedule needs exactly one of `command` and `pull: true`.",
    ),
    ("syntax", "The file is not valid YAML."),
    ("terminal_stage", "A stage takes issues in a terminal state."),
    ("too_deep", "The file is nested too deeply."),
    ("too_large", "The file is too large."),
    ("too_many", "There are more diagnostics than Vik prints."),
    (
        "unknown_agent",
        "A stage names an agent profile that does not exist.",
    ),
    (
        "unknown_key",
        "A key is unknown. Vik ignores it, except in sections that protect something, where it is an error: `sandbox`, `approve`, `outputs`, `intent`, `trust`, `secrets`, `limits`.",
    ),
    ("unknown_runtime", "A runtime is unknown."),
    ("unknown_secret", "A listed secret is not defined."),
    (
        "unknown_time_zone",
        "No time zone of the tz database has this name.",
    ),
    ("unknown_value", "A value is not one of the permitted ones."),
    ("unused_agent", "An agent profile is not used by any stage."),
    (
        "unused_key",
        "A key has no effect in combination with the others.",
    ),
    ("unused_secret", "A secret is not used."),
    (
        "webhook_url",
        "A webhook needs exactly one of `url` and `url_env`, with an `http` or `https` address.",
    ),
    ("wrong_type", "A value has the wrong type."),
];

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
    /// The stable code for scripts: one of [`CODES`], or a code of the caller.
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
    pub fn at(self, loaded: &Loaded) -> Self {
        match loaded.nearest(&self.path) {
            Some(place) => self.place(place),
            None => self,
        }
    }

    /// Positions the finding inside of the text at its path: `line` and `column` (from 1) are
    /// positions in the value, as a template engine reports them. Exact inside of literal blocks
    /// (`|`); otherwise the position of the value is used.
    #[must_use]
    pub fn at_line(self, loaded: &Loaded, line: u32, column: Option<u32>) -> Self {
        match loaded.block_line(&self.path, line) {
            Some((file_line, indent)) => {
                let place = Place {
                    line: file_line,
                    column: indent + column.unwrap_or(1).max(1) - 1,
                    end_column: if column.is_some() {
                        indent + column.unwrap_or(1).max(1)
                    } else {
                        0
                    },
                };
                self.place(place.clamped(loaded.text()))
            }
            None => self.at(loaded),
        }
    }

    pub(crate) fn hint_opt(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    pub(crate) fn place(mut self, place: Place) -> Self {
        (self.line, self.column, self.end_column) = (place.line, place.column, place.end_column);
        self
    }

    pub(crate) fn related(mut self, spot: Spot) -> Self {
        self.related.push(spot);
        self
    }
}

/// A position on one line of the file; an `end_column` of 0 is the end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) end_column: u32,
}

impl Place {
    pub(crate) fn point(line: usize, column: usize) -> Self {
        let column = column as u32;
        Self {
            line: line as u32,
            column,
            end_column: column + 1,
        }
    }

    /// Returns the position clamped to the text: on an existing line, at most one past its end,
    /// with a real end column.
    pub(crate) fn clamped(self, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut last = (1, "");
        for (index, line) in text::lines(text).enumerate() {
            last = (index as u32 + 1, line);
            if last.0 == self.line {
                break;
            }
        }
        let length = last.1.chars().count() as u32;
        let column = if last.0 == self.line {
            self.column.clamp(1, length + 1)
        } else {
            length + 1
        };
        let end = if self.end_column == 0 || last.0 != self.line {
            length + 1
        } else {
            self.end_column
        };
        Self {
            line: last.0,
            column,
            end_column: end.min(length + 1).max(column + 1),
        }
    }
}

/// Collects a limited number of diagnostics.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    diagnostics: Vec<Diagnostic>,
    errors: usize,
    dropped: usize,
}

impl Sink {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
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

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns the message of the first error.
    pub(crate) fn first_error(&self) -> Option<&str> {
        let mut found = self.diagnostics.iter();
        let error = found.find(|diagnostic| diagnostic.severity == Severity::Error)?;
        Some(&error.message)
    }

    /// Returns whether findings were dropped, so that computing hints is useless.
    pub(crate) fn dropped(&self) -> bool {
        self.dropped > 0
    }

    /// Returns all findings in the order of the file, with real end columns.
    pub(crate) fn finish(mut self, text: &str) -> Vec<Diagnostic> {
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
