//! What answers a request: the seam between the loop and a model.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::interrupt::Interrupt;
use crate::tools::ToolDefinition;

/// Tokens used. Input tokens include cached ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// All input tokens: fresh, read from the cache and written to it.
    pub input_tokens: u64,
    /// The part of them that was read from the provider's cache.
    pub cached_input_tokens: u64,
    /// The part of them that was written to the provider's cache.
    pub cache_write_input_tokens: u64,
    /// All output tokens, reasoning included.
    pub output_tokens: u64,
}

impl Usage {
    /// Adds another usage to this one.
    pub fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cached_input_tokens = self.cached_input_tokens.saturating_add(other.cached_input_tokens);
        self.cache_write_input_tokens = self
            .cache_write_input_tokens
            .saturating_add(other.cache_write_input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// A tool call that the model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The id that ties the result to the call.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments, not yet validated.
    pub input: Value,
}

/// What a tool gave back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of the call.
    pub call_id: String,
    /// Whether it failed: refused, not found, or a command that did not exit with 0.
    pub is_error: bool,
    /// The exit code, where a command ran (128 + n where a signal ended it).
    pub exit_code: Option<i32>,
    /// The output, bounded.
    pub output: String,
    /// Whether the permission refused it.
    pub denied: bool,
}

/// One turn of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turn {
    /// What it thought, where the provider tells.
    pub reasoning: Option<String>,
    /// What it said.
    pub text: Option<String>,
    /// What it asks for; empty when it is done.
    pub tool_calls: Vec<ToolCall>,
    /// Tokens of this turn alone.
    pub usage: Usage,
    /// Cost of this turn alone in USD, where known.
    pub cost_usd: Option<f64>,
}

/// One entry of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The task.
    User(String),
    /// What the model answered.
    Assistant(Turn),
    /// What a tool gave back. Each call has exactly one result.
    Tool(ToolResult),
}

/// What is asked of a provider: the whole conversation so far, each time an extension of the one before.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The conversation.
    pub messages: &'a [Message],
    /// The tools on offer.
    pub tools: &'a [ToolDefinition],
}

/// Why a provider gave no turn.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// The settings of the provider do not fit (a missing recording, an unknown conversation).
    #[error("{0}")]
    Config(String),
    /// The provider reported an error.
    #[error("{message}")]
    Reported {
        /// Its words.
        message: String,
        /// A failure class of Vik (`rate_limit`, `overloaded`, `auth`, `model`, `context`, `network`), where sure.
        class: Option<String>,
    },
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
    fn turn(&mut self, request: Request<'_>, interrupt: &Interrupt) -> Result<Turn, ProviderError>;
}
