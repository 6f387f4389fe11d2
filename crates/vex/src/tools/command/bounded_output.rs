//! Keeps the start and the end of an output in constant memory, and converts them to readable text.

use std::collections::VecDeque;

/// How much of the start and of the end of the output is kept, in bytes.
pub(super) const KEEP_BYTES: usize = 12 * 1024;

/// The start and the end of an output.
#[derive(Debug, Default)]
pub(crate) struct BoundedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl BoundedOutput {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (head, remaining) = bytes.split_at(bytes.len().min(KEEP_BYTES - self.head.len()));
        self.head.extend_from_slice(head);
        // Bytes that would be dropped again at once are not stored.
        let (passing, last) = remaining.split_at(remaining.len().saturating_sub(KEEP_BYTES));
        self.left_out += passing.len() as u64;
        self.tail.extend(last);
        let over = self.tail.len().saturating_sub(KEEP_BYTES);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// Returns all bytes if none was dropped.
    pub(crate) fn whole(&self) -> Option<Vec<u8>> {
        (self.left_out == 0).then(|| self.head.iter().chain(&self.tail).copied().collect())
    }

    /// Converts the output to text for a model. `terminal` is set if it was written to a terminal.
    pub(crate) fn into_text(mut self, terminal: bool) -> String {
        let tail = self.tail.make_contiguous();
        if self.left_out == 0 {
            self.head.extend_from_slice(tail);
            return readable(&self.head, terminal);
        }
        format!(
            "{}\n[… {} bytes left out …]\n{}",
            readable(&self.head, terminal),
            self.left_out,
            readable(tail, terminal)
        )
    }
}

/// Returns text without control sequences; binary output is replaced by its size.
fn readable(bytes: &[u8], terminal: bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    let strange = text
        .chars()
        .filter(|&c| c == char::REPLACEMENT_CHARACTER || c == '\0')
        .count();
    // A cut may split a character; a name may be in another encoding.
    if strange > 8 && strange * 10 > bytes.len() {
        return format!("[{} bytes that are no text]\n", bytes.len());
    }
    let plain = without_sequences(&text);
    if terminal { as_shown(&plain) } else { plain }
}

/// Removes escape sequences and control characters.
fn without_sequences(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => match chars.next() {
                // Up to its final letter.
                Some('[') => drop(chars.find(|c| ('@'..='~').contains(c))),
                // Strings: up to BEL or ESC \.
                Some(']' | 'P' | 'X' | '^' | '_') => {
                    while let Some(c) = chars.next() {
                        if c == '\x07' || (c == '\x1b' && chars.next_if_eq(&'\\').is_some()) {
                            break;
                        }
                    }
                }
                // A character set: one more.
                Some('(' | ')' | '*' | '+' | '#' | '%') => drop(chars.next()),
                _ => {}
            },
            '\0' => plain.push('␀'),
            '\n' | '\t' | '\r' | '\x08' => plain.push(c),
            c if c.is_control() => {}
            c => plain.push(c),
        }
    }
    plain
}

/// Returns the final display of a terminal: a line that is overwritten again and again appears
/// once.
fn as_shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        let last = line
            .trim_end_matches('\r')
            .rsplit('\r')
            .next()
            .unwrap_or_default();
        let mut cells = String::with_capacity(last.len());
        for c in last.chars() {
            if c == '\x08' {
                cells.pop();
            } else {
                cells.push(c);
            }
        }
        shown.push_str(&cells);
        shown.push_str(end);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], terminal: bool) -> String {
        let mut kept = BoundedOutput::default();
        kept.push(bytes);
        kept.into_text(terminal)
    }

    #[test]
    fn terminal_sequences_are_removed() {
        assert_eq!(
            text(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b(B\n", false),
            "red x\n"
        );
        assert_eq!(text(b"10%\r50%\r100%\r\nok\r\n", true), "100%\nok\n");
        assert_eq!(text(b"a\r\n", false), "a\r\n");
        assert_eq!(text(b"abc\x08d\n", true), "abd\n");
        assert_eq!(text(b"a\0b\0", false), "a␀b␀");
    }

    #[test]
    fn binary_output_is_replaced_by_its_size() {
        let noise: Vec<u8> = (0..4000_u32).map(|i| (i * 7 % 256) as u8).collect();
        assert_eq!(text(&noise, false), "[4000 bytes that are no text]\n");
    }

    proptest::proptest! {
        #[test]
        fn output_in_any_pieces_stays_small_and_keeps_its_ends(
            pieces in proptest::collection::vec(proptest::collection::vec(b'a'..=b'z', 0..9000), 0..12)
        ) {
            let mut kept = BoundedOutput::default();
            for piece in &pieces {
                kept.push(piece);
            }
            let all: Vec<u8> = pieces.concat();
            let text = kept.into_text(false);
            if all.len() <= 2 * KEEP_BYTES {
                proptest::prop_assert_eq!(text.as_bytes(), &all[..]);
            } else {
                let left_out = all.len() - 2 * KEEP_BYTES;
                let expected = format!("\n[… {left_out} bytes left out …]\n");
                proptest::prop_assert_eq!(&text[KEEP_BYTES..KEEP_BYTES + expected.len()], &expected[..]);
                proptest::prop_assert_eq!(&text.as_bytes()[..KEEP_BYTES], &all[..KEEP_BYTES]);
                proptest::prop_assert!(text.as_bytes().ends_with(&all[all.len() - KEEP_BYTES..]));
            }
        }

        #[test]
        fn control_characters_never_reach_a_model(bytes in proptest::collection::vec(0..=255_u8, 0..400), terminal: bool) {
            let shown = text(&bytes, terminal);
            proptest::prop_assert!(shown.chars().all(|c| matches!(c, '\n' | '\t' | '\r' | '\x08') || !c.is_control()));
        }
    }
}
