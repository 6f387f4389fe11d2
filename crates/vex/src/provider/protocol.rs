//! The three protocols as data: addresses, headers, and what a request specifies about the model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The protocol of a model API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Chat Completions, which many other providers support.
    Chat,
    /// OpenAI Responses.
    Responses,
}

impl Protocol {
    pub const ALL: [Self; 3] = [Self::Messages, Self::Chat, Self::Responses];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Chat => "chat",
            Self::Responses => "responses",
        }
    }

    /// Returns the path of requests below the base URL.
    pub fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
            Self::Chat => "/chat/completions",
            Self::Responses => "/responses",
        }
    }

    /// Returns the path of the list of models below the base URL.
    pub fn models_path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/models",
            Self::Chat | Self::Responses => "/models",
        }
    }

    /// Returns the headers of every request, without the key.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        const COMMON: [(&str, &str); 2] = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
        ];
        const MESSAGES: [(&str, &str); 3] = [COMMON[0], COMMON[1], ("anthropic-version", "2023-06-01")];
        match self {
            Self::Messages => &MESSAGES,
            Self::Chat | Self::Responses => &COMMON,
        }
    }

    /// Returns the header with the key.
    pub fn auth(self, key: &str) -> (&'static str, String) {
        match self {
            Self::Messages => ("x-api-key", key.to_owned()),
            Self::Chat | Self::Responses => ("authorization", format!("Bearer {key}")),
        }
    }
}

impl std::str::FromStr for Protocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.as_str() == name)
            .ok_or_else(|| format!("unknown protocol {name:?}: expected messages, chat or responses"))
    }
}

/// The reasoning effort of a model. A provider rejects a value that its model does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// The least.
    Minimal,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Higher.
    Xhigh,
    /// The most.
    Max,
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCalls {
    /// In the form of the protocol.
    #[default]
    Native,
    /// As JSON in its text, for servers without support for tools.
    Text,
    /// As search/replace blocks and commands in fences, for small models.
    Blocks,
    /// As whole files and commands in fences, for the smallest models.
    Files,
}

impl ToolCalls {
    /// Returns whether the model writes changes in fences.
    pub fn in_fences(self) -> bool {
        matches!(self, Self::Blocks | Self::Files)
    }

    /// Returns the form that suits a model whose name gives its size, such as `qwen2.5-coder:1.5b`:
    /// whole files below ten billion parameters, the form of the protocol for all others.
    pub fn of_model(name: &str) -> Self {
        match parameters(name) {
            Some(billions) if billions < 10.0 => Self::Files,
            _ => Self::Native,
        }
    }
}

/// Returns the largest number of parameters that a name gives (`7b`, `0.5B`, `270m`), in billions.
pub(crate) fn parameters(name: &str) -> Option<f64> {
    let words = name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
    let size = |word: &str| {
        let (number, unit) = word.split_at_checked(word.len().checked_sub(1)?)?;
        let number: f64 = number
            .parse()
            .ok()
            .filter(|_| number.starts_with(|c: char| c.is_ascii_digit()))?;
        match unit {
            "b" | "B" => Some(number),
            "m" | "M" => Some(number / 1000.0),
            _ => None,
        }
    };
    words.filter_map(size).max_by(f64::total_cmp)
}

/// What a request specifies about the model; identical in each request of a session.
#[derive(Clone, Debug, Default)]
pub struct ModelSettings {
    pub model: String,
    /// The longest answer, in tokens; by default the provider's own limit.
    pub max_output_tokens: Option<u32>,
    /// How much it thinks; by default the model's own setting.
    pub effort: Option<Effort>,
    /// The thinking budget in tokens, for models of the messages protocol that support it.
    pub thinking_budget: Option<u32>,
    /// Whether it may call several tools at once; by default the provider's own setting.
    pub parallel_tool_calls: Option<bool>,
    /// How it calls tools.
    pub tool_calls: ToolCalls,
    /// Whether the schema of the final answer is sent to the provider.
    pub structured_output: bool,
    /// Whether the request asks the provider to cache it, if the protocol supports that.
    pub cache: bool,
    /// The name of the conversation, which helps some caches to find its start.
    pub cache_key: Option<String>,
    /// Additional fields of the request from the settings. They take precedence; null removes a
    /// field.
    pub extra: Map<String, Value>,
}

impl ModelSettings {
    /// Creates default settings for a model.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            model: model.into(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_models_are_known_by_their_names() {
        for (name, form) in [
            ("qwen2.5-coder-1.5b", ToolCalls::Files),
            ("qwen2.5-coder:7b-instruct-q4_K_M", ToolCalls::Files),
            ("Qwen/Qwen2.5-Coder-0.5B-Instruct", ToolCalls::Files),
            ("gemma3:270m", ToolCalls::Files),
            ("qwen2.5-coder:32b", ToolCalls::Native),
            ("qwen3-coder-30b-a3b", ToolCalls::Native),
            ("llama-4-scout-17b-16e", ToolCalls::Native),
            ("claude-sonnet-5-5", ToolCalls::Native),
            ("gpt-6.2-sol", ToolCalls::Native),
            ("b", ToolCalls::Native),
            ("1.2.3b", ToolCalls::Native),
        ] {
            assert_eq!(ToolCalls::of_model(name), form, "{name}");
        }
    }
}
