//! Answers of the responses protocol.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::conversation::StopReason;
use crate::provider::stream::{Decoder, InputDetails, Part, PartKind, StreamError, StreamEvent, parse};

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
}

/// A chunk of an item, or all of it.
#[derive(Deserialize)]
struct Piece {
    output_index: Option<u64>,
    item_id: Option<String>,
    summary_index: Option<u64>,
    delta: Option<String>,
    text: Option<String>,
    refusal: Option<String>,
    arguments: Option<String>,
    input: Option<String>,
    annotation: Option<Value>,
}

#[derive(Deserialize)]
struct ItemEvent {
    output_index: Option<u64>,
    item: Value,
}

#[derive(Deserialize)]
struct ResponseEvent<'a> {
    #[serde(borrow)]
    response: Response<'a>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    usage: Option<Counted>,
    incomplete_details: Option<Value>,
}

#[derive(Deserialize)]
struct Counted {
    input_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens: Option<u64>,
    cost: Option<f64>,
}

impl Counted {
    fn event(&self) -> StreamEvent {
        let (input, output) = (self.input_tokens, self.output_tokens);
        let details = self.input_tokens_details.unwrap_or_default();
        details.usage_event(input.unwrap_or_default(), output.unwrap_or_default(), self.cost)
    }
}

/// The state of an item.
#[derive(Default)]
struct Item {
    text: bool,
    thinking: bool,
    summary: Option<u64>,
    arguments: bool,
    ended: bool,
}

/// Reads answers of the responses protocol.
#[derive(Default)]
pub struct ResponsesDecoder {
    items: Vec<Item>,
    /// Items by their index in the answer, as the stream reports it, and by their id. Servers send
    /// one of the two, both or none.
    placed: HashMap<u64, usize>,
    named: HashMap<String, usize>,
    refused: bool,
    done: bool,
}

impl Decoder for ResponsesDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), StreamError> {
        if data.trim() == "[DONE]" {
            return Ok(());
        }
        let kind = parse::<Kind<'_>>(name, data)?.kind;
        let kind = if kind.is_empty() { name } else { &kind };
        match kind {
            "response.output_item.added" => {
                let ItemEvent { output_index, item } = parse(kind, data)?;
                // The same index again is another item.
                let part = self.open(output_index, name_of(&item)) as Part;
                if is_call(&item) {
                    out.push(tool_start(part, &item));
                }
            }
            "response.output_item.done" => {
                let ItemEvent { output_index, item } = parse(kind, data)?;
                self.ended(output_index, item, out);
            }
            "response.completed" | "response.done" => self.response(kind, data, None, out)?,
            "response.incomplete" => self.response(kind, data, Some(StopReason::MaxTokens), out)?,
            "response.failed" | "response.cancelled" => {
                let value: Value = parse(kind, data)?;
                return Err(StreamError::reported(&value["response"]));
            }
            "error" => {
                let value: Value = parse(kind, data)?;
                return Err(StreamError::reported(&value));
            }
            _ if is_piece(kind) => {
                let piece: Piece = parse(kind, data)?;
                self.piece(kind, piece, out);
            }
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

impl ResponsesDecoder {
    /// Opens a new item.
    fn open(&mut self, index: Option<u64>, id: Option<&str>) -> usize {
        self.items.push(Item::default());
        let at = self.items.len() - 1;
        if let Some(index) = index {
            self.placed.insert(index, at);
        }
        if let Some(id) = id {
            self.named.insert(id.to_owned(), at);
        }
        at
    }

    /// Finds an item. The index is more reliable than the id, since some servers change ids within
    /// an answer.
    fn find(&mut self, index: Option<u64>, id: Option<&str>) -> usize {
        let placed = index.and_then(|index| self.placed.get(&index));
        let known = match (placed, id.and_then(|id| self.named.get(id))) {
            (Some(&at), _) | (None, Some(&at)) => Some(at),
            (None, None) if index.is_none() && id.is_none() => self.items.len().checked_sub(1),
            (None, None) => None,
        };
        known.unwrap_or_else(|| self.open(index, id))
    }

    fn piece(&mut self, kind: &str, piece: Piece, out: &mut Vec<StreamEvent>) {
        let at = self.find(piece.output_index, piece.item_id.as_deref());
        let part = at as Part;
        let item = &mut self.items[at];
        let delta = piece.delta.unwrap_or_default();
        let whole = |text: Option<String>, came: bool| text.filter(|_| !came).unwrap_or_default();
        match kind {
            "response.output_text.delta" => item.push_text(part, delta, out),
            "response.output_text.done" => item.push_text(part, whole(piece.text, item.text), out),
            "response.refusal.delta" => {
                self.refused = true;
                item.push_text(part, delta, out);
            }
            "response.refusal.done" => {
                self.refused = true;
                item.push_text(part, whole(piece.refusal, item.text), out);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                item.push_thinking(part, delta, piece.summary_index, out);
            }
            "response.function_call_arguments.delta" => item.push_arguments(part, delta, out),
            "response.function_call_arguments.done" => {
                item.push_arguments(part, whole(piece.arguments, item.arguments), out);
            }
            // Free text in place of arguments becomes an object when it is complete.
            "response.custom_tool_call_input.done" => {
                let json = json!({"input": piece.input.unwrap_or_default()}).to_string();
                item.push_arguments(part, whole(Some(json), item.arguments), out);
            }
            "response.output_text.annotation.added" => {
                if let Some(citation) = piece.annotation {
                    out.push(StreamEvent::Citation { part, citation });
                }
            }
            _ => {}
        }
    }

    fn ended(&mut self, index: Option<u64>, mut item: Value, out: &mut Vec<StreamEvent>) {
        let mut at = self.find(index, name_of(&item));
        if self.items[at].ended {
            at = self.open(index, name_of(&item));
        }
        let part = at as Part;
        let state = &mut self.items[at];
        state.ended = true;
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                if !state.text {
                    for content in item["content"].as_array().into_iter().flatten() {
                        let refusal = content["refusal"].as_str();
                        self.refused |= refusal.is_some();
                        let text = content["text"].as_str().or(refusal).unwrap_or_default();
                        state.push_text(part, text.to_owned(), out);
                    }
                }
                let phase = item["phase"].take();
                if !phase.is_null() {
                    out.push(StreamEvent::Annex {
                        part,
                        kind: PartKind::Text,
                        name: "phase",
                        value: phase,
                    });
                }
            }
            "function_call" | "custom_tool_call" => {
                out.push(tool_start(part, &item));
                if !state.arguments {
                    let json = match (item["arguments"].as_str(), item["input"].as_str()) {
                        (Some(arguments), _) => arguments.to_owned(),
                        (None, Some(input)) => json!({ "input": input }).to_string(),
                        (None, None) => String::new(),
                    };
                    state.push_arguments(part, json, out);
                }
                out.push(StreamEvent::ToolEnd { part });
            }
            "reasoning" => {
                if !state.thinking {
                    let summary = item["summary"].as_array().into_iter().flatten();
                    for (index, text) in summary.enumerate() {
                        let text = text["text"].as_str().unwrap_or_default().to_owned();
                        state.push_thinking(part, text, Some(index as u64), out);
                    }
                }
                // Without either the provider could not use it.
                let sealed = item["encrypted_content"]
                    .as_str()
                    .is_some_and(|sealed| !sealed.is_empty());
                let open = item["content"]
                    .as_array()
                    .is_some_and(|content| !content.is_empty());
                if sealed || open {
                    if let Some(item) = item.as_object_mut() {
                        item.shift_remove("status");
                    }
                    out.push(StreamEvent::Native { part, item });
                }
            }
            _ => out.push(StreamEvent::Native { part, item }),
        }
    }

