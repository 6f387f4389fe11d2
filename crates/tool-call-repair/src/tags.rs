//! The tags that models put around calls.

use crate::names::{Catalog, MAX_NAME, plausible};

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

/// What a text starts with. Numbers are lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag<'a> {
    /// None of these tags.
    No,
    /// Possibly the start of a tag.
    More,
    Open(usize),
    /// The end of such a tag, or of an element.
    Close(usize),
    Element(&'a str, usize),
    Parameter(&'a str, usize),
}

/// Reads a tag at the start of a text that starts with `<` or `[`.
pub(crate) fn read(text: &str) -> Tag<'_> {
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

/// Like [`read`], and recognises tags with the name of a tool: `<write_file>{"path":
/// …}</write_file>`.
pub(crate) fn read_named<'a>(text: &'a str, tools: &Catalog<'_>) -> Tag<'a> {
    let known = read(text);
    if known != Tag::No {
        return known;
    }
    let Some(inside) = text.strip_prefix('<') else {
        return Tag::No;
    };
    let (name, closes) = match inside.strip_prefix('/') {
        Some(name) => (name, true),
        None => (inside, false),
    };
    let Some(length) = name.bytes().take(MAX_NAME + 1).position(|b| b == b'>') else {
        let is_prefix = tools.names().any(|known| known.starts_with(name));
        return if is_prefix { Tag::More } else { Tag::No };
    };
    let whole = text.len() - name.len() + length + 1;
    match &name[..length] {
        name if !tools.names().any(|known| known == name) => Tag::No,
        _ if closes => Tag::Close(whole),
        name => Tag::Element(name, whole),
    }
}

fn named<'a>(text: &'a str, from: usize, tag: fn(&'a str, usize) -> Tag<'a>) -> Tag<'a> {
    let tail = &text[from..];
    let Some(end) = tail.bytes().take(2 * MAX_NAME).position(|b| b == b'>') else {
        return if tail.len() < 2 * MAX_NAME {
            Tag::More
        } else {
            Tag::No
        };
    };
    let inside = tail[..end].trim();
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
