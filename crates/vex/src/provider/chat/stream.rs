//! Answers of the chat protocol, in its many variants.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::conversation::StopReason;
use crate::provider::stream::{Decoder, InputDetails, Part, PartKind, StreamError, StreamEvent, parse};

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Counted>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Delta>,
    /// Replaces the delta if the answer is not streamed.
    message: Option<Delta>,
    finish_reason: Option<String>,
    usage: Option<Counted>,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Delta {
    content: Option<Content>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    reasoning_details: Option<Vec<Map<String, Value>>>,
    refusal: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
    annotations: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Value>),
}

#[derive(Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
    extra_content: Option<Value>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Counted {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<InputDetails>,
    /// The name of another server for `cached_tokens`.
    prompt_cache_hit_tokens: Option<u64>,
    cost: Option<f64>,
}

impl Counted {
    fn event(&self) -> StreamEvent {
        let input = self.prompt_tokens.unwrap_or_default();
        let mut details = self.prompt_tokens_details.unwrap_or_default();
        details.cached_tokens = details.cached_tokens.or(self.prompt_cache_hit_tokens);
        // Some servers do not count reasoning as part of the answer, but all count it in the total.
        let beside_input = self.total_tokens.unwrap_or_default().saturating_sub(input);
        let output = self.completion_tokens.unwrap_or_default().max(beside_input);
        details.usage_event(input, output, self.cost)
    }
}

/// The current part: text of one kind is one part until another kind starts.
#[derive(Clone, Copy, Default, PartialEq)]
enum Writing {
    #[default]
    Nothing,
    Text(Part),
    Thinking(Part),
}

struct Call {
    part: Part,
    id: Option<String>,
}

/// Reads answers of the chat protocol.
#[derive(Default)]
pub struct ChatDecoder {
    writing: Writing,
    next: Part,
    calls: Vec<Call>,
    /// The call to which an index of the protocol, or an id, refers now.
    numbered: HashMap<u64, usize>,
    named: HashMap<String, usize>,
    last_thought: Option<Part>,
    details: Vec<Map<String, Value>>,
    refused: bool,
    stop: Option<StopReason>,
    done: bool,
}

impl Decoder for ChatDecoder {
    fn event(&mut self, name: &str, data: &str, out: &mut Vec<StreamEvent>) -> Result<(), StreamError> {
        if data.trim() == "[DONE]" {
            if self.stop.is_none() {
                return Err(StreamError::Cut);
            }
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk = parse(name, data)?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(StreamError::reported(&error));
        }
        if name == "error" {
            return Err(StreamError::reported(&parse(name, data)?));
        }
        for choice in chunk.choices.unwrap_or_default() {
            // Only one answer was requested.
            if choice.index.unwrap_or_default() == 0 {
                self.choice(choice, out)?;
            }
        }
        out.extend(chunk.usage.map(|usage| usage.event()));
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), StreamError> {
        // The end mark may be missing, the reason may not.
        let mut stop = self.stop.ok_or(StreamError::Cut)?;
        if self.refused {
            stop = StopReason::Refusal;
        }
        if !self.details.is_empty() {
            let part = self.last_thought.unwrap_or(self.next);
            let value = std::mem::take(&mut self.details)
                .into_iter()
                .map(Value::Object)
                .collect();
            out.push(StreamEvent::Annex {
                part,
                kind: PartKind::Thinking,
                name: "reasoning_details",
                value,
            });
        }
        let ended = self
            .calls
            .iter()
            .map(|call| StreamEvent::ToolEnd { part: call.part });
        out.extend(ended);
        out.push(StreamEvent::Stop(stop));
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

impl ChatDecoder {
    fn choice(&mut self, choice: Choice, out: &mut Vec<StreamEvent>) -> Result<(), StreamError> {
        if let Some(error) = choice.error.filter(|error| !error.is_null()) {
            return Err(StreamError::reported(&error));
        }
        if let Some(delta) = choice.delta.or(choice.message) {
            self.delta(delta, out);
        }
        if let Some(usage) = choice.usage {
            out.push(usage.event());
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            if matches!(reason.as_str(), "error" | "insufficient_system_resource") {
                let error = json!({"code": reason, "message": "the provider aborted the answer"});
                return Err(StreamError::reported(&error));
            }
            self.stop = Some(match reason.as_str() {
                "tool_calls" | "function_call" => StopReason::ToolUse,
                "length" | "model_length" | "max_tokens" => StopReason::MaxTokens,
                "content_filter" | "refusal" => StopReason::Refusal,
                _ => StopReason::End,
            });
        }
        Ok(())
    }

    fn delta(&mut self, delta: Delta, out: &mut Vec<StreamEvent>) {
        // One of the two names, never both.
        let (field, thought) = match (delta.reasoning_content, delta.reasoning) {
            (Some(thought), _) if !thought.is_empty() => ("reasoning_content", thought),
            (_, thought) => ("reasoning", thought.unwrap_or_default()),
        };
        self.push_thinking(thought, field, out);
        for detail in delta.reasoning_details.unwrap_or_default() {
            gather(&mut self.details, detail);
        }
        match delta.content {
            Some(Content::Text(text)) => self.push_text(text, out),
            Some(Content::Parts(parts)) => self.parts(&parts, out),
            None => {}
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            self.push_text(refusal, out);
        }
        if let Writing::Text(part) = self.writing {
            let citations = delta.annotations.unwrap_or_default().into_iter();
            out.extend(citations.map(|citation| StreamEvent::Citation { part, citation }));
        }
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, out);
        }
    }

