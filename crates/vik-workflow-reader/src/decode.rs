//! Decodes the tree of a file into typed sections, and generates the JSON Schema from the same
//! types.
//!
//! [`section!`] generates struct, reader and schema from one list of keys, so that editor and
//! reader cannot diverge. A reader never stops at an error: it reports the error and continues.

use std::marker::PhantomData;

use schemars::{Schema, SchemaGenerator};
use serde::Serialize;
use vik_yaml::{Diagnostic, Entry, Kind, Node, Place, Scalar, Sink, Spot, Style, Value, join};

use super::text::{closest, did_you_mean, quoted};

/// A kind of values in the file, often only the name of a rule for values of another type.
pub(crate) trait Decode {
    /// The type in the model.
    type Value;
    /// Decodes a value; reports an error and returns `None` if it is invalid.
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self::Value>;
    /// Returns the JSON Schema of the kind.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
    /// Returns a default as the schema shows it: as it is written in a file.
    fn as_written(default: &Self::Value) -> Option<serde_json::Value>
    where
        Self::Value: Serialize,
    {
        serde_json::to_value(default).ok()
    }
}

/// Sections that protect something: a misspelled name would disable the protection.
const PROTECTING: &[&str] = &[
    "approve", "intent", "limits", "outputs", "sandbox", "secrets", "trust",
];

/// The key of the tracker, which a file needs although nothing in it is required in every file.
pub(crate) const ISSUES: &str = "issues";

/// A map with fixed keys.
pub(crate) trait Section: Decode {
    /// Whether an unknown key is an error, because it may be a misspelled protection.
    const STRICT: bool;
    const KEYS: &'static [&'static str];
    /// Frequent mistakes in keys, each with its hint.
    const INSTEAD: &'static [(&'static str, &'static str)];
    /// Returns whether this key is required.
    fn is_required(key: &str) -> bool;
    /// Returns whether one of its keys is required.
    fn has_required() -> bool;
    /// Reads the section; an absent one is read as empty.
    fn read(node: Option<&Node>, cx: &mut Cx<'_>) -> Self::Value;
}

/// The context of a reader: its path, and the sink for findings.
pub(crate) struct Cx<'s> {
    pub(crate) sink: &'s mut Sink,
    path: Vec<String>,
    /// The position of the innermost enclosing key.
    key_place: Place,
}

impl<'s> Cx<'s> {
    pub(crate) fn new(sink: &'s mut Sink) -> Self {
        Self {
            sink,
            path: Vec::new(),
            key_place: Place::point(1, 1),
        }
    }

    pub(crate) fn path(&self) -> String {
        self.path.iter().fold(String::new(), |path, key| join(&path, key))
    }

    fn child(&self, key: &str) -> String {
        join(&self.path(), key)
    }

