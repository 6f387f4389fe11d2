//! From the tree of a file to typed sections, and from the same types to the JSON Schema.
//!
//! [`section!`] makes, from one list of keys, the struct, its reader and its schema: what the editor offers and what
//! the reader takes cannot drift apart. A reader never stops at a mistake: it reports it and reads on.

use schemars::{Schema, SchemaGenerator};
use serde_json::json;

use super::diagnostic::{Diagnostic, Place, Sink, Spot};
use super::text::{did_you_mean, quoted};
use super::yaml::{Entry, Kind, Node, Scalar, Style, Value};
use crate::duration::Span;

/// A value that can stand under a key.
pub(crate) trait Decode: Sized {
    /// Reads it; when that fails, says so and gives `None`.
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self>;
    /// Its JSON Schema.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

/// A map with known keys.
pub(crate) trait Section: Sized {
    /// Its keys.
    const KEYS: &'static [&'static str];
    /// Keys that come with a later version, each with its default as JSON.
    const LATER: &'static [(&'static str, &'static str)];
    /// What people write instead of a key, and what they should write.
    const INSTEAD: &'static [(&'static str, &'static str)];
    /// Whether one of its keys must be written.
    fn has_required() -> bool;
    /// Reads it; an absent section is read as an empty one.
    fn read(node: Option<&Node>, cx: &mut Cx<'_>) -> Self;
    /// Its JSON Schema.
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

/// Where the reader stands, and where its findings go.
pub(crate) struct Cx<'s> {
    pub(crate) sink: &'s mut Sink,
    path: Vec<String>,
    /// The place of the innermost key around.
    key_place: Place,
}

/// The longest part of a path that is kept, in characters: keys can be as long as the file.
const MAX_SEGMENT: usize = 80;

/// Puts a dotted path together.
pub(crate) fn join(parent: &str, key: &str) -> String {
    let key = key
        .char_indices()
        .nth(MAX_SEGMENT)
        .map_or(key, |(end, _)| &key[..end]);
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
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

    /// Reads what stands under a key.
    pub(crate) fn under<T>(&mut self, key: &str, key_place: Place, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.key_place, key_place);
        self.path.push(key.to_owned());
        let value = read(self);
        self.path.pop();
        self.key_place = outer;
        value
    }

    /// The place to show for a value: a list, a map or nothing at all is best shown by its key.
    pub(crate) fn blame(&self, node: &Node) -> Place {
        match &node.kind {
            Kind::Scalar(scalar) if !scalar.text.is_empty() || scalar.style != Style::Plain => node.place,
            _ => self.key_place,
        }
    }

    pub(crate) fn error(&self, code: &'static str, node: &Node, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, self.path(), message).place(self.blame(node))
    }

    pub(crate) fn wrong_type(&mut self, node: &Node, wanted: &str) {
        let diagnostic = self.error(
            "wrong_type",
            node,
            format!("this is {}, not {wanted}", describe(node)),
        );
        self.sink.push(diagnostic);
    }

