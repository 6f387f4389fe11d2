//! The schema says what the reader does, and the files made from it are current.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use super::*;

/// All paths of keys in the schema; names that users choose are `*`.
fn schema_paths(schema: &Value, path: &str, paths: &mut BTreeSet<String>) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = vik_yaml::join(path, key);
        schema_paths(property, &path, paths);
        let values = &property["additionalProperties"];
        if values["properties"].is_object() {
            schema_paths(values, &format!("{path}.*"), paths);
        }
        paths.insert(path);
    }
}

/// All paths of keys in a file, as `schema_paths` writes them.
fn file_paths(value: &vik_yaml::Node, path: &str, known: &BTreeSet<String>, paths: &mut BTreeSet<String>) {
    let vik_yaml::Kind::Map(entries) = &value.kind else {
        return;
    };
    for entry in entries.iter().filter(|entry| !entry.key.starts_with("x-")) {
        let is_named = known.contains(path) && !known.contains(&vik_yaml::join(path, &entry.key));
        let is_free = is_named && !known.iter().any(|known| known.starts_with(&format!("{path}.*")));
        if is_free {
            return;
        }
        let path = vik_yaml::join(path, if is_named { "*" } else { &entry.key });
        if !is_named {
            paths.insert(path.clone());
        }
        file_paths(&entry.value, &path, known, paths);
    }
}

#[test]
fn schema_and_reader_know_the_same_keys() {
    let mut in_schema = BTreeSet::new();
    schema_paths(&json_schema(), "", &mut in_schema);
    // The full file loads without a warning, so the reader knows each of its keys.
    assert_eq!(load(FULL).diagnostics, []);
    let root = vik_yaml::parse(FULL, &mut Sink::default()).unwrap();
    let mut in_file = BTreeSet::new();
    file_paths(&root, "", &in_schema, &mut in_file);
    // The full file has the commands that a tracker replaces.
    in_file.extend(["issues.tracker", "issue.stages.*.start_state"].map(str::to_owned));
    assert_eq!(in_schema, in_file);
    assert!(
        in_schema.contains("issue.stages.*.retry.max_attempts"),
        "{in_schema:?}"
    );
}

#[test]
fn schema_is_usable_by_editors() {
    let schema = json_schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(
        schema["required"],
        serde_json::json!(["agents", "issues", "issue"])
    );
    let stage = &schema["properties"]["issue"]["properties"]["stages"]["additionalProperties"];
    assert_eq!(stage["required"], serde_json::json!(["when", "agent"]));
    assert_eq!(stage["additionalProperties"], false);
    assert_eq!(stage["properties"]["timeout"]["default"], "1h");
    let estimate = &schema["properties"]["agents"]["additionalProperties"]["properties"]["estimate"];
    assert_eq!(estimate["properties"]["usd"]["default"], 0.5, "in dollars");
    fn each(value: &Value, path: &str) {
        for (key, property) in value["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{key}");
            assert!(
                property["description"]
                    .as_str()
                    .is_some_and(|text| text.len() > 5),
                "{path}"
            );
            each(property, &path);
            each(&property["additionalProperties"], &path);
        }
    }
    each(&schema, "");
    // Every reference leads somewhere.
    let text = schema.to_string();
    for reference in text.split("\"$ref\":\"#/$defs/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schema["$defs"][name].is_object(), "{name}");
    }
}

fn is_current(name: &str, content: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == content,
        "docs/reference/{name} is not current: run the tests with UPDATE_GENERATED=1"
    );
}

#[test]
fn reference_page_is_current() {
    is_current("workflow.md", &reference_markdown());
}

#[test]
fn schema_file_is_current() {
    is_current("workflow.schema.json", &format!("{:#}\n", json_schema()));
}
