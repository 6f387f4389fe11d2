//! A call in the form of an element: `<function=NAME><parameter=KEY>value</parameter></function>`.
//!
//! A value is raw text, without one newline at its start and one at its end. It ends at the first
//! `</parameter>` after which the markup continues, so that a value may contain such a tag. The
//! schema of the tool decides later which values are numbers or lists.

use serde_json::{Map, Value};

use crate::arguments::BrokenArguments;
use crate::json::blank;
use crate::tags::{self, Tag};
use crate::{Found, arguments};

const END: &str = "</parameter>";

#[derive(Debug)]
pub(crate) struct Element {
    name: String,
    values: Map<String, Value>,
    repeated_key: Option<String>,
    part: ElementPart,
}

#[derive(Debug)]
enum ElementPart {
    Outside,
    /// In a value that started at `from`.
    Value {
        key: String,
        from: usize,
    },
    /// After a possible end of a value.
    Behind {
        key: String,
        from: usize,
        to: usize,
    },
}

/// The result of reading an element.
#[derive(Debug)]
pub(crate) enum ElementStep {
    /// More text is needed.
    Wait,
    /// The element is complete.
    Done(Found),
    /// Its arguments are JSON, which starts here.
    Json(String),
    /// It is cut off.
    Cut(Found),
    /// It is not a call.
    No,
}

impl Element {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: Map::new(),
            repeated_key: None,
            part: ElementPart::Outside,
        }
    }

    /// Continues at `at`. `ended` is set if no more text comes; its value is whether the text was
    /// cut off.
    pub(crate) fn advance(&mut self, text: &str, at: &mut usize, ended: Option<bool>) -> ElementStep {
        loop {
            match std::mem::replace(&mut self.part, ElementPart::Outside) {
                ElementPart::Outside => {
                    *at += blank(&text[*at..]);
                    let tail = &text[*at..];
                    match tags::read(tail) {
                        Tag::Parameter(key, length) => {
                            *at += length;
                            self.part = ElementPart::Value {
                                key: key.to_owned(),
                                from: *at,
                            };
                        }
                        Tag::Close(length) => {
                            // The reader of a wrapper handles its tag.
                            if tail.starts_with("</function>") || tail.starts_with("</invoke>") {
                                *at += length;
                            } else if self.values.is_empty() {
                                return ElementStep::No;
                            }
                            return ElementStep::Done(self.call());
                        }
                        Tag::More if ended.is_none() => return ElementStep::Wait,
                        Tag::More if self.values.is_empty() => return ElementStep::No,
                        Tag::More if tail.is_empty() && ended == Some(false) => {
                            return ElementStep::Done(self.call());
                        }
                        Tag::More => return ElementStep::Cut(self.cut(tail)),
                        _ if tail.starts_with('{') && self.values.is_empty() => {
                            return ElementStep::Json(std::mem::take(&mut self.name));
                        }
                        _ if self.values.is_empty() => return ElementStep::No,
                        _ => return ElementStep::Cut(self.cut(tail)),
                    }
                }
                ElementPart::Value { key, from } => {
                    let Some(stop) = text[*at..].find('<') else {
                        *at = text.len();
                        if ended.is_some() {
                            return ElementStep::Cut(self.cut(&text[from..]));
                        }
                        self.part = ElementPart::Value { key, from };
                        return ElementStep::Wait;
                    };
                    *at += stop;
                    let tail = &text[*at..];
                    if tail.starts_with(END) {
                        let to = *at;
                        *at += END.len();
                        self.part = ElementPart::Behind { key, from, to };
                        continue;
                    }
                    self.part = ElementPart::Value { key, from };
                    if ended.is_none() && END.starts_with(tail) {
                        return ElementStep::Wait;
                    }
                    *at += 1;
                }
                ElementPart::Behind { key, from, to } => {
                    *at += blank(&text[*at..]);
                    match tags::read(&text[*at..]) {
                        Tag::More if ended.is_none() => {
                            self.part = ElementPart::Behind { key, from, to };
                            return ElementStep::Wait;
                        }
                        Tag::More | Tag::Parameter(..) | Tag::Close(_) => {
                            self.keep(key, &text[from..to]);
                        }
                        _ => self.part = ElementPart::Value { key, from },
                    }
                }
            }
        }
    }

    fn keep(&mut self, key: String, raw: &str) {
        let raw = raw
            .strip_prefix("\r\n")
            .or_else(|| raw.strip_prefix('\n'))
            .unwrap_or(raw);
        let raw = raw
            .strip_suffix('\n')
            .map_or(raw, |raw| raw.strip_suffix('\r').unwrap_or(raw));
        let value = Value::String(raw.to_owned());
        if self.values.contains_key(&key) {
            self.repeated_key = Some(key);
        } else {
            self.values.insert(key, value);
        }
    }

    fn call(&mut self) -> Found {
        let values = std::mem::take(&mut self.values);
        let input = match &self.repeated_key {
            None => Ok(Value::Object(values)),
            Some(key) => Err(BrokenArguments {
                raw: Value::Object(values).to_string(),
                reason: format!("the parameter {key} comes twice"),
            }),
        };
        Found::Call {
            id: None,
            tool: std::mem::take(&mut self.name),
            input,
        }
    }

    fn cut(&mut self, tail: &str) -> Found {
        Found::Call {
            id: None,
            tool: std::mem::take(&mut self.name),
            input: Err(BrokenArguments {
                raw: format!("{}{tail}", Value::Object(std::mem::take(&mut self.values))),
                reason: arguments::CUT.to_owned(),
            }),
        }
    }
}
