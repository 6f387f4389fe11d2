//! The client that the suite starts for a scenario: it connects with the MCP client of vex, and
//! calls the tools of the server.

use serde_json::{Map, Value, json};
use vex::conversation::ToolCall;
use vex::events::Journal;
use vex::interrupt::Interrupt;
use vex::tools::{McpServerConfig, Policy, Root, Rules, ToolDefinition, Toolbox};

use crate::repo::{Context as _, TaskResult};

/// How the names of the server's tools start.
const PREFIX: &str = "mcp__s__";

/// The scenarios whose servers list tools, and refuse every call.
const ONLY_LISTED: [&str; 1] = ["json-schema-ref-no-deref"];

/// Connects to the server of the scenario, and makes the calls of the scenario.
///
/// # Errors
/// If the server cannot be used, or a call fails.
pub(super) fn run(url: &str) -> TaskResult {
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let root = Root::open(folder.path(), false).context("cannot open the folder")?;
    let allow = "mcp.s.*".parse().context("the rule is wrong")?;
    let mut toolbox = Toolbox::new(
        root,
        Policy {
            rules: Rules {
                allow: vec![allow],
                deny: Vec::new(),
            },
            ..Policy::default()
        },
    );
    let server = McpServerConfig {
        url: Some(url.to_owned()),
        ..McpServerConfig::default()
    };
    let interrupt = Interrupt::new();
    let starts = toolbox
        .start_servers(&[("s".to_owned(), server)].into(), &interrupt)
        .context("cannot start a thread")?;
    for start in starts.unwrap_or_default() {
        let tools = start.outcome?;
        println!("{}", tools.description);
        for warning in tools.warnings {
            println!("warning: {warning}");
        }
    }
    let variable = |name| std::env::var(name).unwrap_or_default();
    if ONLY_LISTED.contains(&variable("MCP_CONFORMANCE_SCENARIO").as_str()) {
        return Ok(());
    }
    let context = serde_json::from_str(&variable("MCP_CONFORMANCE_CONTEXT")).unwrap_or_default();
    let journal = Journal::stdio(false);
    let mut failed = Vec::new();
    for (number, (tool, input)) in calls(toolbox.definitions(), &context).into_iter().enumerate() {
        let call = ToolCall::new(number.to_string(), format!("{PREFIX}{tool}"), input);
        let result = toolbox.call(&call, &journal, &interrupt);
        println!("{tool}: {}", result.output);
        if result.is_error {
            failed.push(tool);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("calls failed: {}", failed.join(", ")))
    }
}

/// Returns the calls that the scenario asks for, or one of each tool.
fn calls(definitions: &[ToolDefinition], context: &Value) -> Vec<(String, Value)> {
    if let Some(calls) = context["toolCalls"].as_array() {
        let call = |call: &Value| Some((call["name"].as_str()?.to_owned(), call["arguments"].clone()));
        return calls.iter().filter_map(call).collect();
    }
    let tools: Vec<(&str, &Value)> = definitions
        .iter()
        .filter_map(|tool| Some((tool.name.strip_prefix(PREFIX)?, &tool.input_schema)))
        .collect();
    let schema_of = |name| {
        tools
            .iter()
            .find(|(tool, _)| *tool == name)
            .map(|(_, schema)| *schema)
    };
    if let Some(schema) = schema_of("json_schema_2020_12_tool") {
        // The scenario compares the schema with the one that it sent.
        return vec![("json_schema_echo".to_owned(), json!({"schema": schema}))];
    }
    let call = |(tool, schema): (&str, &Value)| (tool.to_owned(), arguments(schema));
    tools.into_iter().map(call).collect()
}

/// Returns a value for each required argument.
fn arguments(schema: &Value) -> Value {
    let required = schema["required"].as_array().into_iter().flatten();
    let named = required.filter_map(Value::as_str).map(|name| {
        let value = match schema["properties"][name]["type"].as_str() {
            Some("number" | "integer") => json!(1),
            Some("boolean") => json!(true),
            Some("object") => json!({}),
            Some("array") => json!([]),
            Some("null") => Value::Null,
            _ => json!("text"),
        };
        (name.to_owned(), value)
    });
    Value::Object(named.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_arguments_have_values_of_their_types() {
        let schema = json!({
            "properties": {"a": {"type": "number"}, "b": {"$ref": "#/$defs/id"}, "c": {"type": "string"}},
            "required": ["a", "b"],
        });
        assert_eq!(arguments(&schema), json!({"a": 1, "b": "text"}));
    }
}
