//! Checks that parsing any patch and applying it to any text never panics, and that the result
//! depends on the two texts only.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vex::tools::patch::apply;
use vex::tools::patch::parse::{Action, parse};

fuzz_target!(|input: (&str, &str)| {
    let (text, patch) = input;
    let Ok(changes) = parse(patch) else { return };
    assert!(!changes.is_empty());
    for change in changes {
        if let Action::Update { hunks, .. } = change.action
            && let Ok(patched) = apply(text, &hunks)
        {
            assert_eq!(apply(text, &hunks).ok(), Some(patched));
        }
    }
});
