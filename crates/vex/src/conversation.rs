//! The conversation with a model, independent of any protocol.
//!
//! Providers translate it into requests and build [`Turn`]s from streams; the session log stores it
//! line by line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool_call_repair::BrokenArguments;

/// Tokens used. Input tokens include cached ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// The arguments of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arguments {
    /// JSON, not yet validated.
    Json(Value),
    /// Text that is not JSON and could not be repaired without guessing. Such a call is never run.
    Broken {
        raw: String,
        /// What is wrong with it, for the model.
        reason: String,
    },
}

impl Arguments {
    /// Returns the JSON, if the arguments are valid.
    pub fn json(&self) -> Option<&Value> {
        match self {
            Self::Json(value) => Some(value),
            Self::Broken { .. } => None,
        }
    }
}

impl From<Value> for Arguments {
    fn from(json: Value) -> Self {
        Self::Json(json)
    }
}

impl From<Result<Value, BrokenArguments>> for Arguments {
    fn from(read: Result<Value, BrokenArguments>) -> Self {
        match read {
            Ok(value) => Self::Json(value),
            Err(BrokenArguments { raw, reason }) => Self::Broken { raw, reason },
        }
    }
}

/// A tool call of the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that links the result to the call. Unique in a conversation.
    pub call_id: String,
    /// The name of the tool, as the model wrote it.
    pub tool: String,
    pub input: Arguments,
    /// Whether it was repaired: found in text, or its arguments corrected.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repaired: bool,
}

impl ToolCall {
    /// Creates a call that needed no repair.
    pub fn new(call_id: impl Into<String>, tool: impl Into<String>, input: impl Into<Arguments>) -> Self {
        Self {
            call_id: call_id.into(),
            tool: tool.into(),
            input: input.into(),
            repaired: false,
        }
    }
}

/// The result of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    pub call_id: String,
    /// Whether it failed: refused, not found, or a command that did not exit with 0.
    pub is_error: bool,
    /// The exit code, if a command ran (128 + n if a signal ended it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The output, bounded and redacted.
    pub output: String,
    /// Whether the permission, a rule or a hook refused it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
}

/// A part of an answer, in the order of arrival.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    Thinking {
        /// The thinking, or a summary of it.
        text: String,
        /// Proves to the provider that it wrote this text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    ToolCall(ToolCall),
    /// An item that only its own protocol understands (redacted thinking, server tools, encrypted
    /// reasoning). It is sent back unchanged, and only to that protocol.
    Native {
        protocol: String,
        item: Value,
    },
}

impl Block {
    /// Creates a block of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete.
    #[default]
    End,
    /// It waits for the results of its calls.
    ToolUse,
    /// The answer reached its maximum length and is cut off.
    MaxTokens,
    Refusal,
    /// It paused and will continue (server tools).
    Pause,
}

/// One answer of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub blocks: Vec<Block>,
    #[serde(default)]
    pub stop: StopReason,
    /// The tokens of this answer alone.
    #[serde(default)]
    pub usage: Usage,
    /// Whether the provider counted the usage; otherwise it is an estimate.
    #[serde(default)]
    pub counted: bool,
    /// The cost of this answer alone in USD, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Turn {
    /// Returns the whole text.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("")
    }

    /// Returns the whole thinking.
    pub fn thinking(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Thinking { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns the tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The task, a correction, or the output of a check.
    User {
        text: String,
    },
    Assistant(Turn),
    /// The result of a tool. Each call has exactly one result.
    Tool(ToolResult),
}

impl Message {
    /// Creates a message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }

    /// Creates an answer of the model with these parts.
    pub fn answer(blocks: Vec<Block>) -> Self {
        Self::Assistant(Turn {
            blocks,
            ..Turn::default()
        })
    }
}
