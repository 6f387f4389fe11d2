//! Masking of text that arrives in pieces.

use crate::candidates::Candidates;
use crate::masker::{Before, Masker, Span, SpanKind, sort};

/// Masks a text that arrives in pieces: text that may still become a secret is held back until it
/// is decided.
///
/// # Examples
///
/// ```
/// use vik_mask::{Label, Masker};
///
/// let masker = Masker::new([(Label::Key, "correct horse battery".to_owned())]);
/// let mut stream = masker.stream();
/// let mut text = stream.push("sent correct ho");
/// assert!(!text.contains("correct"));
/// text += &stream.push("rse battery!");
/// text += &stream.finish();
/// assert_eq!(text, "sent [REDACTED:key]!");
/// ```
#[derive(Clone, Debug)]
pub struct MaskStream {
    masker: Masker,
    held: String,
    /// The bytes before the held text.
    before: Before,
    /// The end of the held text that a placeholder already covers.
    covered: usize,
    /// The end of the held text that was examined for secret shapes; those found are in `shapes`.
    judged: usize,
    shapes: Vec<(usize, usize, &'static str)>,
    /// The length of the held text at the last check.
    checked_len: usize,
}

impl MaskStream {
    pub(crate) fn new(masker: Masker) -> Self {
        Self {
            masker,
            held: String::new(),
            before: [None; 2],
            covered: 0,
            judged: 0,
            shapes: Vec::new(),
            checked_len: 0,
        }
    }

    /// Adds a piece, and returns the text that is decided.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        // A long word is not checked again for each of its letters.
        let word_continues = !piece
            .bytes()
            .any(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''));
        if self.checked_len > 0 && word_continues && self.held.len() < 2 * self.checked_len {
            return String::new();
        }
        self.take(false)
    }

    /// Ends the text, and returns the remaining part.
    pub fn finish(&mut self) -> String {
        self.take(true)
    }

    fn take(&mut self, whole: bool) -> String {
        let masker = self.masker.clone();
        let text = self.held.as_bytes();
        let shapes = &mut self.shapes;
        masker.shapes(
            Candidates::new(text, whole),
            &mut self.judged,
            self.before,
            |span| {
                if let SpanKind::Shape(kind) = span.kind {
                    shapes.push((span.start, span.end, kind));
                }
            },
        );
        // Nothing is decided after the first uncertain position.
        let sure = if whole {
            text.len()
        } else {
            self.judged.min(masker.unsure(text))
        };
        let mut spans = masker.known_in(text);
        spans.extend(self.shapes.iter().map(|&(start, end, kind)| Span {
            start,
            end,
            kind: SpanKind::Shape(kind),
        }));
        spans.retain(|span| span.start < sure);
        sort(&mut spans);
        let mut out = String::new();
        let mut at = self.covered;
        for span in spans {
            if span.start >= at {
                out.push_str(&self.held[at..span.start]);
                span.kind.push_to(&mut out);
            }
            at = at.max(span.end);
        }
        if at < sure {
            out.push_str(&self.held[at..sure]);
            at = sure;
        }
        self.forget(sure, at);
        out
    }

    /// Drops the emitted text; a placeholder covers the text up to `covered`.
    fn forget(&mut self, emitted: usize, covered: usize) {
        let text = self.held.as_bytes();
        self.before = match emitted {
            0 => self.before,
            1 => [Some(text[0]), self.before[0]],
            _ => [Some(text[emitted - 1]), Some(text[emitted - 2])],
        };
        self.held.drain(..emitted);
        self.covered = covered - emitted;
        self.judged -= emitted.min(self.judged);
        self.shapes.retain_mut(|(start, end, _)| {
            let stays = *start >= emitted;
            if stays {
                (*start, *end) = (*start - emitted, *end - emitted);
            }
            stays
        });
        self.checked_len = self.held.len();
    }
}
