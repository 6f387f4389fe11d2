//! What answers a request: the seam between the loop and a model.

pub mod catalog;
pub mod chat;
pub mod http;
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

/// What is asked of a provider: all of the conversation, each time an extension of the one before, until a compaction.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who the model is and how it works; the same bytes in each request of a session.
    pub system: &'a str,
    /// The conversation.
    pub messages: &'a [Message],
    /// The tools on offer, in a fixed order.
    pub tools: &'a [ToolDefinition],
    /// The JSON Schema that the final answer must fit, for providers that can be told.
    pub output_schema: Option<&'a Value>,
}

/// What is heard of an answer while it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// It says something; markup of tool calls is never among it.
    Text(&'a str),
    /// It thinks.
    Thinking(&'a str),
    /// More of the answer arrived: text, thinking or the arguments of a tool call, but no keep-alive.
    Received {
        /// How much of this answer arrived so far, in bytes.
        bytes: usize,
    },
    /// It tries again, after this many milliseconds.
    Retry {
        /// Which try comes next, from 2.
        attempt: u32,
        /// How long it waits, in milliseconds.
        delay_ms: u64,
        /// Why.
        reason: &'a str,
    },
    /// The fallback model answers from now on.
    Fallback {
        /// Its name.
        model: &'a str,
    },
}

/// What is known of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelInfo {
    /// Its name.
    pub model: String,
    /// Tokens that a request and its answer may have together, where known.
    pub context_window: Option<u64>,
    /// How it calls tools.
    pub tool_calls: ToolCalls,
    /// Whether what an answer costs is known: without a price a cost limit cannot be kept.
    pub priced: bool,
}

/// Why a provider gave no turn.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The settings of the provider do not fit (no key, a missing recording, an unknown conversation).
    #[error("{0}")]
    Config(String),
    /// The provider reported an error, or could not be reached, and no further try was left.
    #[error("{message}")]
    Reported {
        /// Its words, redacted.
        message: String,
        /// A failure class of Vik (`rate_limit`, `overloaded`, `auth`, `model`, `context`, `network`), where sure.
        class: Option<String>,
        /// The HTTP status, where one came.
        http_status: Option<u16>,
        /// How long the provider asks to wait, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The model answered nothing, however often it was asked.
    #[error("{0}")]
    Empty(String),
    /// The request is larger than the context of the model: compact, then ask again.
    #[error("the request is larger than the context of the model: {0}")]
    Overflow(String),
    /// A recorded conversation no longer fits what really happened.
    #[error("the recording no longer fits: {0}")]
    Diverged(String),
    /// The run was interrupted while it waited.
    #[error("interrupted")]
    Interrupted,
}

/// A model, or what stands for one.
pub trait Provider {
    /// Answers a request.
    ///
    /// # Errors
    /// When there is no turn to be had; nothing of a broken turn is ever returned.
    fn turn(
        &mut self,
        request: Request<'_>,
        progress: &mut dyn FnMut(Progress<'_>),
        interrupt: &Interrupt,
    ) -> Result<Turn, ProviderError>;

    /// Told once before the first request: how many answers the conversation holds that another process was given.
    fn resume(&mut self, _answers: u32) {}

    /// What is known of the model that answers now.
    fn model(&self) -> &ModelInfo;
}
