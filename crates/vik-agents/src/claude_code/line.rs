//! One line of `claude --output-format stream-json`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use vik_core::outcome::Usage;

use crate::Arriving;
use crate::wire::{Count, Text};

/// Any line but `result`. Which fields are there depends on `kind` and `subtype`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) subtype: Option<Text<'a>>,
    /// An object on `assistant` and `user` lines.
    pub(super) message: Option<Message<'a>>,
    pub(super) session_id: Option<Text<'a>>,
    pub(super) parent_tool_use_id: Option<Text<'a>>,
    pub(super) uuid: Option<Text<'a>>,
    /// Whether the line repeats one of Vik's own lines, which is taken now.
    #[serde(rename = "isReplay")]
    pub(super) is_replay: Option<bool>,
    /// The class of an API failure.
    pub(super) error: Option<&'a RawValue>,
}

/// The message of an `assistant` or `user` line.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Message<'a> {
    pub(super) id: Option<Text<'a>>,
    #[serde(default)]
    pub(super) content: Content<'a>,
    pub(super) usage: Option<RequestUsage>,
}

#[derive(Default)]
pub(super) enum Content<'a> {
    #[default]
    None,
    Text(Text<'a>),
    Blocks(Vec<Block<'a>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = Content<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or blocks")
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Content::None)
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Text(Text(text.into())))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Text(Text(text.to_owned().into())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::with_capacity(1);
                while let Some(block) = seq.next_element()? {
                    blocks.push(block);
                }
                Ok(Content::Blocks(blocks))
            }
        }
        deserializer.deserialize_any(ContentVisitor)
    }
}

/// One block of a message.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Block<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) text: Option<Text<'a>>,
    pub(super) thinking: Option<Text<'a>>,
    pub(super) id: Option<Text<'a>>,
    pub(super) name: Option<Text<'a>>,
    pub(super) input: Option<&'a RawValue>,
    pub(super) tool_use_id: Option<Text<'a>>,
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
}

/// `usage` of one request, or summed over the main conversation, or of one model in `modelUsage`.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct RequestUsage {
    #[serde(alias = "inputTokens")]
    input_tokens: Count,
    #[serde(alias = "cacheCreationInputTokens")]
    cache_creation_input_tokens: Count,
    #[serde(alias = "cacheReadInputTokens")]
    cache_read_input_tokens: Count,
    #[serde(alias = "outputTokens")]
    output_tokens: Count,
    /// In tokens; only reported for a model.
    #[serde(rename = "contextWindow")]
    pub(super) context_window: Count,
}

impl From<RequestUsage> for Usage {
    /// Anthropic's input tokens exclude the cached ones; Vik's include them.
    fn from(usage: RequestUsage) -> Self {
        let read = usage.cache_read_input_tokens.0;
        let written = usage.cache_creation_input_tokens.0;
        Self {
            input_tokens: usage.input_tokens.0.saturating_add(read).saturating_add(written),
            cached_input_tokens: read,
            cache_write_input_tokens: written,
            output_tokens: usage.output_tokens.0,
        }
    }
}

/// The `result` line. Each field is decoded on its own, so that an unexpected shape of one does not
/// lose the others.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ResultLine<'a> {
    pub(super) subtype: Option<&'a RawValue>,
    pub(super) is_error: Option<&'a RawValue>,
    pub(super) api_error_status: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) errors: Option<&'a RawValue>,
    pub(super) stop_reason: Option<&'a RawValue>,
    pub(super) terminal_reason: Option<&'a RawValue>,
    pub(super) session_id: Option<&'a RawValue>,
    pub(super) total_cost_usd: Option<&'a RawValue>,
    pub(super) usage: Option<&'a RawValue>,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: Option<&'a RawValue>,
    pub(super) permission_denials: Option<&'a RawValue>,
    pub(super) structured_output: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Denial<'a> {
    pub(super) tool_name: Text<'a>,
    pub(super) tool_use_id: Option<&'a RawValue>,
    pub(super) tool_input: Option<&'a RawValue>,
}

/// A `system` line, decoded again for fields that only a few of them have.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct System<'a> {
    pub(super) model: Option<Text<'a>>,
    pub(super) claude_code_version: Option<Text<'a>>,
    pub(super) attempt: Option<u32>,
    pub(super) max_retries: Option<u32>,
    pub(super) retry_delay_ms: Option<f64>,
    pub(super) error_status: Option<u16>,
    pub(super) error: Option<Text<'a>>,
    pub(super) content: Option<Text<'a>>,
    pub(super) task_id: Option<Text<'a>>,
    pub(super) status: Option<Text<'a>>,
    pub(super) description: Option<Text<'a>>,
    pub(super) summary: Option<Text<'a>>,
    pub(super) patch: Option<Patch<'a>>,
    pub(super) tasks: Option<&'a RawValue>,
}

/// A background task, in `system/background_tasks_changed.tasks`.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Task<'a> {
    pub(super) task_type: Text<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct Patch<'a> {
    pub(super) status: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct RateLimitLine<'a> {
    pub(super) rate_limit_info: RateLimitInfo<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "'de: 'a")]
pub(super) struct RateLimitInfo<'a> {
    pub(super) status: Option<Text<'a>>,
    pub(super) resets_at: Option<f64>,
    pub(super) utilization: Option<f64>,
}

/// A part of a message that is arriving: an event of the model API.
#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct StreamLine<'a> {
    pub(super) event: StreamEvent<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct StreamEvent<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) delta: Option<StreamDelta<'a>>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct StreamDelta<'a> {
    text: Option<Text<'a>>,
    thinking: Option<Text<'a>>,
    partial_json: Option<Text<'a>>,
}

impl StreamDelta<'_> {
    pub(super) fn content(&self) -> Option<(Arriving, &str)> {
        let parts = [
            (Arriving::Text, &self.text),
            (Arriving::Thinking, &self.thinking),
            (Arriving::ToolInput, &self.partial_json),
        ];
        parts
            .into_iter()
            .find_map(|(kind, text)| Some((kind, text.as_ref()?.as_str())))
    }
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ControlLine<'a> {
    pub(super) request: ControlRequest<'a>,
}

#[derive(Deserialize)]
#[serde(bound = "'de: 'a")]
pub(super) struct ControlRequest<'a> {
    pub(super) subtype: Text<'a>,
    pub(super) tool_name: Option<Text<'a>>,
    pub(super) input: Option<&'a RawValue>,
}
