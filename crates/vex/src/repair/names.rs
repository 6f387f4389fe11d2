//! Maps names and aliases to tools and their arguments.

use serde_json::Value;

use crate::tools::{ToolDefinition, tool_name};

#[derive(Debug)]
pub(super) struct KnownTool {
    name: &'static str,
    aliases: &'static [&'static str],
    /// Its properties, under all of their names: (name as written, name).
    properties: Vec<(String, String)>,
    required: Vec<String>,
}

impl KnownTool {
    fn new(tool: &ToolDefinition) -> Self {
        let part = |key| tool.input_schema.get(key);
        let own = part("properties").and_then(Value::as_object);
        let own = own.into_iter().flat_map(|properties| properties.keys());
        let other = tool
            .arguments
            .iter()
            .map(|(other, name)| ((*other).to_owned(), (*name).to_owned()));
        let required = part("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        Self {
            name: tool.name,
            aliases: tool.aliases,
            properties: own.map(|key| (key.clone(), key.clone())).chain(other).collect(),
            required: required.map(str::to_owned).collect(),
        }
    }

    /// Returns whether an object with these keys could be its arguments: none unknown, none
    /// missing.
    pub(super) fn fits(&self, keys: &[&str]) -> bool {
        let meant = |key: &&str| {
            let found = self.properties.iter().find(|(written, _)| written == key);
            found.map(|(_, name)| name)
        };
        let meant: Option<Vec<&String>> = keys.iter().map(meant).collect();
        meant.is_some_and(|meant| self.required.iter().all(|name| meant.contains(&name)))
    }
}

/// The tools that a call may name.
#[derive(Debug)]
pub(super) struct Catalog(Vec<KnownTool>);

impl Catalog {
    pub(super) fn new(tools: &[ToolDefinition]) -> Self {
        Self(tools.iter().map(KnownTool::new).collect())
    }

    /// Returns the tool with this name, in any notation, or with this alias.
    pub(super) fn find(&self, written: &str) -> Option<&KnownTool> {
        let name = tool_name(written);
        self.0
            .iter()
            .find(|tool| tool.name == name || tool.aliases.contains(&name.as_str()))
    }

    /// Returns the names of the tools, without their aliases.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|tool| tool.name)
    }
}

/// Returns whether this could be the name of a tool at all.
pub(super) fn plausible(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= MAX_NAME
        && bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
}

/// The maximum length of the name of a tool or a parameter, in bytes.
pub(super) const MAX_NAME: usize = 64;
