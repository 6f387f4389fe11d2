//! Builds a turn from the events of a stream. The work is linear in the length of the answer: text
//! is appended, and arguments are parsed once, at the end.

mod call_ids;

use std::collections::BTreeMap;
use std::mem;

use serde_json::{Map, Value, json};
use tool_call_repair::{Found, TextScanner, Tool, repair_arguments};

use self::call_ids::CallIds;
use super::repetition::Repetition;
use super::{Part, PartKind, StreamError, StreamEvent};
use crate::conversation::{Arguments, Block, Message, StopReason, ToolCall, Turn, Usage};
use crate::provider::protocol::Protocol;
use crate::provider::{Progress, Request};
use crate::tools::ToolDefinition;

/// Approximate bytes per token, for providers that do not count.
const BYTES_PER_TOKEN: usize = 4;

#[derive(Default)]
struct Call {
    id: Option<String>,
    name: String,
    json: String,
    ended: bool,
}

enum Content<'a> {
    /// Text, scanned for calls, as far as it is certain.
    Text {
        scanner: Option<TextScanner<'a>>,
        found: Vec<Found>,
    },
    Thinking {
        text: String,
        signature: String,
    },
    Tool(Call),
    Native(Value),
}

struct Slot<'a> {
    content: Content<'a>,
    sealed: Option<Value>,
    citations: Vec<Value>,
    annex: Map<String, Value>,
}

pub struct Assembler<'a> {
    protocol: Protocol,
    tools: &'a [ToolDefinition],
    messages: &'a [Message],
    request_bytes: usize,
    slots: Vec<Slot<'a>>,
    /// The slot of a part; native items are never continued.
    places: BTreeMap<(Part, PartKind), usize>,
    meaningful: bool,
    output_bytes: usize,
    usage: Option<(Usage, Option<f64>)>,
    stop: StopReason,
    fresh: Vec<Found>,
    /// `None` if a repetition does not end the answer.
    repetition: Option<Repetition>,
}

impl<'a> Assembler<'a> {
    /// Creates an assembler for the answer to this request, which was `request_bytes` long.
    pub fn new(protocol: Protocol, request: &Request<'a>, request_bytes: usize) -> Self {
        Self {
            protocol,
            tools: request.tools,
            messages: request.messages,
            request_bytes,
            slots: Vec::new(),
            places: BTreeMap::new(),
            meaningful: false,
            output_bytes: 0,
            usage: None,
            stop: StopReason::End,
            fresh: Vec::new(),
            repetition: None,
        }
    }

    /// Ends the answer when it only repeats itself. It then counts as one that has reached its longest
    /// length.
    pub fn end_repetition(&mut self) {
        self.repetition = Some(Repetition::default());
    }

    /// Returns whether the answer ended because it repeats itself.
    pub fn is_repeating(&self) -> bool {
        self.repetition.as_ref().is_some_and(Repetition::is_found)
    }

    /// Returns whether any content of the answer arrived.
    pub fn is_meaningful(&self) -> bool {
        self.meaningful
    }

    /// Returns how many bytes of content arrived.
    pub fn received_bytes(&self) -> usize {
        self.output_bytes
    }

