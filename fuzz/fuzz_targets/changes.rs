//! Checks that the hunks between two texts turn one text into the other, and that an index of git
//! is read to its end or not at all.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vik_workspace::changes::{hunks, index_paths, lines};

fuzz_target!(|input: (&[u8], &[u8])| {
    let (old, new) = input;
    let (before, after) = (lines(old), lines(new));
    let mut rebuilt: Vec<&[u8]> = Vec::new();
    let mut at = 0;
    for hunk in hunks(old, new) {
        let start = hunk.old.start as usize - 1;
        rebuilt.extend(&before[at..start]);
        let from = hunk.new.start as usize - 1;
        rebuilt.extend(&after[from..from + hunk.new.count as usize]);
        at = start + hunk.old.count as usize;
    }
    rebuilt.extend(&before[at..]);
    assert_eq!(rebuilt, after);
    for hash in [20, 32] {
        if let Some(paths) = index_paths(old, hash) {
            assert!(paths.iter().all(|path| !path.contains(&0)));
        }
    }
});
