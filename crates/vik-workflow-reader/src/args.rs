//! `agents.N.args`: extra flags of an agent.

use std::collections::HashMap;

use schemars::{Schema, SchemaGenerator, json_schema};
use vik_core::workflow::ArgValue;
use vik_yaml::{Diagnostic, Kind, Node, Style, Value};

use super::decode::{Cx, Decode, describe, twice};
use super::text::quoted;
use super::values::{no_nul, written};

/// `agents.N.args`: flags in file order, without their dashes.
pub(crate) struct Args;

impl Args {
    fn value(node: &Node, cx: &mut Cx<'_>) -> Option<ArgValue> {
        match &node.kind {
            Kind::Map(_) => cx.refuse(
                cx.error("bad_arg", node, "the value of a flag cannot be a map")
                    .hint("write a string, a number, a boolean, or a list of these"),
            ),
            Kind::List(items) => {
                let items: Vec<_> = items.iter().map(|item| written(item, cx, "bad_arg")).collect();
                items.into_iter().collect::<Option<Vec<_>>>().map(ArgValue::List)
            }
            Kind::Scalar(scalar) => match scalar.value {
                Value::Null => cx.refuse(
                    cx.error("bad_arg", node, "the flag has no value")
                        .hint("write `true` for a flag without a value, or `\"\"` for an empty string"),
                ),
                Value::Bool(switch) => Some(ArgValue::Switch(switch)),
                _ => {
                    let text = scalar.text.as_str();
                    if scalar.style == Style::Plain && is_boolean_of_yaml_1_1(text) {
                        let diagnostic = Diagnostic::warning(
                            "bool_word",
                            cx.path(),
                            format!(
                                "{} is a string in YAML 1.2 and is passed as the value of the flag",
                                quoted(text)
                            ),
                        )
                        .place(node.place)
                        .hint("write `true` for a flag without a value, or quote the string");
                        cx.sink.push(diagnostic);
                    }
                    no_nul(text, node, cx)?;
                    Some(ArgValue::Text(text.to_owned()))
                }
            },
        }
    }
}

fn is_boolean_of_yaml_1_1(text: &str) -> bool {
    ["yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|name| text.eq_ignore_ascii_case(name))
}

impl Decode for Args {
    type Value = Vec<(String, ArgValue)>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<(String, ArgValue)>> {
        let Kind::Map(entries) = &node.kind else {
            return cx.refuse(
                cx.error(
                    "wrong_type",
                    node,
                    format!("expected a map of flags, found {}", describe(node)),
                )
                .hint("write each flag as `name: value`, or as `name: true` if it has no value"),
            );
        };
        let mut args = Vec::with_capacity(entries.len());
        let mut seen = HashMap::new();
        for entry in entries {
            cx.under(&entry.key, entry.key_place, |cx| {
                let name = entry.key.trim_start_matches('-');
                let is_fine = name.starts_with(|c: char| c.is_ascii_alphanumeric())
                    && name
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'));
                let finding = if !is_fine {
                    Some(
                        Diagnostic::error(
                            "bad_arg",
                            cx.path(),
                            format!("invalid flag name {}", quoted(&entry.key)),
                        )
                        .hint(
                            "a flag name contains letters, digits and `- _ . :`; the value follows the colon",
                        ),
                    )
                } else if let Some(first) = seen.insert(name, entry.key_place) {
                    Some(twice(cx, name, entry.key_place, first))
                } else if name.len() < entry.key.len() {
                    Some(
                        Diagnostic::warning(
                            "dashed_arg",
                            cx.path(),
                            format!("the flag {} is written with dashes", quoted(&entry.key)),
                        )
                        .hint(format!("write {}: Vik adds the dashes", quoted(name))),
                    )
                } else {
                    None
                };
                if let Some(finding) = finding {
                    cx.sink.push(finding.place(entry.key_place));
                }
                if let Some(value) = Self::value(&entry.value, cx) {
                    args.push((name.to_owned(), value));
                }
            });
        }
        Some(args)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let scalar = serde_json::json!({ "type": ["string", "number", "boolean"] });
        json_schema!({
            "type": "object",
            "additionalProperties": { "anyOf": [scalar, { "type": "array", "items": scalar }] },
        })
    }

    fn as_written(default: &Self::Value) -> Option<serde_json::Value> {
        let args = default
            .iter()
            .map(|(name, value)| Some((name.clone(), serde_json::to_value(value).ok()?)));
        args.collect()
    }
}
