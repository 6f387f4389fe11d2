//! Text of skills in one line, for the catalogue and for terminals.

use std::path::Path;

use vik_yaml::text::push_escaped;

/// The maximum length of a shown path, in characters.
const MAX_PATH: usize = 400;

/// Returns a text in one line of at most this many characters. Control and invisible characters
/// are escaped.
pub(crate) fn one_line(text: &str, max_chars: usize) -> String {
    let mut line = String::new();
    for c in text.chars() {
        // A character takes at most four bytes; the cut needs one more.
        if line.len() > 4 * (max_chars + 1) {
            break;
        }
        if !c.is_whitespace() {
            push_escaped(&mut line, c);
        } else if !line.is_empty() && !line.ends_with(' ') {
            line.push(' ');
        }
    }
    let line = line.trim_end();
    match line.char_indices().nth(max_chars) {
        None => line.to_owned(),
        Some(_) => {
            let kept = max_chars.saturating_sub(1);
            let cut = line.char_indices().nth(kept).map_or(0, |(at, _)| at);
            format!("{}…", line[..cut].trim_end())
        }
    }
}

/// Returns a path in one line.
pub(crate) fn shown(path: &Path) -> String {
    one_line(&path.to_string_lossy(), MAX_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_one_bounded_line() {
        assert_eq!(one_line(" a\n\n b\tc ", 10), "a b c");
        assert_eq!(
            one_line("a\u{1b}[31m\u{202e}\u{e0041}", 50),
            "a\\u{1b}[31m\\u{202e}\\u{e0041}"
        );
        assert_eq!(one_line("äöüäöü", 6), "äöüäöü");
        assert_eq!(one_line("äöüäöüä", 6), "äöüäö…");
        assert_eq!(one_line(&"a ".repeat(100_000), 5), "a a…");
        assert_eq!(one_line(&" ".repeat(100_000), 5), "");
    }
}
