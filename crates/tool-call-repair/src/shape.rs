//! Recognises JSON that is a call.

use serde_json::{Map, Value};

use crate::Found;
use crate::arguments::{BrokenArguments, repair_arguments};
use crate::json::blank;
use crate::names::{Catalog, MAX_NAME, plausible};

const NAMES: [&str; 4] = ["name", "tool", "tool_name", "function_name"];
const ARGUMENTS: [&str; 6] = ["arguments", "parameters", "args", "input", "tool_input", "params"];
const WRAPPERS: [&str; 4] = ["function", "function_call", "tool_call", "tool_calls"];
/// Keys beside a name and its arguments that have no effect on the call.
const BESIDE: [&str; 8] = [
    "id",
    "call_id",
    "tool_call_id",
    "type",
    "index",
    "thought",
    "reasoning",
    "explanation",
];

/// The maximum depth of wrapped calls.
const MAX_WRAPPED: usize = 4;

/// Returns the calls in a value, or `None` if it contains anything else. With `marked`, markup
/// around it marks it as a call.
pub(crate) fn calls(value: Value, tools: &Catalog<'_>, marked: bool) -> Option<Vec<Found>> {
    let mut found = Vec::new();
    collect(value, tools, marked, MAX_WRAPPED, &mut found)?;
    (!found.is_empty()).then_some(found)
}

fn collect(
    value: Value,
    tools: &Catalog<'_>,
    marked: bool,
    left: usize,
    found: &mut Vec<Found>,
) -> Option<()> {
    let left = left.checked_sub(1)?;
    let mut map = match value {
        Value::Array(items) => {
            return items
                .into_iter()
                .try_for_each(|item| collect(item, tools, marked, left, found));
        }
        Value::Object(map) => map,
        _ => return None,
    };
    if let Some(key) = WRAPPERS.into_iter().find(|key| {
        map.get(*key)
            .is_some_and(|inner| inner.is_object() || inner.is_array())
    }) {
        let id = take_text(&mut map, &["id"]);
        let inner = map.remove(key)?;
        if !map.keys().all(|key| BESIDE.contains(&key.as_str())) {
            return None;
        }
        collect(inner, tools, marked, left, found)?;
        if let (Some(Found::Call { id: known @ None, .. }), Some(_)) = (found.last_mut(), &id) {
            *known = id;
        }
        return Some(());
    }
    found.push(call(map, tools, marked)?);
    Some(())
}

fn call(mut map: Map<String, Value>, tools: &Catalog<'_>, marked: bool) -> Option<Found> {
    let Some(tool) = take_text(&mut map, &NAMES).or_else(|| take_text(&mut map, &["function"])) else {
        return by_key(map, tools);
    };
    let known = tools.find(&tool);
    if known.is_none() && !(marked && plausible(&tool)) {
        return None;
    }
    let id = take_text(&mut map, &["id", "call_id", "tool_call_id"]);
    let given = ARGUMENTS.into_iter().find(|key| map.contains_key(*key));
    let own = |map: &Map<String, Value>| {
        let keys: Vec<&str> = map.keys().map(String::as_str).collect();
        known.is_some_and(|tool| tool.fits(&keys))
    };
    let input = match given {
        // A property of the tool may have the name of one of these keys.
        Some(key) if !own(&map) => {
            let input = map.remove(key)?;
            if !marked && !map.keys().all(|key| BESIDE.contains(&key.as_str())) {
                return None;
            }
            match input {
                Value::Object(_) => Ok(input),
                Value::Null => Ok(Value::Object(Map::new())),
                Value::String(text) => repair_arguments(&text),
                _ if marked => Err(BrokenArguments {
                    raw: input.to_string(),
                    reason: "they must be a JSON object".to_owned(),
                }),
                _ => return None,
            }
        }
        _ => {
            let only = own(&map);
            if !only {
                map.retain(|key, _| !BESIDE.contains(&key.as_str()));
            }
            if !only && !own(&map) && !marked {
                return None;
            }
            Ok(Value::Object(map))
        }
    };
    Some(Found::Call { id, tool, input })
}

