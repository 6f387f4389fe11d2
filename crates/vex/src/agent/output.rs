//! A final answer of a given form.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// How many mistakes are told at once.
const MAX_ERRORS: usize = 8;

/// The form that the final answer must have.
#[derive(Debug)]
pub struct OutputSchema {
    schema: Value,
    validator: jsonschema::Validator,
}

/// Why there is no such form.
#[derive(Debug, thiserror::Error)]
pub enum OutputSchemaError {
    /// The file cannot be read.
    #[error("cannot read the output schema {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is no JSON.
    #[error("the output schema {path} is no JSON", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: serde_json::Error,
    },
    /// It is no JSON Schema.
    #[error("this is no JSON Schema that vex can use: {0}")]
    Schema(String),
}

impl OutputSchema {
    /// Reads it from a file.
    ///
    /// # Errors
    /// When the file cannot be read or holds no JSON Schema.
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

    /// Takes a schema.
    ///
    /// # Errors
    /// When it is none.
    pub fn new(schema: Value) -> Result<Self, OutputSchemaError> {
        let validator = jsonschema::validator_for(&schema)
            .map_err(|error| OutputSchemaError::Schema(error.to_string()))?;
        Ok(Self { schema, validator })
    }

    /// The schema, for providers that can be told.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// The answer, where it fits.
    ///
    /// # Errors
    /// What is wrong with it, for the model.
    pub fn check(&self, answer: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(json_of(answer))
            .map_err(|error| format!("it is not one JSON value and nothing else: {error}"))?;
        let wrong: Vec<String> = self
            .validator
            .iter_errors(&value)
            .take(MAX_ERRORS)
            .map(|error| match error.instance_path().as_str() {
                "" => error.to_string(),
                path => format!("{path}: {error}"),
            })
            .collect();
        if wrong.is_empty() {
            Ok(value)
        } else {
            Err(wrong.join("; "))
        }
    }
}

/// The JSON of an answer: all of it, or the one fenced block that it is.
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
        assert_eq!(wrong, "/count: \"3\" is not of type \"integer\"");
        let wrong = schema.check("{}").unwrap_err();
        assert!(wrong.contains("required") && wrong.contains("count"), "{wrong}");
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
