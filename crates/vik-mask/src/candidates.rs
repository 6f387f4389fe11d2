//! Finds the few places of a text at which a rule can apply, with SIMD.
//!
//! Every rule needs a marker: the prefix of a token, the end of a secret name, `://`. The rules are
//! tried only around these.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::Span;
use aho_corasick::packed::{Config, MatchKind, Searcher};

use crate::rules::{self, MAX_NAME, TOKENS, dashed, identifier};

/// The markers of rules other than those of tokens and names.
const OTHER_MARKERS: [&str; 4] = ["://", "-begin ", "bearer", "basic"];
/// The markers of secret names: the last word of each, or the part that several words share.
const NAME_MARKERS: [&str; 6] = ["passw", "passphrase", "secret", "token", "key", "credential"];
/// The most bytes of a secret name after its marker: those of `passwords`.
const LONGEST_ENDING: usize = 4;
/// The common part of the prefixes of Slack's tokens.
const SLACK_MARKER: &str = "xox";
/// The length of the longest marker, in bytes.
const LONGEST_MARKER: usize = 11;
/// The most markers that the search finds with all of its speed.
#[cfg(test)]
const MAX_MARKERS: usize = 32;
/// The length of the longest secret name, in bytes.
const LONGEST_NAME: usize = 14;
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
    Config::new()
        .match_kind(MatchKind::LeftmostLongest)
        .builder()
        .extend(markers())
        .build()
});

/// Returns all markers in lower case. A marker that begins with another one is left out.
fn markers() -> BTreeSet<Vec<u8>> {
    let tokens = TOKENS.iter().map(|token| token.prefix);
    let markers = tokens
        .chain(NAME_MARKERS)
        .chain(OTHER_MARKERS)
        .chain([SLACK_MARKER]);
    let all: BTreeSet<Vec<u8>> = markers.map(|marker| marker.bytes().map(fold).collect()).collect();
    let extends_another = |marker: &[u8]| (1..marker.len()).any(|length| all.contains(&marker[..length]));
    let markers = all.iter().filter(|marker| !extends_another(marker));
    markers.cloned().collect()
}

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

    /// Returns whether the name in which a marker ends at this position is a secret name.
    fn ends_secret_name(&self, marker_end: usize) -> bool {
        let after = self.text[marker_end..].iter().take(LONGEST_ENDING + 1);
        let ending = after.take_while(|byte| dashed(**byte)).count();
        let end = marker_end + ending;
        ending <= LONGEST_ENDING && rules::names_secret(&self.text[end.saturating_sub(LONGEST_NAME)..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::SECRET_NAMES;

    #[test]
    fn each_rule_has_a_marker() {
        for name in SECRET_NAMES {
            assert!(name.len() <= LONGEST_NAME, "{name}");
            let is_in = |marker: &&str| {
                let found = name.rfind(*marker).map(|at| name.len() - at - marker.len());
                found.is_some_and(|ending| ending <= LONGEST_ENDING)
            };
            assert!(NAME_MARKERS.iter().any(is_in), "{name}");
        }
        let markers = markers();
        for token in TOKENS {
            let prefix: Vec<u8> = token.prefix.bytes().map(fold).collect();
            assert!(
                markers.iter().any(|marker| prefix.starts_with(marker)),
                "{}",
                token.prefix
            );
        }
        assert_eq!(markers.iter().map(Vec::len).max(), Some(LONGEST_MARKER));
        assert!(markers.len() <= MAX_MARKERS, "{}", markers.len());
    }
}
