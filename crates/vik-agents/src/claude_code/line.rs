//! One line of `claude --output-format stream-json`.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
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

/// `usage` of one request, or summed over the main conversation.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct RequestUsage {
    input_tokens: Count,
    cache_creation_input_tokens: Count,
    cache_read_input_tokens: Count,
    output_tokens: Count,
}

impl From<RequestUsage> for Usage {
    fn from(usage: RequestUsage) -> Self {
        with_cache(
            usage.input_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.output_tokens,
        )
    }
}

/// Anthropic's input tokens exclude the cached ones; Vik's include them.
fn with_cache(fresh: Count, read: Count, written: Count, output: Count) -> Usage {
    Usage {
        input_tokens: fresh.0.saturating_add(read.0).saturating_add(written.0),
        cached_input_tokens: read.0,
        cache_write_input_tokens: written.0,
        output_tokens: output.0,
    }
}

/// `modelUsage`, summed over the models; the sum is `None` if it names none.
pub(super) struct ModelUsage {
    pub(super) sum: Option<Usage>,
    /// The context window of the model with the most input, in tokens.
    pub(super) context_window: Option<u64>,
}

impl<'de> Deserialize<'de> for ModelUsage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct OneModel {
            input_tokens: Count,
            output_tokens: Count,
            cache_read_input_tokens: Count,
            cache_creation_input_tokens: Count,
            context_window: Count,
        }
        struct SumVisitor;
        impl<'de> Visitor<'de> for SumVisitor {
            type Value = ModelUsage;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("usage by model")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ModelUsage, A::Error> {
                let mut sum: Option<Usage> = None;
                let mut main = (0, 0);
                while let Some((_, one)) = map.next_entry::<Text<'de>, OneModel>()? {
                    let usage = with_cache(
                        one.input_tokens,
                        one.cache_read_input_tokens,
                        one.cache_creation_input_tokens,
                        one.output_tokens,
                    );
                    main = main.max((usage.input_tokens, one.context_window.0));
                    sum = Some(sum.unwrap_or_default().plus(usage));
                }
                Ok(ModelUsage {
                    sum,
                    context_window: Some(main.1).filter(|window| *window > 0),
                })
            }
        }
        deserializer.deserialize_map(SumVisitor)
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