    /// The scalar at this node; says so where there is none.
    pub(crate) fn scalar<'n>(&mut self, node: &'n Node, wanted: &str) -> Option<&'n Scalar> {
        match &node.kind {
            Kind::Scalar(scalar) => Some(scalar),
            _ => {
                self.wrong_type(node, wanted);
                None
            }
        }
    }

    /// The keys of a section: checks that it is a map and that each key is known.
    pub(crate) fn fields<'n, S: Section>(&mut self, node: Option<&'n Node>) -> Fields<'n> {
        let entries = match node.map(|node| (node, &node.kind)) {
            None => {
                return Fields {
                    entries: &[],
                    is_map: true,
                };
            }
            Some((node, _)) if node.is_null() => {
                return Fields {
                    entries: &[],
                    is_map: true,
                };
            }
            Some((_, Kind::Map(entries))) => entries.as_slice(),
            Some((node, _)) => {
                self.wrong_type(node, "a map of keys and values");
                return Fields {
                    entries: &[],
                    is_map: false,
                };
            }
        };
        for entry in entries {
            let key = entry.key.as_str();
            if S::KEYS.contains(&key) || (self.path.is_empty() && key.starts_with("x-")) {
                continue;
            }
            if let Some((_, default)) = S::LATER.iter().find(|(later, _)| *later == key) {
                self.not_yet(entry, default);
                continue;
            }
            let hint = match S::INSTEAD.iter().find(|(old, _)| *old == key) {
                Some((_, instead)) => Some((*instead).to_owned()),
                None if self.sink.dropped() => None,
                None => did_you_mean(key, S::KEYS.iter().copied()),
            };
            let diagnostic = Diagnostic::warning(
                "unknown_key",
                self.child(key),
                format!("the key {} is unknown and ignored", quoted(key)),
            )
            .place(entry.key_place)
            .hint_opt(hint);
            self.sink.push(diagnostic);
        }
        Fields {
            entries,
            is_map: true,
        }
    }

    /// A key of a later version: harmless when it says what holds anyway.
    fn not_yet(&mut self, entry: &Entry, default: &str) {
        let default: serde_json::Value = serde_json::from_str(default).unwrap_or_default();
        let path = self.child(&entry.key);
        let key = quoted(&path);
        let diagnostic = if equals(&entry.value, &default) {
            Diagnostic::warning(
                "not_yet",
                path,
                format!("{key} comes with a later version of Vik"),
            )
            .hint("the value is the default and changes nothing")
        } else {
            Diagnostic::error(
                "not_yet",
                path,
                format!("{key} comes with a later version of Vik"),
            )
            .hint("remove it: this version would not do what it says")
        };
        self.sink.push(diagnostic.place(entry.key_place));
    }

    pub(crate) fn required<T: Decode>(&mut self, fields: &Fields<'_>, key: &str) -> Option<T> {
        match fields.get(key) {
            Some(entry) if !entry.value.is_null() => {
                self.under(key, entry.key_place, |cx| T::decode(&entry.value, cx))
            }
            found if fields.is_map => {
                let path = self.child(key);
                let message = match found {
                    Some(_) => format!("{} has no value", quoted(&path)),
                    None => format!("{} is missing", quoted(&path)),
                };
                let place = found.map_or(self.key_place, |entry| entry.key_place);
                let diagnostic = Diagnostic::error("missing_key", path, message).place(place);
                self.sink.push(diagnostic);
                None
            }
            _ => None,
        }
    }

    pub(crate) fn optional<T: Decode>(&mut self, fields: &Fields<'_>, key: &str) -> Option<T> {
        let entry = fields.get(key).filter(|entry| !entry.value.is_null())?;
        self.under(key, entry.key_place, |cx| T::decode(&entry.value, cx))
    }

    pub(crate) fn section<S: Section>(&mut self, fields: &Fields<'_>, key: &str) -> S {
        match fields.get(key) {
            Some(entry) => self.under(key, entry.key_place, |cx| S::read(Some(&entry.value), cx)),
            // What an absent section lacks is shown at the section around it, unless that is broken itself.
            None if fields.is_map => self.under(key, self.key_place, |cx| S::read(None, cx)),
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
    /// False where the section is no map at all, which was already said.
    is_map: bool,
}

impl<'n> Fields<'n> {
    fn get(&self, key: &str) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

/// A value in words, such as ``the number `5` ``.
pub(crate) fn describe(node: &Node) -> String {
    match &node.kind {
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) => "a map".to_owned(),
        Kind::Scalar(scalar) => match scalar.value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => format!("the boolean {}", quoted(&scalar.text)),
            Value::Int(_) | Value::Float(_) => format!("the number {}", quoted(&scalar.text)),
            Value::Text => format!("the text {}", quoted(&scalar.text)),
        },
    }
}

/// Whether a written value says the same as a default.
fn equals(node: &Node, default: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    if node.is_null() {
        // Nothing written is nothing changed.
        return true;
    }
    match (&node.kind, default) {
        (Kind::Map(entries), Json::Object(defaults)) => entries
            .iter()
            .all(|entry| defaults.get(&entry.key).is_some_and(|d| equals(&entry.value, d))),
        (Kind::List(items), Json::Array(defaults)) => {
            items.len() == defaults.len() && items.iter().zip(defaults).all(|(item, d)| equals(item, d))
        }
        (Kind::Scalar(scalar), Json::Bool(default)) => scalar.value == Value::Bool(*default),
        (Kind::Scalar(scalar), Json::Number(default)) => match scalar.value {
            Value::Int(number) => default.as_i64().is_some_and(|d| number == i128::from(d)),
            Value::Float(number) => default.as_f64() == Some(number),
            _ => false,
        },
        (Kind::Scalar(scalar), Json::String(default)) => {
            scalar.text == *default
                || matches!((scalar.text.parse::<Span>(), default.parse::<Span>()), (Ok(a), Ok(b)) if a == b)
        }
        _ => false,
    }
}

