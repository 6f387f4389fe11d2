//! MCP servers and skills of an attempt, in the forms that agents take.
//!
//! Values of secrets are in none of them: they are in the environment of the agent, and everything
//! else names the variable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use vik_core::workflow::{HeaderValue, McpServer, McpTools, McpTransport};

use crate::LaunchError;
use crate::environment::variables_of_servers;
use crate::launch::path_text;

/// The MCP servers and skills of an attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extensions {
    pub servers: Vec<(String, McpServer)>,
    /// The folders of skills below [`Extensions::skills_dir`].
    pub skills: Vec<PathBuf>,
    /// The private folder of the attempt for all of it, which the agent can read.
    pub folder: PathBuf,
}

/// A private file that must exist before the agent starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchFile {
    pub path: PathBuf,
    pub text: String,
}

impl Extensions {
    /// Returns the folder of a plugin whose skills are the folders in its folder `skills`.
    pub(crate) fn plugin_dir(folder: &Path) -> PathBuf {
        folder.join("plugin")
    }

    /// Returns the folder into which the skills are copied.
    pub fn skills_dir(folder: &Path) -> PathBuf {
        Self::plugin_dir(folder).join("skills")
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.skills.is_empty()
    }

    /// Returns the file with the servers as Claude Code and vex read them; `members` adds members to
    /// the entry of a server.
    pub(crate) fn mcp_file(&self, members: impl Fn(&McpServer) -> Map<String, Value>) -> LaunchFile {
        let servers = self.servers.iter().map(|(name, server)| {
            let mut entry = transport(server);
            entry.extend(members(server));
            (name.clone(), Value::Object(entry))
        });
        let servers: Map<String, Value> = servers.collect();
        LaunchFile {
            path: self.folder.join("mcp.json"),
            text: format!("{:#}\n", json!({ "mcpServers": servers })),
        }
    }

    /// Returns the maximum of a setting of the servers, if one has it.
    pub(crate) fn maximum<T: Ord>(&self, of: impl Fn(&McpServer) -> Option<T>) -> Option<T> {
        self.servers.iter().filter_map(|(_, server)| of(server)).max()
    }
}

fn transport(server: &McpServer) -> Map<String, Value> {
    let object = |value: Value| match value {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    match &server.transport {
        McpTransport::Stdio { command, env, .. } => {
            let (program, args) = command
                .split_first()
                .map_or(("", [].as_slice()), |(program, args)| (program.as_str(), args));
            let mut env: BTreeMap<&str, String> = env
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone()))
                .collect();
            env.extend(
                server
                    .secrets
                    .iter()
                    .map(|name| (name.as_str(), format!("${{{name}}}"))),
            );
            object(json!({ "type": "stdio", "command": program, "args": args, "env": env }))
        }
        McpTransport::Http { url, headers } => {
            let headers: BTreeMap<&str, String> = headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.clone().into()))
                .collect();
            object(json!({ "type": "http", "url": url.as_str(), "headers": headers }))
        }
    }
}