    /// Reads the value under a key.
    pub(crate) fn under<T>(&mut self, key: &str, key_place: Place, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.key_place, key_place);
        self.path.push(key.to_owned());
        let value = read(self);
        self.path.pop();
        self.key_place = outer;
        value
    }

    /// Returns the position to report for a value: a list, a map or an absent value is reported at
    /// its key.
    pub(crate) fn blame(&self, node: &Node) -> Place {
        match &node.kind {
            Kind::Scalar(scalar) if !scalar.text.is_empty() || scalar.style != Style::Plain => node.place,
            _ => self.key_place,
        }
    }

    pub(crate) fn error(&self, code: &'static str, node: &Node, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, self.path(), message).place(self.blame(node))
    }

    /// Reports why there is no value.
    pub(crate) fn refuse<T>(&mut self, diagnostic: Diagnostic) -> Option<T> {
        self.sink.push(diagnostic);
        None
    }

    /// Reports that a value cannot be written so; `problem` names it, as in `invalid duration`.
    pub(crate) fn refuse_text<T>(
        &mut self,
        code: &'static str,
        node: &Node,
        (problem, text): (&str, &str),
        hint: impl Into<String>,
    ) -> Option<T> {
        let message = format!("{problem} {}", quoted(text));
        self.refuse(self.error(code, node, message).hint(hint))
    }

    pub(crate) fn wrong_type<T>(&mut self, node: &Node, wanted: &str) -> Option<T> {
        let message = format!("expected {wanted}, found {}", describe(node));
        self.refuse(self.error("wrong_type", node, message))
    }

    /// Returns the scalar at this node; reports an error if there is none.
    pub(crate) fn scalar<'n>(&mut self, node: &'n Node, wanted: &str) -> Option<&'n Scalar> {
        match &node.kind {
            Kind::Scalar(scalar) => Some(scalar),
            _ => self.wrong_type(node, wanted),
        }
    }

    /// Returns the keys of a section, after checking that it is a map and that each key is known.
    pub(crate) fn fields<'n, S: Section>(&mut self, node: Option<&'n Node>) -> Fields<'n> {
        let Some(node) = node.filter(|node| !node.is_null()) else {
            return Fields::none(true);
        };
        let Kind::Map(entries) = &node.kind else {
            self.wrong_type::<()>(node, "a map of keys and values");
            return Fields::none(false);
        };
        let is_required = |key: &str| S::is_required(key) || (self.path.is_empty() && key == ISSUES);
        let is_missing = |key: &str| is_required(key) && !entries.iter().any(|entry| entry.key == key);
        // A misspelled key rather means one that is not there under its own name: `issuse` beside
        // `issue` is `issues`.
        let is_absent = |name: &&str| !entries.iter().any(|entry| entry.key == *name);
        let absent: Vec<&'static str> = S::KEYS.iter().copied().filter(is_absent).collect();
        let mut misspelled: Vec<&'static str> = Vec::new();
        for entry in entries {
            let key = entry.key.as_str();
            if S::KEYS.contains(&key) || (self.path.is_empty() && key.starts_with("x-")) {
                continue;
            }
            let hint = match S::INSTEAD.iter().find(|(old, _)| *old == key) {
                Some((_, instead)) => Some((*instead).to_owned()),
                None if self.sink.dropped() => None,
                None => did_you_mean(key, absent.iter().copied())
                    .or_else(|| did_you_mean(key, S::KEYS.iter().copied())),
            };
            let closest = hint
                .is_some()
                .then(|| closest(key, absent.iter().copied()))
                .flatten();
            if let Some(required) = closest.filter(|name| is_missing(name)) {
                // One finding: the missing key is there, under another name.
                misspelled.push(required);
                self.sink.add_misspelled(self.child(required));
                let message = format!("unknown key {}, and {} is missing", quoted(key), quoted(required));
                let diagnostic = Diagnostic::error("unknown_key", self.child(key), message);
                self.sink.push(diagnostic.place(entry.key_place).hint_opt(hint));
                continue;
            }
            let is_slip = |name: &&str| hint == did_you_mean(name, [*name]);
            let diagnostic = if S::STRICT || PROTECTING.iter().any(is_slip) {
                let message = format!(
                    "unknown key {}: refused because a misspelled key here could disable a protection",
                    quoted(key)
                );
                Diagnostic::error("unknown_key", self.child(key), message)
            } else {
                let message = format!("unknown key {}: ignored", quoted(key));
                Diagnostic::warning("unknown_key", self.child(key), message)
            };
            self.sink.push(diagnostic.place(entry.key_place).hint_opt(hint));
        }
        Fields {
            entries,
            misspelled,
            is_map: true,
        }
    }

    pub(crate) fn required<T: Decode>(&mut self, fields: &Fields<'_>, key: &str) -> Option<T::Value> {
        match fields.get(key) {
            Some(entry) if !entry.value.is_null() => {
                self.under(key, entry.key_place, |cx| T::decode(&entry.value, cx))
            }
            found if fields.reports_absence(key) => {
                let path = self.child(key);
                let message = match found {
                    Some(_) => format!("{} has no value", quoted(&path)),
                    None => format!("{} is missing", quoted(&path)),
                };
                let place = found.map_or(self.key_place, |entry| entry.key_place);
                self.refuse(Diagnostic::error("missing_key", path, message).place(place))
            }
            _ => None,
        }
    }

    pub(crate) fn optional<T: Decode>(&mut self, fields: &Fields<'_>, key: &str) -> Option<T::Value> {
        let entry = fields.get(key).filter(|entry| !entry.value.is_null())?;
        self.under(key, entry.key_place, |cx| T::decode(&entry.value, cx))
    }

    pub(crate) fn section<S: Section>(&mut self, fields: &Fields<'_>, key: &str) -> S::Value {
        match fields.get(key) {
            Some(entry) => self.under(key, entry.key_place, |cx| S::read(Some(&entry.value), cx)),
            // Missing keys of an absent section are reported at the enclosing section, unless that
            // is invalid itself.
            None if fields.reports_absence(key) => self.under(key, self.key_place, |cx| S::read(None, cx)),
            None => S::read(
                None,
                &mut Cx {
                    sink: &mut Sink::default(),
                    path: Vec::new(),
                    key_place: self.key_place,
                },
            ),
        }
    }
}

