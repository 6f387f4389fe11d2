//! The subset of YAML that front matter needs: text to JSON values with the places of the top-level
//! keys, and scalars to text.
//!
//! Uses the events of `saphyr-parser`. Limits the depth and the values that aliases copy.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

/// The depth limit of nesting.
const MAX_DEPTH: usize = 32;
/// The most values that aliases may copy in total.
const MAX_COPIED: usize = 10_000;

/// One top-level key, its value and the place of the value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The value as data.
    pub(super) value: Value,
    /// The text of a scalar, before it was converted to a number or another type.
    pub(super) text: Option<String>,
    pub(super) style: Option<ScalarStyle>,
    /// The byte range of the value.
    pub(super) span: Range<usize>,
    /// The line of the key, from 1.
    pub(super) line: usize,
}

/// An error in the text, and its line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct YamlError {
    pub(super) line: usize,
    pub(super) reason: String,
    pub(super) hint: &'static str,
}

/// A collection that is still open.
struct Frame {
    collection: Value,
    anchor: usize,
    key: Option<(String, usize)>,
    start: Span,
}

struct Builder {
    stack: Vec<Frame>,
    anchors: HashMap<usize, (Value, Option<String>)>,
    copied: usize,
    entries: Vec<Entry>,
    done: bool,
    /// The byte offset of each character, and of the end.
    offsets: Vec<usize>,
}

pub(super) fn entries(text: &str) -> Result<Vec<Entry>, YamlError> {
    let fail = |line, reason: String, hint| YamlError { line, reason, hint };
    if let Some(at) = text.find(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}')) {
        let line = text[..at].matches('\n').count() + 1;
        return Err(fail(line, "unexpected control character".to_owned(), "remove it"));
    }
    let mut offsets: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    offsets.push(text.len());
    let mut builder = Builder {
        stack: Vec::new(),
        anchors: HashMap::new(),
        copied: 0,
        entries: Vec::new(),
        done: false,
        offsets,
    };
    for event in Parser::new_from_str(text) {
        match event {
            Ok((event, span)) => builder.event(event, span)?,
            Err(error) => {
                return Err(fail(
                    error.marker().line().max(1),
                    format!("invalid YAML: {}", error.info()),
                    "quote a value that contains `: ` or starts with a special character",
                ));
            }
        }
    }
    Ok(builder.entries)
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.suffix == "str");
                let value = if style == ScalarStyle::Plain && !is_text {
                    resolve(&text)
                } else {
                    Value::String(text.to_string())
                };
                self.finish(value, Some(text.into_owned()), Some(style), anchor, span)
            }
            Event::SequenceStart(anchor, _) => self.open(Value::Array(Vec::new()), anchor, span),
            Event::MappingStart(anchor, _) => self.open(Value::Object(Map::new()), anchor, span),
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop() {
                Some(frame) if self.stack.is_empty() => {
                    self.done = true;
                    drop(frame);
                    Ok(())
                }
                Some(frame) => {
                    let whole = Span {
                        start: frame.start.start,
                        end: span.end,
                    };
                    self.finish(frame.collection, None, None, frame.anchor, whole)
                }
                None => Ok(()),
            },
            Event::Alias(id) => {
                let (value, text) = self.anchors.get(&id).cloned().unwrap_or((Value::Null, None));
                self.copied += weight(&value);
                if self.copied > MAX_COPIED {
                    return Err(error_at(
                        span,
                        "aliases expand to too much text",
                        "write the values without aliases",
                    ));
                }
                self.finish(value, text, None, 0, span)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, collection: Value, anchor: usize, span: Span) -> Result<(), YamlError> {
        if self.stack.is_empty() && (self.done || !collection.is_object()) {
            return Err(not_a_map(span));
        }
        if self
            .stack
            .last()
            .is_some_and(|frame| frame.collection.is_object() && frame.key.is_none())
        {
            return Err(error_at(span, "a key must be text", "give it a name"));
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(error_at(span, "nested too deeply", "keep front matter flat"));
        }
        self.stack.push(Frame {
            collection,
            anchor,
            key: None,
            start: span,
        });
        Ok(())
    }

    fn finish(
        &mut self,
        value: Value,
        text: Option<String>,
        style: Option<ScalarStyle>,
        anchor: usize,
        span: Span,
    ) -> Result<(), YamlError> {
        if anchor != 0 {
            self.anchors.insert(anchor, (value.clone(), text.clone()));
        }
        let top = self.stack.len() == 1;
        let Some(frame) = self.stack.last_mut() else {
            return Err(not_a_map(span));
        };
        match &mut frame.collection {
            Value::Array(items) => items.push(value),
            Value::Object(map) => match frame.key.take() {
                None => {
                    let key = text.ok_or_else(|| error_at(span, "a key must be text", "give it a name"))?;
                    if map.contains_key(&key) {
                        return Err(error_at(
                            span,
                            &format!("duplicate key `{key}`"),
                            "remove one of them",
                        ));
                    }
                    frame.key = Some((key, span.start.line()));
                }
                Some((key, line)) => {
                    if top {
                        let byte = |index: usize| self.offsets.get(index).copied();
                        let end = self.offsets.last().copied().unwrap_or(0);
                        let start = byte(span.start.index()).unwrap_or(end);
                        let span = start..byte(span.end.index()).unwrap_or(end).max(start);
                        map.insert(key.clone(), Value::Null);
                        self.entries.push(Entry {
                            key,
                            value,
                            text,
                            style,
                            span,
                            line,
                        });
                    } else {
                        map.insert(key, value);
                    }
                }
            },
            _ => {}
        }
        Ok(())
    }
}

