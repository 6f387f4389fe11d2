//! Changes one value of front matter, and nothing else.

use saphyr_parser::ScalarStyle;

use super::yaml::{self, Entry};

/// Returns the text with the value of a top-level key replaced; `None` if that is impossible
/// without other changes.
///
/// Keeps the old quoting if possible. Parses the result again: all other values must be unchanged.
pub(super) fn set(text: &str, entries: &[Entry], key: &str, value: &str) -> Option<String> {
    let index = entries.iter().position(|entry| entry.key == key)?;
    let entry = &entries[index];
    let style = entry.style?;
    let old = extent(text.get(entry.span.clone())?, style)?;
    let end = entry.span.start + old.len();
    let single = || {
        // A value that single quotes cannot express gets double quotes.
        let fits =
            !value.contains(|c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'));
        if fits {
            format!("'{}'", value.replace('\'', "''"))
        } else {
            yaml::quoted(value)
        }
    };
    let new = match style {
        ScalarStyle::SingleQuoted => single(),
        ScalarStyle::DoubleQuoted => yaml::quoted(value),
        // A missing value starts right after the colon and needs a space.
        ScalarStyle::Plain if old.is_empty() => format!(" {}", yaml::scalar(value)),
        ScalarStyle::Plain => yaml::scalar(value),
        // In a block, the lines are the value, and the parser does not report their end precisely.
        ScalarStyle::Literal | ScalarStyle::Folded => return None,
    };
    let edited = format!("{}{new}{}", &text[..entry.span.start], &text[end..]);
    let after = yaml::entries(&edited).ok()?;
    let same = after.len() == entries.len()
        && after
            .iter()
            .zip(entries)
            .enumerate()
            .all(|(at, (after, before))| {
                after.key == before.key
                    && if at == index {
                        after.text.as_deref() == Some(value)
                    } else {
                        after.value == before.value && after.text == before.text
                    }
            });
    same.then_some(edited)
}

/// Returns the value itself: the span of the parser may include the blanks and the comment after
/// it.
fn extent(text: &str, style: ScalarStyle) -> Option<&str> {
    let bytes = text.as_bytes();
    let end = match style {
        ScalarStyle::Plain => {
            let comment = bytes
                .windows(2)
                .position(|pair| pair[0].is_ascii_whitespace() && pair[1] == b'#');
            return Some(text[..comment.unwrap_or(text.len())].trim_end());
        }
        ScalarStyle::DoubleQuoted => {
            let mut at = 1;
            while *bytes.get(at)? != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            at
        }
        ScalarStyle::SingleQuoted => {
            let mut at = 1;
            while *bytes.get(at)? != b'\'' || bytes.get(at + 1) == Some(&b'\'') {
                at += if bytes[at] == b'\'' { 2 } else { 1 };
            }
            at
        }
        ScalarStyle::Literal | ScalarStyle::Folded => return None,
    };
    text.get(..=end)
}
