//! The stream of an answer in words that no protocol owns.
//!
//! Three steps, all of them pure: bytes become server-sent events ([`super::sse`]), a [`Decoder`] of the protocol makes
//! [`StreamEvent`]s of those, and the [`Assembler`] builds the [`Turn`](crate::conversation::Turn) from them.
//! [`Reader`] is the three in a row. A turn is whole or there is none: a stream that was cut, an error in it, and an
//! answer without content are errors.

mod assembler;
mod reader;
mod surrogates;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub use assembler::Assembler;
pub use reader::AnswerReader;

use super::http::fault::ErrorBody;
use crate::conversation::{StopReason, Usage};

/// The number of a part of an answer: parts may come interleaved, and are ordered by their first word.
pub type Part = u64;

/// Which kind of part something belongs to; a protocol may use one number for parts of several kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// What it says.
    Text,
    /// What it thinks.
    Thinking,
    /// A tool call.
    Tool,
}

/// One step of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// The answer begins.
    Started {
        /// The provider's id of it; empty when it gives none.
        id: String,
        /// The model that really answers; empty when it is not told.
        model: String,
    },
    /// It says more.
    TextDelta {
        /// The part.
        part: Part,
        /// The words.
        text: String,
    },
    /// It thinks more.
    ThinkingDelta {
        /// The part.
        part: Part,
        /// The words.
        text: String,
    },
    /// More of the signature of a thought.
    SignatureDelta {
        /// The part.
        part: Part,
        /// The piece.
        signature: String,
    },
    /// A tool call, or what was still missing of its id and name.
    ToolStart {
        /// The part.
        part: Part,
        /// Its id, when it has one.
        id: Option<String>,
        /// The tool; empty while it is not told.
        name: String,
    },
    /// More of the arguments of a tool call.
    ToolDelta {
        /// The part.
        part: Part,
        /// The piece of JSON.
        json: String,
    },
    /// A tool call is whole.
    ToolEnd {
        /// The part.
        part: Part,
    },
    /// Where the words of a text come from.
    Citation {
        /// The part with the text.
        part: Part,
        /// The citation, as it came.
        citation: Value,
    },
    /// Something that belongs to a part and goes back with it, though only the protocol understands it.
    Annex {
        /// The part.
        part: Part,
        /// Its kind.
        kind: PartKind,
        /// The name of the field.
        name: &'static str,
        /// The field.
        value: Value,
    },
    /// An item of its own that only the protocol understands: redacted thinking, server tools, encrypted reasoning.
    Native {
        /// The part.
        part: Part,
        /// The item, as it came.
        item: Value,
    },
    /// Tokens of the whole answer until now; each takes the place of the one before.
    Usage {
        /// The tokens.
        usage: Usage,
        /// What they cost in USD, where the provider tells it.
        cost_usd: Option<f64>,
    },
    /// Why it stops.
    Stop(StopReason),
    /// A sign of life.
    Heartbeat,
    /// An event that is not known. It is handed on, and never breaks an answer.
    Unknown {
        /// Its name.
        name: String,
        /// Its data.
        data: String,
    },
}

/// Why a stream gave no turn.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// It ended before the answer did.
    #[error("the stream ended before the answer was whole")]
    Cut,
    /// The answer has neither words nor thoughts nor calls.
    #[error("the answer is empty")]
    Empty,
    /// The provider reported an error in the midst of it.
    #[error("{}", reported(body))]
    Reported {
        /// What it says.
        body: ErrorBody,
        /// The HTTP status that it stands for, where it tells one.
        status: Option<u16>,
    },
    /// An event is not what the protocol says.
    #[error("the stream is malformed{}: {reason}", named(event))]
    Malformed {
        /// Its name, where known.
        event: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An event, or the answer, is larger than any answer is.
    #[error("the stream is larger than an answer may be")]
    TooLarge,
}

fn reported(body: &ErrorBody) -> String {
    if body.message.is_empty() {
        format!("the provider reported an error: {}", body.names.join(", "))
    } else {
        body.message.clone()
    }
}

fn named(event: &str) -> String {
    if event.is_empty() {
        String::new()
    } else {
        format!(" in {event:?}")
    }
}

/// Makes stream events of one answer's server-sent events. Pure: no clock, no input, no output.
pub trait Decoder {
    /// Takes one event with its data, and adds what it means.
    ///
    /// # Errors
    /// When it is malformed, or reports an error. Nothing more must be given to it then.
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), StreamError>;

    /// Says that nothing more comes.
    ///
    /// # Errors
    /// When the answer is not whole.
    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), StreamError>;

    /// Whether the last event of the protocol came: nothing more needs to be read.
    fn is_done(&self) -> bool;
}

impl StreamError {
    /// An error as it stands in a stream: an object, or one that holds it as `error`.
    pub(crate) fn reported(value: &Value) -> Self {
        let code = value.get("error").unwrap_or(value).get("code");
        Self::Reported {
            body: ErrorBody::read(value.to_string().as_bytes()),
            status: code
                .and_then(Value::as_u64)
                .and_then(|code| u16::try_from(code).ok()),
        }
    }
}

/// Reads the data of an event.
pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(name: &str, data: &'a str) -> Result<T, StreamError> {
    serde_json::from_str(data).map_err(|error| StreamError::Malformed {
        event: name.to_owned(),
        reason: error.to_string(),
    })
}
