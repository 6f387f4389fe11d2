//! Files of `--mcp-config`: servers in the JSON that other agents also read.
//!
//! `{"mcpServers": {"NAME": {"type": "stdio", "command": …}}}`. The fields of a server are the
//! keys of `[mcp.NAME]` in the settings; `type` is checked and has no other effect.

use serde::Deserialize;
use serde_json::{Map, Value};
use toml::Table;

use super::ConfigError;
use super::error::friendly;
use crate::tools::McpServerConfig;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "mcpServers")]
    servers: Map<String, Value>,
}

/// Returns the servers in the text of the file `name`, by their names.
///
/// # Errors
/// With the file, and the line or the key.
pub(super) fn servers(name: &str, text: &str) -> Result<Table, ConfigError> {
    let file: File = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let (message, _) = message.rsplit_once(" at line ").unwrap_or((&message, ""));
        ConfigError::invalid(
            format!("{name}:{}:{}", error.line(), error.column()),
            friendly(message),
        )
    })?;
    let mut table = Table::new();
    for (server, value) in file.servers {
        let values = values(&server, value)
            .map_err(|message| ConfigError::invalid(format!("{name}: mcpServers.{server}"), message))?;
        table.insert(server, toml::Value::Table(values));
    }
    Ok(table)
}

fn values(name: &str, server: Value) -> Result<Table, String> {
    let Value::Object(mut fields) = server else {
        return Err("expected an object".to_owned());
    };
    let url = fields.contains_key("url");
    match (fields.shift_remove("type"), url) {
        (None, _) => {}
        (Some(Value::String(kind)), false) if kind == "stdio" => {}
        (Some(Value::String(kind)), true) if kind == "http" || kind == "streamable-http" => {}
        (Some(Value::String(kind)), _) if ["stdio", "http", "streamable-http"].contains(&kind.as_str()) => {
            return Err(format!("`type` is `{kind}`, which does not fit its other keys"));
        }
        (Some(other), _) => return Err(format!("`type` is {other}: expected `stdio` or `http`")),
    }
    // Only what is given becomes a value: the defaults have another origin.
    let config: McpServerConfig = by_key(&fields)?;
    config.check(name)?;
    let all = Table::try_from(&config).map_err(|error| error.to_string())?;
    Ok(all
        .into_iter()
        .filter(|(key, _)| fields.contains_key(key))
        .collect())
}

/// Reads the fields one by one, so that an error names its key.
fn by_key(fields: &Map<String, Value>) -> Result<McpServerConfig, String> {
    for (key, value) in fields {
        let one = Value::Object(Map::from_iter([(key.clone(), value.clone())]));
        if let Err(error) = serde_json::from_value::<McpServerConfig>(one) {
            let message = error.to_string();
            let unknown = message.starts_with("unknown field");
            let message = friendly(&message);
            return Err(if unknown {
                message
            } else {
                format!("`{key}`: {message}")
            });
        }
    }
    serde_json::from_value(Value::Object(fields.clone())).map_err(|error| friendly(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        servers("f.json", text).unwrap_err().to_string()
    }

    #[test]
    fn servers_of_other_agents_are_read() {
        let text = r#"{"mcpServers": {"a": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"T": "${T}"}},
                                      "b": {"type": "http", "url": "https://h/mcp", "headers": {"A": "b"}, "call_timeout": "5s"}}}"#;
        let read = servers("f.json", text).unwrap();
        assert_eq!(read["a"]["args"][1].as_str(), Some("x"));
        assert_eq!(read["b"]["call_timeout"].as_str(), Some("5s"));
        assert_eq!(read["b"].as_table().unwrap().len(), 3, "defaults have no value");
    }

    #[test]
    fn errors_name_file_and_key() {
        let of = |server: &str| error(&format!(r#"{{"mcpServers": {{"a": {server}}}}}"#));
        assert_eq!(error("{"), "f.json:1:1: EOF while parsing an object");
        assert_eq!(
            error(r#"{"servers": {}}"#),
            "f.json:1:10: unknown key `servers`; did you mean `mcpServers`?"
        );
        assert_eq!(
            of(r#"{"comand": "x"}"#),
            "f.json: mcpServers.a: unknown key `comand`; did you mean `command`?"
        );
        assert_eq!(of("[]"), "f.json: mcpServers.a: expected an object");
        assert_eq!(
            of(r#"{"command": "x", "call_timeout": "0"}"#),
            "f.json: mcpServers.a: `call_timeout`: invalid duration \"0s\": expected 10s, 5m, 1h or plain seconds, above zero"
        );
        assert_eq!(
            of(r#"{"type": "sse", "url": "x"}"#),
            "f.json: mcpServers.a: `type` is \"sse\": expected `stdio` or `http`"
        );
        assert_eq!(
            of(r#"{"type": "http", "command": "x"}"#),
            "f.json: mcpServers.a: `type` is `http`, which does not fit its other keys"
        );
    }
}
