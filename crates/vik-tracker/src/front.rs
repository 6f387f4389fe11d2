//! Front matter: the top-level keys and values of an issue, and the change of one value.

use serde_json::{Number, Value};
use vik_yaml::{Diagnostic, Entry, Kind, Node, Scalar, Severity, Sink, Style, parse};

use super::yaml;

/// Returns the top-level keys of front matter and their values, or the first error.
pub(super) fn entries(text: &str) -> Result<Vec<Entry>, Box<Diagnostic>> {
    let mut sink = Sink::default();
    let root = parse(text, &mut sink);
    let mut found = sink.finish(text).into_iter();
    if let Some(error) = found.find(|found| found.severity == Severity::Error) {
        return Err(error.into());
    }
    match root.map(|root| (root.place, root.kind)) {
        None => Ok(Vec::new()),
        Some((_, Kind::Map(entries))) => Ok(entries),
        Some((place, _)) => {
            Err(
                Diagnostic::error("front_matter", "", "front matter must be `key: value` lines")
                    .place(place)
                    .hint("start with `id: …`")
                    .into(),
            )
        }
    }
}

/// Returns the text of a scalar, before it was converted to a number or another type.
pub(super) fn text(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Scalar(scalar) => Some(&scalar.text),
        _ => None,
    }
}

/// Returns a value as JSON. A number that JSON or 64 bits cannot express stays text.
pub(super) fn json(node: &Node) -> Value {
    match &node.kind {
        Kind::Scalar(scalar) => scalar_json(scalar),
        Kind::List(items) => items.iter().map(json).collect(),
        Kind::Map(entries) => entries
            .iter()
            .map(|entry| (entry.key.clone(), json(&entry.value)))
            .collect(),
    }
}

fn scalar_json(scalar: &Scalar) -> Value {
    let number = match scalar.value {
        vik_yaml::Value::Null => return Value::Null,
        vik_yaml::Value::Bool(value) => return value.into(),
        vik_yaml::Value::Int(value) => i64::try_from(value).ok().map(Number::from),
        vik_yaml::Value::Float(value) => Number::from_f64(value),
        vik_yaml::Value::Text => None,
    };
    number.map_or_else(|| Value::String(scalar.text.clone()), Value::Number)
}

/// Returns the text with the value of a top-level key replaced; `None` if that is impossible
/// without other changes.
///
/// Keeps the old quoting if possible. Parses the result again: all other values must be unchanged.
pub(super) fn set(text: &str, entries: &[Entry], key: &str, value: &str) -> Option<String> {
    let index = entries.iter().position(|entry| entry.key == key)?;
    let (start, old) = written(text, &entries[index].value)?;
    let new = match old.as_bytes().first() {
        // A value that single quotes cannot express gets double quotes.
        Some(b'\'') if !value.contains(needs_escape) => format!("'{}'", value.replace('\'', "''")),
        Some(b'\'' | b'"') => yaml::quoted(value),
        Some(_) => yaml::scalar(value),
        // A missing value starts right after the colon and needs a space.
        None => format!(" {}", yaml::scalar(value)),
    };
    let edited = format!("{}{new}{}", &text[..start], &text[start + old.len()..]);
    let after = self::entries(&edited).ok()?;
    let same = after.len() == entries.len()
        && after
            .iter()
            .zip(entries)
            .enumerate()
            .all(|(at, (after, before))| {
                let (now, old) = (self::text(&after.value), self::text(&before.value));
                after.key == before.key
                    && if at == index {
                        now == Some(value)
                    } else {
                        now == old && json(&after.value) == json(&before.value)
                    }
            });
    same.then_some(edited)
}

fn needs_escape(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Returns a scalar as it is written on its line, and its byte offset. The position of the parser
/// may include the blanks and the comment after it.
pub(super) fn written<'t>(text: &'t str, node: &Node) -> Option<(usize, &'t str)> {
    let Kind::Scalar(scalar) = &node.kind else {
        return None;
    };
    let (line_start, line) = line_of(text, node)?;
    let start = byte(line, node.place.column);
    let end = match node.place.end_column {
        0 => line.len(),
        column => byte(line, column).max(start),
    };
    let tail = &line[start..end];
    let bytes = tail.as_bytes();
    let old = match (scalar.style, bytes.first()) {
        (Style::Plain, _) => {
            let comment = bytes
                .windows(2)
                .position(|pair| pair[0].is_ascii_whitespace() && pair[1] == b'#');
            tail[..comment.unwrap_or(tail.len())].trim_end()
        }
        (Style::Quoted, Some(b'"')) => {
            let mut at = 1;
            while *bytes.get(at)? != b'"' {
                at += if bytes[at] == b'\\' { 2 } else { 1 };
            }
            tail.get(..=at)?
        }
        (Style::Quoted, Some(b'\'')) => {
            let mut at = 1;
            while *bytes.get(at)? != b'\'' || bytes.get(at + 1) == Some(&b'\'') {
                at += if bytes[at] == b'\'' { 2 } else { 1 };
            }
            tail.get(..=at)?
        }
        // In a block, the lines are the value.
        _ => return None,
    };
    Some((line_start + start, old))
}

/// Returns the byte offset at which a value starts.
pub(super) fn offset(text: &str, node: &Node) -> Option<usize> {
    let (start, line) = line_of(text, node)?;
    Some(start + byte(line, node.place.column))
}

/// Returns the first line of a value, and its byte offset.
fn line_of<'t>(text: &'t str, node: &Node) -> Option<(usize, &'t str)> {
    let lines = text.split_inclusive('\n');
    let start = lines.take(node.place.line as usize - 1).map(str::len).sum();
    Some((start, text.get(start..)?.lines().next().unwrap_or("")))
}

/// Returns the byte offset of a column in its line.
fn byte(line: &str, column: u32) -> usize {
    let mut characters = line.char_indices();
    characters
        .nth(column as usize - 1)
        .map_or(line.len(), |(at, _)| at)
}
