//! Properties of any text in any chunks.

use proptest::prelude::*;
use serde_json::json;

use super::{Found, TextScanner, call, scan, tools};
use crate::scanner::MAX_RESCANS;

/// Mixed text that looks like markup.
fn noise() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-z ]{1,8}",
        2 => Just("\n".to_owned()),
        1 => prop::sample::select(vec![
            "```", "```json\n", "```py\n", "\n```\n", "`", "~~~", "{", "}", "[", "]", "\"", "'", ":", ",", "\\", "<",
            ">", "</", "<tool_call>", "</tool_call>", "<function=list_dir>", "<function=x>", "</function>",
            "<parameter=path>", "</parameter>", "<invoke name=\"list_dir\">", "[TOOL_CALLS]", "{\"name\":",
            "\"list_dir\"", "\"arguments\":{", "{\"name\":\"list_dir\",\"arguments\":{}}", "{\"arguments\":", "> ",
            "<think>", "ü", "€", "\r\n", "\t", "{'tool': 'list_dir'", "<tools>", "}}",
        ])
        .prop_map(str::to_owned),
        1 => ".{0,6}",
    ];
    prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Text that cannot start a call.
fn prose() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![r"[A-Za-z(),.!? ä]{1,20}", Just("\n".to_owned())],
        1..8,
    )
    .prop_map(|parts| format!("So {}.", parts.concat()))
}

fn pieces<'a>(text: &'a str, cuts: &[prop::sample::Index]) -> Vec<&'a str> {
    let mut at: Vec<usize> = cuts
        .iter()
        .map(|cut| text.floor_char_boundary(cut.index(text.len() + 1)))
        .collect();
    at.sort_unstable();
    let mut from = 0;
    let mut all: Vec<&str> = Vec::new();
    for to in at {
        all.push(&text[from..to]);
        from = to;
    }
    all.push(&text[from..]);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn scan_is_independent_of_chunking(
        text in noise(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        cut: bool,
    ) {
        let whole = scan(&[&text], cut);
        prop_assert_eq!(scan(&pieces(&text, &cuts), cut), whole);
    }

    #[test]
    fn scan_of_a_fence_line_is_independent_of_chunking(
        mark in prop::sample::select(vec!["~~~", "```"]),
        start in prop::sample::select(vec!["<tool_call>", "{\"id\":1}", "{\"arguments\":"]),
        text in noise(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        cut: bool,
    ) {
        let text = format!("{mark}x{start}{text}");
        prop_assert_eq!(scan(&pieces(&text, &cuts), cut), scan(&[&text], cut));
    }

    #[test]
    fn prose_without_calls_is_unchanged(text in noise()) {
        // Thinking is not text, and empty thinking produces nothing.
        prop_assume!(!text.trim_start().starts_with("<think>"));
        let found = scan(&[&text], false);
        if found.iter().all(|found| matches!(found, Found::Text(_))) {
            let texts: Vec<&str> = found.iter().map(|found| match found {
                Found::Text(text) => text.as_str(),
                _ => "",
            }).collect();
            prop_assert_eq!(texts.concat(), text);
        }
    }

    #[test]
    fn calls_in_prose_are_found(
        before in prose(),
        between in prose(),
        path in r#"[ -~\nä]{0,30}"#,
        form in 0..6_usize,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let input = json!({"path": path, "content": "x"});
        let json = json!({"name": "write_file", "arguments": input}).to_string();
        let marked = format!(
            "<function=write_file>\n<parameter=path>\n{path}\n</parameter>\n<parameter=content>\nx\n</parameter>\n</function>"
        );
        let written = match form {
            0 => format!("<tool_call>\n{json}\n</tool_call>"),
            1 => format!("```json\n{json}\n```"),
            2 => json,
            3 => format!("```\n{}\n```", serde_json::to_string_pretty(&json!([{"tool": "write_file", "args": input}])).unwrap()),
            4 if !path.contains('<') => marked,
            _ => format!("[TOOL_CALLS][{json}]"),
        };
        let text = format!("{before}\n{written}\n{between}");
        let expected = vec![
            Found::Text(before),
            call("write_file", input),
            Found::Text(between.trim_start().to_owned()),
        ];
        prop_assert_eq!(scan(&pieces(&text, &cuts), false), expected, "{}", text);
    }
}

/// Long answers with the starts of many regions, in small chunks: no byte is read again and again.
#[test]
fn scan_takes_linear_time() {
    let unit = [
        "<tool_call>{\"arguments\": ",
        "<",
        "`",
        "```\n",
        "```json\n{\"arguments\":",
        "{\"arguments\":\n",
        "[{\n",
        "<function=a><parameter=b></parameter>",
        "<tool_call>{\"name\":\"list_dir\",\"arguments\":{}}</tool_call>{\"arguments\":",
        "\n",
        "~",
        "\"",
        "\n{",
        "</tool_call>",
        "{\"name\":\"list_dir\",\"arguments\":{\"path\":\"</tool_call>\n```\n",
    ];
    for unit in unit {
        for prefix in [
            "",
            "<tool_call>{\"a\":\"",
            "```json\n{\"name\":\"list_dir\",\"x\":\"",
        ] {
            let text = format!("{prefix}{}", unit.repeat(50_000 / unit.len()));
            let mut scanner = TextScanner::new(tools());
            let mut out = Vec::new();
            let mut tail = text.as_str();
            while !tail.is_empty() {
                let (piece, behind) = tail.split_at(tail.floor_char_boundary(5.min(tail.len())));
                scanner.push(piece, &mut out);
                tail = behind;
            }
            scanner.finish(false, &mut out);
            let bound = (usize::from(MAX_RESCANS) + 2) * text.len();
            assert!(
                scanner.work <= bound,
                "{} > {bound} with {unit:?} behind {prefix:?}",
                scanner.work
            );
        }
    }
}
