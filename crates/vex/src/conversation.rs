//! What was said: the conversation with a model, in words that no protocol owns.
//!
//! Providers translate it into requests and build [`Turn`]s from streams; the session log keeps it line by line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Text that is no JSON and could not be made so without guessing. Such a call is never run.
    Broken {
        /// What came.
        raw: String,
        /// What is wrong with it, for the model.
        reason: String,
    },
}

impl Arguments {
    /// The JSON, where it is some.
    pub fn json(&self) -> Option<&Value> {
        match self {
            Self::Json(value) => Some(value),
            Self::Broken { .. } => None,
        }
    }
}

/// A tool call that the model asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that ties the result to the call. Unique in a conversation.
    pub call_id: String,
    /// The name of the tool, as the model wrote it.
    pub tool: String,
    /// The arguments.
    pub input: Arguments,
    /// Whether it was repaired: found in text, or its arguments mended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repaired: bool,
}

/// What a tool gave back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub call_id: String,
    /// Whether it failed: refused, not found, or a command that did not exit with 0.
    pub is_error: bool,
    /// The exit code, where a command ran (128 + n where a signal ended it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The output, bounded and redacted.
    pub output: String,
    /// Whether the permission, a rule or a hook refused it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub denied: bool,
}

/// A part of an answer, in the order in which it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// What it said.
    Text {
        /// The words.
        text: String,
    },
    /// What it thought.
    Thinking {
        /// The words, or their summary.
        text: String,
        /// What proves to the provider that the words are its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// What it asks for.
    ToolCall(ToolCall),
    /// An item that only its own protocol understands (redacted thinking, server tools, encrypted reasoning); it goes
    /// back as it came, and only there.
    Native {
        /// The protocol.
        protocol: String,
        /// The item.
        item: Value,
    },
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said all.
    #[default]
    End,
    /// It waits for the results of its calls.
    ToolUse,
    /// The answer reached its longest length; what it holds is cut off.
    MaxTokens,
    /// It refused.
    Refusal,
    /// It paused and wants to go on (server tools).
    Pause,
}

/// One answer of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Its parts.
    pub blocks: Vec<Block>,
    /// Why it ended.
    #[serde(default)]
    pub stop: StopReason,
    /// Tokens of this answer alone.
    #[serde(default)]
    pub usage: Usage,
    /// Whether the usage was counted by the provider; else it is an estimate.
    #[serde(default)]
    pub counted: bool,
    /// Cost of this answer alone in USD, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

impl Turn {
    /// All that it said.
    pub fn text(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("")
    }

    /// All that it thought.
    pub fn thinking(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Thinking { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// What it asks for, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.blocks.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// One entry of the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// The task, a correction, or what a check found.
    User {
        /// The words.
        text: String,
    },
    /// What the model answered.
    Assistant(Turn),
    /// What a tool gave back. Each call has exactly one result.
    Tool(ToolResult),
}
