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
}
