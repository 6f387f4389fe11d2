//! The hidden characters as a regular expression, for the dashboard.

use std::fmt::Write as _;

use super::{has_variants, is_format, is_joined, is_right_to_left};

/// Returns the source of a regular expression of JavaScript, with the flag `u`, that matches each
/// character that [`visible`](super::visible()) replaces.
///
/// # Examples
///
/// ```
/// let pattern = vik_core::visible::javascript_pattern();
/// assert!(pattern.is_ascii() && pattern.contains(r"\u{2028}-\u{202e}"));
/// ```
pub fn javascript_pattern() -> String {
    // Each of these characters depends on the characters beside it.
    let in_context = |c| {
        matches!(
            c,
            '\n' | '\t' | '\r' | '\u{200c}'..='\u{200f}' | '\u{61c}' | '\u{fe0e}' | '\u{fe0f}'
        )
    };
    let always = class(|c| (c.is_control() || is_format(c)) && !in_context(c));
    let joined = class(is_joined);
    let variants = class(has_variants);
    let right_to_left = class(is_right_to_left);
    [
        format!("[{always}]"),
        r"\r(?!\n)".to_owned(),
        // A selector that is shown itself has a picture before it.
        format!(r"(?<![{joined}]|[{variants}]\u{{fe0f}})[\u{{200c}}\u{{200d}}]"),
        format!(r"[\u{{200c}}\u{{200d}}](?![{joined}])"),
        format!(r"(?<![{variants}])[\u{{fe0e}}\u{{fe0f}}]"),
        format!(r"(?<![{right_to_left}])[\u{{200e}}\u{{200f}}\u{{61c}}](?![{right_to_left}])"),
    ]
    .join("|")
}

/// Returns the ranges of a character class.
fn class(is_in: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    let mut range: Option<(char, char)> = None;
    let mut end = |range: Option<(char, char)>| {
        if let Some((first, last)) = range {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(first));
            if first != last {
                let _ = write!(out, "-\\u{{{:x}}}", u32::from(last));
            }
        }
    };
    for c in '\0'..=char::MAX {
        match &mut range {
            Some((_, last)) if is_in(c) => *last = c,
            None if is_in(c) => range = Some((c, c)),
            _ => end(range.take()),
        }
    }
    end(range);
    out
}
