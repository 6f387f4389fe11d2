//! The size of a schema whose references are replaced by their targets, which bounds the time that
//! it takes to validate a value.

use std::collections::HashMap;

use serde_json::Value;

/// The maximum depth of values and references: each is a call on the stack.
const MAX_DEPTH: usize = 200;

/// A schema whose references are replaced by their targets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expansion {
    /// The number of values in it; a schema that contains itself is counted once there.
    pub(super) size: usize,
    /// Whether it contains itself.
    pub(super) is_recursive: bool,
}

impl Expansion {
    /// Measures a schema, each part of it once.
    ///
    /// # Errors
    /// If a reference is not one to a part of this document. The text is the reason.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut walk = Walk {
            root: schema,
            sizes: HashMap::new(),
            is_recursive: false,
        };
        let size = walk.size(schema, 0)?;
        Ok(Self {
            size,
            is_recursive: walk.is_recursive,
        })
    }
}

struct Walk<'a> {
    root: &'a Value,
    /// The sizes of the values by their addresses; `None` is one that is being measured.
    sizes: HashMap<*const Value, Option<usize>>,
    is_recursive: bool,
}

impl<'a> Walk<'a> {
    fn size(&mut self, value: &'a Value, depth: usize) -> Result<usize, String> {
        if !(value.is_object() || value.is_array()) {
            return Ok(1);
        }
        match self.sizes.insert(value, None) {
            None if depth < MAX_DEPTH => {}
            None => return Err("the references in the schema of its arguments are too deep".to_owned()),
            Some(Some(size)) => {
                self.sizes.insert(value, Some(size));
                return Ok(size);
            }
            Some(None) => {
                self.is_recursive = true;
                return Ok(1);
            }
        }
        let mut size = 1_usize;
        match value {
            Value::Array(items) => {
                for item in items {
                    size = size.saturating_add(self.size(item, depth + 1)?);
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields {
                    size = size.saturating_add(self.size_of_field(key, field, depth + 1)?);
                }
            }
            _ => {}
        }
        self.sizes.insert(value, Some(size));
        Ok(size)
    }

    fn size_of_field(&mut self, key: &str, field: &'a Value, depth: usize) -> Result<usize, String> {
        match (key, field) {
            // They count where they are referred to.
            ("$defs" | "definitions", Value::Object(_)) => Ok(1),
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(target)) => {
                let found = self.target(target)?;
                self.size(found, depth)
            }
            // It would change what references below it mean.
            ("$id", Value::String(_)) if depth > 1 => Err(unknown("$id")),
            ("id", Value::String(_)) if depth > 1 && self.is_draft_4() => Err(unknown("id")),
            _ => self.size(field, depth),
        }
    }

    fn is_draft_4(&self) -> bool {
        let draft = self.root["$schema"].as_str();
        draft.is_some_and(|draft| draft.contains("draft-04"))
    }

    /// Returns the part of the document to which a reference leads.
    fn target(&self, target: &str) -> Result<&'a Value, String> {
        let pointer = target.strip_prefix('#').and_then(decoded);
        let found = pointer.and_then(|pointer| self.root.pointer(&pointer));
        found.ok_or_else(|| unknown(target))
    }
}

/// Returns the text of a percent-encoded fragment.
fn decoded(fragment: &str) -> Option<String> {
    let mut parts = fragment.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, plain) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(plain.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

fn unknown(reference: &str) -> String {
    format!("the schema of its arguments uses a reference that vex does not follow: {reference}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A schema with `levels` definitions that each refer twice to the next one.
    fn fan_out(keyword: &str, levels: usize) -> Value {
        let mut defs = serde_json::Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
            defs.insert(format!("a{level}"), json!({keyword: [next, next]}));
        }
        defs.insert(format!("a{levels}"), json!({"type": "object"}));
        json!({"type": "object", "$ref": "#/$defs/a0", "$defs": defs})
    }

    #[test]
    fn fan_out_of_references_is_measured() {
        for keyword in ["allOf", "anyOf", "oneOf", "prefixItems"] {
            let size = Expansion::of(&fan_out(keyword, 2)).unwrap().size;
            assert_eq!(size, 23, "{keyword}");
            let large = Expansion::of(&fan_out(keyword, 40)).unwrap();
            assert!(large.size > 1 << 40 && !large.is_recursive, "{large:?}");
            let error = Expansion::of(&fan_out(keyword, 100)).unwrap_err();
            assert!(error.contains("too deep"), "{error}");
        }
    }

    #[test]
    fn recursion_is_found() {
        for schema in [
            json!({"properties": {"child": {"$ref": "#"}}}),
            json!({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}),
        ] {
            let expansion = Expansion::of(&schema).unwrap();
            assert!(expansion.is_recursive && expansion.size < 10, "{expansion:?}");
        }
        let shared = json!({"properties": {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}});
        assert!(!Expansion::of(&shared).unwrap().is_recursive);
    }

    #[test]
    fn percent_encoded_references_are_followed() {
        let schema = json!({"items": {"$ref": "#/$defs/List%3CInt%3E"}, "$defs": {"List<Int>": {"items": {"$ref": "#"}}}});
        assert!(Expansion::of(&schema).unwrap().is_recursive);
    }

    #[test]
    fn other_references_are_refused() {
        for reference in [
            "#a",
            "#/$defs/%zz",
            "#/$defs/%6",
            "other",
            "https://json-schema.org/draft/2020-12/schema",
            "#/$defs/b",
        ] {
            let schema = json!({"items": {"$ref": reference}, "$defs": {"a": {"$anchor": "a"}}});
            assert!(Expansion::of(&schema).is_err(), "{reference}");
        }
        assert!(Expansion::of(&json!({"items": {"$id": "b", "$ref": "#/a"}, "a": {}})).is_err());
        let named =
            json!({"$id": "a", "properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}}});
        assert!(Expansion::of(&named).is_ok());
    }
}
