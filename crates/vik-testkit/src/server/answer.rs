//! An answer independent of the dialect, and the events of a dialect.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::script::TokenCount;
use super::tools::Call;

/// The model's whole answer in one turn.
pub(crate) struct Answer {
    pub(crate) id: u64,
    pub(crate) model: String,
    pub(crate) thinking: String,
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
    pub(crate) usage: TokenCount,
    pub(crate) with_usage: bool,
    pub(crate) stop: Option<String>,
    pub(crate) chunk_chars: usize,
    /// Makes the arguments of tool calls invalid JSON.
    pub(crate) bad_args: bool,
}

impl Answer {
    /// Returns a number that is unique in this process.
    pub(crate) fn fresh_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the arguments of a call as text.
    pub(crate) fn arguments(&self, call: &Call) -> String {
        let text = match &call.input {
            super::tools::Input::Json(value) => value.to_string(),
            super::tools::Input::Text(text) => return text.clone(),
        };
        if self.bad_args {
            text[..text.len() - 1].to_owned() + ",,}"
        } else {
            text
        }
    }

    /// Splits a text into the pieces of a stream.
    pub(crate) fn pieces(&self, text: &str) -> Vec<String> {
        let chars: Vec<char> = text.chars().collect();
        chars
            .chunks(self.chunk_chars.max(1))
            .map(|piece| piece.iter().collect())
            .collect()
    }
}

/// The part of an answer that an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Start,
    /// A piece of text or thinking.
    Text,
    /// A piece of a tool's arguments.
    ToolArgs,
    Other,
    End,
}

/// One event of a stream.
pub(crate) struct SseEvent {
    pub(crate) part: Part,
    /// The bytes on the wire.
    pub(crate) wire: String,
}

impl SseEvent {
    /// Creates an event with `event:` and `data:`.
    pub(crate) fn named(part: Part, data: &Value) -> Self {
        let name = data["type"].as_str().unwrap_or("message");
        Self {
            part,
            wire: format!("event: {name}\ndata: {data}\n\n"),
        }
    }

    /// Creates an event with `data:` only.
    pub(crate) fn plain(part: Part, data: &impl std::fmt::Display) -> Self {
        Self {
            part,
            wire: format!("data: {data}\n\n"),
        }
    }
}