/// The entries of a section.
pub(crate) struct Fields<'n> {
    entries: &'n [Entry],
    /// Required keys that are there under another name, which was reported.
    misspelled: Vec<&'static str>,
    /// False if the section is no map, which was reported.
    is_map: bool,
}

impl<'n> Fields<'n> {
    fn none(is_map: bool) -> Self {
        Self {
            entries: &[],
            misspelled: Vec::new(),
            is_map,
        }
    }

    fn get(&self, key: &str) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Returns whether an absent key is to be reported.
    fn reports_absence(&self, key: &str) -> bool {
        self.is_map && !self.misspelled.contains(&key)
    }
}

/// Returns a description of a value, such as ``the number `5` ``.
pub(crate) fn describe(node: &Node) -> String {
    match &node.kind {
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) => "a map".to_owned(),
        Kind::Scalar(scalar) => match scalar.value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => format!("the boolean {}", quoted(&scalar.text)),
            Value::Int(_) | Value::Float(_) => format!("the number {}", quoted(&scalar.text)),
            Value::Text => format!("the string {}", quoted(&scalar.text)),
        },
    }
}

/// A map from user-defined names to values, in file order.
pub(crate) struct Named<T>(PhantomData<T>);

/// The pattern of names, which become parts of file names.
pub(crate) const NAME_PATTERN: &str = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$";

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && !text.starts_with('.')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

impl<T: Decode> Decode for Named<T> {
    type Value = Vec<(String, T::Value)>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self::Value> {
        let Kind::Map(entries) = &node.kind else {
            return cx.wrong_type(node, "a map from names to settings");
        };
        let mut named = Vec::with_capacity(entries.len());
        for entry in entries {
            cx.under(&entry.key, entry.key_place, |cx| {
                if !is_name(&entry.key) {
                    let diagnostic = Diagnostic::error(
                        "bad_name",
                        cx.path(),
                        format!("invalid name {}", quoted(&entry.key)),
                    )
                    .place(entry.key_place)
                    .hint("use 1 to 64 of the characters `A-Z a-z 0-9 . _ -`, without a dot at the start");
                    cx.sink.push(diagnostic);
                }
                if let Some(value) = T::decode(&entry.value, cx) {
                    named.push((entry.key.clone(), value));
                }
            });
        }
        Some(named)
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let value = T::schema(generator);
        schemars::json_schema!({
            "type": "object",
            "propertyNames": { "pattern": NAME_PATTERN },
            "additionalProperties": value,
        })
    }
}

/// Returns the error for the second of two equal keys.
pub(crate) fn twice(cx: &Cx<'_>, key: &str, place: Place, first: Place) -> Diagnostic {
    Diagnostic::error(
        "duplicate_key",
        cx.path(),
        format!("duplicate key {}", quoted(key)),
    )
    .place(place)
    .related(Spot {
        line: first.line,
        column: first.column,
        message: "first defined here".to_owned(),
    })
    .hint("remove one of them")
}
