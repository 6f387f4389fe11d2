//! Makes text from outside safe for a terminal.

use std::borrow::Cow;

use vik_core::visible::visible;

/// Makes text from outside safe for a terminal: shows control characters and characters that hide
/// or reorder text. Newlines stay.
///
/// # Examples
///
/// ```
/// use vik_text::clean;
///
/// assert_eq!(clean("two\nlines"), "two\nlines");
/// assert!(!clean("\u{1b}[31mred").contains('\u{1b}'));
/// ```
pub fn clean(text: &str) -> Cow<'_, str> {
    match visible(text) {
        Cow::Owned(text) if text.contains('\r') => Cow::Owned(text.replace("\r\n", "\n")),
        Cow::Borrowed(text) if text.contains('\r') => Cow::Owned(text.replace("\r\n", "\n")),
        text => text,
    }
}

/// As [`clean`], on one line and cut to `width` characters.
pub fn one_line(text: &str, width: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let flat = clean(&flat);
    if flat.chars().count() <= width {
        return flat.into_owned();
    }
    let mut cut: String = flat.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(clean("a\x1b[31mb\u{202e}\r\n"), "a⟦U+001B⟧[31mb⟦U+202E⟧\n");
        assert_eq!(one_line("a\n b\tc", 9), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
