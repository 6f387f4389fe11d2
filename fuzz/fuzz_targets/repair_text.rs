//! Any text, cut anywhere: the same words and calls are found, and words without calls come out byte for byte.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vex::repair::{Found, TextScanner};
use vex::tools::{Need, ToolDefinition};

fn scan<'a>(pieces: impl Iterator<Item = &'a str>, cut: bool) -> Vec<Found> {
    let tools = [ToolDefinition {
        name: "run_command",
        description: "",
        input_schema: serde_json::json!({
            "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"],
        }),
        need: Need::Execute,
        aliases: &["bash"],
        arguments: &[("cmd", "command")],
    }];
    let mut scanner = TextScanner::new(&tools);
    let mut found = Vec::new();
    for piece in pieces {
        scanner.push(piece, &mut found);
    }
    scanner.finish(cut, &mut found);
    found
}

// The first byte says how long the pieces are, and whether the answer was cut off.
fuzz_target!(|data: (u8, &str)| {
    let (how, text) = data;
    let (length, cut) = (usize::from(how >> 1) + 1, how & 1 == 1);
    let whole = scan(std::iter::once(text), cut);
    let mut rest = text;
    let pieces = std::iter::from_fn(|| {
        let (piece, behind) = rest.split_at(rest.ceil_char_boundary(length.min(rest.len())));
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    });
    assert_eq!(scan(pieces, cut), whole);
    match whole.as_slice() {
        [Found::Text(words)] if !text.trim_start().starts_with("<think>") => assert_eq!(words, text),
        _ => {}
    }
});
