//! The tags in which models put calls.

use super::names::{MAX_NAME, plausible};

const OPEN: [&str; 6] = [
    "<tool_call>",
    "<tool_calls>",
    "<function_call>",
    "<function_calls>",
    "<tools>",
    "[TOOL_CALLS]",
];
const CLOSE: [&str; 7] = [
    "</tool_call>",
    "</tool_calls>",
    "</function_call>",
    "</function_calls>",
    "</tools>",
    "</function>",
    "</invoke>",
];
const ELEMENT: [&str; 3] = ["<function=", "<function name=", "<invoke name="];
const PARAMETER: [&str; 2] = ["<parameter=", "<parameter name="];

/// What a text begins with. Numbers are lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag<'a> {
    /// No tag of these.
    No,
    /// The beginning of a tag, perhaps.
    More,
    /// A tag around calls.
    Open(usize),
    /// The end of such a tag, or of an element.
    Close(usize),
    /// A call, and its name.
    Element(&'a str, usize),
    /// A parameter, and its name.
    Parameter(&'a str, usize),
}

/// Reads a tag at the start of a text that begins with `<` or `[`.
pub(super) fn read(text: &str) -> Tag<'_> {
    let mut more = false;
    let mut is = |tag: &str| {
        more |= tag.starts_with(text);
        text.starts_with(tag)
    };
    if let Some(tag) = OPEN.into_iter().find(|tag| is(tag)) {
        return Tag::Open(tag.len());
    }
    if let Some(tag) = CLOSE.into_iter().find(|tag| is(tag)) {
        return Tag::Close(tag.len());
    }
    for tag in ELEMENT {
        if is(tag) {
            return named(text, tag.len(), Tag::Element);
        }
    }
    for tag in PARAMETER {
        if is(tag) {
            return named(text, tag.len(), Tag::Parameter);
        }
    }
    if more { Tag::More } else { Tag::No }
}

fn named<'a>(text: &'a str, from: usize, tag: fn(&'a str, usize) -> Tag<'a>) -> Tag<'a> {
    let rest = &text[from..];
    let Some(end) = rest.bytes().take(2 * MAX_NAME).position(|b| b == b'>') else {
        return if rest.len() < 2 * MAX_NAME {
            Tag::More
        } else {
            Tag::No
        };
    };
    let inside = rest[..end].trim();
    let name = match inside.strip_prefix(['"', '\'']) {
        Some(quoted) => quoted.split(['"', '\'']).next().unwrap_or_default(),
        None => inside,
    };
    if plausible(name) {
        tag(name, from + end + 1)
    } else {
        Tag::No
    }
}
