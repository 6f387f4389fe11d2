//! The JSON Schema of the workflow file, and the reference page that is generated from it.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::codes::CODES;
use super::decode::Decode;
use super::file::File;

/// Returns the JSON Schema (draft 2020-12) of `workflow.yml`, for editors.
///
/// It rejects unknown keys, although Vik only warns about them, so that an editor marks misspelled
/// keys.
pub fn json_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let schema = File::schema(&mut generator).to_value();
    let definitions = generator.take_definitions(true);
    let mut root = Map::new();
    root.insert(
        "$schema".to_owned(),
        "https://json-schema.org/draft/2020-12/schema".into(),
    );
    root.insert("title".to_owned(), "Vik workflow".into());
    if let Value::Object(schema) = schema {
        root.extend(schema);
    }
    require_source(&mut root);
    root.insert(
        "patternProperties".to_owned(),
        json!({ "^x-": { "description": "Ignored by Vik; use it for anchors and notes." } }),
    );
    root.insert("$defs".to_owned(), definitions.into());
    Value::Object(root)
}

/// Requires a tracker or a pull command, which the types of the sections cannot express.
fn require_source(root: &mut Map<String, Value>) {
    if let Some(Value::Array(required)) = root.get_mut("required") {
        let at = required.len().min(1);
        required.insert(at, "issues".into());
    }
    let issues = root
        .get_mut("properties")
        .and_then(|sections| sections.get_mut("issues"));
    if let Some(Value::Object(issues)) = issues {
        issues.insert("type".to_owned(), "object".into());
        let with_command = json!({
            "required": ["pull"],
            "properties": { "pull": { "required": ["command"] } },
        });
        issues.insert(
            "anyOf".to_owned(),
            json!([{ "required": ["tracker"] }, with_command]),
        );
    }
}

/// Returns the reference page `docs/reference/workflow.md`.
pub fn reference_markdown() -> String {
    let schema = json_schema();
    let mut page = String::from(INTRODUCTION);
    sections(&mut page, &schema, &schema, "");
    page.push_str("\n## Diagnostics\n\nThe codes are stable; `vik doctor --json` gives them too.\n\n| code | meaning |\n| --- | --- |\n");
    for (code, meaning) in CODES {
        let _ = writeln!(page, "| `{code}` | {meaning} |");
    }
    page
}

const INTRODUCTION: &str = "\
<!-- Generated from the types in crates/vik-workflow-reader. Do not edit: run `cargo xtask
generate`. -->

# workflow.yml

The policy of one daemon: which issues it takes, and which agent does what with them. The file is one YAML 1.2 document
of at most 1 MiB. `true` and `false` are booleans; `yes`, `no`, `on` and `off` are texts. Anchors, aliases and merge keys
(`<<`) work; top-level keys that begin with `x-` are free for them.

A key without a value is the same as no key, but for `workspace`. An unknown key is a warning with a suggestion, and an
error with `--strict`. All findings are shown at once, each with its place.

Editors check the file when its first line is

```yaml
# yaml-language-server: $schema=https://raw.githubusercontent.com/vik-sh/vik/main/docs/reference/workflow.schema.json
```

`vik schema` prints the same schema. Durations are written `250ms`, `30s`, `5m`, `1h30m`, or as a number of seconds.
";

/// Writes one table for each section with values.
fn sections(page: &mut String, root: &Value, section: &Value, path: &str) {
    let empty = Map::new();
    let properties = section["properties"].as_object().unwrap_or(&empty);
    let required: Vec<&str> = section["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if path.is_empty() {
        for (key, property) in properties {
            let _ = write!(page, "\n## {key}\n\n{}\n", text(property));
            child(page, root, property, key);
        }
        return;
    }
    let values: Vec<_> = properties
        .iter()
        .filter(|(_, property)| nested(property).is_none())
        .collect();
    if !values.is_empty() {
        page.push_str("\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
        for (key, property) in values {
            let is_required = required.contains(&key.as_str());
            let default = match property.get("default") {
                _ if is_required => "required".to_owned(),
                None | Some(Value::Null) => "null".to_owned(),
                Some(Value::String(text)) => format!("`{text}`"),
                Some(value) => format!("`{value}`"),
            };
            let _ = writeln!(
                page,
                "| `{path}.{key}` | {} | {default} | {} |",
                kind(root, property).replace('|', "\\|"),
                text(property).replace('|', "\\|"),
            );
        }
    }
    for (key, property) in properties {
        child(page, root, property, &format!("{path}.{key}"));
    }
}

fn child(page: &mut String, root: &Value, property: &Value, path: &str) {
    match nested(property) {
        Some(Nested::Section(section)) => {
            if path.contains('.') {
                let _ = write!(page, "\n### {path}\n\n{}\n", text(property));
            }
            sections(page, root, section, path);
        }
        Some(Nested::Named(section)) => {
            let path = format!("{path}.NAME");
            let _ = write!(page, "\n### {path}\n\n{}\n", text(section));
            sections(page, root, section, &path);
        }
        None => {}
    }
}

enum Nested<'a> {
    Section(&'a Value),
    /// A map from names to sections.
    Named(&'a Value),
}

/// Returns the section inside of a property.
fn nested(property: &Value) -> Option<Nested<'_>> {
    if property.get("properties").is_some() {
        return Some(Nested::Section(property));
    }
    let named = &property["additionalProperties"];
    named.get("properties").is_some().then_some(Nested::Named(named))
}

fn text(schema: &Value) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the display name of a type.
fn kind(root: &Value, schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap_or_default();
        return if name == "Duration" {
            "duration".to_owned()
        } else {
            kind(root, &root["$defs"][name])
        };
    }
    for union in ["anyOf", "oneOf"] {
        if let Some(options) = schema[union].as_array() {
            let mut kinds: Vec<String> = options
                .iter()
                .filter(|option| option["type"] != "null")
                .map(|option| kind(root, option))
                .collect();
            kinds.dedup();
            let are_literals = kinds.iter().all(|kind| kind.starts_with('`'));
            return kinds.join(if are_literals { ", " } else { "; or " });
        }
    }
    if let Some(literal) = schema["const"].as_str() {
        return format!("`{literal}`");
    }
    if let Some(literals) = schema["enum"].as_array() {
        let literals: Vec<String> = literals
            .iter()
            .filter_map(Value::as_str)
            .map(|literal| format!("`{literal}`"))
            .collect();
        return literals.join(", ");
    }
    let one = |kind: &str| match kind {
        "string" => "text".to_owned(),
        "integer" => "whole number".to_owned(),
        "array" => format!("list of {}", self::kind(root, &schema["items"])),
        "object" => match schema.get("additionalProperties") {
            Some(value @ Value::Object(_)) => format!("map to {}", self::kind(root, value)),
            _ => "map".to_owned(),
        },
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(kind) => one(kind),
        Value::Array(kinds) => {
            let kinds: Vec<String> = kinds
                .iter()
                .filter_map(Value::as_str)
                .filter(|kind| *kind != "null")
                .map(one)
                .collect();
            match kinds.split_last() {
                Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
                _ => kinds.concat(),
            }
        }
        _ => "any".to_owned(),
    }
}
