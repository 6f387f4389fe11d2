//! A call in the form of an element: `<function=NAME><parameter=KEY>value</parameter></function>`.
//!
//! A value is raw text, without one newline at its start and one at its end. It ends at the first `</parameter>`
//! behind which the markup goes on, so that a value may hold such a tag. Which values are numbers or lists, the schema of
//! the tool says later.

use serde_json::{Map, Value};

use super::Found;
use super::json::blank;
use super::tags::{self, Tag};
use crate::conversation::Arguments;

const END: &str = "</parameter>";

#[derive(Debug)]
pub(super) struct Element {
    name: String,
    values: Map<String, Value>,
    /// A parameter that came twice.
    twice: Option<String>,
    part: Part,
}

#[derive(Debug)]
enum Part {
    /// Between parameters.
    Outside,
    /// In a value that began there.
    Value { key: String, from: usize },
    /// Behind what may be the end of a value.
    Behind { key: String, from: usize, to: usize },
}

/// How far an element came.
#[derive(Debug)]
pub(super) enum Grown {
    /// More text is needed.
    Wait,
    /// It is whole.
    Done(Found),
    /// Its arguments are JSON, which begins here.
    Json(String),
    /// It is cut off.
    Cut(Found),
    /// It is no call.
    No,
}

impl Element {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            values: Map::new(),
            twice: None,
            part: Part::Outside,
        }
    }

    /// Goes on at `at`. `ended` says that no more text comes, and whether it was cut off.
    pub(super) fn grow(&mut self, text: &str, at: &mut usize, ended: Option<bool>) -> Grown {
        loop {
            match std::mem::replace(&mut self.part, Part::Outside) {
                Part::Outside => {
                    *at += blank(&text[*at..]);
                    let rest = &text[*at..];
                    match tags::read(rest) {
                        Tag::Parameter(key, length) => {
                            *at += length;
                            self.part = Part::Value {
                                key: key.to_owned(),
                                from: *at,
                            };
                        }
                        Tag::Close(length) => {
                            // The tag of a wrapper is left for the one who reads the wrapper.
                            if rest.starts_with("</function>") || rest.starts_with("</invoke>") {
                                *at += length;
                            } else if self.values.is_empty() {
                                return Grown::No;
                            }
                            return Grown::Done(self.call());
                        }
                        Tag::More if ended.is_none() => return Grown::Wait,
                        Tag::More if self.values.is_empty() => return Grown::No,
                        Tag::More if rest.is_empty() && ended == Some(false) => {
                            return Grown::Done(self.call());
                        }
                        Tag::More => return Grown::Cut(self.cut(rest)),
                        _ if rest.starts_with('{') && self.values.is_empty() => {
                            return Grown::Json(std::mem::take(&mut self.name));
                        }
                        _ if self.values.is_empty() => return Grown::No,
                        _ => return Grown::Cut(self.cut(rest)),
                    }
                }
                Part::Value { key, from } => {
                    let Some(stop) = text[*at..].find('<') else {
                        *at = text.len();
                        if ended.is_some() {
                            return Grown::Cut(self.cut(&text[from..]));
                        }
                        self.part = Part::Value { key, from };
                        return Grown::Wait;
                    };
                    *at += stop;
                    let rest = &text[*at..];
                    if rest.starts_with(END) {
                        let to = *at;
                        *at += END.len();
                        self.part = Part::Behind { key, from, to };
                        continue;
                    }
                    self.part = Part::Value { key, from };
                    if ended.is_none() && END.starts_with(rest) {
                        return Grown::Wait;
                    }
                    *at += 1;
                }
                Part::Behind { key, from, to } => {
                    *at += blank(&text[*at..]);
                    match tags::read(&text[*at..]) {
                        Tag::More if ended.is_none() => {
                            self.part = Part::Behind { key, from, to };
                            return Grown::Wait;
                        }
                        Tag::More | Tag::Parameter(..) | Tag::Close(_) => {
                            self.keep(key, &text[from..to]);
                        }
                        _ => self.part = Part::Value { key, from },
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
            self.twice = Some(key);
        } else {
            self.values.insert(key, value);
        }
    }

    fn call(&mut self) -> Found {
        let values = std::mem::take(&mut self.values);
        let input = match &self.twice {
            None => Arguments::Json(Value::Object(values)),
            Some(key) => Arguments::Broken {
                raw: Value::Object(values).to_string(),
                reason: format!("the parameter {key} comes twice"),
            },
        };
        Found::Call {
            id: None,
            tool: std::mem::take(&mut self.name),
            input,
        }
    }

    fn cut(&mut self, rest: &str) -> Found {
        Found::Call {
            id: None,
            tool: std::mem::take(&mut self.name),
            input: Arguments::Broken {
                raw: format!("{}{rest}", Value::Object(std::mem::take(&mut self.values))),
                reason: super::arguments::CUT.to_owned(),
            },
        }
    }
}
