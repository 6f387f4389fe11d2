//! Any template with any value: nothing panics, and in a script a value is one word of the shell.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|input: (&str, &str)| {
    let (source, value) = input;
    let context = json!({"issue": {"id": "1", "title": value}, "env": {}});
    let _ = vik::template::check_prompt(source, &["issue", "env"]);
    let _ = vik::template::check_script(source, &["issue", "env"]);
    let _ = vik::template::uses(source, "issue");
    let _ = vik::template::prompt(source, &context);
    let _ = vik::template::script(source, &context);
    // The value alone, at a place of our own: whatever it holds, it stays within its quotes.
    if let Ok(script) = vik::template::script("printf %s {{ issue.title }} # end", &context) {
        let word = script.strip_prefix("printf %s ").and_then(|rest| rest.strip_suffix(" # end")).expect("its place");
        assert_eq!(unquoted(word).as_deref(), Some(value), "{word}");
    }
});

/// The text of one word of the shell; `None` where it is no single word.
fn unquoted(word: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('\'') {
            let end = after.find('\'')?;
            out.push_str(&after[..end]);
            rest = &after[end + 1..];
        } else if let Some(after) = rest.strip_prefix('\\') {
            let next = after.chars().next().filter(|c| *c != '\n')?;
            out.push(next);
            rest = &after[next.len_utf8()..];
        } else {
            let next = rest.chars().next()?;
            let is_plain = next.is_alphanumeric() || "_-./:@%+=,".contains(next);
            if !is_plain {
                return None;
            }
            out.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    Some(out)
}
