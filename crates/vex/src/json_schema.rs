//! JSON Schema: validates arguments of tools and final answers.

use std::error::Error;
use std::fmt;

use boon::{Compiler, ErrorKind, SchemaIndex, Schemas, UrlLoader, ValidationError};
use serde_json::Value;

/// The address of the schema itself, for its references.
const ADDRESS: &str = "schema:///";
/// The address of a schema that is part of this program. boon compares no schema of this host with
/// its meta-schema, and so does not compile the meta-schemas of all drafts for it first.
const BUILT_IN: &str = "https://json-schema.org/vex";

/// A compiled schema. Without `$schema` it is of draft 2020-12.
///
/// ```
/// use serde_json::json;
/// use vex::json_schema::JsonSchema;
///
/// let schema = JsonSchema::new(&json!({"properties": {"count": {"type": "integer"}}})).unwrap();
/// assert!(schema.violations(&json!({"count": 3})).is_empty());
/// let violations = schema.violations(&json!({"count": "3"}));
/// assert_eq!(violations[0].path, "/count");
/// assert_eq!(violations[0].message, "want integer, but got string");
/// ```
pub struct JsonSchema {
    schemas: Schemas,
    index: SchemaIndex,
}

/// A place at which a value does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The JSON pointer of the place; empty for the whole value.
    pub path: String,
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// Refuses references to other documents: a schema must not read files or addresses.
struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn Error>> {
        Err(format!("the schema refers to {url}; only references inside of it are followed").into())
    }
}

impl JsonSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// If it is not a JSON Schema, uses look-around in a regular expression, or refers to another
    /// document.
    pub fn new(schema: &Value) -> Result<Self, String> {
        Self::compile(ADDRESS, schema)
    }

    /// Compiles a schema that is part of this program: [`JsonSchema::new`] would accept it. This is
    /// far cheaper.
    ///
    /// # Errors
    /// As [`JsonSchema::new`], but not every mistake is found.
    pub(crate) fn built_in(schema: &Value) -> Result<Self, String> {
        Self::compile(BUILT_IN, schema)
    }

    fn compile(address: &str, schema: &Value) -> Result<Self, String> {
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.use_loader(Box::new(NoLoader));
        compiler
            .add_resource(address, schema.clone())
            .map_err(|error| reason(&error))?;
        let index = compiler
            .compile(address, &mut schemas)
            .map_err(|error| reason(&error))?;
        Ok(Self { schemas, index })
    }

    /// Returns all places at which a value does not fit, in the order of the schema's keywords.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        let mut violations = Vec::new();
        if let Err(error) = self.schemas.validate(value, self.index) {
            collect(&error, &mut violations);
        }
        violations
    }
}

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchema").finish_non_exhaustive()
    }
}

fn reason(error: &boon::CompileError) -> String {
    match error {
        boon::CompileError::ValidationError { src, .. } => {
            let mut violations = Vec::new();
            collect(src, &mut violations);
            let texts: Vec<_> = violations.iter().map(Violation::to_string).collect();
            texts.join("; ")
        }
        boon::CompileError::LoadUrlError { src, .. } => src.to_string(),
        error => error.to_string().replace(ADDRESS, ""),
    }
}

fn collect(error: &ValidationError<'_, '_>, violations: &mut Vec<Violation>) {
    let is_choice = matches!(error.kind, ErrorKind::AnyOf | ErrorKind::OneOf(None));
    if !is_choice && !error.causes.is_empty() {
        error.causes.iter().for_each(|cause| collect(cause, violations));
        return;
    }
    let mut message = error.kind.to_string();
    if is_choice {
        let mut inner = Vec::new();
        error.causes.iter().for_each(|cause| collect(cause, &mut inner));
        let texts: Vec<String> = inner.into_iter().map(|violation| violation.message).collect();
        message = format!("fits none of the alternatives ({})", texts.join("; "));
    }
    violations.push(Violation {
        path: error.instance_location.to_string(),
        message,
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn violations(schema: &Value, value: &Value) -> Vec<String> {
        let violations = JsonSchema::new(schema).unwrap().violations(value);
        violations.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn violations_name_the_place_and_the_rule() {
        let schema = json!({
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"$ref": "#/$defs/count"},
                "b": {"enum": ["x", "y"]},
                "c": {"anyOf": [{"type": "string"}, {"type": "null"}]}
            },
            "additionalProperties": false,
            "$defs": {"count": {"type": "integer", "minimum": 1}}
        });
        assert_eq!(
            violations(&schema, &json!({"a": 0, "b": "z", "c": 1, "d/e": 1})),
            [
                "/a: must be >=1, but got 0",
                "/b: value must be one of 'x', 'y'",
                "/c: fits none of the alternatives (want string, but got number; want null, but got number)",
                "additionalProperties 'd/e' not allowed"
            ]
        );
        assert_eq!(
            violations(&json!({"required": ["a"]}), &json!({})),
            ["missing properties 'a'"]
        );
    }

    #[test]
    fn schema_reads_no_other_document() {
        for reference in ["file:///etc/passwd", "https://example.com/s.json", "other.json"] {
            let error = JsonSchema::new(&json!({"$ref": reference})).unwrap_err();
            assert!(error.contains("only references inside of it"), "{error}");
        }
    }

    #[test]
    fn schema_follows_references_to_itself_and_to_known_drafts() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "https://example.com/answer.json",
            "properties": {"a": {"$ref": "https://example.com/answer.json#/definitions/a"}},
            "definitions": {"a": {"type": "string"}}
        });
        assert_eq!(
            violations(&schema, &json!({"a": 1})),
            ["/a: want string, but got number"]
        );
    }

    #[test]
    fn built_in_schema_is_not_compared_with_its_meta_schema() {
        let wrong = json!({"minLength": "3"});
        assert!(JsonSchema::new(&wrong).is_err() && JsonSchema::built_in(&wrong).is_ok());
    }

    #[test]
    fn schema_errors_name_the_place() {
        let error = JsonSchema::new(&json!({"properties": {"a": {"type": "no such type"}}})).unwrap_err();
        assert!(error.starts_with("/properties/a/type: "), "{error}");
        let error = JsonSchema::new(&json!({"pattern": "(?=a)b"})).unwrap_err();
        assert!(error.contains("(?=a)b"), "{error}");
        assert!(JsonSchema::new(&json!(3)).is_err());
    }
}
