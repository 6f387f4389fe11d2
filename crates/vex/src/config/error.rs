//! Errors of settings.

use std::path::PathBuf;

use super::keys;

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file exists and cannot be read.
    #[error("cannot read the settings file {path}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A key is unknown, or a value does not fit.
    #[error("{place}: {message}")]
    Invalid {
        /// The file with line and column, the variable or the flag.
        place: String,
        message: String,
    },
    /// Values that exclude each other.
    #[error("{0}")]
    Conflict(String),
}

impl ConfigError {
    pub(super) fn invalid(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid {
            place: place.into(),
            message: message.into(),
        }
    }

    /// Creates an error of the parser in `name`, with line and column.
    pub(super) fn in_text(name: &str, text: &str, error: &toml::de::Error) -> Self {
        let place = match error.span() {
            Some(span) => {
                let (line, column) = line_and_column(text, span.start);
                format!("{name}:{line}:{column}")
            }
            None => name.to_owned(),
        };
        Self::invalid(place, friendly(error.message()))
    }
}

/// Returns line and column, both from 1; a column counts characters.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[start..].chars().count() + 1,
    )
}

/// Returns the parser's message, with the nearest known key in place of the list of all keys.
pub(super) fn friendly(message: &str) -> String {
    let message = message.trim_end();
    let Some(tail) = message.strip_prefix("unknown field `") else {
        return plain(message);
    };
    let (unknown, tail) = tail.split_once('`').unwrap_or((tail, ""));
    // Every second part between back-ticks is a name.
    let known = tail.split('`').skip(1).step_by(2);
    let hint =
        keys::nearest(unknown, known).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    format!("unknown key `{unknown}`{hint}")
}

/// Replaces terms of programmers.
fn plain(message: &str) -> String {
    let (problem, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let problem = problem.replace('\n', " ");
    let expected = match expected {
        "" => return problem,
        "a nonzero u32" => "a whole number above zero",
        "u8" | "u32" | "u64" | "i64" => "a whole number",
        "f64" => "a number",
        other if other.starts_with("struct ") => "a table",
        other => other,
    };
    format!("{problem}, expected {expected}")
}
