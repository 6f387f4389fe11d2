//! Checks that rendering any template with any value never panics, and that a value in a script is
//! one shell word.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|input: (&str, &str)| {
    let (source, value) = input;
    let context = json!({"issue": {"id": "1", "title": value}, "env": {}});
    let _ = vik_template::check_prompt(source, &["issue", "env"]);
    let _ = vik_template::check_script(source, &["issue", "env"]);
    let _ = vik_template::uses(source, "issue");
    let _ = vik_template::prompt(source, &context);
    let _ = vik_template::script(source, &context);
    // The value alone, at a known position, must stay within its quotes.
    if let Ok(script) = vik_template::script("printf %s {{ issue.title }} # end", &context) {
        let text = script.strip_prefix("printf %s ").and_then(|tail| tail.strip_suffix(" # end")).expect("its place");
        assert_eq!(unquoted(text).as_deref(), Some(value), "{text}");
    }
});

/// Returns the text of one shell word, or `None` where it is not a single word.
fn unquoted(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut remaining = text;
    while !remaining.is_empty() {
        if let Some(after) = remaining.strip_prefix('\'') {
            let end = after.find('\'')?;
            out.push_str(&after[..end]);
            remaining = &after[end + 1..];
        } else if let Some(after) = remaining.strip_prefix('\\') {
            let next = after.chars().next().filter(|c| *c != '\n')?;
            out.push(next);
            remaining = &after[next.len_utf8()..];
        } else {
            let next = remaining.chars().next()?;
            let is_plain = next.is_alphanumeric() || "_-./:@%+=,".contains(next);
            if !is_plain {
                return None;
            }
            out.push(next);
            remaining = &remaining[next.len_utf8()..];
        }
    }
    Some(out)
}
