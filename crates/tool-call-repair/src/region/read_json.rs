//! Calls in JSON within a region.

use super::{Region, RegionKind, RegionPart, RegionStep};
use crate::Found;
use crate::arguments::{BrokenArguments, explain};
use crate::json::{self, End, JsonError};
use crate::names::Catalog;
use crate::shape::{self, CallPrefix, call_prefix};
use crate::tags::{self, Tag};

/// The maximum number of tried ends of unbalanced JSON.
const MAX_TRIES: u8 = 4;

#[derive(Debug)]
pub(super) struct Json {
    pub(super) from: usize,
    /// The tool, if its name came before the JSON, which then contains its arguments.
    pub(super) tool: Option<String>,
    pub(super) depth: usize,
    pub(super) quote: Option<u8>,
    pub(super) escaped: bool,
    /// Whether brackets and quotation marks led to a wrong end: then only the end of the region
    /// counts.
    pub(super) loose: bool,
    /// Whether the line has only white space so far.
    pub(super) fresh: bool,
    /// The first end of the region that did not fit.
    pub(super) closed: Option<usize>,
    pub(super) tries: u8,
}

impl Json {
    pub(super) fn new(from: usize, tool: Option<String>) -> Self {
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

impl Region {
    /// Starts JSON, if it may be a call.
    pub(super) fn start_json(&mut self, tail: &str, ended: Option<bool>, tools: &Catalog<'_>) -> RegionStep {
        match call_prefix(tail, tools, self.kind == RegionKind::Marked) {
            CallPrefix::More if ended.is_none() => return RegionStep::Wait,
            CallPrefix::No | CallPrefix::More if self.kind != RegionKind::Marked => return self.end_step(),
            _ => self.part = RegionPart::Json(Json::new(self.at, None)),
        }
        RegionStep::Advanced
    }

    pub(super) fn json(
        &mut self,
        mut json: Json,
        text: &str,
        ended: Option<bool>,
        tools: &Catalog<'_>,
    ) -> RegionStep {
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
    pub(super) fn closes(
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
    pub(super) fn behind(
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
