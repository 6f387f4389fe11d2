//! Finds known values and what looks like a secret.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::forms;
use crate::rules::{self, Verdict};
use crate::stream::MaskStream;

/// The shortest value that is masked wherever it stands, in bytes; a shorter one could be a word.
pub const MIN_BYTES: usize = 8;

/// So many bytes are looked at on either side of a part, for a key that begins or ends outside of it.
const AROUND: usize = 20 * 1024;

/// What stands where a known value stood.
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

/// What masks secrets. A copy costs nothing.
#[derive(Clone, Debug, Default)]
pub struct Masker {
    known: Option<Arc<Known>>,
}

/// The known values, in all their forms.
#[derive(Debug)]
struct Known {
    automaton: AhoCorasick,
    /// The forms in their order, each with the place of its label.
    forms: Vec<(Box<[u8]>, usize)>,
    labels: Vec<String>,
    longest: usize,
    /// With which bytes a form begins.
    first_bytes: [bool; 256],
}

/// A piece of text that is to be masked, and as what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'m> {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: SpanKind<'m>,
}

/// What a span holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SpanKind<'m> {
    /// A known value: its placeholder.
    Known(&'m str),
    /// What looks like a secret: its kind.
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

/// The bytes in front of a place, the nearest first.
pub(crate) type Before = [Option<u8>; 2];

impl Masker {
    /// Masks these values wherever they stand, in each of their forms, beside all that looks like a secret. Values below
    /// [`MIN_BYTES`] are left out.
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
            // Only where there are more than 2^31 bytes of them.
            return Self::default();
        };
        let mut first_bytes = [false; 256];
        for (form, _) in &forms {
            first_bytes[usize::from(form[0])] = true;
        }
        Self {
            known: Some(Arc::new(Known {
                automaton,
                longest: forms.iter().map(|(form, _)| form.len()).max().unwrap_or(0),
                forms,
                labels,
                first_bytes,
            })),
        }
    }

    /// The text with its secrets masked.
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let spans = self.spans(text);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(masked(text, 0..text.len(), spans))
    }

    /// A part of a text, as it stands in the masked text: a secret that lies only partly in it is a placeholder in it, too.
    /// The part must begin and end between characters.
    pub fn mask_part(&self, text: &str, part: Range<usize>) -> String {
        masked(text, part, self.spans(text))
    }

    /// How much text on either side of a part tells what is a secret in it.
    pub fn around(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.longest).max(AROUND)
    }

    /// The same as [`mask`](Self::mask) for a text that comes in pieces.
    pub fn stream(&self) -> MaskStream {
        MaskStream::new(self.clone())
    }

    fn spans(&self, text: &str) -> Vec<Span<'_>> {
        let mut spans = self.known_in(text.as_bytes());
        self.shapes(text.as_bytes(), &mut 0, [None; 2], true, |span| spans.push(span));
        spans
    }

    /// All known values in a text; they may overlap.
    pub(crate) fn known_in(&self, text: &[u8]) -> Vec<Span<'_>> {
        let Some(known) = &self.known else {
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

    /// The first place from which on the text may be the beginning of a known value that goes on behind it.
    pub(crate) fn unsure(&self, text: &[u8]) -> usize {
        let Some(known) = &self.known else {
            return text.len();
        };
        let from = text.len().saturating_sub(known.longest.saturating_sub(1));
        (from..text.len())
            .find(|&at| known.first_bytes[usize::from(text[at])] && known.is_proper_prefix(&text[at..]))
            .unwrap_or(text.len())
    }

    /// What looks like a secret from a place on, which moves on to where nothing is sure yet. `before` stands in front of
    /// the text, `whole` says that its end is the end of all.
    pub(crate) fn shapes<'m>(
        &'m self,
        text: &[u8],
        from: &mut usize,
        before: Before,
        whole: bool,
        mut emit: impl FnMut(Span<'m>),
    ) {
        while *from < text.len() {
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
                // The letter of an escaped line end belongs to no word.
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
                // A letter of an escape is no part of the word behind it.
                Verdict::No if previous == Some(b'\\') => *from += 1,
                Verdict::No => *from += rules::word_len(&text[at..]).max(1),
            }
        }
    }
}

impl Known {
    /// Whether this is the beginning of a form, and not all of it.
    fn is_proper_prefix(&self, beginning: &[u8]) -> bool {
        let at = self.forms.partition_point(|(form, _)| form.as_ref() < beginning);
        let longer =
            |(form, _): &(Box<[u8]>, usize)| form.len() > beginning.len() && form.starts_with(beginning);
        self.forms[at..].iter().take(2).any(longer)
    }
}

/// In the order in which placeholders are written: what begins first, and of those the longest.
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
