//! Converts the input of a model to the arguments of a tool: other names, forms of paths and
//! numbers in quotes are corrected first, then the JSON Schema of the tool validates. Nothing is
//! guessed: each correction preserves the value.

use std::path::{Component, Path};

use serde_json::{Map, Value};
use tool_call_repair::snake_case;

use super::definition::{Need, ToolDefinition};
use super::root::Root;
use super::tool::Entry;
use crate::json_schema::JsonSchema;

/// Comments of models on a call beside its arguments; all tools ignore them.
const REMARKS: [&str; 6] = [
    "description",
    "explanation",
    "reason",
    "reasoning",
    "thought",
    "comment",
];
/// The maximum number of reported mistakes.
const MAX_MISTAKES: usize = 4;

/// Corrects the arguments, then validates them. The error is for the model.
pub(super) fn prepare(
    entry: &Entry,
    definition: &ToolDefinition,
    root: &Root,
    input: &Value,
) -> Result<Value, String> {
    let input = if entry.need == Need::Server {
        foreign(entry, definition, input)?
    } else {
        normalise(entry, definition, root, input)?
    };
    validate(entry, definition, &input)?;
    Ok(input)
}

/// Corrects arguments of a tool that only its server knows: types and nulls, nothing else.
fn foreign(entry: &Entry, definition: &ToolDefinition, input: &Value) -> Result<Value, String> {
    let mut given = match input {
        Value::Null => Value::Object(Map::new()),
        given => given.clone(),
    };
    coerce(&mut given, &definition.input_schema);
    let Value::Object(arguments) = &mut given else {
        return Err(not_an_object(entry, &given));
    };
    let required = definition.input_schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let properties = &definition.input_schema["properties"];
    // Some models fill in all arguments.
    arguments.retain(|name, value| !value.is_null() || is_required(name) || takes_null(&properties[name]));
    Ok(given)
}

/// Returns whether null may be a value of this schema, as far as its type shows.
fn takes_null(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == "null",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "null"),
        _ => true,
    }
}

fn not_an_object(entry: &Entry, given: &Value) -> String {
    format!(
        "the arguments of {} must be an object, not {}",
        entry.name,
        brief(&given.to_string(), 60)
    )
}

fn normalise(
    entry: &Entry,
    definition: &ToolDefinition,
    root: &Root,
    input: &Value,
) -> Result<Value, String> {
    let schema = &definition.input_schema;
    let mut given = input.clone();
    coerce(&mut given, schema);
    let given = match given {
        Value::Object(given) => given,
        Value::Null => Map::new(),
        other => {
            return Err(not_an_object(entry, &other));
        }
    };
    let mut arguments = Map::new();
    for (written, value) in given {
        // A null means the same as a missing value.
        if value.is_null() {
            continue;
        }
        let Some(name) = argument_name(entry, schema, &written) else {
            if !REMARKS.contains(&written.as_str()) {
                arguments.insert(written, value);
            }
            continue;
        };
        match arguments.get(&name) {
            Some(earlier) if *earlier != value => {
                return Err(format!("the argument {name:?} of {} is given twice", entry.name));
            }
            _ => drop(arguments.insert(name, value)),
        }
    }
    // So does an empty text, if no value is required: some models fill in all arguments.
    let required = schema["required"].as_array();
    let required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    arguments.retain(|name, value| value != "" || required(name));
    (entry.mend)(&mut arguments);
    for (name, value) in &mut arguments {
        if let Some(schema) = schema["properties"].get(name) {
            coerce(value, schema);
        }
        if entry.paths.contains(&name.as_str()) {
            tidy_paths(value, root);
        }
    }
    Ok(Value::Object(arguments))
}

/// Returns the name of an argument in the schema; `None` if it is unknown.
fn argument_name(entry: &Entry, schema: &Value, written: &str) -> Option<String> {
    let properties = &schema["properties"];
    let snake = snake_case(written);
    if properties.get(written).is_some() {
        return Some(written.to_owned());
    }
    if properties.get(&snake).is_some() {
        return Some(snake);
    }
    let known = entry.arguments.iter().find(|(other, _)| *other == snake);
    known.map(|(_, name)| (*name).to_owned())
}

/// Converts a value to the type in its schema, if it has the same meaning in another form.
fn coerce(value: &mut Value, schema: &Value) {
    let kind = schema["type"].as_str().unwrap_or_default();
    let changed = match (kind, &*value) {
        ("integer", Value::String(text)) => text.trim().parse::<i64>().ok().map(Value::from),
        ("integer", Value::Number(number)) if number.is_f64() => whole(number.as_f64()).map(Value::from),
        ("number", Value::String(text)) => text.trim().parse::<f64>().ok().map(Value::from),
        ("boolean", Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" => Some(Value::Bool(true)),
            "false" => Some(Value::Bool(false)),
            _ => None,
        },
        ("string", Value::Number(number)) => Some(Value::String(number.to_string())),
        ("string", Value::Bool(yes)) => Some(Value::String(yes.to_string())),
        ("string", Value::String(text)) => choice(text, schema),
        ("object", Value::String(text)) => parsed(text).filter(Value::is_object),
        ("array", Value::String(text)) => Some(match parsed(text) {
            Some(list @ Value::Array(_)) => list,
            _ => Value::Array(vec![value.clone()]),
        }),
        ("array", Value::Object(_)) => Some(Value::Array(vec![value.clone()])),
        _ => None,
    };
    if let Some(changed) = changed {
        *value = changed;
    }
    match value {
        Value::Array(items) => {
            for item in items {
                coerce(item, &schema["items"]);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                coerce(field, &schema["properties"][name]);
            }
        }
        _ => {}
    }
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text.trim()).ok()
}