/// Returns the milliseconds of a time limit.
pub(crate) fn millis(span: vik_core::duration::Span) -> u64 {
    u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the arguments `--mcp-config FILE --skill FOLDER --allow RULE` of vex.
pub(crate) fn vex_args(extensions: &Extensions) -> Result<(Vec<String>, Option<LaunchFile>), LaunchError> {
    let mut args = Vec::new();
    let mut file = None;
    if !extensions.servers.is_empty() {
        let config = extensions.mcp_file(|server| {
            let mut members = Map::new();
            let times = [
                ("startup_timeout", server.startup_timeout),
                ("call_timeout", server.call_timeout),
            ];
            for (key, span) in times {
                members.extend(span.map(|span| (key.to_owned(), span.to_string().into())));
            }
            members.extend(
                server
                    .max_output
                    .map(|bytes| ("max_output".to_owned(), bytes.into())),
            );
            let tools = match &server.tools {
                McpTools::All => None,
                McpTools::None => Some(json!([])),
                McpTools::Named(names) => Some(json!(names)),
            };
            members.extend(tools.map(|tools| ("tools".to_owned(), tools)));
            members
        });
        args.extend(["--mcp-config".to_owned(), path_text(&config.path)?.to_owned()]);
        file = Some(config);
    }
    for (server, settings) in &extensions.servers {
        let tools: Vec<String> = settings.tools.clone().into();
        for tool in tools {
            args.extend(["--allow".to_owned(), format!("mcp.{server}.{tool}")]);
        }
    }
    for skill in &extensions.skills {
        args.extend(["--skill".to_owned(), path_text(skill)?.to_owned()]);
    }
    Ok((args, file))
}

/// Returns the settings of Codex for each server, without their `-c`. `asks`: whether Codex asks
/// before each call.
pub(crate) fn codex_settings(extensions: &Extensions, asks: bool) -> Vec<String> {
    let servers = extensions.servers.iter();
    servers
        .map(|(name, server)| format!("mcp_servers.{name}={}", codex_table(server, asks)))
        .collect()
}

fn codex_table(server: &McpServer, asks: bool) -> String {
    let mut members = Vec::new();
    let mut put = |key: &str, value: String| members.push(format!("{key}={value}"));
    match &server.transport {
        McpTransport::Stdio { command, env, .. } => {
            put("command", toml_string(command.first().map_or("", String::as_str)));
            put("args", toml_list(command.iter().skip(1).map(String::as_str)));
            if !env.is_empty() {
                put(
                    "env",
                    toml_table(env.iter().map(|(name, value)| (name.as_str(), value.as_str()))),
                );
            }
            // Codex passes on hardly any other variable.
            let passed = variables_of_servers().filter(|name| !env.contains_key(*name));
            let secrets = server.secrets.iter().map(String::as_str);
            let passed: Vec<&str> = secrets.chain(passed).collect();
            put("env_vars", toml_list(passed.into_iter()));
        }
        McpTransport::Http { url, headers } => {
            put("url", toml_string(url.as_str()));
            let texts = headers.iter().filter_map(|(name, value)| match value {
                HeaderValue::Text(text) => Some((name.as_str(), text.as_str())),
                HeaderValue::Secret(_) | HeaderValue::Bearer(_) => None,
            });
            let texts: Vec<_> = texts.collect();
            let variables = headers.iter().filter_map(|(name, value)| match value {
                HeaderValue::Secret(secret) => Some((name.as_str(), secret.as_str())),
                HeaderValue::Text(_) | HeaderValue::Bearer(_) => None,
            });
            let variables: Vec<_> = variables.collect();
            if !texts.is_empty() {
                put("http_headers", toml_table(texts.into_iter()));
            }
            if !variables.is_empty() {
                put("env_http_headers", toml_table(variables.into_iter()));
            }
            if let Some(HeaderValue::Bearer(secret)) = headers
                .values()
                .find(|value| matches!(value, HeaderValue::Bearer(_)))
            {
                put("bearer_token_env_var", toml_string(secret));
            }
        }
    }
    // A tool in the list needs no further approval, unless the stage asks before calls.
    let approval = toml_string(if asks { "prompt" } else { "approve" });
    match &server.tools {
        McpTools::All => {}
        McpTools::None => put("enabled_tools", "[]".to_owned()),
        McpTools::Named(names) => {
            put("enabled_tools", toml_list(names.iter().map(String::as_str)));
            // The settings of the user for a tool would take precedence over the default.
            let tools = names
                .iter()
                .map(|name| format!("{}={{approval_mode={approval}}}", toml_string(name)));
            put("tools", format!("{{{}}}", tools.collect::<Vec<_>>().join(",")));
        }
    }
    // Codex merges this table with that of the user for a server of the same name.
    put("enabled", "true".to_owned());
    put("disabled_tools", "[]".to_owned());
    // Without it, Codex would work without the tools of a server that does not start.
    put("required", "true".to_owned());
    put("default_tools_approval_mode", approval);
    let times = [
        ("startup_timeout_sec", server.startup_timeout),
        ("tool_timeout_sec", server.call_timeout),
    ];
    for (key, span) in times {
        if let Some(span) = span {
            put(key, format!("{:?}", span.0.as_secs_f64()));
        }
    }
    format!("{{{}}}", members.join(","))
}

fn toml_list<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let items: Vec<_> = texts.map(toml_string).collect();
    format!("[{}]", items.join(","))
}

fn toml_table<'t>(pairs: impl Iterator<Item = (&'t str, &'t str)>) -> String {
    let pairs: Vec<_> = pairs
        .map(|(name, value)| format!("{}={}", toml_string(name), toml_string(value)))
        .collect();
    format!("{{{}}}", pairs.join(","))
}

/// Returns a basic TOML string.
pub(crate) fn toml_string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toml_string_escapes_any_path() {
        assert_eq!(toml_string("/a\"b\\c\n"), r#""/a\"b\\c\u000A""#);
    }
}