    /// Handles content in parts, as sent by some thinking models.
    fn parts(&mut self, parts: &[Value], out: &mut Vec<StreamEvent>) {
        for part in parts {
            if let Some(text) = part["text"].as_str() {
                self.push_text(text.to_owned(), out);
            }
            for thought in part["thinking"].as_array().into_iter().flatten() {
                let text = thought["text"].as_str().unwrap_or_default();
                self.push_thinking(text.to_owned(), "", out);
            }
        }
    }

    fn push_text(&mut self, text: String, out: &mut Vec<StreamEvent>) {
        if text.is_empty() {
            return;
        }
        let part = match self.writing {
            Writing::Text(part) => part,
            _ => self.part(),
        };
        self.writing = Writing::Text(part);
        out.push(StreamEvent::TextDelta { part, text });
    }

    /// `field` is the name under which the thinking came and is sent back.
    fn push_thinking(&mut self, text: String, field: &'static str, out: &mut Vec<StreamEvent>) {
        if text.is_empty() {
            return;
        }
        let part = match self.writing {
            Writing::Thinking(part) => part,
            _ => {
                let part = self.part();
                if !field.is_empty() {
                    out.push(StreamEvent::Annex {
                        part,
                        kind: PartKind::Thinking,
                        name: "field",
                        value: json!(field),
                    });
                }
                part
            }
        };
        self.writing = Writing::Thinking(part);
        self.last_thought = Some(part);
        out.push(StreamEvent::ThinkingDelta { part, text });
    }

    fn call(&mut self, delta: CallDelta, out: &mut Vec<StreamEvent>) {
        let id = delta.id.filter(|id| !id.is_empty());
        let function = delta.function.unwrap_or(Function {
            name: None,
            arguments: None,
        });
        let name = function.name.unwrap_or_default();
        let at = match self.known(delta.index, id.as_ref(), &name) {
            Some(at) => at,
            None => {
                let part = self.part();
                self.calls.push(Call { part, id: None });
                self.calls.len() - 1
            }
        };
        if let Some(index) = delta.index {
            self.numbered.insert(index, at);
        }
        let call = &mut self.calls[at];
        let part = call.part;
        let is_new_id = call.id.is_none() && id.is_some();
        if is_new_id {
            call.id.clone_from(&id);
            self.named.extend(id.clone().map(|id| (id, at)));
        }
        if is_new_id || !name.is_empty() {
            out.push(StreamEvent::ToolStart { part, id, name });
        }
        let json = match function.arguments {
            Some(Value::String(json)) => json,
            None | Some(Value::Null) => String::new(),
            // Complete, as a value.
            Some(value) => value.to_string(),
        };
        if !json.is_empty() {
            out.push(StreamEvent::ToolDelta { part, json });
        }
        if let Some(value) = delta.extra_content {
            out.push(StreamEvent::Annex {
                part,
                kind: PartKind::Tool,
                name: "extra_content",
                value,
            });
        }
        self.writing = Writing::Nothing;
    }

    /// Finds the call of a chunk: by its index, else by its id, else the last one. Some servers
    /// give all calls the same index: another id with a name is another call.
    fn known(&self, index: Option<u64>, id: Option<&String>, name: &str) -> Option<usize> {
        match (index, id) {
            (Some(index), id) => {
                let at = *self.numbered.get(&index)?;
                let known = self.calls[at].id.as_ref();
                let other = known.is_some() && id.is_some() && known != id && !name.is_empty();
                (!other).then_some(at)
            }
            (None, Some(id)) => self.named.get(id).copied(),
            (None, None) if name.is_empty() => self.calls.len().checked_sub(1),
            (None, None) => None,
        }
    }

    fn part(&mut self) -> Part {
        self.next += 1;
        self.next - 1
    }
}

/// Joins chunks of reasoning details: those of the same index and type are one.
fn gather(details: &mut Vec<Map<String, Value>>, piece: Map<String, Value>) {
    let last = details.last_mut().filter(|last| {
        let same = |key| last.get(key) == piece.get(key);
        same("index") && same("type") && piece.get("index").is_some()
    });
    let Some(last) = last else {
        details.push(piece);
        return;
    };
    for (key, value) in piece {
        match (last.get_mut(&key), value) {
            (Some(Value::String(before)), Value::String(more))
                if matches!(key.as_str(), "text" | "summary" | "data") =>
            {
                before.push_str(&more);
            }
            (_, Value::Null) => {}
            (_, value) => {
                last.insert(key, value);
            }
        }
    }
}
