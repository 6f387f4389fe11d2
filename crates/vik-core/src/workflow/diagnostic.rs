//! Findings about a workflow file: what is wrong, where, and what to do.

use serde::Serialize;

use super::Loaded;
use super::text;

/// The maximum number of diagnostics for one file; one more states that there are others.
pub const MAX_DIAGNOSTICS: usize = 100;

/// The stable codes of all diagnostics of loading a workflow, each with its meaning.
pub const CODES: &[(&str, &str)] = &[
    ("bad_address", "A text is no address with a port."),
    (
        "bad_alias",
        "An alias refers to itself, or aliases copy too much.",
    ),
    (
        "bad_arg",
        "A flag name or value under `args` cannot be passed to a program.",
    ),
    ("bad_character", "A control character stands in the file."),
    ("bad_cron", "A text is no cron pattern, or one that never comes."),
    (
        "bad_duration",
        "A text is no duration, or one that is zero or too long where that makes no sense.",
    ),
    (
        "bad_env_name",
        "A name cannot be the name of an environment variable.",
    ),
    ("bad_glob", "A text is no glob of a scope or of an allow-list."),
    ("bad_header", "A text cannot be the name of an HTTP header."),
    (
        "bad_host",
        "A text is not the name of a host, perhaps with a port.",
    ),
    ("bad_key", "A list or a map is used as a key."),
    ("bad_merge", "A merge key `<<` takes something that is no map."),
    (
        "bad_name",
        "The name of a stage or an agent cannot be part of a file name.",
    ),
    (
        "bad_path",
        "A path names a variable or another user's home, or goes up in a sandbox.",
    ),
    (
        "bad_secret",
        "A secret has a name that no variable can have, or not exactly one source.",
    ),
    (
        "bad_size",
        "A text is no amount of bytes, or one that no machine has.",
    ),
    ("bad_tag", "A YAML tag has no meaning here."),
    (
        "bad_text",
        "A text holds a character that it cannot hold, such as NUL.",
    ),
    ("bad_time", "A text is no time of day."),
    (
        "bool_word",
        "`yes`, `no`, `on` or `off` is text in YAML 1.2, where `true` or `false` was likely meant.",
    ),
    (
        "cannot_ask",
        "Rules for calls stand where the agent cannot be asked before a call.",
    ),
    ("dashed_arg", "A flag under `args` is written with its dashes."),
    ("duplicate_key", "A map writes the same key twice."),
    ("empty", "The file holds no workflow."),
    ("empty_value", "A value is empty where it cannot be."),
    ("missing_key", "A required key is absent."),
    (
        "multiple_documents",
        "The file holds more than one YAML document.",
    ),
    ("no_agents", "There is no agent profile."),
    (
        "no_price",
        "A limit on money holds for an agent that reports no cost and has no price.",
    ),
    ("no_stages", "There is no stage."),
    (
        "open_listener",
        "Webhooks are taken from other machines, without encryption.",
    ),
    ("out_of_range", "A number or duration is too small or too large."),
    (
        "output_credential",
        "The agent of a stage with `outputs` is given a credential of a tracker or a git remote.",
    ),
    (
        "output_permission",
        "The agent of a stage with `outputs` has no tool to write them with.",
    ),
    (
        "output_sandbox",
        "The agent of a stage with `outputs` has no wall around it, or one with a way out.",
    ),
    (
        "parallel_writers",
        "Two agents that may both write can run in one workspace at the same time.",
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
    (
        "terminal_stage",
        "A stage takes a state in which an issue is done with.",
    ),
    ("too_deep", "The file is nested too deep."),
    ("too_large", "The file is too large."),
    ("too_many", "There are more diagnostics than are shown."),
    (
        "unknown_agent",
        "A stage names an agent profile that does not exist.",
    ),
    (
        "unknown_key",
        "A key has no meaning here. It is ignored, but an error in what protects: `sandbox`, `approve`, `outputs`, `intent`, `trust`, `secrets`, `limits`.",
    ),
    ("unknown_runtime", "A runtime is unknown."),
    ("unknown_secret", "A secret is listed that is not defined."),
    (
        "unknown_time_zone",
        "No time zone of the tz database has this name.",
    ),
    ("unknown_value", "A word is none of those that are possible here."),
    ("unused_agent", "No stage uses an agent profile."),
    ("unused_key", "A key has no effect together with the others."),
    ("unused_secret", "Nobody gets a secret."),
    (
        "webhook_url",
        "A webhook needs exactly one of `url` and `url_env`, an address with `http` or `https`.",
    ),
    ("wrong_type", "A value is not of the type that is needed here."),
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
                format!("{} more findings are not shown", self.dropped),
            ));
        }
        self.diagnostics
    }
}
