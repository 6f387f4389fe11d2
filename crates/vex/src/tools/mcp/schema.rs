//! The schema of a tool's arguments, as a server sends it: only one that providers accept is used.

mod expansion;

use serde_json::{Value, json};

use self::expansion::Expansion;
use crate::json_schema::JsonSchema;

/// The maximum length of a schema, in bytes.
pub(super) const MAX_SCHEMA: usize = 16 * 1024;
/// The maximum number of values in a schema whose references are replaced by their targets.
const MAX_EXPANDED: usize = 20_000;

/// A schema that providers accept.
#[derive(Debug)]
pub(super) struct ToolSchema {
    pub(super) json: Value,
    /// Whether it contains itself. Validating a value can then take exponential time in its depth.
    pub(super) is_recursive: bool,
}

/// Returns the schema with all parts that providers require: `{"type": "object"}` is complete for
/// servers, but providers refuse a request with a schema without `properties`. One that is longer
/// than [`MAX_SCHEMA`] is absent.
///
/// # Errors
/// If no provider would accept it. The text is the reason.
pub(super) fn completed(schema: Option<Value>) -> Result<ToolSchema, String> {
    let mut schema = schema.ok_or("the schema of its arguments is longer than 16 KiB")?;
    if schema["type"] != "object" {
        return Err("the schema of its arguments is not of the type `object`".to_owned());
    }
    if schema["properties"].is_null() {
        schema["properties"] = json!({});
    }
    let expansion = Expansion::of(&schema)?;
    if expansion.size > MAX_EXPANDED {
        return Err("the schema of its arguments is too large with its references".to_owned());
    }
    // A schema whose regular expressions use look-around is correct, but cannot be compiled here.
    JsonSchema::new(&schema)
        .or_else(|error| JsonSchema::new(&without_patterns(&schema)).map_err(|_| error))
        .map_err(|error| format!("the schema of its arguments is wrong: {error}"))?;
    Ok(ToolSchema {
        json: schema,
        is_recursive: expansion.is_recursive,
    })
}

/// Returns a schema without regular expressions.
fn without_patterns(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(key, _)| !matches!(key.as_str(), "pattern" | "patternProperties"));
            kept.map(|(key, value)| (key.clone(), without_patterns(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(without_patterns).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(schema: Value) -> Result<Value, String> {
        completed(Some(schema)).map(|schema| schema.json)
    }

    #[test]
    fn schema_gets_the_properties_that_providers_require() {
        let schema = json(json!({"type": "object"})).unwrap();
        assert_eq!(schema, json!({"type": "object", "properties": {}}));
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        assert_eq!(json(schema.clone()), Ok(schema));
    }

    #[test]
    fn schema_that_providers_refuse_is_refused() {
        for (schema, reason) in [
            (json!({}), "is not of the type `object`"),
            (json!({"type": "array"}), "is not of the type `object`"),
            (json!({"type": ["object", "null"]}), "is not of the type `object`"),
            (
                json!({"type": "object", "properties": []}),
                "is wrong: /properties",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "text"}}}),
                "is wrong: /properties/a/type",
            ),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}}),
                "does not follow: #/$defs/missing",
            ),
        ] {
            let error = json(schema.clone()).unwrap_err();
            assert!(error.contains(reason), "{schema}: {error}");
        }
    }

    #[test]
    fn schema_with_look_around_is_accepted() {
        for draft in [
            "https://json-schema.org/draft/2020-12/schema",
            "http://json-schema.org/draft-07/schema#",
        ] {
            let schema =
                json!({"$schema": draft, "type": "object", "properties": {"a": {"pattern": "^(?!x)"}}});
            assert_eq!(json(schema.clone()), Ok(schema));
        }
    }
}
