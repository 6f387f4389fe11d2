//! Checks that any text, split at any position, gives the same text and calls, and that text
//! without calls is returned byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tool_call_repair::{Found, TextScanner, Tool};

fn scan<'a>(pieces: impl Iterator<Item = &'a str>, cut: bool) -> Vec<Found> {
    let schema = serde_json::json!({
        "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"],
    });
    let mut scanner = TextScanner::new([Tool {
        aliases: &["bash"],
        arguments: &[("cmd", "command")],
        ..Tool::new("run_command", &schema)
    }]);
    let mut found = Vec::new();
    for piece in pieces {
        scanner.push(piece, &mut found);
    }
    scanner.finish(cut, &mut found);
    found
}

// The first byte sets the length of the pieces and whether the answer was truncated.
fuzz_target!(|data: (u8, &str)| {
    let (flags, text) = data;
    let (length, cut) = (usize::from(flags >> 1) + 1, flags & 1 == 1);
    let whole = scan(std::iter::once(text), cut);
    let mut remaining = text;
    let pieces = std::iter::from_fn(|| {
        let (piece, tail) = remaining.split_at(remaining.ceil_char_boundary(length.min(remaining.len())));
        remaining = tail;
        (!piece.is_empty()).then_some(piece)
    });
    assert_eq!(scan(pieces, cut), whole);
    match whole.as_slice() {
        [Found::Text(output)] if !text.trim_start().starts_with("<think>") => assert_eq!(output, text),
        _ => {}
    }
});
