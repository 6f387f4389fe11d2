//! Errors in a text before it is parsed as YAML.

use std::borrow::Cow;

use super::diagnostic::{Diagnostic, Sink};
use super::place::Place;
use super::text::{line, quoted};

/// Replaces control characters, of which YAML allows only tab and line breaks; the parser would
/// treat NUL as the end of the file.
pub fn replace_controls<'a>(text: &'a str, sink: &mut Sink) -> Cow<'a, str> {
    let is_bad = |c: char| (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}')) || c == '\u{fffe}';
    if !text.contains(is_bad) {
        return text.into();
    }
    let (mut line, mut column, mut previous) = (1, 0, '\0');
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        if previous == '\n' || (previous == '\r' && c != '\n') {
            (line, column) = (line + 1, 0);
        }
        column += 1;
        previous = c;
        if is_bad(c) {
            sink.push(
                Diagnostic::error(
                    "bad_character",
                    "",
                    format!("invalid control character U+{:04X}", c as u32),
                )
                .place(Place::point(line, column))
                .hint("write it as an escape in double quotes, such as \"\\e\""),
            );
            cleaned.push('\u{fffd}');
        } else {
            cleaned.push(c);
        }
    }
    cleaned.into()
}

/// Returns the position of a key without a colon at or before a line, and the key. The parser reads
/// on until it is certain.
fn key_without_colon(text: &str, until: u32) -> Option<(Place, &str)> {
    let content = |number: u32| {
        let line = line(text, number);
        let end = line.find(" #").unwrap_or(line.len());
        let line = line[..end].trim_end();
        (!line.trim_start().is_empty() && !line.trim_start().starts_with('#')).then_some(line)
    };
    let mut contents = (1..=until)
        .rev()
        .filter_map(|number| Some((number, content(number)?)));
    let (mut number, mut found) = contents.next()?;
    if found.contains(':') {
        (number, found) = contents.next()?;
    }
    let key = found.trim_start();
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let indent = u32::try_from(found.len() - key.len()).ok()?;
    let is_key = key.starts_with(char::is_alphabetic) && key.chars().all(is_plain);
    let end_column = indent + 1 + u32::try_from(key.chars().count()).ok()?;
    let place = Place {
        line: number,
        column: indent + 1,
        end_column,
    };
    is_key.then_some((place, key))
}

/// Returns a parser error, with a hint that follows from its message or the line.
pub fn syntax_error(info: &str, place: Place, text: &str) -> Diagnostic {
    let is_incomplete = [
        "simple key",
        "mapping values are not allowed",
        "comment intercepting",
    ]
    .iter()
    .any(|part| info.contains(part));
    if let Some((place, key)) = is_incomplete
        .then(|| key_without_colon(text, place.line))
        .flatten()
    {
        let message = format!("invalid YAML: {} has no `:`", quoted(key));
        return Diagnostic::error("syntax", "", message)
            .place(place)
            .hint(format!("write `{key}:`"));
    }
    let line = line(text, place.line);
    let diagnostic = Diagnostic::error("syntax", "", format!("invalid YAML: {info}")).place(place);
    let before: String = line.chars().take(place.column as usize).collect();
    if before.trim_start_matches(' ').starts_with('\t') || info.contains(" tab") {
        diagnostic.hint("indent with spaces; YAML does not allow tabs")
    } else if info.contains("mapping values are not allowed") {
        diagnostic.hint("quote a value that contains `: `, and check the indentation of this line")
    } else if info.contains("unknown anchor") {
        diagnostic.hint("define the anchor `&name` before the alias `*name`, or quote a plain `*`")
    } else if info.contains("cannot start any token") || line.contains("{{") {
        diagnostic.hint("quote a value that begins with a special character, such as `{{` or `@`")
    } else {
        diagnostic
    }
}
