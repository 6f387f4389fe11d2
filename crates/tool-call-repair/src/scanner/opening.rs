//! Finds where markup or a fence may start in prose.

use super::TextScanner;
use crate::json::blank;
use crate::region::{Fence, RegionKind};
use crate::shape::{CallPrefix, beginning, call_prefix};
use crate::tags::{self, Tag};

/// The state of the current line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineState {
    /// Whether it has only white space.
    pub(super) blank: bool,
    /// Whether it is a quotation.
    pub(super) quoted: bool,
    /// Whether inline code is open.
    pub(super) code: bool,
    /// Whether the last character was a quotation mark.
    pub(super) mark: bool,
}

impl LineState {
    pub(super) const NEW: Self = Self {
        blank: true,
        quoted: false,
        code: false,
        mark: false,
    };

    pub(super) fn feed(&mut self, byte: u8) {
        self.mark = matches!(byte, b'"' | b'\'');
        match byte {
            b'\n' => *self = Self::NEW,
            _ if byte.is_ascii_whitespace() => {}
            _ => {
                self.quoted |= self.blank && byte == b'>';
                self.code ^= byte == b'`';
                self.blank = false;
            }
        }
    }

    /// Returns whether markup may start here.
    pub(super) fn open(self) -> bool {
        !self.quoted && !self.code && !self.mark
    }
}

/// What a text starts with.
pub(super) enum Opening {
    Nothing,
    More,
    /// Possible calls; the first of them, or its tag, is at this offset.
    Region(RegionKind, usize),
    /// A fence around other content, which starts at this offset.
    Fence(Fence, usize),
}

impl TextScanner<'_> {
    /// Returns what starts here, at this byte.
    pub(super) fn opening(&self, byte: u8) -> Opening {
        if !b"<[{`~".contains(&byte) {
            return Opening::Nothing;
        }
        let tail = &self.text[self.at..];
        match byte {
            b'<' | b'[' if self.line.open() => match self.tag(tail) {
                Tag::Open(_) | Tag::Element(..) => Opening::Region(RegionKind::Marked, 0),
                Tag::More => Opening::More,
                _ if byte == b'[' && self.line.blank => self.bare(tail),
                _ => Opening::Nothing,
            },
            b'{' if self.line.blank => self.bare(tail),
            b'`' | b'~' if self.line.blank => self.fence(tail),
            _ => Opening::Nothing,
        }
    }

    /// Reads a tag. The name of a tool as a tag may be part of a sentence, so it counts only at the
    /// start of a line.
    fn tag<'t>(&self, tail: &'t str) -> Tag<'t> {
        if self.line.blank {
            tags::read_named(tail, &self.tools)
        } else {
            tags::read(tail)
        }
    }

    fn bare(&self, tail: &str) -> Opening {
        match call_prefix(tail, &self.tools, false) {
            CallPrefix::No => Opening::Nothing,
            CallPrefix::More => Opening::More,
            CallPrefix::Maybe | CallPrefix::Named(_) => Opening::Region(RegionKind::Bare, 0),
        }
    }

    pub(super) fn fence(&self, tail: &str) -> Opening {
        let Some(fence) = Fence::at(tail) else {
            let may_grow = tail.len() < 3 && tail.bytes().all(|b| Some(b) == tail.bytes().next());
            return if may_grow { Opening::More } else { Opening::Nothing };
        };
        let (start, full) = beginning(&tail[fence.count..]);
        let short = if full { Opening::Nothing } else { Opening::More };
        let label = start
            .bytes()
            .take_while(|b| b.is_ascii_alphanumeric() || b"_-+.#".contains(b))
            .count();
        let content = label + blank(&start[label..]);
        let first = &start[content..];
        let json = match call_prefix(first, &self.tools, false) {
            CallPrefix::No => Some(false),
            CallPrefix::More => None,
            CallPrefix::Maybe | CallPrefix::Named(_) => Some(true),
        };
        let tag = match tags::read_named(first, &self.tools) {
            Tag::Open(_) | Tag::Element(..) => Some(true),
            Tag::More => None,
            _ => Some(false),
        };
        match (json, tag) {
            (Some(true), _) | (_, Some(true)) => {
                Opening::Region(RegionKind::Fence(fence), fence.count + content)
            }
            (None, _) | (_, None) => short,
            // A fence around something else, or inline code, which has marks on the same line.
            _ => match start.find('\n') {
                None => short,
                Some(end) if fence.mark == b'`' && start[..end].contains('`') => Opening::Nothing,
                Some(end) => Opening::Fence(fence, fence.count + end + 1),
            },
        }
    }
}
