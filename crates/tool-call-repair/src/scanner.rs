//! Finds calls in a streaming answer.

mod opening;

use self::opening::{LineState, Opening};
use crate::Found;
use crate::json::blank;
use crate::names::{Catalog, Tool};
use crate::region::{Fence, Region, RegionKind, RegionStep, marks};

/// The maximum number of regions without a call that are searched again for calls within them. It
/// bounds the work.
pub(crate) const MAX_RESCANS: u8 = 16;

/// How far a region may look ahead in vain without being counted, in bytes.
const MAX_AHEAD: usize = 1024;

const THINK: &str = "<think>";
const THOUGHT: &str = "</think>";
/// The maximum white space before the thinking, in bytes.
const MAX_BLANK: usize = 64;

/// Splits the text of an answer into prose, thinking and calls, as it arrives.
///
/// The parts are the same however the text is split into chunks. What is a call is defined
/// [for the crate](crate#what-is-a-call). Text that may become a call is held back until that is
/// certain; all other text is emitted at once, apart from white space, which comes with the text
/// after it.
///
/// The work is linear in the length of the answer: no byte is examined more than 18 times. After 16
/// places that had looked like calls, and were none, further ones are not searched for calls within
/// them. A call may have any length: a caller that bounds its answers bounds the memory.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use tool_call_repair::{Found, TextScanner, Tool};
///
/// let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
/// let mut scanner = TextScanner::new([Tool::new("list_dir", &schema)]);
/// let mut found = Vec::new();
/// for chunk in ["I look.\n<tool_", "call>{'name': 'list_dir', 'argu", "ments': {}}</tool_call>"] {
///     scanner.push(chunk, &mut found);
/// }
/// scanner.finish(false, &mut found);
/// assert_eq!(found[0], Found::Text("I look.".to_owned()));
/// let Found::Call { tool, input, .. } = &found[1] else {
///     panic!("this is a call");
/// };
/// assert_eq!((tool.as_str(), input), ("list_dir", &Ok(json!({}))));
/// ```
#[derive(Debug)]
pub struct TextScanner<'a> {
    tools: Catalog<'a>,
    /// Text not yet emitted, and earlier text that is still needed.
    text: String,
    /// Everything before this was emitted.
    emitted: usize,
    /// The end of the last word before `at`: white space is emitted only with the next word.
    text_end: usize,
    /// Everything before this was examined.
    at: usize,
    line: LineState,
    state: State,
    rescans: u8,
    /// Whether the last emitted part was a call or thinking.
    after_call: bool,
    last: Option<Found>,
    /// The number of examined bytes, counting each as often as it was examined.
    #[cfg(test)]
    pub(crate) work: usize,
}

#[derive(Debug)]
enum State {
    Start,
    Thinking,
    Prose,
    /// On the first line of a fence without calls.
    Opened(Fence),
    /// In such a fence, after its first line.
    Fenced(Fence),
    /// In a region that starts at `from`. The state of the line before it is kept in case that it
    /// contains no call.
    Region {
        region: Box<Region>,
        from: usize,
        line: LineState,
    },
}

impl Fence {
    /// Returns the end of the first line of a fence, in the text after its marks, and the next
    /// state: a backtick on the line means that it was inline code.
    fn first_line(self, text: &str) -> Option<(usize, State)> {
        let ends = |byte: u8| byte == b'\n' || (byte == b'`' && self.mark == b'`');
        let at = text.bytes().position(ends)?;
        Some(match text.as_bytes()[at] {
            b'\n' => (at + 1, State::Fenced(self)),
            _ => (at, State::Prose),
        })
    }
}

impl<'a> TextScanner<'a> {
    /// Creates a scanner for one answer that knows these tools. Without any, only markup is a call.
    pub fn new(tools: impl IntoIterator<Item = Tool<'a>>) -> Self {
        Self {
            tools: Catalog::new(tools),
            text: String::new(),
            emitted: 0,
            text_end: 0,
            at: 0,
            line: LineState::NEW,
            state: State::Start,
            rescans: MAX_RESCANS,
            after_call: false,
            last: None,
            #[cfg(test)]
            work: 0,
        }
    }

