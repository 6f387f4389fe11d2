//! Makes characters visible that hide or reorder text.
//!
//! A person or a model must read the actual text. Text from a tracker can contain characters that
//! are invisible and yet read by a model, or that display the text in another order. They are
//! written as `⟦U+202E⟧`. Characters that real text needs are kept: joined emoji and their
//! variants, joiners between letters, and text from right to left.

mod javascript;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

pub use javascript::javascript_pattern;

/// Returns the text with all hidden characters made visible.
pub fn visible(text: &str) -> Cow<'_, str> {
    rewritten(text, |out, c| out.push_str(&escape(c)))
}

/// Returns the text that stands for a hidden character: `⟦U+202E⟧`.
pub fn escape(c: char) -> String {
    format!("⟦U+{:04X}⟧", u32::from(c))
}

/// Returns equivalent JSON with hidden characters escaped (`\u009b`), so that a terminal obeys none
/// of them.
pub fn escaped(json: &str) -> Cow<'_, str> {
    rewritten(json, |out, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String does not fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn rewritten(text: &str, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if is_visible(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for (c, is_hidden) in characters(text) {
        if is_hidden {
            write(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Returns whether [`visible`] would change nothing.
pub fn is_visible(text: &str) -> bool {
    let is_plain = |byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    text.bytes().all(is_plain) || !characters(text).any(|(_, is_hidden)| is_hidden)
}

/// Returns each character, and whether it is hidden.
///
/// # Examples
///
/// ```
/// use vik_core::visible::characters;
///
/// let hidden = characters("a\u{202e}b").filter(|(_, is_hidden)| *is_hidden);
/// assert_eq!(hidden.collect::<Vec<_>>(), [('\u{202e}', true)]);
/// ```
pub fn characters(text: &str) -> Characters<'_> {
    Characters {
        before: None,
        remaining: text.chars().peekable(),
    }
}

/// The iterator that [`characters`] returns.
#[derive(Clone, Debug)]
pub struct Characters<'a> {
    /// The character before the next one, or what replaces it.
    before: Option<char>,
    remaining: Peekable<Chars<'a>>,
}

impl Iterator for Characters<'_> {
    type Item = (char, bool);

    fn next(&mut self) -> Option<(char, bool)> {
        let c = self.remaining.next()?;
        let next = self.remaining.peek().copied();
        let is_line_break = c == '\r' && next == Some('\n');
        let is_hidden = !is_line_break && is_hidden(c, self.before, next);
        self.before = Some(if is_hidden { '⟧' } else { c });
        Some((c, is_hidden))
    }
}

/// Returns whether a character is invisible or has an invisible effect.
fn is_hidden(c: char, before: Option<char>, next: Option<char>) -> bool {
    let beside = |is: fn(char) -> bool| (before.is_some_and(is), next.is_some_and(is));
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        // A joiner between two visible characters.
        '\u{200c}' | '\u{200d}' => {
            !((before == Some('\u{fe0f}') || beside(is_joined).0) && beside(is_joined).1)
        }
        // A variation selector of a visible character.
        '\u{fe0e}' | '\u{fe0f}' => !beside(has_variants).0,
        // A direction mark of a letter from right to left.
        '\u{200e}' | '\u{200f}' | '\u{61c}' => !beside(is_right_to_left).0 && !beside(is_right_to_left).1,
        _ => is_format(c),
    }
}

/// Returns whether a joiner is useful beside a character: symbols, and letters of scripts that
/// join. In Latin text a joiner only hides something.
fn is_joined(c: char) -> bool {
    let joins = matches!(u32::from(c), 0x0600..=0x109f | 0x1780..=0x18af | 0xfb50..=0xfdcf | 0xfe70..=0xfefc);
    (joins && !is_format(c))
        || (has_variants(c) && !c.is_ascii())
        || matches!(u32::from(c), 0x1f3fb..=0x1f3ff)
}

/// Returns whether a character has variants: keycaps and pictures.
fn has_variants(c: char) -> bool {
    matches!(
        c,
        '#' | '*' | '0'..='9' | '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
    ) || matches!(u32::from(c), 0x2190..=0x21ff | 0x2300..=0x27bf | 0x2900..=0x297f | 0x2b00..=0x2bff
            | 0x3030 | 0x303d | 0x3297 | 0x3299 | 0x1f000..=0x1faff)
}

fn is_right_to_left(c: char) -> bool {
    matches!(u32::from(c), 0x05be..=0x05ff | 0x0608..=0x08c7 | 0xfb1d..=0xfdcf | 0xfdf0..=0xfdff | 0xfe70..=0xfefc)
        && !is_format(c)
        && c != '\u{61c}'
}

/// Returns whether a character is a format character of Unicode, blank, or unassigned.
fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
        | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
        || u32::from(c) & 0xfffe == 0xfffe
        || matches!(u32::from(c), 0xfdd0..=0xfdef)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_shown_and_real_text_is_unchanged() {
        // The test of the dashboard has the same cases.
        let cases: Vec<(String, String)> = serde_json::from_str(include_str!("visible/cases.json")).unwrap();
        for (text, shown) in cases {
            assert_eq!(visible(&text), shown, "{text:?}");
            let is_same = text == shown;
            assert_eq!(is_visible(&text), is_same, "{text:?}");
            assert_eq!(matches!(visible(&text), Cow::Borrowed(_)), is_same, "{text:?}");
        }
        assert_eq!(visible("a\r\nb"), "a\r\nb");
    }

    proptest::proptest! {
        #[test]
        fn visible_text_is_unchanged(text in "\\PC*|.*|[\u{200b}-\u{206f}a👩\u{fe0f}\u{e0041}]{0,20}") {
            let shown = visible(&text);
            proptest::prop_assert!(is_visible(&shown), "{shown:?}");
            proptest::prop_assert_eq!(visible(&shown), shown.as_ref());
        }
    }
}