#[allow(clippy::cast_possible_truncation, reason = "it is whole and small")]
fn whole(number: Option<f64>) -> Option<i64> {
    number
        .filter(|number| number.fract() == 0.0 && number.abs() < 9e15)
        .map(|number| number as i64)
}

/// Returns the allowed value that differs only in case or dashes.
fn choice(text: &str, schema: &Value) -> Option<Value> {
    let allowed = schema["enum"].as_array()?;
    if allowed.iter().any(|word| word == text) {
        return None;
    }
    let wanted = snake_case(&text.trim().replace(' ', "_"));
    let found = allowed
        .iter()
        .find(|word| word.as_str().map(snake_case).as_ref() == Some(&wanted));
    found.cloned()
}

fn tidy_paths(value: &mut Value, root: &Root) {
    match value {
        Value::String(path) => *path = tidy_path(path, root.path()),
        Value::Array(paths) => paths.iter_mut().for_each(|path| tidy_paths(path, root)),
        _ => {}
    }
}

/// Returns the canonical form of a path: relative to the workspace if inside it, without `.` and
/// doubled slashes. A `..` is kept: its meaning depends on links.
fn tidy_path(written: &str, root: &Path) -> String {
    let trimmed = written.trim();
    let unquoted = ['"', '\'', '`']
        .iter()
        .find_map(|&quote| trimmed.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(trimmed);
    let plain = unquoted.strip_prefix("file://").unwrap_or(unquoted);
    let home = match plain.strip_prefix("~/") {
        Some(below) => std::env::var("HOME")
            .ok()
            .map(|home| Path::new(&home).join(below)),
        None => None,
    };
    let path = home.as_deref().unwrap_or(Path::new(plain));
    let inside = path.strip_prefix(root).unwrap_or(path);
    let tidy = inside.components().filter(|part| *part != Component::CurDir);
    let tidy: std::path::PathBuf = tidy.collect();
    match tidy.to_str() {
        Some("") | None => ".".to_owned(),
        Some(path) => path.to_owned(),
    }
}

/// Returns arguments of a valid form, without meaning.
fn example(definition: &ToolDefinition) -> Value {
    let required = definition.input_schema["required"]
        .as_array()
        .into_iter()
        .flatten();
    let example = required.filter_map(Value::as_str).map(|name| {
        let value = match definition.input_schema["properties"][name]["type"].as_str() {
            Some("array") => Value::Array(Vec::new()),
            _ => Value::from("…"),
        };
        (name.to_owned(), value)
    });
    Value::Object(example.collect())
}

fn validate(entry: &Entry, definition: &ToolDefinition, input: &Value) -> Result<(), String> {
    let compiled = entry.schema.get_or_init(|| match entry.need {
        Need::Server => JsonSchema::new(&definition.input_schema).ok(),
        _ => JsonSchema::built_in(&definition.input_schema).ok(),
    });
    let Some(schema) = compiled else {
        // A server validates itself what it describes in other ways.
        if entry.need == Need::Server {
            return Ok(());
        }
        // An invalid schema accepts nothing.
        return Err(format!("the arguments of {} cannot be checked", entry.name));
    };
    let mut mistakes: Vec<String> = Vec::new();
    for violation in schema.violations(input).into_iter().take(MAX_MISTAKES) {
        let place = match violation.path.strip_prefix('/') {
            None => String::new(),
            Some(path) => format!("{}: ", path.replace('/', ".")),
        };
        mistakes.push(format!("{place}{}", brief(&violation.message, 200)));
    }
    if mistakes.is_empty() {
        return Ok(());
    }
    if input["type"] == "object" && input["properties"].is_object() {
        return Err(format!(
            "the arguments of {} are their own schema, so it was not run: give values in its place, such as {}",
            entry.name,
            example(definition)
        ));
    }
    let names: Vec<&str> = definition.input_schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
        .collect();
    Err(format!(
        "the arguments of {} do not fit, so it was not run: {} (it takes {})",
        entry.name,
        mistakes.join("; "),
        names.join(", ")
    ))
}

/// Returns the beginning of a text.
fn brief(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn optional_nulls_of_servers_tools_are_left_out() {
        let entry = Entry::of::<super::super::LoadSkill>().0;
        let definition = ToolDefinition {
            input_schema: json!({
                "properties": {
                    "optional": {"type": "boolean"}, "required": {"type": "string"},
                    "nullable": {"type": ["string", "null"]}, "any": {"anyOf": [{}]},
                },
                "required": ["required"],
            }),
            ..Entry::of::<super::super::LoadSkill>().1
        };
        let given = json!({"optional": null, "required": null, "nullable": null, "any": null, "other": null});
        assert_eq!(
            foreign(&entry, &definition, &given).unwrap(),
            json!({"required": null, "nullable": null, "any": null, "other": null})
        );
    }
}
