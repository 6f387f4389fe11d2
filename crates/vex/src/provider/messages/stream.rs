//! Answers of the messages protocol.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::conversation::{StopReason, Usage};
use crate::provider::stream::{Decoder, Part, StreamError, StreamEvent, parse};

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: Part,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    content_block: Option<Map<String, Value>>,
    message: Option<Started>,
    usage: Option<Counted>,
}

#[derive(Deserialize)]
struct Started {
    usage: Option<Counted>,
}

#[derive(Deserialize)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    citation: Option<Value>,
    stop_reason: Option<String>,
}

/// Tokens as the protocol counts them: the input excludes all tokens read from or written to a
/// cache.
#[derive(Clone, Copy, Default, Deserialize)]
struct Counted {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

impl Counted {
    /// Figures are totals: later ones replace earlier ones, if present.
    fn update(&mut self, later: Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.cache_creation_input_tokens = later
            .cache_creation_input_tokens
            .or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
    }

    fn usage(self) -> Usage {
        let cached = self.cache_read_input_tokens.unwrap_or_default();
        let written = self.cache_creation_input_tokens.unwrap_or_default();
        Usage {
            input_tokens: self
                .input_tokens
                .unwrap_or_default()
                .saturating_add(cached)
                .saturating_add(written),
            cached_input_tokens: cached,
            cache_write_input_tokens: written,
            output_tokens: self.output_tokens.unwrap_or_default(),
        }
    }
}

enum OpenBlock {
    Text,
    Thinking,
    Tool {
        /// Complete arguments in the start event; chunks replace them.
        whole: Option<Value>,
    },
    /// Any other block, kept unchanged.
    Native {
        block: Map<String, Value>,
        json: String,
    },
}

/// Reads answers of the messages protocol.
#[derive(Default)]
pub struct MessagesDecoder {
    open: BTreeMap<Part, OpenBlock>,
    counted: Counted,
    stop: Option<StopReason>,
    done: bool,
}

impl Decoder for MessagesDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), StreamError> {
        let wire = match parse::<Wire<'_>>(name, data) {
            Ok(wire) => wire,
            // An unknown event may have any form, as long as it is JSON.
            Err(error) => {
                let value: Map<String, Value> = parse(name, data)?;
                let kind = value.get("type").map_or(Some(name), Value::as_str);
                return match kind {
                    Some(kind) if !is_known(kind) => Ok(()),
                    _ => Err(error),
                };
            }
        };
        let kind = if wire.kind.is_empty() { name } else { &wire.kind };
        match kind {
            "message_start" => self.count(wire.message.and_then(|message| message.usage), out),
            "content_block_start" => self.start(wire.index, wire.content_block.unwrap_or_default(), out),
            "content_block_delta" => {
                if let Some(delta) = wire.delta {
                    self.delta(wire.index, delta.get(), out)?;
                }
            }
            "content_block_stop" => self.close(wire.index, out),
            "message_delta" => {
                let reason = match wire.delta {
                    Some(delta) => parse::<Delta>(kind, delta.get())?.stop_reason,
                    None => None,
                };
                if let Some(reason) = reason {
                    self.stop = Some(stop_reason(&reason));
                }
                self.count(wire.usage, out);
            }
            "message_stop" => {
                // The reason distinguishes a complete answer from one that a proxy ended.
                let stop = self.stop.ok_or(StreamError::Cut)?;
                self.done = true;
                out.push(StreamEvent::Stop(stop));
            }
            "error" => {
                let value: Value = parse(kind, data)?;
                return Err(StreamError::reported(&value));
            }
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

impl MessagesDecoder {
    fn count(&mut self, counted: Option<Counted>, out: &mut Vec<StreamEvent>) {
        if let Some(counted) = counted {
            self.counted.update(counted);
            out.push(StreamEvent::Usage {
                usage: self.counted.usage(),
                cost_usd: None,
            });
        }
    }

    fn start(&mut self, part: Part, mut block: Map<String, Value>, out: &mut Vec<StreamEvent>) {
        // A block that was never closed ends when its index is used again.
        self.close(part, out);
        let mut text = |key: &str| match block.get_mut(key).map(Value::take) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let open = match text("type").as_str() {
            "text" => {
                let text = text("text");
                if !text.is_empty() {
                    out.push(StreamEvent::TextDelta { part, text });
                }
                OpenBlock::Text
            }
            "thinking" => {
                let (thinking, signature) = (text("thinking"), text("signature"));
                if !thinking.is_empty() {
                    out.push(StreamEvent::ThinkingDelta { part, text: thinking });
                }
                if !signature.is_empty() {
                    out.push(StreamEvent::SignatureDelta { part, signature });
                }
                OpenBlock::Thinking
            }
            "tool_use" => {
                out.push(StreamEvent::ToolStart {
                    part,
                    id: Some(text("id")),
                    name: text("name"),
                });
                let whole = block
                    .remove("input")
                    .filter(|input| *input != json!({}) && !input.is_null());
                OpenBlock::Tool { whole }
            }
            kind => {
                block.insert("type".to_owned(), json!(kind));
                OpenBlock::Native {
                    block,
                    json: String::new(),
                }
            }
        };
        self.open.insert(part, open);
    }

    fn delta(&mut self, part: Part, delta: &str, out: &mut Vec<StreamEvent>) -> Result<(), StreamError> {
        let known: Delta = parse("content_block_delta", delta)?;
        if let Some(OpenBlock::Native { block, json }) = self.open.get_mut(&part) {
            if let Some(piece) = known.partial_json {
                json.push_str(&piece);
            } else {
                extend(block, parse("content_block_delta", delta)?);
            }
            return Ok(());
        }
        let event = match known {
            Delta { text: Some(text), .. } => StreamEvent::TextDelta { part, text },
            Delta {
                thinking: Some(text), ..
            } => StreamEvent::ThinkingDelta { part, text },
            Delta {
                signature: Some(signature),
                ..
            } => StreamEvent::SignatureDelta { part, signature },
            Delta {
                citation: Some(citation),
                ..
            } => StreamEvent::Citation { part, citation },
            Delta {
                partial_json: Some(json),
                ..
            } => {
                if json.is_empty() {
                    return Ok(());
                }
                if let Some(OpenBlock::Tool { whole }) = self.open.get_mut(&part) {
                    *whole = None;
                }
                StreamEvent::ToolDelta { part, json }
            }
            _ => return Ok(()),
        };
        out.push(event);
        Ok(())
    }

    fn close(&mut self, part: Part, out: &mut Vec<StreamEvent>) {
        match self.open.remove(&part) {
            Some(OpenBlock::Tool { whole }) => {
                if let Some(whole) = whole {
                    let json = whole.to_string();
                    out.push(StreamEvent::ToolDelta { part, json });
                }
                out.push(StreamEvent::ToolEnd { part });
            }
            Some(OpenBlock::Native { mut block, json }) => {
                if let Ok(input) = serde_json::from_str(&json) {
                    block.insert("input".to_owned(), input);
                }
                let item = Value::Object(block);
                out.push(StreamEvent::Native { part, item });
            }
            Some(OpenBlock::Text | OpenBlock::Thinking) | None => {}
        }
    }
}

/// Adds an unknown delta to an unknown block: texts are appended, citations collected, other values
/// set.
fn extend(block: &mut Map<String, Value>, delta: Map<String, Value>) {
    for (key, value) in delta {
        match (key.as_str(), value) {
            ("type", _) => {}
            ("citation", citation) => match block.get_mut("citations") {
                Some(Value::Array(citations)) => citations.push(citation),
                _ => {
                    block.insert("citations".to_owned(), json!([citation]));
                }
            },
            (_, Value::String(text)) => match block.get_mut(&key) {
                Some(Value::String(before)) => before.push_str(&text),
                _ => {
                    block.insert(key, Value::String(text));
                }
            },
            (_, value) => {
                block.insert(key, value);
            }
        }
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        "pause_turn" => StopReason::Pause,
        _ => StopReason::End,
    }
}

fn is_known(kind: &str) -> bool {
    matches!(
        kind,
        "message_start"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "message_delta"
            | "message_stop"
    )
}
