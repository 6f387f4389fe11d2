//! Finds known values and text that looks like a secret.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::packed::{self, Searcher};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::candidates::Candidates;
use crate::forms;
use crate::rules::{self, Verdict};
use crate::stream::MaskStream;

/// The minimum length of masked values in bytes; a shorter one could be an ordinary word.
pub const MIN_BYTES: usize = 8;

/// The number of bytes that are examined on either side of a part, for a key that crosses its
/// borders.
const AROUND: usize = 20 * 1024;

/// The placeholder of a known value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// A key of the process: `[REDACTED:key]`.
    Key,
    /// A secret with a name: `[secret NAME]`.
    Secret(String),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("[REDACTED:key]"),
            Self::Secret(name) => write!(f, "[secret {name}]"),
        }
    }
}

/// A masker of secrets. It is cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Masker {
    known: Option<Arc<Known>>,
}

/// The known values, in all their forms.
#[derive(Debug)]
struct Known {
    automaton: AhoCorasick,
    /// The forms in order, each with the index of its label.
    forms: Vec<(Box<[u8]>, usize)>,
    labels: Vec<String>,
    longest: usize,
    /// The first bytes of all forms.
    first_bytes: [bool; 256],
    /// Finds a part of each form with SIMD; `None` if there are too many forms, or one of them has
    /// no part that is the same in JSON.
    parts: Option<Searcher>,
}

/// A range of text to be masked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'m> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: SpanKind<'m>,
}

/// The kind of a masked span.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SpanKind<'m> {
    /// A known value, with its placeholder.
    Known(&'m str),
    /// Text that looks like a secret, with its kind.
    Shape(&'static str),
}

impl SpanKind<'_> {
    pub(crate) fn push_to(self, out: &mut String) {
        match self {
            Self::Known(placeholder) => out.push_str(placeholder),
            Self::Shape(kind) => {
                out.push_str("[REDACTED:");
                out.push_str(kind);
                out.push(']');
            }
        }
    }
}

/// The bytes before a position, the nearest first.
pub(crate) type Before = [Option<u8>; 2];

impl Masker {
    /// Creates a masker of these values in all their forms, and of all text that looks like a
    /// secret. Values shorter than [`MIN_BYTES`] are ignored.
    ///
    /// # Examples
    ///
    /// ```
    /// use vik_mask::{Label, Masker};
    ///
    /// let secret = (Label::Secret("DB".to_owned()), "correct horse battery".to_owned());
    /// let masker = Masker::new([secret]);
    /// assert_eq!(masker.mask("sent correct horse battery"), "sent [secret DB]");
    /// assert_eq!(masker.mask("sent correct%20horse%20battery"), "sent [secret DB]");
    /// ```
    pub fn new(values: impl IntoIterator<Item = (Label, String)>) -> Self {
        let mut labels: Vec<String> = Vec::new();
        let mut forms: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for (label, value) in values {
            let value = value.trim();
            if value.len() < MIN_BYTES {
                continue;
            }
            let label = label.to_string();
            let at = labels.iter().position(|known| *known == label);
            let at = at.unwrap_or_else(|| {
                labels.push(label);
                labels.len() - 1
            });
            for form in forms::of(value) {
                forms.entry(form.into_bytes()).or_insert(at);
            }
        }
        if forms.is_empty() {
            return Self::default();
        }
        let forms: Vec<_> = forms
            .into_iter()
            .map(|(form, label)| (form.into_boxed_slice(), label))
            .collect();
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(forms.iter().map(|(form, _)| form));
        let Ok(automaton) = automaton else {
            // Only with more than 2^31 bytes of forms.
            return Self::default();
        };
        let mut first_bytes = [false; 256];
        for (form, _) in &forms {
            first_bytes[usize::from(form[0])] = true;
        }
        Self {
            known: Some(Arc::new(Known {
                automaton,
                parts: searcher_of_parts(forms.iter().map(|(form, _)| &**form)),
                longest: forms.iter().map(|(form, _)| form.len()).max().unwrap_or(0),
                forms,
                labels,
                first_bytes,
            })),
        }
    }