/// A map from names that users choose to values, in file order.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) Vec<(String, T)>);

/// What a name may be: it becomes a part of file names.
pub(crate) const NAME_PATTERN: &str = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$";

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && !text.starts_with('.')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

impl<T: Decode> Decode for Named<T> {
    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        let Kind::Map(entries) = &node.kind else {
            cx.wrong_type(node, "a map from names to settings");
            return None;
        };
        let mut named = Vec::with_capacity(entries.len());
        for entry in entries {
            cx.under(&entry.key, entry.key_place, |cx| {
                if !is_name(&entry.key) {
                    let diagnostic = Diagnostic::error(
                        "bad_name",
                        cx.path(),
                        format!("{} cannot be a name here", quoted(&entry.key)),
                    )
                    .place(entry.key_place)
                    .hint("a name has 1 to 64 of the characters `A-Z a-z 0-9 . _ -` and does not begin with a dot");
                    cx.sink.push(diagnostic);
                }
                if let Some(value) = T::decode(&entry.value, cx) {
                    named.push((entry.key.clone(), value));
                }
            });
        }
        Some(Self(named))
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

/// The second of two keys that mean the same.
pub(crate) fn twice(cx: &Cx<'_>, key: &str, place: Place, first: Place) -> Diagnostic {
    Diagnostic::error(
        "duplicate_key",
        cx.path(),
        format!("{} is written twice in this map", quoted(key)),
    )
    .place(place)
    .related(Spot {
        line: first.line,
        column: first.column,
        message: "first written here".to_owned(),
    })
    .hint("remove one of them")
}

/// Lets a property be null too: an empty `key:` says the same as no key.
pub(crate) fn nullable(schema: Schema) -> Schema {
    let mut value = schema.to_value();
    if let Some(object) = value.as_object_mut() {
        let plain = object
            .get("type")
            .and_then(|kind| kind.as_str())
            .map(str::to_owned);
        if let Some(kind) = plain
            && !object.contains_key("enum")
        {
            object.insert("type".to_owned(), json!([kind, "null"]));
            return value.try_into().unwrap_or_default();
        }
    }
    schemars::json_schema!({ "anyOf": [value, { "type": "null" }] })
}

/// The lines of a doc comment as one.
pub(crate) fn prose(doc: &[&str]) -> String {
    doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// One property of a section, as the macro collects it.
pub(crate) fn property(
    properties: &mut serde_json::Map<String, serde_json::Value>,
    key: &str,
    doc: &[&str],
    schema: Schema,
    default: Option<serde_json::Value>,
) {
    let mut value = schema.to_value();
    // A reference may have neighbours in draft 2020-12.
    if let Some(object) = value.as_object_mut() {
        let mut whole = serde_json::Map::new();
        whole.insert("description".to_owned(), prose(doc).into());
        if let Some(default) = default {
            whole.insert("default".to_owned(), default);
        }
        for (name, inner) in std::mem::take(object) {
            whole.entry(name).or_insert(inner);
        }
        properties.insert(key.to_owned(), whole.into());
    }
}

/// Makes a section: struct, reader and schema. The modes of a field:
/// `required` (an `Option`: `None` only after an error), `optional` (an `Option`), `defaults` (a value),
/// `section` (another section; absent is empty).
macro_rules! section {
    (
        $(#[doc = $doc:literal])+
        struct $name:ident;
        $( $(#[doc = $fdoc:literal])+ $key:literal $field:ident: $mode:ident $ty:ty $(= $default:expr)?; )+
        $( later { $($later:literal = $later_default:literal),+ $(,)? } )?
        $( instead { $($old:literal => $instead:literal),+ $(,)? } )?
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug)]
        pub(crate) struct $name {
            $( $(#[doc = $fdoc])+ pub(crate) $field: section!(@type $mode $ty), )+
        }

        impl $crate::workflow::decode::Section for $name {
            const KEYS: &'static [&'static str] = &[$($key),+];
            const LATER: &'static [(&'static str, &'static str)] = &[$($(($later, $later_default)),+)?];
            const INSTEAD: &'static [(&'static str, &'static str)] = &[$($(($old, $instead)),+)?];

            fn has_required() -> bool {
                false $(|| section!(@is_required $mode $ty))+
            }

            fn read(node: Option<&$crate::workflow::yaml::Node>, cx: &mut $crate::workflow::decode::Cx<'_>) -> Self {
                let fields = cx.fields::<Self>(node);
                Self { $( $field: section!(@read $mode $ty, cx, fields, $key $(, $default)?), )+ }
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                use $crate::workflow::decode::property;
                let mut properties = serde_json::Map::new();
                let mut required: Vec<&str> = Vec::new();
                $(
                    let schema = section!(@schema $mode $ty, generator);
                    let default = section!(@default $mode $ty $(, $default)?);
                    property(&mut properties, $key, &[$($fdoc),+], schema, default);
                    if section!(@is_required $mode $ty) {
                        required.push($key);
                    }
                )+
                let mut schema = schemars::json_schema!({
                    "description": $crate::workflow::decode::prose(&[$($doc),+]),
                    "type": "object",
                    "properties": properties,
                    "additionalProperties": false,
                });
                if !required.is_empty() {
                    schema.insert("required".to_owned(), serde_json::json!(required));
                }
                schema
            }
        }

        impl $crate::workflow::decode::Decode for $name {
            fn decode(node: &$crate::workflow::yaml::Node, cx: &mut $crate::workflow::decode::Cx<'_>) -> Option<Self> {
                Some(<Self as $crate::workflow::decode::Section>::read(Some(node), cx))
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <Self as $crate::workflow::decode::Section>::schema(generator)
            }
        }
    };

    (@type required $ty:ty) => { Option<$ty> };
    (@type optional $ty:ty) => { Option<$ty> };
    (@type defaults $ty:ty) => { $ty };
    (@type section $ty:ty) => { $ty };

    (@is_required required $ty:ty) => { true };
    (@is_required optional $ty:ty) => { false };
    (@is_required defaults $ty:ty) => { false };
    (@is_required section $ty:ty) => { <$ty as $crate::workflow::decode::Section>::has_required() };

    (@read required $ty:ty, $cx:ident, $fields:ident, $key:literal) => { $cx.required::<$ty>(&$fields, $key) };
    (@read optional $ty:ty, $cx:ident, $fields:ident, $key:literal) => { $cx.optional::<$ty>(&$fields, $key) };
    (@read defaults $ty:ty, $cx:ident, $fields:ident, $key:literal, $default:expr) => {
        $cx.optional::<$ty>(&$fields, $key).unwrap_or_else(|| $default)
    };
    (@read section $ty:ty, $cx:ident, $fields:ident, $key:literal) => { $cx.section::<$ty>(&$fields, $key) };

    (@schema required $ty:ty, $generator:ident) => { <$ty as $crate::workflow::decode::Decode>::schema($generator) };
    (@schema optional $ty:ty, $generator:ident) => {
        $crate::workflow::decode::nullable(<$ty as $crate::workflow::decode::Decode>::schema($generator))
    };
    (@schema defaults $ty:ty, $generator:ident) => {
        $crate::workflow::decode::nullable(<$ty as $crate::workflow::decode::Decode>::schema($generator))
    };
    (@schema section $ty:ty, $generator:ident) => {{
        let schema = <$ty as $crate::workflow::decode::Section>::schema($generator);
        if <$ty as $crate::workflow::decode::Section>::has_required() {
            schema
        } else {
            $crate::workflow::decode::nullable(schema)
        }
    }};

    (@default required $ty:ty) => { None };
    (@default optional $ty:ty) => { None };
    (@default section $ty:ty) => { None };
    (@default defaults $ty:ty, $default:expr) => {{
        let default: $ty = $default;
        serde_json::to_value(&default).ok()
    }};
}
pub(crate) use section;
