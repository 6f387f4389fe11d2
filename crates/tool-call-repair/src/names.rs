//! Maps names and aliases to tools and their arguments.

use serde_json::Value;

/// A tool that a call may name. It borrows from the definitions of the caller.
///
/// # Examples
///
/// ```
/// use serde_json::json;
/// use tool_call_repair::Tool;
///
/// let schema = json!({
///     "type": "object",
///     "properties": {"command": {"type": "string"}},
///     "required": ["command"],
/// });
/// let tool = Tool {
///     aliases: &["bash", "shell"],
///     arguments: &[("cmd", "command")],
///     ..Tool::new("run_command", &schema)
/// };
/// assert_eq!(tool.name, "run_command");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tool<'a> {
    /// Its name. A call may write it in another notation ([`tool_name`]); a name that is longer
    /// than 64 bytes is found in no text.
    pub name: &'a str,
    /// Other names of the tool that models use. If several tools have the same name or alias, the
    /// first of them is meant.
    pub aliases: &'a [&'a str],
    /// Other names of its arguments that models use: (other name, name).
    pub arguments: &'a [(&'a str, &'a str)],
    /// The JSON Schema of its arguments. Only the keys of `properties` and the names in `required`
    /// are read, at the top level: arguments are not validated.
    pub schema: &'a Value,
}

impl<'a> Tool<'a> {
    /// Creates a tool without other names.
    pub fn new(name: &'a str, schema: &'a Value) -> Self {
        Self {
            name,
            aliases: &[],
            arguments: &[],
            schema,
        }
    }
}

#[derive(Debug)]
pub(crate) struct KnownTool<'a> {
    name: &'a str,
    aliases: &'a [&'a str],
    /// Its properties, under all of their names: (name as written, name).
    properties: Vec<(&'a str, &'a str)>,
    required: Vec<&'a str>,
}

impl<'a> KnownTool<'a> {
    fn new(tool: Tool<'a>) -> Self {
        let part = |key| tool.schema.get(key);
        let own = part("properties").and_then(Value::as_object);
        let own = own.into_iter().flat_map(|properties| properties.keys());
        let required = part("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        Self {
            name: tool.name,
            aliases: tool.aliases,
            properties: own
                .map(|key| (key.as_str(), key.as_str()))
                .chain(tool.arguments.iter().copied())
                .collect(),
            required: required.collect(),
        }
    }

    fn is_called(&self, written: &str) -> bool {
        let is = |name: &str| notation(name).eq(notation(written));
        is(self.name) || self.aliases.iter().any(|alias| is(alias))
    }

    /// Returns whether an object with these keys could be its arguments: none unknown, none
    /// missing.
    pub(crate) fn fits(&self, keys: &[&str]) -> bool {
        let meant = |key: &&str| {
            let found = self.properties.iter().find(|(written, _)| written == key);
            found.map(|(_, name)| *name)
        };
        let meant: Option<Vec<&str>> = keys.iter().map(meant).collect();
        meant.is_some_and(|meant| self.required.iter().all(|name| meant.contains(name)))
    }
}

/// The tools that a call may name.
#[derive(Debug)]
pub(crate) struct Catalog<'a>(Vec<KnownTool<'a>>);

impl<'a> Catalog<'a> {
    pub(crate) fn new(tools: impl IntoIterator<Item = Tool<'a>>) -> Self {
        Self(tools.into_iter().map(KnownTool::new).collect())
    }

    /// Returns the tool with this name or alias, in any notation.
    pub(crate) fn find(&self, written: &str) -> Option<&KnownTool<'a>> {
        self.0.iter().find(|tool| tool.is_called(written))
    }

    /// Returns the names of the tools, without their aliases.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.0.iter().map(|tool| tool.name)
    }
}

/// Returns the canonical notation of a tool's name: `RunCommand`, `run-command` and
/// `functions.run_command` are `run_command`.
///
/// Any text has such a notation; the result is not checked to be a name. Scanners compare names in
/// this notation, and [`Found::Call`](crate::Found::Call) has the name as the model wrote it: a
/// caller that looks it up compares in the same way.
///
/// # Examples
///
/// ```
/// use tool_call_repair::tool_name;
///
/// assert_eq!(tool_name("functions.runCommand"), "run_command");
/// assert_eq!(tool_name("mcp.run"), "mcp.run");
/// ```
pub fn tool_name(written: &str) -> String {
    notation(written).collect()
}

fn notation(written: &str) -> impl Iterator<Item = char> {
    let written = written.trim();
    snake(written.strip_prefix("functions.").unwrap_or(written))
}

/// Returns a text in snake case: dashes become `_`, and ASCII capitals small letters, with `_`
/// before those that follow a small letter or a digit.
///
/// # Examples
///
/// ```
/// use tool_call_repair::snake_case;
///
/// assert_eq!(snake_case("filePath"), "file_path");
/// assert_eq!(snake_case("Dry-Run"), "dry_run");
/// ```
pub fn snake_case(written: &str) -> String {
    snake(written).collect()
}

fn snake(written: &str) -> impl Iterator<Item = char> {
    let mut after_small = false;
    written.chars().flat_map(move |c| {
        let starts = c.is_ascii_uppercase() && after_small;
        after_small = c.is_ascii_lowercase() || c.is_ascii_digit();
        let small = if c == '-' { '_' } else { c.to_ascii_lowercase() };
        starts.then_some('_').into_iter().chain([small])
    })
}

/// Returns whether this could be the name of a tool at all.
pub(crate) fn plausible(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= MAX_NAME
        && bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
}

/// The maximum length of the name of a tool or a parameter, in bytes.
pub(crate) const MAX_NAME: usize = 64;
