//! Finds the few places of a text at which a rule can apply, with SIMD.
//!
//! Every rule needs a certain text: the prefix of a token, the end of a secret name, `://`. Only
//! around these texts are the rules tried, so ordinary text costs a fraction of a nanosecond for
//! each byte.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::Span;
use aho_corasick::packed::{Config, MatchKind, Searcher};

use crate::rules::{self, MAX_NAME, SECRET_NAMES, TOKENS};

/// What rules other than those of tokens and names need.
const OTHER: [&str; 4] = ["://", "-begin ", "bearer", "basic"];
/// The endings of all secret names, or of their singular.
const NAMES: [&str; 7] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "key",
    "credential",
];
/// The length of the longest text that is searched.
const LONGEST: usize = 11;
/// How much of the end of an unfinished text is always examined: a name and any prefix.
const TAIL: usize = MAX_NAME + 16;
/// How much text is folded at once.
const CHUNK: usize = 512;

/// Maps letters to lower case, and few other bytes to each other: a superset of all matches is
/// found.
const fn fold(byte: u8) -> u8 {
    byte | 0x20
}

/// `None` if this CPU has no SIMD that is supported.
static SEARCHER: LazyLock<Option<Searcher>> = LazyLock::new(|| {
    let tokens = TOKENS.iter().map(|token| token.prefix);
    let texts = tokens.chain(NAMES).chain(OTHER);
    let texts = texts.map(|text| text.bytes().map(fold).collect::<Vec<_>>());
    Config::new()
        .match_kind(MatchKind::LeftmostLongest)
        .builder()
        .extend(texts)
        .build()
});

/// The places of a text at which a rule can apply, in order.
pub(crate) struct Candidates<'t> {
    /// Without one, a rule can apply everywhere.
    searcher: Option<&'static Searcher>,
    text: &'t [u8],
    /// Whether nothing follows the text.
    whole: bool,
    /// Whether the text is the inside of JSON, in which a line end is written `\n`.
    escaped: bool,
    folded: [u8; CHUNK],
    /// The part of the text that is folded.
    chunk: Range<usize>,
}

impl<'t> Candidates<'t> {
    pub(crate) fn of(text: &'t [u8], whole: bool) -> Self {
        Self {
            searcher: SEARCHER.as_ref(),
            text,
            whole,
            escaped: false,
            folded: [0; CHUNK],
            chunk: 0..0,
        }
    }

    /// Returns candidates everywhere, as on a CPU without SIMD.
    #[cfg(test)]
    pub(crate) fn everywhere(text: &'t [u8], whole: bool) -> Self {
        Self {
            searcher: None,
            ..Self::of(text, whole)
        }
    }

    /// Returns whether the texts of a JSON document have no candidates. The document must not
    /// contain `\u` or `\/`, which can stand for any part of them.
    pub(crate) fn are_absent_in_json(json: &'t str) -> bool {
        let mut candidates = Self {
            escaped: true,
            ..Self::of(json.as_bytes(), true)
        };
        candidates.next(0).is_none()
    }

    /// Returns the next range of positions at which a rule can apply, from a position on. Outside
    /// of it every rule answers no.
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
            let Some(found) = self.find(searcher, at) else {
                break;
            };
            if let Some(start) = self.start_of(&found) {
                let end = if found.start < tail {
                    found.start + 1
                } else {
                    self.text.len()
                };
                return Some(start.min(tail).max(from)..end);
            }
            at = found.start + 1;
        }
        (tail.max(from) < self.text.len()).then_some(tail.max(from)..self.text.len())
    }

    /// Returns the next occurrence of one of the texts.
    fn find(&mut self, searcher: &Searcher, mut from: usize) -> Option<Range<usize>> {
        loop {
            if !self.chunk.contains(&from)
                || self.chunk.end - from < LONGEST && self.chunk.end < self.text.len()
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
            // A text may cross the end of the chunk.
            from = from.max(self.chunk.end.saturating_sub(LONGEST - 1));
        }
    }

    /// Returns from where on the rules have to be tried because of an occurrence; `None` if none of
    /// them applies.
    fn start_of(&self, found: &Range<usize>) -> Option<usize> {
        let text = self.text;
        let at = found.start;
        match text[at] {
            b':' => Some(at),
            // The rule begins at the first of five dashes.
            b'-' => Some(at.saturating_sub(4)),
            _ => {
                let is_start = !self.is_inside_of_word(at);
                if is_start && rules::starts_token_or_login(&text[at..]) {
                    return Some(at);
                }
                self.is_end_of_name(found.end).then(|| {
                    let name = text[..at].iter().rev().take(MAX_NAME);
                    at - name.take_while(|byte| rules::in_name(**byte)).count()
                })
            }
        }
    }

    fn is_inside_of_word(&self, at: usize) -> bool {
        // What is before an unfinished text is not known here.
        let Some(&[before, previous]) = at.checked_sub(2).map(|from| &self.text[from..at]) else {
            return false;
        };
        let is_escape = before == b'\\' && (self.escaped || matches!(previous, b'n' | b'r' | b't'));
        rules::in_word(previous) && !is_escape
    }

    /// Returns whether a secret name ends here, or one byte later in the plural.
    fn is_end_of_name(&self, end: usize) -> bool {
        let text = self.text;
        let is_last = |end: usize| text.get(end).is_none_or(|byte| !rules::in_name(*byte));
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
    fn each_rule_has_a_text_that_is_searched() {
        for name in SECRET_NAMES {
            let ends = |end: &&str| {
                name.ends_with(*end) || name.strip_suffix('s').is_some_and(|n| n.ends_with(*end))
            };
            assert!(NAMES.iter().any(ends), "{name}");
        }
        let texts = TOKENS.iter().map(|token| token.prefix).chain(NAMES).chain(OTHER);
        assert_eq!(texts.map(str::len).max(), Some(LONGEST));
    }
}
