//! No text can make the loader panic, hang or eat memory.

use proptest::prelude::*;

use super::*;

/// Returns what must hold for any text.
fn check(text: &str) -> Loaded {
    let loaded = load(text);
    let has_errors = loaded
        .diagnostics
        .iter()
        .any(|finding| finding.severity == Severity::Error);
    assert_eq!(loaded.workflow.is_some(), !has_errors);
    assert_eq!(loaded.is_ok(false), !has_errors);
    assert!(loaded.diagnostics.len() <= MAX_DIAGNOSTICS + 1);
    for finding in &loaded.diagnostics {
        assert!(
            finding.line >= 1 && finding.column >= 1 && finding.end_column > finding.column,
            "{finding:?}"
        );
        assert!(
            finding.line as usize <= vik_yaml::text::lines(loaded.document().text()).count(),
            "{finding:?}"
        );
        assert!(CODES.iter().any(|(code, _)| *code == finding.code), "{finding:?}");
        assert!(
            finding.message.len() < 1_000 && finding.path.len() < 10_000,
            "{finding:?}"
        );
    }
    let shown = loaded.render("workflow.yml", false);
    assert!(
        !shown.contains(|c| c != '\n' && vik_yaml::text::is_hostile(c)),
        "{shown:?}"
    );
    loaded
}

/// One small edit of a valid file.
fn edit(text: &str, (at, kind, piece): (usize, u8, &str)) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let line = at % lines.len();
    let chars: Vec<char> = text.chars().collect();
    let place = at % chars.len();
    match kind % 6 {
        0 => chars[..place]
            .iter()
            .chain(&piece.chars().collect::<Vec<_>>())
            .chain(&chars[place..])
            .collect(),
        1 => chars[..place]
            .iter()
            .chain(&chars[(place + 1 + piece.len()).min(chars.len())..])
            .collect(),
        2 => {
            let mut lines = lines;
            lines.remove(line);
            lines.join("\n")
        }
        3 => {
            let mut lines = lines;
            lines.insert(line, lines[(line + piece.len()) % lines.len()]);
            lines.join("\n")
        }
        4 => {
            let mut lines: Vec<String> = lines.into_iter().map(str::to_owned).collect();
            if let Some((key, _)) = lines[line].clone().split_once(':') {
                lines[line] = format!("{key}: {piece}");
            }
            lines.join("\n")
        }
        _ => chars[..place].iter().collect(),
    }
}

const PIECES: &[&str] = &[
    "",
    " ",
    "\t",
    "\n",
    ":",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "&a ",
    "*a",
    "!!str ",
    "!x ",
    "|",
    ">",
    "\"",
    "'",
    "#",
    "%",
    "@",
    "`",
    "<<: ",
    "? ",
    "null",
    "~",
    "true",
    "yes",
    "0",
    "-1",
    "1e999",
    ".nan",
    "99999999999999999999",
    "5m",
    "x\0y",
    "\u{1b}[31m",
    "\u{202e}",
    "\u{feff}",
    "日本",
    "---\n",
    "...\n",
    "\r",
    "[[[[",
    "{a: {b: {c: 1}}}",
    "&x [*x]",
    "18446744073709551615",
    "0x",
    "\"\\0\"",
    "\"\\u001b\"",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn load_survives_any_text(text in "\\PC{0,80}|[ -~\\n\\t]{0,120}|[\\x00-\\x20:\\-\\[\\]{}&*!|>'\"#%@`a?,]{0,80}") {
        check(&text);
    }

    #[test]
    fn load_survives_any_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn load_survives_any_edit_of_a_valid_file(
        edits in prop::collection::vec((any::<usize>(), any::<u8>(), prop::sample::select(PIECES)), 1..6)
    ) {
        let text = edits.into_iter().fold(FULL.to_owned(), |text, change| {
            if text.is_empty() { text } else { edit(&text, change) }
        });
        check(&text);
    }
}

#[test]
fn aliases_cannot_be_multiplied() {
    let mut text = String::from("x-a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("x-a{level}: &a{level} [{items}]\n"));
    }
    let loaded = check(&text);
    assert_eq!(loaded.diagnostics[0].code, "bad_alias");
    // One long text many times over.
    let long = format!(
        "x-a: &a {}\nx-b: [{}]\n",
        "y".repeat(400_000),
        "*a, ".repeat(100_000)
    );
    assert_eq!(check(&long).diagnostics[0].code, "bad_alias");
}

#[test]
fn nesting_cannot_be_deep() {
    for text in [
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(50_000),
    ] {
        let loaded = check(&text);
        assert!(
            matches!(loaded.diagnostics[0].code, "too_deep" | "syntax"),
            "{:?}",
            loaded.diagnostics[0]
        );
    }
    // Through aliases too.
    let mut text = String::from("x-0: &a0 [1]\n");
    for level in 1..60 {
        text.push_str(&format!("x-{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert_eq!(check(&text).diagnostics.last().unwrap().code, "too_deep");
}

#[test]
fn large_files_are_read_in_time_or_refused() {
    let started = std::time::Instant::now();
    let many_keys: String = (0..20_000).map(|n| format!("key_{n}: value\n")).collect();
    let loaded = check(&many_keys);
    assert_eq!(loaded.diagnostics.last().unwrap().code, "too_many");
    assert!(
        loaded
            .diagnostics
            .iter()
            .any(|finding| finding.code == "missing_key"),
        "errors are not crowded out"
    );
    check(&format!("a: [{}]\n", "1,".repeat(80_000)));
    let long_key = "k".repeat(1_000);
    check(&format!("{long_key}: [{}]\n", "1,".repeat(60_000)));
    check(&"\u{1}".repeat(100_000));
    check(&"#".repeat(1_000_000));
    check(&format!("a: \"{}\"\n", "\\x41".repeat(200_000)));
    assert_eq!(check(&" ".repeat(MAX_BYTES + 1)).diagnostics[0].code, "too_large");
    assert!(
        started.elapsed() < std::time::Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn text_of_the_file_cannot_command_the_terminal() {
    let text = format!("\u{1b}]0;title\u{7}: \u{202e}x\n{MINIMAL}");
    let loaded = check(&text);
    assert_eq!(
        loaded
            .diagnostics
            .iter()
            .filter(|finding| finding.code == "bad_character")
            .count(),
        2
    );
    assert!(
        loaded
            .render("a\u{1b}[2Jb.yml", false)
            .contains("a\\u{1b}[2Jb.yml")
    );
}
