//! The comparison of two texts by lines.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use imara_diff::sources::byte_lines;
use imara_diff::{Algorithm, Diff, InternedInput};
use vik_core::file_change::{Hunk, LineRange};

/// The bytes of a file that decide whether it is binary, as in git.
const BINARY_PREFIX: usize = 8000;

/// Returns whether some content is no text.
pub fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(BINARY_PREFIX)].contains(&0)
}

/// Splits a text into lines, each with its line end.
pub fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// Returns the hunks that turn the old text into the new one, by the algorithm of git.
pub fn hunks(old: &[u8], new: &[u8]) -> Vec<Hunk> {
    let input = InternedInput::new(byte_lines(old), byte_lines(new));
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    diff.hunks()
        .map(|hunk| Hunk {
            old: range(hunk.before),
            new: range(hunk.after),
        })
        .collect()
}

fn range(lines: Range<u32>) -> LineRange {
    LineRange {
        start: lines.start + 1,
        count: lines.end - lines.start,
    }
}

/// Returns how much of the longer of two texts is also in the other one, in percent.
pub fn similarity(old: &[u8], new: &[u8]) -> usize {
    let longer = old.len().max(new.len());
    if longer == 0 {
        return 100;
    }
    let mut weights: HashMap<u64, usize> = HashMap::new();
    for line in lines(old) {
        *weights.entry(hash(line)).or_default() += line.len();
    }
    let mut shared = 0;
    for line in lines(new) {
        if let Some(left) = weights.get_mut(&hash(line))
            && *left >= line.len()
        {
            *left -= line.len();
            shared += line.len();
        }
    }
    shared * 100 / longer
}

fn hash(line: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            Just(&b"a\n"[..]),
            Just(&b"b\r\n"[..]),
            Just(&b"b\n"[..]),
            Just(&b"\n"[..]),
            Just(&b"\xff\n"[..])
        ];
        (proptest::collection::vec(line, 0..12), any::<bool>()).prop_map(|(lines, cut)| {
            let mut text = lines.concat();
            if cut {
                text.pop();
            }
            text
        })
    }

    #[test]
    fn lines_are_counted_from_one() {
        let found = hunks(b"a\nb\nc\n", b"a\nx\ny\nc");
        let expected = Hunk {
            old: LineRange { start: 2, count: 2 },
            new: LineRange { start: 2, count: 3 },
        };
        assert_eq!(found, [expected]);
        let added = hunks(b"", b"a\nb\n");
        assert_eq!(added[0].old, LineRange { start: 1, count: 0 });
        assert_eq!(added[0].new.end(), 2);
    }

    proptest! {
        /// Applying the hunks to the old text produces the new one.
        #[test]
        fn hunks_turn_the_old_text_into_the_new(old in text(), new in text()) {
            let (before, after) = (lines(&old), lines(&new));
            let mut made: Vec<&[u8]> = Vec::new();
            let mut at = 0;
            for hunk in hunks(&old, &new) {
                let (old_range, new_range) = (hunk.old.indices(), hunk.new.indices());
                made.extend(&before[at..old_range.start]);
                prop_assert_eq!(made.len(), new_range.start);
                made.extend(&after[new_range]);
                at = old_range.end;
            }
            made.extend(&before[at..]);
            prop_assert_eq!(made.concat(), new);
        }

        #[test]
        fn equal_texts_have_no_hunk(text in text()) {
            prop_assert_eq!(hunks(&text, &text), []);
            prop_assert_eq!(similarity(&text, &text), 100);
        }
    }
}
