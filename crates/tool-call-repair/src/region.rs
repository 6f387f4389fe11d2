//! A part of an answer that may contain calls: from the first tag, fence or bracket to its end, or
//! until it is certain to contain none.
//!
//! Every byte is examined once, in any chunks. The decisions depend on the text alone.

mod read_json;

use self::read_json::Json;
use crate::Found;
use crate::element::{Element, ElementStep};
use crate::json::blank;
use crate::names::{Catalog, plausible};
use crate::shape;
use crate::tags::{self, Tag};

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
}
