//! The interface between the loop and a model.

pub mod catalog;
pub mod chat;
mod codec;
pub mod http;
pub mod learned;
pub mod messages;
pub mod open;
pub mod prices;
pub mod protocol;
pub mod replay;
mod request;
pub mod responses;
pub mod sse;
pub mod stream;
mod text_tools;

use serde_json::Value;

use crate::conversation::{Message, Turn};
use crate::interrupt::Interrupt;
use crate::tools::ToolDefinition;
use protocol::ToolCalls;

/// A request to a provider: the whole conversation, each time an extension of the previous request,
/// until a compaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The role of the model and its instructions; identical in each request of a session.
    pub system: &'a str,
    pub messages: &'a [Message],
    /// The available tools, in a fixed order.
    pub tools: &'a [ToolDefinition],
    /// The JSON Schema of the final answer, for providers that support it.
    pub output_schema: Option<&'a Value>,
    /// The temperature, if it differs from that of the settings or the provider.
    pub temperature: Option<f32>,
}

/// Progress of a streaming answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress<'a> {
    /// Text, without the markup of tool calls.
    Text {
        /// The number of the part of the answer, from 0.
        block: usize,
        text: &'a str,
    },
    Thinking {
        /// The number of the part of the answer, from 0.
        block: usize,
        text: &'a str,
    },
    /// More of the answer arrived: text, thinking or the arguments of a tool call, but no
    /// keep-alive.
    Received {
        /// How much of this answer arrived so far, in bytes.
        bytes: usize,
    },
    /// An answer was empty. It is no turn of the conversation, but has used tokens.
    Empty(&'a Turn),
    /// Another try follows, after this many milliseconds.
    Retry {
        /// The number of the next try, from 2.
        attempt: u32,
        /// The wait before it, in milliseconds.
        delay_ms: u64,
        reason: &'a str,
    },
    /// The fallback model answers from now on.
    Fallback { model: &'a str },
}

/// Facts about a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelInfo {
    pub model: String,
    /// The maximum tokens of a request and its answer together, if known.
    pub context_window: Option<u64>,
    /// How it calls tools.
    pub tool_calls: ToolCalls,
    /// Whether the cost of an answer is known: a cost limit requires a price.
    pub priced: bool,
}

/// Why a provider gave no turn.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The settings of the provider are invalid (no key, a missing recording, an unknown
    /// conversation).
    #[error("{0}")]
    Config(String),
    /// The provider reported an error or could not be reached, and no try was left.
    #[error("{message}")]
    Reported {
        message: String,
        /// A failure class of Vik (`rate_limit`, `overloaded`, `auth`, `model`, `context`,
        /// `network`), if certain.
        class: Option<String>,
        /// The HTTP status, if one was received.
        http_status: Option<u16>,
        /// How long the provider asks to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// All tries gave an empty answer.
    #[error("{0}")]
    Empty(String),
    /// The request is larger than the context of the model: compact, then try again.
    #[error("the request exceeds the context of the model: {0}")]
    Overflow(String),
    /// A recorded conversation no longer matches the real results.
    #[error("the run differs from the recording: {0}")]
    Diverged(String),
    /// The run was interrupted during the request.
    #[error("interrupted")]
    Interrupted,
}

/// A model, or a replacement for one.
pub trait Provider {
    /// Answers a request.
    ///
    /// # Errors
    /// When there is no complete turn; no part of a broken turn is ever returned.
    fn turn(
        &mut self,
        request: Request<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
        interrupt: &Interrupt,
    ) -> Result<Turn, ProviderError>;

    /// Called once before the first request with the number of answers that another process
    /// received.
    fn resume(&mut self, _answers: u32) {}

    /// Changes how the model calls tools. A recording ignores it.
    fn set_tool_calls(&mut self, _form: ToolCalls) {}

    /// Returns the facts about the current model.
    fn model(&self) -> &ModelInfo;
}
