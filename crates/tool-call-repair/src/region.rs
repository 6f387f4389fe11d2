//! A part of an answer that may contain calls: from the first tag, fence or bracket to its end, or
//! until it is certain to contain none.
//!
//! Every byte is examined once, in any chunks. The decisions depend on the text alone.

use crate::Found;
use crate::arguments::{BrokenArguments, explain};
use crate::element::{Element, ElementStep};
use crate::json::{self, End, JsonError, blank};
use crate::names::{Catalog, plausible};
use crate::shape::{self, CallPrefix, call_prefix};
use crate::tags::{self, Tag};

/// The maximum number of tried ends of unbalanced JSON.
const MAX_TRIES: u8 = 4;

/// A fence: its mark and the number of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) mark: u8,
    pub(crate) count: usize,
}

impl Fence {
    /// Returns the fence at the start of a text, if it has three marks or more.
    pub(crate) fn at(text: &str) -> Option<Self> {
        let mark = text.bytes().next().filter(|mark| b"`~".contains(mark))?;
        let count = marks(text, mark);
        (3..MAX_MARKS).contains(&count).then_some(Self { mark, count })
    }

    /// Returns whether the fence at the start of a text ends this one; `None` if more text is
    /// needed.
    pub(crate) fn closes(self, text: &str, ended: bool) -> Option<bool> {
        let count = marks(text, self.mark);
        if count < self.count && count < text.len() {
            return Some(false);
        }
        let blank = text[count..].bytes().take(MAX_BLANK);
        let blank = blank.take_while(|b| b" \t\r".contains(b)).count();
        match text.as_bytes().get(count + blank) {
            _ if count == MAX_MARKS || blank == MAX_BLANK => Some(false),
            Some(next) => Some(*next == b'\n'),
            None if ended => Some(count >= self.count),
            None => None,
        }
    }
}

/// The maximum number of marks of a fence.
const MAX_MARKS: usize = 64;

/// The maximum white space after the marks that end a fence, in bytes.
const MAX_BLANK: usize = 256;