    /// Returns the text with its secrets masked.
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let spans = self.spans(text);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(masked(text, 0..text.len(), spans))
    }

    /// Returns a part of the masked text: a secret that is only partly inside is replaced too. The
    /// part must start and end at character boundaries.
    pub fn mask_part(&self, text: &str, part: Range<usize>) -> String {
        masked(text, part, self.spans(text))
    }

    /// Returns how much text on either side of a part can affect its masking.
    pub fn around(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.longest).max(AROUND)
    }

    /// Returns a masker for a text that arrives in pieces, equivalent to [`mask`](Self::mask).
    pub fn stream(&self) -> MaskStream {
        MaskStream::new(self.clone())
    }

    /// Returns whether no text in this JSON contains a secret. It is a quick check: `false` may be
    /// wrong.
    pub(crate) fn needs_no_masking(&self, json: &str) -> bool {
        let bytes = json.as_bytes();
        let hides_marker = |at: usize| matches!(bytes.get(at + 1), Some(b'u' | b'/'));
        !memchr::memchr_iter(b'\\', bytes).any(hides_marker)
            && self.known.as_ref().is_none_or(|known| !known.may_be_in(bytes))
            && Candidates::are_absent_in_json(json)
    }

    fn spans(&self, text: &str) -> Vec<Span<'_>> {
        let mut spans = self.known_in(text.as_bytes());
        let candidates = Candidates::new(text.as_bytes(), true);
        self.shapes(candidates, &mut 0, [None; 2], |span| spans.push(span));
        spans
    }

    /// Returns all known values in a text; they may overlap.
    pub(crate) fn known_in(&self, text: &[u8]) -> Vec<Span<'_>> {
        let Some(known) = self.known.as_ref().filter(|known| known.may_be_in(text)) else {
            return Vec::new();
        };
        let found = known.automaton.find_overlapping_iter(text);
        found
            .map(|found| Span {
                start: found.start(),
                end: found.end(),
                kind: SpanKind::Known(&known.labels[known.forms[found.pattern().as_usize()].1]),
            })
            .collect()
    }

    /// Returns the first position where a known value may start that continues after the text.
    pub(crate) fn unsure(&self, text: &[u8]) -> usize {
        let Some(known) = &self.known else {
            return text.len();
        };
        let from = text.len().saturating_sub(known.longest.saturating_sub(1));
        (from..text.len())
            .find(|&at| known.first_bytes[usize::from(text[at])] && known.is_proper_prefix(&text[at..]))
            .unwrap_or(text.len())
    }

    /// Finds text that looks like a secret from a position on, which advances to the first
    /// undecided one. `before` are the bytes before the text.
    pub(crate) fn shapes<'m>(
        &'m self,
        mut candidates: Candidates<'_>,
        from: &mut usize,
        before: Before,
        mut emit: impl FnMut(Span<'m>),
    ) {
        let (text, whole) = (candidates.text, candidates.whole);
        let mut candidate = 0..0;
        while *from < text.len() {
            if *from >= candidate.end {
                let Some(next) = candidates.next(*from) else {
                    *from = text.len();
                    return;
                };
                *from = next.start;
                candidate = next;
            }
            let at = *from;
            if !rules::may_start(text[at]) {
                *from += 1;
                continue;
            }
            let near = |back: usize| match at.checked_sub(back) {
                Some(index) => Some(text[index]),
                None => before[back - at - 1],
            };
            let previous = match (near(1), at.checked_sub(1).map_or(before[1], |_| near(2))) {
                // The letter of an escaped line end is not part of a word.
                (Some(b'n' | b'r' | b't'), Some(b'\\')) => Some(b'\n'),
                (previous, _) => previous,
            };
            match rules::at(&text[at..], previous, whole) {
                Verdict::Secret(range, kind) => {
                    emit(Span {
                        start: at + range.start,
                        end: at + range.end,
                        kind: SpanKind::Shape(kind),
                    });
                    *from = at + range.end;
                }
                Verdict::More => return,
                // The letter of an escape is not part of the following word.
                Verdict::No if previous == Some(b'\\') => *from += 1,
                Verdict::No => *from += rules::identifier_len(&text[at..]).max(1),
            }
        }
    }
}

/// The length of the parts of forms that are searched first, in bytes.
const PART_LEN: usize = 6;

/// Returns a searcher of a part of each form: a text that contains none of the parts contains no
/// form. The parts are the same in JSON.
fn searcher_of_parts<'f>(forms: impl Iterator<Item = &'f [u8]>) -> Option<Searcher> {
    let plain = |byte: &u8| !byte.is_ascii_control() && !matches!(byte, b'"' | b'\\');
    let parts: Option<BTreeSet<&[u8]>> = forms
        .map(|form| form.windows(PART_LEN).find(|part| part.iter().all(plain)))
        .collect();
    packed::Config::new().builder().extend(parts?).build()
}

impl Known {
    /// Returns whether a text, or a text in this JSON without `\u`, may contain a form.
    fn may_be_in(&self, text: &[u8]) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.find(text).is_some())
    }

    /// Returns whether the text is a proper prefix of a form.
    fn is_proper_prefix(&self, beginning: &[u8]) -> bool {
        let at = self.forms.partition_point(|(form, _)| form.as_ref() < beginning);
        let longer =
            |(form, _): &(Box<[u8]>, usize)| form.len() > beginning.len() && form.starts_with(beginning);
        self.forms[at..].iter().take(2).any(longer)
    }
}

/// Sorts spans in the order of their placeholders: the earliest first, then the longest.
pub(crate) fn sort(spans: &mut [Span<'_>]) {
    spans.sort_by(|a, b| {
        let is_shape = |span: &Span<'_>| matches!(span.kind, SpanKind::Shape(_));
        (a.start, b.end, is_shape(a)).cmp(&(b.start, a.end, is_shape(b)))
    });
}

fn masked(text: &str, part: Range<usize>, mut spans: Vec<Span<'_>>) -> String {
    sort(&mut spans);
    let mut out = String::with_capacity(part.len());
    let mut at = part.start;
    for span in spans {
        if span.end <= part.start || span.start >= part.end {
            continue;
        }
        if span.start >= at || (span.start < part.start && at == part.start) {
            out.push_str(&text[at..span.start.max(at)]);
            span.kind.push_to(&mut out);
        }
        at = at.max(span.end);
    }
    if at < part.end {
        out.push_str(&text[at..part.end]);
    }
    out
}
