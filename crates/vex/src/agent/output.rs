//! A final answer that must fit a JSON Schema.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::json_schema::JsonSchema;

/// How many errors are reported at once.
const MAX_ERRORS: usize = 8;

/// The schema of the final answer.
#[derive(Debug)]
pub struct OutputSchema {
    schema: Value,
    compiled: JsonSchema,
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OutputSchemaError {
    #[error("cannot read the output schema {path}", path = path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("the output schema {path} is not valid JSON", path = path.display())]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    /// The JSON is not a JSON Schema.
    #[error("invalid JSON Schema: {0}")]
    Schema(String),
}

impl OutputSchema {
    /// Reads a schema from a file.
    ///
    /// # Errors
    /// When the file cannot be read or is not a JSON Schema.
    pub fn load(path: &Path) -> Result<Self, OutputSchemaError> {
        let text = std::fs::read_to_string(path).map_err(|source| OutputSchemaError::Read {
            path: path.to_owned(),
            source,
        })?;
        let schema = serde_json::from_str(&text).map_err(|source| OutputSchemaError::Json {
            path: path.to_owned(),
            source,
        })?;
        Self::new(schema)
    }

    /// Compiles a schema.
    ///
    /// # Errors
    /// When it is invalid.
    pub fn new(schema: Value) -> Result<Self, OutputSchemaError> {
        let compiled = JsonSchema::new(&schema).map_err(OutputSchemaError::Schema)?;
        Ok(Self { schema, compiled })
    }

    /// Returns the schema, for providers that support it.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Parses and validates the answer.
    ///
    /// # Errors
    /// The violations, for the model.
    pub fn check(&self, answer: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(json_of(answer))
            .map_err(|error| format!("it is not one JSON value and nothing else: {error}"))?;
        let violations = self.compiled.violations(&value);
        let wrong = violations.iter().take(MAX_ERRORS);
        let wrong: Vec<String> = wrong.map(ToString::to_string).collect();
        if wrong.is_empty() {
            Ok(value)
        } else {
            Err(wrong.join("; "))
        }
    }
}

/// Returns the JSON of an answer: all of it, or the content of the one fence that it consists of.
fn json_of(answer: &str) -> &str {
    let answer = answer.trim();
    let fenced = answer
        .strip_prefix("```")
        .and_then(|body| body.strip_suffix("```"))
        .and_then(|body| body.split_once('\n'))
        .map(|(_, inside)| inside.trim());
    fenced.unwrap_or(answer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> OutputSchema {
        OutputSchema::new(json!({
            "type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}
        }))
        .unwrap()
    }

    #[test]
    fn output_schema_accepts_valid_and_explains_invalid_answers() {
        let schema = schema();
        assert_eq!(schema.check(" {\"count\": 3}\n").unwrap(), json!({"count": 3}));
        assert_eq!(
            schema.check("```json\n{\"count\": 3}\n```").unwrap(),
            json!({"count": 3})
        );
        let wrong = schema.check("{\"count\": \"3\"}").unwrap_err();
        assert_eq!(wrong, "/count: want integer, but got string");
        let wrong = schema.check("{}").unwrap_err();
        assert!(wrong.contains("missing") && wrong.contains("count"), "{wrong}");
        assert!(
            schema
                .check("Here it is: {\"count\": 3}")
                .unwrap_err()
                .contains("nothing else")
        );
        assert!(schema.check("{\"count\": 3} {\"count\": 4}").is_err());
    }

    #[test]
    fn output_schema_rejects_an_invalid_schema() {
        assert!(OutputSchema::new(json!({"type": "no such type"})).is_err());
        let missing = OutputSchema::load(Path::new("/no/such/file"));
        assert!(matches!(missing, Err(OutputSchemaError::Read { .. })));
    }
}