    /// Handles the next event, and reports progress.
    pub fn push(&mut self, event: StreamEvent, progress: &mut dyn FnMut(Progress<'_>)) {
        match event {
            StreamEvent::TextDelta { part, text } => {
                self.count_received(&text);
                if let Some(repetition) = &mut self.repetition {
                    repetition.push(&text);
                    if repetition.is_found() {
                        self.stop = StopReason::MaxTokens;
                    }
                }
                let at = self.slot(part, PartKind::Text, progress);
                self.add_text(at, &text, progress);
            }
            StreamEvent::ThinkingDelta { part, text: piece } => {
                self.count_received(&piece);
                let at = self.slot(part, PartKind::Thinking, progress);
                if let Content::Thinking { text, .. } = &mut self.slots[at].content {
                    text.push_str(&piece);
                    progress(Progress::Thinking {
                        block: at,
                        text: &piece,
                    });
                }
            }
            StreamEvent::SignatureDelta {
                part,
                signature: piece,
            } => {
                let at = self.slot(part, PartKind::Thinking, progress);
                if let Content::Thinking { signature, .. } = &mut self.slots[at].content {
                    signature.push_str(&piece);
                }
            }
            StreamEvent::ToolStart { part, id, name } => {
                self.meaningful = true;
                self.output_bytes += name.len();
                self.call(part, progress, |call| {
                    call.id = call.id.take().or(id);
                    if call.name.is_empty() {
                        call.name = name;
                    }
                });
            }
            StreamEvent::ToolDelta { part, json } => {
                self.count_received(&json);
                self.call(part, progress, |call| call.json.push_str(&json));
            }
            StreamEvent::ToolEnd { part } => self.call(part, progress, |call| call.ended = true),
            StreamEvent::Citation { part, citation } => {
                let at = self.slot(part, PartKind::Text, progress);
                self.slots[at].citations.push(citation);
            }
            StreamEvent::Annex {
                part,
                kind,
                name,
                value,
            } => {
                let at = self.slot(part, kind, progress);
                self.slots[at].annex.insert(name.to_owned(), value);
            }
            StreamEvent::Native { part, item } => {
                // The signed form of thinking belongs to its text, even if it comes later.
                if let Some(&at) = self.places.get(&(part, PartKind::Thinking)) {
                    self.slots[at].sealed = Some(item);
                } else {
                    self.flush_text(false, progress);
                    self.slots.push(Slot::new(Content::Native(item)));
                }
            }
            StreamEvent::Usage { usage, cost_usd } => self.usage = Some((usage, cost_usd)),
            StreamEvent::Stop(stop) => self.stop = stop,
        }
    }

    fn count_received(&mut self, text: &str) {
        self.meaningful |= !text.is_empty();
        self.output_bytes += text.len();
    }

    /// Returns the slot of a part, a new one at its first event.
    fn slot(&mut self, part: Part, kind: PartKind, progress: &mut dyn FnMut(Progress<'_>)) -> usize {
        if let Some(&at) = self.places.get(&(part, kind)) {
            return at;
        }
        self.flush_text(false, progress);
        let content = match kind {
            PartKind::Text => Content::Text {
                scanner: None,
                found: Vec::new(),
            },
            PartKind::Thinking => Content::Thinking {
                text: String::new(),
                signature: String::new(),
            },
            PartKind::Tool => Content::Tool(Call::default()),
        };
        self.slots.push(Slot::new(content));
        let at = self.slots.len() - 1;
        self.places.insert((part, kind), at);
        at
    }

    fn call(&mut self, part: Part, progress: &mut dyn FnMut(Progress<'_>), change: impl FnOnce(&mut Call)) {
        let at = self.slot(part, PartKind::Tool, progress);
        if let Content::Tool(call) = &mut self.slots[at].content {
            change(call);
        }
    }

    fn add_text(&mut self, at: usize, text: &str, progress: &mut dyn FnMut(Progress<'_>)) {
        let Content::Text { scanner, found } = &mut self.slots[at].content else {
            return;
        };
        if self.tools.is_empty() {
            self.fresh.push(Found::Text(text.to_owned()));
        } else {
            scanner
                .get_or_insert_with(|| TextScanner::new(self.tools.iter().map(Tool::from)))
                .push(text, &mut self.fresh);
        }
        keep(at, &mut self.fresh, found, progress);
    }

    /// Ends the last part, or starts another: text held back as the start of a call is decided now.
    fn flush_text(&mut self, cut: bool, progress: &mut dyn FnMut(Progress<'_>)) {
        let at = self.slots.len().saturating_sub(1);
        let last = self.slots.last_mut().map(|slot| &mut slot.content);
        if let Some(Content::Text { scanner, found }) = last
            && let Some(mut scanner) = scanner.take()
        {
            scanner.finish(cut, &mut self.fresh);
            keep(at, &mut self.fresh, found, progress);
        }
    }

    /// Returns the turn.
    ///
    /// # Errors
    /// When it is empty.
    pub fn finish(mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<Turn, StreamError> {
        let cut = self.stop == StopReason::MaxTokens;
        self.flush_text(cut, progress);
        let mut ids = CallIds::of(self.messages);
        let mut blocks = Vec::new();
        let slots = mem::take(&mut self.slots);
        let last = slots.len().saturating_sub(1);
        // If a model uses native calls, calls in its text are not meant as calls.
        let native = slots.iter().any(|slot| matches!(slot.content, Content::Tool(_)));
        for (at, slot) in slots.into_iter().enumerate() {
            let length = blocks.len();
            match slot.content {
                Content::Text { scanner, mut found } => {
                    // A part that was continued after another one started.
                    if let Some(mut scanner) = scanner {
                        scanner.finish(cut, &mut self.fresh);
                        keep(at, &mut self.fresh, &mut found, progress);
                    }
                    found.retain(|found| !(native && matches!(found, Found::Call { .. })));
                    blocks.extend(found.into_iter().filter_map(|found| block(found, &mut ids)));
                }
                Content::Thinking { text, signature } => {
                    let signature = (!signature.is_empty()).then_some(signature);
                    if !text.is_empty() || signature.is_some() || !slot.annex.is_empty() {
                        blocks.push(Block::Thinking { text, signature });
                    }
                }
                Content::Tool(call) => {
                    let whole = call.ended && !(cut && at == last);
                    blocks.push(Block::ToolCall(call.finish(whole, &mut ids)));
                }
                Content::Native(item) => blocks.push(self.native(item)),
            }
            let mut annex = slot.annex;
            if !slot.citations.is_empty() {
                annex.insert("citations".to_owned(), slot.citations.into());
            }
            if blocks.len() > length && !annex.is_empty() {
                blocks.push(self.native(json!({ "annex": annex })));
            }
            blocks.extend(slot.sealed.map(|item| self.native(item)));
        }
        self.turn(blocks)
    }

    fn native(&self, item: Value) -> Block {
        Block::Native {
            protocol: self.protocol.as_str().to_owned(),
            item,
        }
    }

    fn turn(self, blocks: Vec<Block>) -> Result<Turn, StreamError> {
        let estimate = Usage {
            input_tokens: (self.request_bytes / BYTES_PER_TOKEN) as u64,
            output_tokens: self.output_bytes.div_ceil(BYTES_PER_TOKEN) as u64,
            ..Usage::default()
        };
        let (usage, cost_usd) = self.usage.unwrap_or((estimate, None));
        let mut turn = Turn {
            blocks,
            stop: self.stop,
            usage,
            counted: self.usage.is_some(),
            cost_usd,
        };
        let calls = turn.tool_calls().next().is_some();
        turn.stop = match turn.stop {
            StopReason::End | StopReason::ToolUse | StopReason::Pause if calls => StopReason::ToolUse,
            StopReason::ToolUse => StopReason::End,
            stop => stop,
        };
        let empty = turn.blocks.iter().all(|block| match block {
            Block::Text { text } | Block::Thinking { text, .. } => text.trim().is_empty(),
            Block::ToolCall(_) => false,
            Block::Native { .. } => true,
        });
        if empty && turn.stop == StopReason::End {
            return Err(StreamError::Empty(Box::new(turn)));
        }
        Ok(turn)
    }
}

impl<'a> Slot<'a> {
    fn new(content: Content<'a>) -> Self {
        Self {
            content,
            sealed: None,
            citations: Vec::new(),
            annex: Map::new(),
        }
    }
}

impl Call {
    fn finish(self, whole: bool, ids: &mut CallIds<'_>) -> ToolCall {
        let raw = self.json;
        let mut repaired = false;
        let input = match serde_json::from_str(&raw) {
            // A text is valid JSON, but the arguments may be encoded in it.
            Ok(value) if !Value::is_string(&value) => Arguments::Json(value),
            _ if !whole => Arguments::Broken {
                raw,
                reason: "the answer was cut off before the arguments were whole".to_owned(),
            },
            // A tool without arguments is often called with an empty text.
            _ if raw.trim().is_empty() => Arguments::Json(json!({})),
            _ => {
                let mended = Arguments::from(repair_arguments(&raw));
                repaired = mended.json().is_some();
                mended
            }
        };
        ToolCall {
            call_id: ids.take(self.id),
            tool: self.name,
            input,
            repaired,
        }
    }
}

/// Stores new parts of a block, joins adjacent text, and reports it.
fn keep(
    block: usize,
    fresh: &mut Vec<Found>,
    found: &mut Vec<Found>,
    progress: &mut dyn FnMut(Progress<'_>),
) {
    for piece in fresh.drain(..) {
        match (&piece, found.last_mut()) {
            (Found::Text(text) | Found::Thinking(text), _) if text.is_empty() => continue,
            (Found::Text(text), last) => {
                progress(Progress::Text { block, text });
                if let Some(Found::Text(before)) = last {
                    before.push_str(text);
                    continue;
                }
            }
            (Found::Thinking(text), last) => {
                progress(Progress::Thinking { block, text });
                if let Some(Found::Thinking(before)) = last {
                    before.push_str(text);
                    continue;
                }
            }
            (Found::Call { .. }, _) => {}
        }
        found.push(piece);
    }
}

fn block(found: Found, ids: &mut CallIds<'_>) -> Option<Block> {
    match found {
        // White space around the markup of a call.
        Found::Text(text) if text.trim().is_empty() => None,
        Found::Text(text) => Some(Block::Text { text }),
        Found::Thinking(text) => Some(Block::Thinking {
            text,
            signature: None,
        }),
        Found::Call { id, tool, input } => Some(Block::ToolCall(ToolCall {
            call_id: ids.take(id),
            tool,
            input: input.into(),
            repaired: true,
        })),
    }
}