    /// Adds a chunk of the answer, and appends the parts that became certain to `out`. Text extends
    /// the last part in `out` if that is text, and thinking likewise.
    pub fn push(&mut self, piece: &str, out: &mut Vec<Found>) {
        self.text.push_str(piece);
        while self.step(None, out) {}
        self.text.drain(..self.emitted);
        self.at -= self.emitted;
        self.text_end -= self.emitted;
        if let State::Region { from, .. } = &mut self.state {
            *from -= self.emitted;
        }
        self.emitted = 0;
    }

    /// Ends the answer and decides all held back text. `cut` is set if its end is missing: then a
    /// call that is still open is broken, since its arguments may be incomplete. The scanner is
    /// ready for another text of the same answer; that text cannot start with thinking.
    pub fn finish(&mut self, cut: bool, out: &mut Vec<Found>) {
        while self.step(Some(cut), out) {}
        self.text_end = self.text.len();
        self.emit(out);
        self.text.clear();
        (self.emitted, self.text_end, self.at) = (0, 0, 0);
        self.line = LineState::NEW;
        self.state = State::Prose;
    }

    /// Emits the prose so far.
    fn emit(&mut self, out: &mut Vec<Found>) {
        let mut text = &self.text[self.emitted..self.text_end];
        self.emitted = self.text_end;
        if self.after_call {
            text = text.trim_start();
        }
        if text.is_empty() {
            return;
        }
        self.after_call = false;
        match out.last_mut() {
            Some(Found::Text(before)) => before.push_str(text),
            _ => out.push(Found::Text(text.to_owned())),
        }
    }

    /// Advances. Returns whether it can advance again without more text.
    fn step(&mut self, ended: Option<bool>, out: &mut Vec<Found>) -> bool {
        match &mut self.state {
            State::Start => self.start(ended.is_some()),
            State::Thinking => self.thinking(ended.is_some(), out),
            State::Prose => self.scan_prose(ended.is_some(), out),
            State::Opened(fence) => {
                let fence = *fence;
                self.opened(fence, out)
            }
            State::Fenced(fence) => {
                let fence = *fence;
                self.fenced(fence, ended.is_some(), out)
            }
            State::Region { region, from, line } => {
                let (from, line) = (*from, *line);
                #[cfg(test)]
                let before = region.examined();
                let step = region.step(&self.text[from..], ended, &self.tools);
                #[cfg(test)]
                {
                    self.work += region.examined().saturating_sub(before);
                }
                match step {
                    RegionStep::Wait => false,
                    RegionStep::Advanced => true,
                    RegionStep::Calls(calls) => {
                        self.emit_calls(calls, out);
                        true
                    }
                    RegionStep::End { open } => {
                        let (end, examined) = (from + region.end(), from + region.examined());
                        self.end_region(open, end, examined);
                        true
                    }
                    RegionStep::Nothing => {
                        let (kind, examined) = (region.kind(), region.examined());
                        self.end_without_call(kind, from, from + examined, line);
                        true
                    }
                }
            }
        }
    }

    fn emit_calls(&mut self, calls: Vec<Found>, out: &mut Vec<Found>) {
        for call in calls {
            if self.last.as_ref() != Some(&call) {
                self.last = Some(call.clone());
                out.push(call);
            }
        }
        self.after_call = true;
    }

    /// Ends a region. The following text is searched for calls, again if the region had looked far
    /// ahead.
    fn end_region(&mut self, open: Option<Fence>, end: usize, examined: usize) {
        (self.emitted, self.text_end, self.at) = (end, end, end);
        self.line = LineState::NEW;
        self.state = open.map_or(State::Prose, State::Fenced);
        if examined > end + MAX_AHEAD && !self.search_again() {
            self.take(examined);
        }
    }

    fn search_again(&mut self) -> bool {
        let left = self.rescans.checked_sub(1);
        self.rescans = left.unwrap_or(0);
        left.is_some()
    }