/// Reads a call of the form `{"read_file": {"path": …}}`.
fn by_key(map: Map<String, Value>, tools: &Catalog<'_>) -> Option<Found> {
    if map.len() != 1 {
        return None;
    }
    let (tool, input) = map.into_iter().next()?;
    let keys: Vec<&str> = input.as_object()?.keys().map(String::as_str).collect();
    if keys.is_empty() || !tools.find(&tool)?.fits(&keys) {
        return None;
    }
    Some(Found::Call {
        id: None,
        tool,
        input: Ok(input),
    })
}

fn take_text(map: &mut Map<String, Value>, keys: &[&str]) -> Option<String> {
    let key = keys
        .iter()
        .find(|key| map.get(**key).is_some_and(Value::is_string))?;
    match map.remove(*key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Properties of a possible call, from the start of its JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallPrefix<'a> {
    No,
    Maybe,
    /// It names a tool.
    Named(&'a str),
    /// The start is too short to decide.
    More,
}

/// The maximum length of the examined start, in bytes.
const MAX_START: usize = 512;

/// Returns at most the first [`MAX_START`] bytes of a text, and whether it is longer.
pub(crate) fn beginning(text: &str) -> (&str, bool) {
    if text.len() < MAX_START {
        return (text, false);
    }
    (&text[..text.floor_char_boundary(MAX_START)], true)
}

/// Examines the start of an object or an array, without reading all of it.
pub(crate) fn call_prefix<'a>(text: &'a str, tools: &Catalog<'_>, marked: bool) -> CallPrefix<'a> {
    let (start, full) = beginning(text);
    let short = if full { CallPrefix::No } else { CallPrefix::More };
    let mut tail = start;
    if let Some(inner) = tail.strip_prefix('[') {
        tail = &inner[blank(inner)..];
    }
    let Some(inner) = tail.strip_prefix('{') else {
        return if tail.is_empty() { short } else { CallPrefix::No };
    };
    let inner = &inner[blank(inner)..];
    let inner = inner.strip_prefix('{').unwrap_or(inner);
    let Some((key, tail)) = (match short_string(&inner[blank(inner)..], true) {
        ShortString::Text(key, tail) => Some((key, tail)),
        ShortString::No => return CallPrefix::No,
        ShortString::More => None,
    }) else {
        return short;
    };
    if !NAMES.contains(&key) && key != "function" {
        let known = ARGUMENTS.contains(&key) || WRAPPERS.contains(&key) || BESIDE.contains(&key);
        return if known || tools.find(key).is_some() {
            CallPrefix::Maybe
        } else {
            CallPrefix::No
        };
    }
    let tail = &tail[blank(tail)..];
    let Some(value) = tail.strip_prefix(':') else {
        return if tail.is_empty() { short } else { CallPrefix::No };
    };
    let value = &value[blank(value)..];
    if key == "function" && value.starts_with('{') {
        return CallPrefix::Maybe;
    }
    match short_string(value, false) {
        ShortString::Text(name, _) if tools.find(name).is_some() || (marked && plausible(name)) => {
            CallPrefix::Named(name)
        }
        ShortString::Text(..) | ShortString::No => CallPrefix::No,
        ShortString::More => short,
    }
}

enum ShortString<'a> {
    Text(&'a str, &'a str),
    No,
    More,
}

/// Reads a short string in quotation marks, or without them if `bare` is set. Returns it with the
/// text that follows.
fn short_string(start: &str, bare: bool) -> ShortString<'_> {
    let Some(quote) = start.bytes().next() else {
        return ShortString::More;
    };
    let quoted = quote == b'"' || quote == b'\'';
    if !quoted && !(bare && (quote.is_ascii_alphabetic() || quote == b'_')) {
        return ShortString::No;
    }
    let inner = if quoted { &start[1..] } else { start };
    let ends = |b: u8| {
        if quoted {
            b == quote
        } else {
            !b.is_ascii_alphanumeric() && b != b'_'
        }
    };
    match inner.bytes().take(MAX_NAME + 1).position(ends) {
        Some(length) => ShortString::Text(&inner[..length], &inner[length + usize::from(quoted)..]),
        None if inner.len() > MAX_NAME => ShortString::No,
        None => ShortString::More,
    }
}
