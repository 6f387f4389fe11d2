//! Recognizes an answer that repeats itself without end, as small models do.

/// How much text has to be repeated, in bytes.
const MIN_REPEATED: usize = 4096;
/// How often a passage has to follow itself.
const MIN_TIMES: usize = 3;
/// How much text is searched for the passage, in bytes.
const MAX_KEPT: usize = 16 * 1024;
/// How much text arrives between two searches, in bytes.
const STEP: usize = 1024;
/// The length of the end of the text that is searched for, in bytes.
const PROBE: usize = 64;

/// The text of an answer so far.
#[derive(Debug, Default)]
pub(super) struct Repetition {
    text: Vec<u8>,
    unchecked: usize,
    is_found: bool,
}

impl Repetition {
    /// Adds text to the end.
    pub(super) fn push(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
        self.unchecked += text.len();
        if self.unchecked < STEP || self.is_found {
            return;
        }
        self.unchecked = 0;
        let excess = self.text.len().saturating_sub(MAX_KEPT);
        self.text.drain(..excess);
        self.is_found = ends_periodically(&self.text);
    }

    /// Returns whether the text only repeats itself by now.
    pub(super) fn is_found(&self) -> bool {
        self.is_found
    }
}

/// Returns whether the last part of a text is the same passage, several times in a row.
fn ends_periodically(text: &[u8]) -> bool {
    if text.len() < MIN_REPEATED {
        return false;
    }
    let (before, probe) = text.split_at(text.len() - PROBE);
    // The distance to the last place with the same bytes is the period, if there is one.
    let Some(at) = before.windows(PROBE).rposition(|window| window == probe) else {
        return false;
    };
    let period = before.len() - at;
    let repeated = MIN_REPEATED.max(MIN_TIMES * period);
    text.len() >= repeated && {
        let last = &text[text.len() - repeated..];
        last[period..] == last[..repeated - period]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_found(text: &str, piece: usize) -> bool {
        let mut repetition = Repetition::default();
        for piece in text.as_bytes().chunks(piece) {
            repetition.push(std::str::from_utf8(piece).unwrap());
        }
        repetition.is_found()
    }

    #[test]
    fn only_a_passage_that_follows_itself_for_long_is_found() {
        let passage: String = (0..90).map(|line| format!("line {line}\n")).collect();
        let license = format!(
            "{passage}mod a;\n{passage}mod b;\n{passage}mod c;\n{passage}mod d;\n{passage}mod e;\n{passage}"
        );
        for piece in [1, 7, 5000] {
            assert!(is_found(&format!("Start.\n{}", passage.repeat(8)), piece));
            assert!(is_found(&format!("Start.\n{}", "x".repeat(6000)), piece));
            assert!(!is_found(&format!("Start.\n{}", passage.repeat(2)), piece));
            assert!(!is_found(&license, piece));
            assert!(!is_found(&"x".repeat(4000), piece));
        }
    }
}
