//! The keys of comments and issues that are written at most once.

use vik_core::issue::OWN_MARK;

/// Returns the mark of a key. It is the last line of the text that was written with the key, and
/// Markdown does not show it.
fn mark(key: &str) -> String {
    format!("{OWN_MARK}{key} -->")
}

/// Returns a text with the mark of a key.
pub(crate) fn marked(text: &str, key: &str) -> String {
    let text = text.trim_end();
    let gap = if text.is_empty() { "" } else { "\n\n" };
    format!("{text}{gap}{}", mark(key))
}

/// Returns whether a text was written with this key. A mark elsewhere in the text does not count:
/// its author may have copied it.
pub(crate) fn is_marked(text: &str, key: &str) -> bool {
    let last = text.trim_end().lines().next_back();
    last.is_some_and(|line| line == mark(key))
}