fn error_at(span: Span, reason: &str, hint: &'static str) -> YamlError {
    YamlError {
        line: span.start.line().max(1),
        reason: reason.to_owned(),
        hint,
    }
}

fn not_a_map(span: Span) -> YamlError {
    error_at(
        span,
        "front matter must be `key: value` lines",
        "start with `id: …`",
    )
}

fn weight(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(map) => map.values().map(weight).sum(),
        _ => 0,
    }
}

/// Returns the value of a plain scalar in the core schema of YAML 1.2, as far as JSON can express
/// it.
fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let number = text.strip_prefix('+').unwrap_or(text);
    let is_number = number
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        && number.bytes().any(|b| b.is_ascii_digit())
        && !number.starts_with('+');
    if is_number {
        if let Ok(int) = number.parse::<i64>() {
            return Value::Number(int.into());
        }
        if let Some(float) = number.parse::<f64>().ok().and_then(Number::from_f64) {
            return Value::Number(float);
        }
    }
    Value::String(text.to_owned())
}

/// Returns a text as a scalar on one line that parses as that text, and not as a number or another
/// type.
pub(super) fn scalar(text: &str) -> String {
    let plain = text.chars().enumerate().all(|(index, c)| {
        c.is_alphanumeric() || (index > 0 && (c == ' ' || "._-/()+=@~$^;<>".contains(c)))
    }) && !text.ends_with(' ')
        && matches!(resolve(text), Value::String(_))
        // Not a truth value, a number or a date for older parsers.
        && text.starts_with(char::is_alphabetic)
        && !["y", "n", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str())
        && !text.is_empty();
    if plain { text.to_owned() } else { quoted(text) }
}

/// Returns a number without quotes, if the text is its shortest form.
pub(super) fn plain_number(text: &str) -> Option<String> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then(|| text.to_owned())
}

/// Returns a text in double quotes.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}') =>
            {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a list on one line.
pub(super) fn list(items: &[String]) -> String {
    let items: Vec<String> = items
        .iter()
        .map(|item| {
            let short = scalar(item);
            if short.starts_with('"') {
                plain_number(item).unwrap_or(short)
            } else {
                short
            }
        })
        .collect();
    format!("[{}]", items.join(", "))
}
