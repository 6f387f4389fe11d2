//! The stream of an answer, independent of any protocol.
//!
//! There are three pure steps: bytes become server-sent events ([`super::sse`]), a [`Decoder`] of
//! the protocol turns them into [`StreamEvent`]s, and the [`Assembler`] builds the
//! [`Turn`]. [`AnswerReader`] combines the three. A turn is complete or
//! does not exist: a stream that was cut, an error in it, and an answer without content are errors.

mod assembler;
mod reader;
mod repetition;
mod surrogates;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::Value;

pub use assembler::Assembler;
pub use reader::AnswerReader;

use super::http::fault::ErrorBody;
use crate::conversation::{StopReason, Turn, Usage};

/// The number of a part of an answer. Parts may be interleaved, and are ordered by their first
/// event.
pub type Part = u64;

/// The kind of a part. A protocol may use one number for parts of several kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartKind {
    Text,
    Thinking,
    Tool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    TextDelta {
        part: Part,
        text: String,
    },
    ThinkingDelta {
        part: Part,
        text: String,
    },
    /// More of the signature of thinking.
    SignatureDelta {
        part: Part,
        signature: String,
    },
    /// A tool call, or the missing parts of its id and name.
    ToolStart {
        part: Part,
        /// The id, if there is one.
        id: Option<String>,
        /// The tool; empty if not yet known.
        name: String,
    },
    /// More of the arguments of a tool call.
    ToolDelta {
        part: Part,
        json: String,
    },
    /// A tool call is complete.
    ToolEnd {
        part: Part,
    },
    /// The source of a text.
    Citation {
        /// The part with the text.
        part: Part,
        citation: Value,
    },
    /// Data that belongs to a part and is sent back with it, though only the protocol understands
    /// it.
    Annex {
        part: Part,
        kind: PartKind,
        /// The name of the field.
        name: &'static str,
        value: Value,
    },
    /// A separate item that only the protocol understands: redacted thinking, server tools,
    /// encrypted reasoning.
    Native {
        part: Part,
        item: Value,
    },
    /// Tokens of the whole answer until now; each event replaces the previous one.
    Usage {
        usage: Usage,
        /// The cost in USD, if the provider reports it.
        cost_usd: Option<f64>,
    },
    Stop(StopReason),
}

/// The tokens of the input, as the protocols chat and responses report them.
#[derive(Clone, Copy, Default, Deserialize)]
pub struct InputDetails {
    pub cached_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
}

impl InputDetails {
    /// Returns the tokens of an answer. The details never exceed the input.
    pub fn usage_event(self, input: u64, output: u64, cost_usd: Option<f64>) -> StreamEvent {
        let cached = self.cached_tokens.unwrap_or_default().min(input);
        let written = self.cache_write_tokens.unwrap_or_default();
        StreamEvent::Usage {
            usage: Usage {
                input_tokens: input,
                cached_input_tokens: cached,
                cache_write_input_tokens: written.min(input - cached),
                output_tokens: output,
            },
            cost_usd,
        }
    }
}

/// Why a stream gave no turn.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// It ended before the answer did.
    #[error("the stream ended before the answer was whole")]
    Cut,
    /// The answer has no text, no thinking and no calls, but its tokens count.
    #[error("the answer is empty")]
    Empty(Box<Turn>),
    /// The provider reported an error within the answer.
    #[error("{}", reported(body))]
    Reported {
        body: ErrorBody,
        /// The equivalent HTTP status, if known.
        status: Option<u16>,
    },
    /// An event violates the protocol.
    #[error("the stream is malformed{}: {reason}", named(event))]
    Malformed {
        /// The name, if known.
        event: String,
        reason: String,
    },
    /// An event, or the answer, is too large.
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

/// Converts one answer's server-sent events to stream events. Pure: no clock, no input, no output.
pub trait Decoder {
    /// Decodes one event with its data. One that is unknown, or a sign of life, has no content and
    /// never breaks an answer.
    ///
    /// # Errors
    /// When it is malformed, or reports an error. No further event may follow then.
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), StreamError>;

    /// Ends the stream.
    ///
    /// # Errors
    /// When the answer is incomplete.
    fn finish(&mut self, _: &mut Vec<StreamEvent>) -> Result<(), StreamError> {
        if self.is_done() {
            Ok(())
        } else {
            Err(StreamError::Cut)
        }
    }

    /// Returns whether the last event of the protocol arrived: no more needs to be read.
    fn is_done(&self) -> bool;
}

impl StreamError {
    /// Creates the error from an object in a stream, or from its field `error`.
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

/// Parses the data of an event.
pub(crate) fn parse<'a, T: Deserialize<'a>>(name: &str, data: &'a str) -> Result<T, StreamError> {
    serde_json::from_str(data).map_err(|error| StreamError::Malformed {
        event: name.to_owned(),
        reason: error.to_string(),
    })
}
