//! The definition of a tool as data: its name, its arguments and its need.

use serde_json::Value;

/// The definition of a tool for the model.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    pub name: &'static str,
    pub description: &'static str,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    pub need: Need,
    /// Other names of the tool that models use.
    pub aliases: &'static [&'static str],
    /// Other names of its arguments that models use: (other name, name).
    pub arguments: &'static [(&'static str, &'static str)],
}

/// What a tool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Read,
    Write,
    Execute,
    /// Requests to a host on the network.
    Http,
}

/// Returns the canonical notation of a tool's name: `RunCommand`, `run-command` and
/// `functions.run_command` are one.
pub(crate) fn tool_name(written: &str) -> String {
    let written = written.trim();
    snake_case(written.strip_prefix("functions.").unwrap_or(written))
}

/// Returns a name in snake case: words are separated by dashes or by capital letters.
pub(super) fn snake_case(written: &str) -> String {
    let mut name = String::with_capacity(written.len() + 4);
    let mut after_small = false;
    for c in written.chars() {
        if c.is_ascii_uppercase() && after_small {
            name.push('_');
        }
        after_small = c.is_ascii_lowercase() || c.is_ascii_digit();
        name.push(if c == '-' { '_' } else { c.to_ascii_lowercase() });
    }
    name
}
