//! The definition of a tool as data: its name, its arguments and its need.

use std::borrow::Cow;

use serde_json::Value;
use tool_call_repair::Tool;

/// The definition of a tool for the model.
#[derive(Clone, Debug)]
pub struct ToolDefinition {
    /// The name by which the model calls it.
    pub name: Cow<'static, str>,
    pub description: Cow<'static, str>,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    pub need: Need,
    /// Other names of the tool that models use.
    pub aliases: &'static [&'static str],
    /// Other names of its arguments that models use: (other name, name).
    pub arguments: &'static [(&'static str, &'static str)],
}

impl<'a> From<&'a ToolDefinition> for Tool<'a> {
    fn from(tool: &'a ToolDefinition) -> Self {
        Self {
            name: &tool.name,
            aliases: tool.aliases,
            arguments: tool.arguments,
            schema: &tool.input_schema,
        }
    }
}

/// What a tool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Read,
    Write,
    Execute,
    /// Requests to a host on the network.
    Http,
    /// A call of a server, which only a rule allows.
    Server,
}
