//! Finds the few places of a text at which a rule can apply, with SIMD.
//!
//! Every rule needs a marker: the prefix of a token, the end of a secret name, `://`. The rules are
//! tried only around these.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::Span;
use aho_corasick::packed::{Config, MatchKind, Searcher};

use crate::rules::{self, MAX_NAME, SECRET_NAMES, TOKENS, dashed, identifier};

/// The markers of rules other than those of tokens and names.
const OTHER_MARKERS: [&str; 4] = ["://", "-begin ", "bearer", "basic"];
/// The markers of secret names: their endings, in the singular.
const NAME_MARKERS: [&str; 7] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "key",
    "credential",
];
/// The length of the longest marker, in bytes.
const LONGEST_MARKER: usize = 11;
/// The length of the end of an unfinished text that is always examined, in bytes: a name and a
/// marker.
const TAIL: usize = MAX_NAME + 16;
/// How much text is converted to lower case at once, in bytes.
const CHUNK: usize = 512;

/// Returns a letter in lower case. It maps a few other bytes to each other, which only adds
/// candidates.
const fn fold(byte: u8) -> u8 {
    byte | 0x20
}

/// `None` if this CPU has no SIMD that is supported.
static SEARCHER: LazyLock<Option<Searcher>> = LazyLock::new(|| {
    let tokens = TOKENS.iter().map(|token| token.prefix);
    let markers = tokens.chain(NAME_MARKERS).chain(OTHER_MARKERS);
    let markers = markers.map(|marker| marker.bytes().map(fold).collect::<Vec<_>>());
    Config::new()
        .match_kind(MatchKind::LeftmostLongest)
        .builder()
        .extend(markers)
        .build()
});

/// The places of a text at which a rule can apply, in order.
pub(crate) struct Candidates<'t> {
    /// Without one, a rule can apply everywhere.
    searcher: Option<&'static Searcher>,
    pub(crate) text: &'t [u8],
    /// Whether nothing follows the text.
    pub(crate) whole: bool,
    /// Whether the text is JSON, in which a line end is written `\n`.
    is_json: bool,
    /// A part of the text in lower case.
    folded: [u8; CHUNK],
    /// The position of that part.
    chunk: Range<usize>,
}

impl<'t> Candidates<'t> {
    pub(crate) fn new(text: &'t [u8], whole: bool) -> Self {
        Self {
            searcher: SEARCHER.as_ref(),
            text,
            whole,
            is_json: false,
            folded: [0; CHUNK],
            chunk: 0..0,
        }
    }

    /// Returns candidates everywhere, as on a CPU without SIMD.
    #[cfg(test)]
    pub(crate) fn everywhere(text: &'t [u8], whole: bool) -> Self {
        Self {
            searcher: None,
            ..Self::new(text, whole)
        }
    }

    /// Returns whether the texts of a JSON document have no candidates. The document must not
    /// contain `\u` or `\/`, which can stand for any part of them.
    pub(crate) fn are_absent_in_json(json: &'t str) -> bool {
        let mut candidates = Self {
            is_json: true,
            ..Self::new(json.as_bytes(), true)
        };
        candidates.next(0).is_none()
    }

    /// Returns the next range of positions at which a rule can apply, from a position on. No rule
    /// applies before it.
    pub(crate) fn next(&mut self, from: usize) -> Option<Range<usize>> {
        let Some(searcher) = self.searcher else {
            return (from < self.text.len()).then_some(from..self.text.len());
        };
        let tail = if self.whole {
            self.text.len()
        } else {
            self.text.len().saturating_sub(TAIL)
        };
        let mut at = from;
        while at < self.text.len() {
            let Some(marker) = self.find(searcher, at) else {
                break;
            };
            if let Some(start) = self.start_of(&marker) {
                let end = if marker.start < tail {
                    marker.start + 1
                } else {
                    self.text.len()
                };
                return Some(start.min(tail).max(from)..end);
            }
            at = marker.start + 1;
        }
        (tail.max(from) < self.text.len()).then_some(tail.max(from)..self.text.len())
    }

    /// Returns the next marker.
    fn find(&mut self, searcher: &Searcher, mut from: usize) -> Option<Range<usize>> {
        loop {
            if !self.chunk.contains(&from)
                || self.chunk.end - from < LONGEST_MARKER && self.chunk.end < self.text.len()
            {
                let end = self.text.len().min(from + CHUNK);
                for (folded, byte) in self.folded.iter_mut().zip(&self.text[from..end]) {
                    *folded = fold(*byte);
                }
                self.chunk = from..end;
            }
            let length = self.chunk.end - self.chunk.start;
            let span = Span::from(from - self.chunk.start..length);
            if let Some(found) = searcher.find_in(&self.folded[..length], span) {
                let start = self.chunk.start;
                return Some(start + found.start()..start + found.end());
            }
            if self.chunk.end == self.text.len() {
                return None;
            }
            // A marker may cross the end of the chunk.
            from = from.max(self.chunk.end.saturating_sub(LONGEST_MARKER - 1));
        }
    }

    /// Returns the first position at which a rule can apply because of a marker; `None` if no rule
    /// can.
    fn start_of(&self, marker: &Range<usize>) -> Option<usize> {
        let text = self.text;
        let at = marker.start;
        match text[at] {
            b':' => Some(at),
            // The rule begins at the first of five dashes.
            b'-' => Some(at.saturating_sub(4)),
            _ => {
                let starts = !self.is_inside_identifier(at) && rules::starts_token_or_login(&text[at..]);
                // Both can be a part of a longer name.
                (starts || self.ends_secret_name(marker.end)).then(|| {
                    let before = text[..at].iter().rev().take(MAX_NAME);
                    at - before.take_while(|byte| dashed(**byte)).count()
                })
            }
        }
    }

    fn is_inside_identifier(&self, at: usize) -> bool {
        // What is before an unfinished text is not known here.
        let Some(&[before, previous]) = at.checked_sub(2).map(|from| &self.text[from..at]) else {
            return false;
        };
        let is_escape = before == b'\\' && (self.is_json || matches!(previous, b'n' | b'r' | b't'));
        identifier(previous) && !is_escape
    }

    /// Returns whether a secret name ends at this position, or one byte later in the plural.
    fn ends_secret_name(&self, end: usize) -> bool {
        let text = self.text;
        let is_last = |end: usize| text.get(end).is_none_or(|byte| !dashed(*byte));
        let plural = end + usize::from(text.get(end).is_some_and(|byte| fold(*byte) == b's'));
        let longest = SECRET_NAMES.iter().map(|name| name.len()).max().unwrap_or(0);
        [end, plural]
            .into_iter()
            .any(|end| is_last(end) && rules::names_secret(&text[end.saturating_sub(longest)..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_a_marker() {
        for name in SECRET_NAMES {
            let ends = |end: &&str| {
                name.ends_with(*end) || name.strip_suffix('s').is_some_and(|n| n.ends_with(*end))
            };
            assert!(NAME_MARKERS.iter().any(ends), "{name}");
        }
        let tokens = TOKENS.iter().map(|token| token.prefix);
        let markers = tokens.chain(NAME_MARKERS).chain(OTHER_MARKERS);
        assert_eq!(markers.map(str::len).max(), Some(LONGEST_MARKER));
    }
}