/// Returns how often a mark is repeated at the start of a text, up to [`MAX_MARKS`].
pub(crate) fn marks(text: &str, mark: u8) -> usize {
    text.bytes().take(MAX_MARKS).take_while(|&b| b == mark).count()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionKind {
    /// Nothing: JSON on its own lines.
    Bare,
    Fence(Fence),
    Marked,
}

/// The result of a step.
#[derive(Debug)]
pub(crate) enum RegionStep {
    /// More text is needed.
    Wait,
    Advanced,
    Calls(Vec<Found>),
    /// The region ended; the text after `Region::end` is not part of it. If a fence is still open,
    /// its remaining content follows.
    End {
        open: Option<Fence>,
    },
    /// The region contains no call.
    Nothing,
}

#[derive(Debug)]
enum RegionPart {
    /// Before a call, between calls or after them.
    Between,
    Json(Json),
    /// After JSON that was read: the following text decides whether it ended there.
    Behind {
        json: Json,
        to: usize,
        calls: Vec<Found>,
    },
    Element(Element),
}

#[derive(Debug)]
struct Json {
    from: usize,
    /// The tool, if its name came before the JSON, which then contains its arguments.
    tool: Option<String>,
    depth: usize,
    quote: Option<u8>,
    escaped: bool,
    /// Whether brackets and quotation marks led to a wrong end: then only the end of the region
    /// counts.
    loose: bool,
    /// Whether the line has only white space so far.
    fresh: bool,
    /// The first end of the region that did not fit.
    closed: Option<usize>,
    tries: u8,
}

impl Json {
    fn new(from: usize, tool: Option<String>) -> Self {
        Self {
            from,
            tool,
            depth: 0,
            quote: None,
            escaped: false,
            loose: false,
            fresh: false,
            closed: None,
            tries: 0,
        }
    }

    /// Handles a byte. Returns whether the value is complete after it.
    fn feed(&mut self, byte: u8) -> bool {
        self.fresh = byte == b'\n' || (self.fresh && byte.is_ascii_whitespace());
        if self.loose {
            return false;
        }
        match (self.quote, byte) {
            (Some(_), _) if self.escaped => self.escaped = false,
            (Some(_), b'\\') => self.escaped = true,
            (Some(quote), _) if quote == byte => self.quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => self.quote = Some(byte),
            (None, b'{' | b'[') => self.depth += 1,
            (None, b'}' | b']') => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            (None, _) => {}
        }
        false
    }
}

/// A part of an answer that may contain calls. Positions count from its start.
#[derive(Debug)]
pub(crate) struct Region {
    kind: RegionKind,
    /// The end of the examined text.
    at: usize,
    /// The end of the last call, or of the last tag after one.
    end: usize,
    found: bool,
    /// Calls that count once it is known that they are on their own lines.
    held: Vec<Found>,
    part: RegionPart,
}

impl Region {
    /// Creates a region whose first bracket or tag is at `at`.
    pub(crate) fn new(kind: RegionKind, at: usize) -> Self {
        Self {
            kind,
            at,
            end: 0,
            found: false,
            held: Vec::new(),
            part: RegionPart::Between,
        }
    }

    /// Returns the position of the text after the region.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Returns the end of the examined text.
    pub(crate) fn examined(&self) -> usize {
        self.at
    }

    pub(crate) fn kind(&self) -> RegionKind {
        self.kind
    }

    /// Advances. `text` is all of the region so far; `ended` is set if no more comes, and its value
    /// is whether the text was cut off.
    pub(crate) fn step(&mut self, text: &str, ended: Option<bool>, tools: &Catalog<'_>) -> RegionStep {
        match std::mem::replace(&mut self.part, RegionPart::Between) {
            RegionPart::Between => self.between(text, ended, tools),
            RegionPart::Json(json) => self.json(json, text, ended, tools),
            RegionPart::Behind { json, to, calls } => self.behind(json, to, calls, text, ended, tools),
            RegionPart::Element(mut element) => match element.advance(text, &mut self.at, ended) {
                ElementStep::Wait => {
                    self.part = RegionPart::Element(element);
                    RegionStep::Wait
                }
                ElementStep::Done(call) => {
                    self.end = self.at;
                    self.calls_step(vec![call])
                }
                ElementStep::Cut(call) => {
                    self.at = text.len();
                    self.end = self.at;
                    self.calls_step(vec![call])
                }
                ElementStep::Json(tool) => {
                    self.part = RegionPart::Json(Json::new(self.at, Some(tool)));
                    RegionStep::Advanced
                }
                ElementStep::No => self.end_step(),
            },
        }
    }

    fn calls_step(&mut self, calls: Vec<Found>) -> RegionStep {
        self.found = true;
        RegionStep::Calls(calls)
    }

    /// Ends the region, with or without calls.
    fn end_step(&mut self) -> RegionStep {
        match self.kind {
            _ if !self.found => RegionStep::Nothing,
            RegionKind::Fence(fence) => RegionStep::End { open: Some(fence) },
            _ => RegionStep::End { open: None },
        }
    }

    fn between(&mut self, text: &str, ended: Option<bool>, tools: &Catalog<'_>) -> RegionStep {
        self.at += blank(&text[self.at..]);
        let tail = &text[self.at..];
        let marked = self.kind == RegionKind::Marked;
        let Some(next) = tail.bytes().next() else {
            return if ended.is_some() {
                self.end_step()
            } else {
                RegionStep::Wait
            };
        };
        match next {
            b',' | b';' if self.found => self.at += 1,
            b'<' | b'[' => match tags::read_named(tail, tools) {
                Tag::More if ended.is_none() => return RegionStep::Wait,
                // Markup after bare JSON is a region of its own.
                Tag::Open(_) | Tag::Element(..) if self.kind == RegionKind::Bare => return self.end_step(),
                Tag::Open(length) => self.at += length,
                Tag::Close(length) if self.found => {
                    self.at += length;
                    self.end = self.at;
                }
                Tag::Element(name, length) => {
                    self.at += length;
                    self.part = RegionPart::Element(Element::new(name));
                }
                _ if next == b'[' => return self.start_json(tail, ended, tools),
                _ => return self.end_step(),
            },
            b'{' => return self.start_json(tail, ended, tools),
            b'`' | b'~' => {
                let count = marks(tail, next);
                if count == tail.len() && ended.is_none() {
                    return RegionStep::Wait;
                }
                match self.kind {
                    RegionKind::Fence(fence) if next == fence.mark && count >= fence.count && self.found => {
                        self.end = self.at + count;
                        return RegionStep::End { open: None };
                    }
                    // Tags around a fence around a call.
                    RegionKind::Marked if count >= 3 => self.at += count,
                    _ => return self.end_step(),
                }
            }
            _ if marked && (next.is_ascii_alphabetic() || next == b'_') => {
                return self.label(tail, ended);
            }
            _ => return self.end_step(),
        }
        RegionStep::Advanced
    }

    /// Reads a label between tags: that of a fence, or the name of a tool before its arguments.
    fn label(&mut self, tail: &str, ended: Option<bool>) -> RegionStep {
        let (start, full) = shape::beginning(tail);
        let length = start
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(b))
            .count();
        let (name, behind) = start.split_at(length);
        let behind = behind.trim_start();
        let behind = behind.strip_prefix("[ARGS]").map_or(behind, str::trim_start);
        if behind.is_empty() || "[ARGS]".starts_with(behind) {
            return if full || ended.is_some() {
                self.end_step()
            } else {
                RegionStep::Wait
            };
        }
        if !behind.starts_with('{') || !plausible(name) {
            return self.end_step();
        }
        self.at += start.len() - behind.len();
        let label = ["json", "tool_call", "tool_code", "function_call"].contains(&name);
        self.part = RegionPart::Json(Json::new(self.at, (!label).then(|| name.to_owned())));
        RegionStep::Advanced
    }

    /// Starts JSON, if it may be a call.
    fn start_json(&mut self, tail: &str, ended: Option<bool>, tools: &Catalog<'_>) -> RegionStep {
        match call_prefix(tail, tools, self.kind == RegionKind::Marked) {
            CallPrefix::More if ended.is_none() => return RegionStep::Wait,
            CallPrefix::No | CallPrefix::More if self.kind != RegionKind::Marked => return self.end_step(),
            _ => self.part = RegionPart::Json(Json::new(self.at, None)),
        }
        RegionStep::Advanced
    }

    fn json(&mut self, mut json: Json, text: &str, ended: Option<bool>, tools: &Catalog<'_>) -> RegionStep {
        while let Some(&byte) = text.as_bytes().get(self.at) {
            match self.closes(&json, byte, text, ended, tools) {
                None => {
                    self.part = RegionPart::Json(json);
                    return RegionStep::Wait;
                }
                Some(true) => match self.closed(json, text, tools) {
                    Ok(step) => return step,
                    Err(again) => json = again,
                },
                Some(false) => {}
            }
            self.at += 1;
            if json.feed(byte) {
                let (from, to) = (json.from, self.at);
                match self.read(&json, &text[from..to], End::Complete, tools) {
                    Ok(calls) => {
                        self.part = RegionPart::Behind { json, to, calls };
                        return RegionStep::Advanced;
                    }
                    Err(None) => return self.end_step(),
                    Err(Some(_)) => json.loose = true,
                }
            }
        }
        let Some(cut) = ended else {
            self.part = RegionPart::Json(json);
            return RegionStep::Wait;
        };
        if let Some(closed) = json.closed {
            return self.broken(&json, text, closed, JsonError::Cut, tools);
        }
        let raw = &text[json.from..];
        let end = if cut { End::Unknown } else { End::Complete };
        match self.read(&json, raw, end, tools) {
            Ok(calls) => {
                self.part = RegionPart::Behind {
                    json,
                    to: self.at,
                    calls,
                };
                RegionStep::Advanced
            }
            Err(Some(fault)) => self.broken(&json, text, text.len(), fault, tools),
            Err(None) => self.end_step(),
        }
    }

    /// Returns whether the end mark of the region may be here, within JSON; `None` if more text is
    /// needed.
    fn closes(
        &self,
        json: &Json,
        byte: u8,
        text: &str,
        ended: Option<bool>,
        tools: &Catalog<'_>,
    ) -> Option<bool> {
        match (self.kind, byte) {
            (RegionKind::Marked, b'<') => match tags::read_named(&text[self.at..], tools) {
                Tag::More if ended.is_none() => None,
                Tag::Close(_) => Some(true),
                _ => Some(false),
            },
            (RegionKind::Fence(fence), _) if byte == fence.mark && json.fresh => {
                fence.closes(&text[self.at..], ended.is_some())
            }
            _ => Some(false),
        }
    }

    /// Handles unbalanced JSON before the end mark of the region: either it is read as it is, or
    /// the mark is part of a string in it.
    fn closed(&mut self, mut json: Json, text: &str, tools: &Catalog<'_>) -> Result<RegionStep, Json> {
        let raw = text[json.from..self.at].trim_end();
        let fault = match self.read(&json, raw, End::Closed, tools) {
            Ok(calls) => {
                self.end = self.at;
                return Ok(self.calls_step(calls));
            }
            Err(None) => return Ok(self.end_step()),
            Err(Some(fault)) => fault,
        };
        json.tries += 1;
        let first = *json.closed.get_or_insert(self.at);
        let within = json.loose || json.quote.is_some();
        if within && json.tries < MAX_TRIES {
            return Err(json);
        }
        Ok(self.broken(&json, text, first, fault, tools))
    }

    /// Reads JSON as calls. The error is `None` if it was read and is not a call.
    fn read(
        &self,
        json: &Json,
        raw: &str,
        end: End,
        tools: &Catalog<'_>,
    ) -> Result<Vec<Found>, Option<JsonError>> {
        let value = json::read_whole(raw, end).map_err(Some)?;
        match &json.tool {
            Some(tool) => Some(vec![Found::Call {
                id: None,
                tool: tool.clone(),
                input: Ok(value),
            }]),
            None => shape::calls(value, tools, self.kind == RegionKind::Marked),
        }
        .ok_or(None)
    }

    /// Handles unreadable JSON: a broken call if it names its tool, so that the model is informed.
    fn broken(
        &mut self,
        json: &Json,
        text: &str,
        to: usize,
        fault: JsonError,
        tools: &Catalog<'_>,
    ) -> RegionStep {
        let raw = &text[json.from..to];
        let tool = match (
            &json.tool,
            call_prefix(raw, tools, self.kind == RegionKind::Marked),
        ) {
            (Some(tool), _) => tool.clone(),
            (None, CallPrefix::Named(tool)) => tool.to_owned(),
            _ => return self.end_step(),
        };
        let call = Found::Call {
            id: None,
            tool,
            input: Err(BrokenArguments {
                raw: raw.to_owned(),
                reason: explain(fault, raw),
            }),
        };
        self.at = to;
        self.end = to;
        let mut calls = std::mem::take(&mut self.held);
        calls.push(call);
        self.calls_step(calls)
    }

    /// Decides by the text after JSON whether the JSON ended there.
    fn behind(
        &mut self,
        mut json: Json,
        to: usize,
        mut calls: Vec<Found>,
        text: &str,
        ended: Option<bool>,
        tools: &Catalog<'_>,
    ) -> RegionStep {
        let bare = self.kind == RegionKind::Bare;
        let tail = &text[self.at..];
        let next = match tail.bytes().next() {
            None if ended.is_none() => {
                self.part = RegionPart::Behind { json, to, calls };
                return RegionStep::Wait;
            }
            next => next,
        };
        match next {
            // White space, and a superfluous bracket or comma.
            Some(b' ' | b'\t' | b'\r' | b'}' | b']' | b',') => {
                self.at += 1;
                self.part = RegionPart::Behind { json, to, calls };
                RegionStep::Advanced
            }
            Some(b'\n') if !bare => {
                self.at += 1;
                self.part = RegionPart::Behind { json, to, calls };
                RegionStep::Advanced
            }
            Some(b'"' | b'\'' | b':' | b'\\') if !json.loose => {
                json.loose = true;
                self.part = RegionPart::Json(json);
                RegionStep::Advanced
            }
            Some(b'{') if bare => {
                self.held.append(&mut calls);
                self.start_json(tail, ended, tools)
            }
            Some(b'<' | b'\n') | None => {
                self.end = self.at;
                let mut all = std::mem::take(&mut self.held);
                all.append(&mut calls);
                self.calls_step(all)
            }
            Some(_) if bare => RegionStep::Nothing,
            Some(_) => {
                self.end = to;
                self.at = to;
                self.calls_step(calls)
            }
        }
    }
}