    /// Treats a region without a call as prose.
    fn end_without_call(&mut self, kind: RegionKind, from: usize, examined: usize, line: LineState) {
        self.line = line;
        let (mut to, fence) = match kind {
            RegionKind::Fence(fence) => (from + fence.count, Some(fence)),
            RegionKind::Bare | RegionKind::Marked => (from + 1, None),
        };
        let behind_marks = to;
        if !self.search_again() {
            to = to.max(examined);
        }
        self.take(to);
        self.state = fence.map_or(State::Prose, |fence| {
            let over = fence.first_line(&self.text[behind_marks..to]);
            over.map_or(State::Opened(fence), |(_, next)| next)
        });
    }

    /// Accepts everything up to `to` as prose.
    fn take(&mut self, to: usize) {
        for (index, &byte) in self.text.as_bytes()[self.at..to].iter().enumerate() {
            self.line.feed(byte);
            if !byte.is_ascii_whitespace() {
                self.text_end = self.at + index + 1;
            }
        }
        #[cfg(test)]
        {
            self.work += to - self.at;
        }
        self.at = to;
    }

    fn start(&mut self, ended: bool) -> bool {
        let blank = blank(&self.text);
        let tail = &self.text[blank..];
        if blank >= MAX_BLANK {
            self.state = State::Prose;
        } else if tail.starts_with(THINK) {
            self.at = blank + THINK.len();
            (self.emitted, self.text_end) = (self.at, self.at);
            self.state = State::Thinking;
        } else if !ended && THINK.starts_with(tail) {
            return false;
        } else {
            self.state = State::Prose;
        }
        true
    }

    fn thinking(&mut self, ended: bool, out: &mut Vec<Found>) -> bool {
        let tail = &self.text[self.emitted..];
        let found = tail.find(THOUGHT);
        let held = (1..THOUGHT.len())
            .rev()
            .find(|&length| !ended && tail.ends_with(&THOUGHT[..length]))
            .unwrap_or(0);
        let thought = &tail[..found.unwrap_or(tail.len() - held)];
        if !thought.is_empty() {
            match out.last_mut() {
                Some(Found::Thinking(before)) => before.push_str(thought),
                _ => out.push(Found::Thinking(thought.to_owned())),
            }
        }
        self.emitted += thought.len() + found.map_or(0, |_| THOUGHT.len());
        (self.at, self.text_end) = (self.emitted, self.emitted);
        if found.is_some() {
            self.after_call = true;
            self.state = State::Prose;
        }
        found.is_some()
    }

    fn scan_prose(&mut self, ended: bool, out: &mut Vec<Found>) -> bool {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            match self.opening(byte) {
                Opening::More if !ended => break,
                Opening::Nothing | Opening::More => self.take(self.at + 1),
                Opening::Region(kind, distance) => {
                    self.emit(out);
                    self.state = State::Region {
                        region: Box::new(Region::new(kind, distance)),
                        from: self.at,
                        line: self.line,
                    };
                    return true;
                }
                Opening::Fence(fence, distance) => {
                    self.take(self.at + distance);
                    self.state = State::Fenced(fence);
                    return true;
                }
            }
        }
        self.emit(out);
        false
    }

    /// Whether the first line belongs to a fence is known only at its end; until then it contains
    /// no calls.
    fn opened(&mut self, fence: Fence, out: &mut Vec<Found>) -> bool {
        let over = fence.first_line(&self.text[self.at..]);
        let progressed = over.is_some();
        let (length, next) = over.unwrap_or((self.text.len() - self.at, State::Opened(fence)));
        self.take(self.at + length);
        self.state = next;
        self.emit(out);
        progressed
    }

    fn fenced(&mut self, fence: Fence, ended: bool, out: &mut Vec<Found>) -> bool {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            if byte == fence.mark && self.line.blank {
                let tail = &self.text[self.at..];
                match fence.closes(tail, ended) {
                    None => break,
                    Some(true) => {
                        self.take(self.at + marks(tail, fence.mark));
                        self.line.code = false;
                        self.state = State::Prose;
                        return true;
                    }
                    Some(false) => {}
                }
            }
            self.take(self.at + 1);
        }
        self.emit(out);
        false
    }
}
