//! [`section!`]: generates struct, reader and schema from one list of keys.

use schemars::Schema;
use serde_json::json;

/// Allows null for a property, because an empty `key:` is equivalent to an absent one.
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

/// Joins the lines of a doc comment.
pub(crate) fn prose(doc: &[&str]) -> String {
    doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Adds one property of a section to its schema.
pub(crate) fn property(
    properties: &mut serde_json::Map<String, serde_json::Value>,
    key: &str,
    doc: &[&str],
    schema: Schema,
    default: Option<serde_json::Value>,
) {
    let mut value = schema.to_value();
    // A reference may have siblings in draft 2020-12.
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

/// Generates a section: struct, reader and schema. The modes of a field are `required` (an
/// `Option`, `None` only after an error), `optional` (an `Option`), `defaults` (a value) and
/// `section` (another section, empty if absent). With `struct Name: strict;` an unknown key is an
/// error. `struct Name => Type;` reads to a type of the model, which has these fields.
macro_rules! section {
    (
        $(#[doc = $doc:literal])+
        struct $name:ident $(: $strict:ident)?;
        $( $(#[doc = $fdoc:literal])+ $key:literal $field:ident: $mode:ident $ty:ty $(= $default:expr)?; )+
        $( instead $instead:tt )?
    ) => {
        $(#[doc = $doc])+
        pub(crate) struct $name {
            $( $(#[doc = $fdoc])+ pub(crate) $field: section!(@type $mode $ty), )+
        }

        section! {
            @read_to $name;
            $(#[doc = $doc])+
            struct $name $(: $strict)?;
            $( $(#[doc = $fdoc])+ $key $field: $mode $ty $(= $default)?; )+
            $( instead $instead )?
        }
    };

    (
        $(#[doc = $doc:literal])+
        struct $name:ident $(: $strict:ident)? => $target:path;
        $( $(#[doc = $fdoc:literal])+ $key:literal $field:ident: $mode:ident $ty:ty $(= $default:expr)?; )+
        $( instead $instead:tt )?
    ) => {
        $(#[doc = $doc])+
        pub(crate) struct $name;

        section! {
            @read_to $target;
            $(#[doc = $doc])+
            struct $name $(: $strict)?;
            $( $(#[doc = $fdoc])+ $key $field: $mode $ty $(= $default)?; )+
            $( instead $instead )?
        }
    };

    (
        @read_to $target:path;
        $(#[doc = $doc:literal])+
        struct $name:ident $(: $strict:ident)?;
        $( $(#[doc = $fdoc:literal])+ $key:literal $field:ident: $mode:ident $ty:ty $(= $default:expr)?; )+
        $( instead { $($($old:literal)|+ => $instead:literal),+ $(,)? } )?
    ) => {
        impl $crate::decode::Section for $name {
            const STRICT: bool = section!(@strict $($strict)?);
            const KEYS: &'static [&'static str] = &[$($key),+];
            const INSTEAD: &'static [(&'static str, &'static str)] = &[$($($(($old, $instead),)+)+)?];

            fn is_required(key: &str) -> bool {
                match key {
                    $($key => section!(@is_required $mode $ty),)+
                    _ => false,
                }
            }

            fn has_required() -> bool {
                false $(|| section!(@is_required $mode $ty))+
            }

            fn read(node: Option<&vik_yaml::Node>, cx: &mut $crate::decode::Cx<'_>) -> $target {
                let fields = cx.fields::<Self>(node);
                $target { $( $field: section!(@read $mode $ty, cx, fields, $key $(, $default)?), )+ }
            }
        }

        impl $crate::decode::Decode for $name {
            type Value = $target;

            fn decode(node: &vik_yaml::Node, cx: &mut $crate::decode::Cx<'_>) -> Option<$target> {
                Some(<Self as $crate::decode::Section>::read(Some(node), cx))
            }

            fn schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                use $crate::section::property;
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
                    "description": $crate::section::prose(&[$($doc),+]),
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
    };

    (@strict) => { false };
    (@strict strict) => { true };

    (@type required $ty:ty) => { Option<section!(@type defaults $ty)> };
    (@type optional $ty:ty) => { Option<section!(@type defaults $ty)> };
    (@type $mode:ident $ty:ty) => { <$ty as $crate::decode::Decode>::Value };

    (@is_required required $ty:ty) => { true };
    (@is_required section $ty:ty) => { <$ty as $crate::decode::Section>::has_required() };
    (@is_required $mode:ident $ty:ty) => { false };

    (@read required $ty:ty, $cx:ident, $fields:ident, $key:literal) => { $cx.required::<$ty>(&$fields, $key) };
    (@read optional $ty:ty, $cx:ident, $fields:ident, $key:literal) => { $cx.optional::<$ty>(&$fields, $key) };
    (@read defaults $ty:ty, $cx:ident, $fields:ident, $key:literal, $default:expr) => {
        $cx.optional::<$ty>(&$fields, $key).unwrap_or_else(|| $default)
    };
    (@read section $ty:ty, $cx:ident, $fields:ident, $key:literal) => { $cx.section::<$ty>(&$fields, $key) };

    (@schema required $ty:ty, $generator:ident) => { <$ty as $crate::decode::Decode>::schema($generator) };
    (@schema section $ty:ty, $generator:ident) => {{
        let schema = <$ty as $crate::decode::Decode>::schema($generator);
        if <$ty as $crate::decode::Section>::has_required() {
            schema
        } else {
            $crate::section::nullable(schema)
        }
    }};
    (@schema $mode:ident $ty:ty, $generator:ident) => {
        $crate::section::nullable(<$ty as $crate::decode::Decode>::schema($generator))
    };

    (@default defaults $ty:ty, $default:expr) => { <$ty as $crate::decode::Decode>::as_written(&$default) };
    (@default $mode:ident $ty:ty) => { None };
}
pub(crate) use section;
