//! Helpers for untrusted text: lines, escapes, suggestions.

use std::fmt::Write as _;

/// The maximum length of quoted text in a message, in characters.
const MAX_QUOTED: usize = 60;

/// Returns the lines of a text as in YAML, which end with `
/// `, `\r
/// ` or a lone `\r`.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut remaining = Some(text);
    std::iter::from_fn(move || {
        let here = remaining?;
        let Some(end) = here.find(['\n', '\r']) else {
            remaining = None;
            return Some(here);
        };
        let after = if here[end..].starts_with("\r\n") {
            end + 2
        } else {
            end + 1
        };
        remaining = Some(&here[after..]);
        Some(&here[..end])
    })
}

/// Returns line `number` (from 1), "" if there is none. A byte order mark is not part of the first
/// line.
pub fn line(text: &str, number: u32) -> &str {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    (number as usize)
        .checked_sub(1)
        .and_then(|index| lines(text).nth(index))
        .unwrap_or("")
}

/// Returns whether a character must not be sent to a terminal: controls, direction marks and
/// invisible characters.
pub fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Appends a character, escaped if it is hostile.
pub fn push_escaped(out: &mut String, c: char) {
    if is_hostile(c) {
        // Writing to a String does not fail.
        let _ = write!(out, "\\u{{{:x}}}", c as u32);
    } else {
        out.push(c);
    }
}

/// Returns a text in one line of at most this many characters. Control and invisible characters
/// are escaped.
pub fn one_line(text: &str, max_chars: usize) -> String {
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

/// Returns text of the file in backticks for a message, escaped and cut.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("`");
    for (count, c) in text.chars().enumerate() {
        if count == MAX_QUOTED {
            out.push('…');
            break;
        }
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c => push_escaped(&mut out, c),
        }
    }
    out.push('`');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_yaml_ends_them() {
        assert_eq!(lines("a\nb\r\nc\rd").collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert_eq!(lines("a\n").collect::<Vec<_>>(), ["a", ""]);
        assert_eq!(line("\u{feff}a\nb", 1), "a");
        assert_eq!(line("a", 2), "");
        assert_eq!(line("a", 0), "");
    }

    #[test]
    fn quoted_text_is_escaped_and_cut() {
        assert_eq!(quoted("a\u{1b}[31m\u{202e}b"), "`a\\u{1b}[31m\\u{202e}b`");
        assert_eq!(quoted(&"x".repeat(500)).chars().count(), 63);
    }

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