    fn response(
        &mut self,
        kind: &str,
        data: &str,
        stop: Option<StopReason>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), StreamError> {
        let response = parse::<ResponseEvent<'_>>(kind, data)?.response;
        // If no item was reported as complete, the answer comes here as a whole.
        if let Some(output) = response.output
            && !self.items.iter().any(|item| item.ended)
        {
            let output: Vec<Value> = parse(kind, output.get())?;
            for (index, item) in output.into_iter().enumerate() {
                self.ended(Some(index as u64), item, out);
            }
        }
        if let Some(usage) = response.usage {
            out.push(usage.event());
        }
        let filtered = response
            .incomplete_details
            .is_some_and(|details| details["reason"] == "content_filter");
        let stop = if self.refused || filtered {
            StopReason::Refusal
        } else {
            stop.unwrap_or_default()
        };
        self.done = true;
        out.push(StreamEvent::Stop(stop));
        Ok(())
    }
}

impl Item {
    fn push_text(&mut self, part: Part, text: String, out: &mut Vec<StreamEvent>) {
        if !text.is_empty() {
            self.text = true;
            out.push(StreamEvent::TextDelta { part, text });
        }
    }

    fn push_thinking(
        &mut self,
        part: Part,
        mut text: String,
        summary: Option<u64>,
        out: &mut Vec<StreamEvent>,
    ) {
        if text.is_empty() {
            return;
        }
        // Each part of a summary is a paragraph.
        if self.thinking && self.summary != summary {
            text.insert_str(0, "\n\n");
        }
        self.thinking = true;
        self.summary = summary;
        out.push(StreamEvent::ThinkingDelta { part, text });
    }

    fn push_arguments(&mut self, part: Part, json: String, out: &mut Vec<StreamEvent>) {
        if !json.is_empty() {
            self.arguments = true;
            out.push(StreamEvent::ToolDelta { part, json });
        }
    }
}

/// Returns the name of an item. Some servers name calls only by the id that links the result to
/// them.
fn name_of(item: &Value) -> Option<&str> {
    item["id"].as_str().or_else(|| item["call_id"].as_str())
}

fn is_call(item: &Value) -> bool {
    item["type"] == "function_call" || item["type"] == "custom_tool_call"
}

fn tool_start(part: Part, item: &Value) -> StreamEvent {
    let text = |key: &str| item[key].as_str().map(str::to_owned);
    StreamEvent::ToolStart {
        part,
        id: text("call_id"),
        name: text("name").unwrap_or_default(),
    }
}

fn is_piece(kind: &str) -> bool {
    matches!(
        kind,
        "response.output_text.delta"
            | "response.output_text.done"
            | "response.output_text.annotation.added"
            | "response.refusal.delta"
            | "response.refusal.done"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning_text.delta"
            | "response.function_call_arguments.delta"
            | "response.function_call_arguments.done"
            | "response.custom_tool_call_input.delta"
            | "response.custom_tool_call_input.done"
    )
}
