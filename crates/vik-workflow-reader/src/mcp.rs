//! `mcp`: the servers whose tools agents can call.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator, json_schema};
use vik_core::workflow::{
    AUTHORIZATION, HeaderValue, HttpUrl, McpSandbox, McpServer, McpTools, McpTransport,
};
use vik_yaml::{Diagnostic, Kind, Node, join};

use super::amounts::Memory;
use super::check::Check;
use super::decode::{Cx, Decode};
use super::section::section;
use super::text::quoted;
use super::values::{CommandLine, Env, EnvNames, Positive, Text, list, written};

section! {
    /// One MCP server. Exactly one of `command` and `url`.
    struct Mcp: strict;
    /// The program of the server and its arguments, such as `[npx, -y, my-server]`. The agent speaks to
    /// it on its standard input and output.
    "command" command: defaults CommandLine = Vec::new();
    /// With `command`: variables for the server. The values are in the command line of some agents,
    /// so they must not be secret.
    "env" env: defaults Env = BTreeMap::new();
    /// Names of secrets of the server. A `command` gets each in the variable of the same name;
    /// `headers` name it as `${NAME}`. The agent gets them too, except with `sandbox: own`.
    "secrets" secrets: defaults EnvNames = Vec::new();
    /// The address of a server over HTTP: `https://`, or `http://` with a host of this machine. The
    /// sandbox of each stage with this server must permit the host.
    "url" url: optional Text;
    /// With `url`: headers of each request. A value is a text, `${NAME}` with one of `secrets`, or for
    /// `Authorization` `Bearer ${NAME}`.
    "headers" headers: defaults Headers = BTreeMap::new();
    /// The tools that agents may call, by the names that the server gives them; `["*"]` for all.
    /// Without it, agents may call none.
    "tools" tools: defaults ToolNames = Vec::new();
    /// How long the server may take to start. Default: that of the agent.
    "startup_timeout" startup_timeout: optional Positive;
    /// The timeout of one call. Default: that of the agent.
    "call_timeout" call_timeout: optional Positive;
    /// The maximum size of a result, such as `64KiB`, at most `1MiB`. Codex ignores it. Default: that of the agent.
    "max_output" max_output: optional Memory;
    /// With `command`: where the server runs. `agent` is the sandbox of the agent, which can read the
    /// secrets of the server; `own` is one of its own, which keeps them from the agent.
    "sandbox" sandbox: defaults McpSandbox = McpSandbox::Agent;
    instead {
        "args" => "write the arguments after the program: `command: [npx, -y, my-server]`",
        "type" | "transport" => "`command` starts a program, `url` names a server over HTTP",
        "environment" => "did you mean `env`?",
        "secret" => "did you mean `secrets`?",
        "address" | "endpoint" => "did you mean `url`?",
        "allow" | "allowed_tools" | "enabled_tools" => "did you mean `tools`?",
        "timeout" => "use `startup_timeout` or `call_timeout`",
    }
}

/// The maximum length of the name of a tool for a model.
const LONGEST_TOOL: usize = 64;
const LONGEST_SERVER: usize = 32;
/// The maximum of `max_output`, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;

/// The starts of well-known tokens.
const TOKEN_STARTS: &[&str] = &[
    "AIza",
    "AKIA",
    "eyJhbGci",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "hf_",
    "npm_",
    "pypi-",
    "sk-",
    "sk_live_",
    "xoxb-",
    "xoxp-",
];

/// Returns whether a text contains what is almost certainly a secret.
fn has_secret(text: &str) -> bool {
    let parts = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')));
    parts
        .filter(|part| part.len() >= 20)
        .any(|part| TOKEN_STARTS.iter().any(|start| part.starts_with(start)))
}

/// `mcp.N.headers`: names and values.
pub(crate) struct Headers;

impl Decode for Headers {
    type Value = BTreeMap<String, String>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self::Value> {
        let Kind::Map(entries) = &node.kind else {
            return cx.wrong_type(node, "a map of header names to values");
        };
        let mut headers = BTreeMap::new();
        for entry in entries {
            cx.under(&entry.key, entry.key_place, |cx| {
                let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
                if entry.key.is_empty() || !entry.key.bytes().all(is_token) {
                    let message = format!("invalid header name {}", quoted(&entry.key));
                    let error = Diagnostic::error("bad_header", cx.path(), message);
                    cx.sink.push(error.place(entry.key_place));
                }
                if let Some(value) = written(&entry.value, cx, "empty_value") {
                    headers.insert(entry.key.clone(), value);
                }
            });
        }
        Some(headers)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" },
            "additionalProperties": { "type": ["string", "number", "boolean"] },
        })
    }
}

/// `mcp.N.tools`: names of tools.
pub(crate) struct ToolNames;

impl Decode for ToolNames {
    type Value = Vec<String>;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for item in list(node, cx, "a list of tools", "[list, read]")? {
            let name = Text::decode(item, cx)?;
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            if name != McpTools::ALL && !(name.len() <= LONGEST_TOOL && name.bytes().all(is_plain)) {
                let hint = "write the name that the server gives the tool, or `\"*\"` for all tools";
                return cx.refuse_text("bad_mcp", item, ("invalid tool name", &name), hint);
            }
            names.push(name);
        }
        Some(names)
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string", "pattern": r"^([A-Za-z0-9_.-]{1,64}|\*)$" } })
    }
}

impl Decode for McpSandbox {
    type Value = Self;

    fn decode(node: &Node, cx: &mut Cx<'_>) -> Option<Self> {
        match cx.scalar(node, "`agent` or `own`")?.text.as_str() {
            "agent" => Some(Self::Agent),
            "own" => Some(Self::Own),
            text => {
                let wanted = "expected `agent` or `own`";
                cx.refuse_text("unknown_value", node, ("unknown value", text), wanted)
            }
        }
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": ["agent", "own"] })
    }
}

impl Check<'_> {
    /// Builds the servers; `None` if one is invalid, which was reported.
    pub(super) fn mcp(&mut self, servers: Option<Vec<(String, Mcp)>>) -> Option<BTreeMap<String, McpServer>> {
        let servers = servers.unwrap_or_default();
        let lowered: Vec<_> = servers
            .into_iter()
            .map(|(name, server)| self.mcp_server(&name, server).map(|server| (name, server)))
            .collect();
        lowered.into_iter().collect()
    }

    fn mcp_server(&mut self, name: &str, server: Mcp) -> Option<McpServer> {
        let path = join("mcp", name);
        let at = |key: &str| join(&path, key);
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.len() > LONGEST_SERVER || !name.bytes().all(is_plain) {
            let message = format!("invalid name {} of an MCP server", quoted(name));
            let hint =
                "use 1 to 32 of the characters `a-z 0-9 -`: the name is part of the names of its tools";
            self.report_at_key(Diagnostic::error("bad_mcp", path.clone(), message).hint(hint));
        }
        for (index, tool) in server.tools.iter().enumerate() {
            if McpServer::model_name(name, tool).len() > LONGEST_TOOL {
                let message = format!("the name of the tool {} is too long", quoted(tool));
                let hint = format!(
                    "`mcp__{name}__` and the name have at most {LONGEST_TOOL} characters: use a shorter name for the server"
                );
                self.report(
                    Diagnostic::error("bad_mcp", format!("{path}.tools.{index}"), message).hint(hint),
                );
            }
        }
        if server.max_output.is_some_and(|bytes| bytes > MAX_OUTPUT) {
            let hint = "an agent cannot work with more than `1MiB`";
            let error = Diagnostic::error(
                "out_of_range",
                at("max_output"),
                "the maximum size of a result is too large",
            );
            self.report(error.hint(hint));
        }
        let has = |check: &Self, key: &str| !check.places.is_absent(&at(key));
        let (has_command, has_url) = (has(self, "command"), has(self, "url"));
        if has_command == has_url {
            if self.places.is_map(&path) {
                let message = "an MCP server needs exactly one of `command` and `url`";
                let hint = "write `command: [PROGRAM, ARGUMENT]`, or `url: https://…`";
                self.report_at_key(Diagnostic::error("bad_mcp", path, message).hint(hint));
            }
            return None;
        }
        let foreign = if has_url { "env" } else { "headers" };
        if has(self, foreign) {
            let message = format!(
                "`{foreign}` has no effect with `{}`",
                if has_url { "url" } else { "command" }
            );
            self.report_at_key(Diagnostic::error("bad_mcp", at(foreign), message).hint("remove it"));
        }
        if has_url && server.sandbox == McpSandbox::Own {
            let message = "`sandbox: own` has no effect with `url`: the agent itself sends the headers";
            let hint = "remove it, or start a server with `command`";
            self.report(Diagnostic::error("bad_mcp", at("sandbox"), message).hint(hint));
        }
        let transport = if has_url {
            let url = self.mcp_url(at("url"), server.url?);
            let headers = self.mcp_headers(&at("headers"), server.headers, &server.secrets);
            McpTransport::Http {
                url: url?,
                headers: headers?,
            }
        } else {
            if server.command.is_empty() {
                if self.places.is_empty_list(&at("command")) {
                    let message = "the MCP server has no program";
                    let hint = "write `command: [PROGRAM, ARGUMENT]`";
                    self.report(Diagnostic::error("bad_mcp", at("command"), message).hint(hint));
                }
                return None;
            }
            for (index, text) in server.command.iter().enumerate() {
                self.no_secret(format!("{path}.command.{index}"), text);
            }
            for (variable, text) in &server.env {
                self.no_secret(join(&at("env"), variable), text);
            }
            McpTransport::Stdio {
                command: server.command,
                env: server.env,
                sandbox: server.sandbox,
            }
        };
        Some(McpServer {
            transport,
            secrets: server.secrets,
            tools: McpTools::from(server.tools),
            startup_timeout: server.startup_timeout,
            call_timeout: server.call_timeout,
            max_output: server.max_output,
        })
    }

    fn mcp_url(&mut self, path: String, url: String) -> Option<HttpUrl> {
        let is_secret = has_secret(&url);
        match HttpUrl::try_from(url) {
            Ok(url) if !is_secret => Some(url),
            // It may contain a secret, so the message does not quote it.
            result => {
                let why = match result {
                    Ok(_) => "it contains a secret".to_owned(),
                    Err(why) => why.to_string(),
                };
                let message = format!("invalid address of an MCP server: {why}");
                let hint = "write `https://` and a host, or `http://localhost:PORT/…`, and pass secrets in `headers`";
                self.report(Diagnostic::error("bad_mcp", path, message).hint(hint));
                None
            }
        }
    }

    fn mcp_headers(
        &mut self,
        path: &str,
        headers: BTreeMap<String, String>,
        secrets: &[String],
    ) -> Option<BTreeMap<String, HeaderValue>> {
        let mut lowered = BTreeMap::new();
        let mut is_valid = true;
        for (name, text) in headers {
            let is_authorization = name.eq_ignore_ascii_case(AUTHORIZATION);
            let is_secret = has_secret(&text);
            let found = match HeaderValue::try_from(text) {
                Err(why) => Err(why),
                Ok(HeaderValue::Text(_)) if is_authorization || is_secret => Err("it contains a secret"),
                Ok(HeaderValue::Bearer(_)) if !is_authorization => {
                    Err("`Bearer ${NAME}` belongs to `Authorization`")
                }
                Ok(value)
                    if value
                        .secret()
                        .is_some_and(|secret| !secrets.iter().any(|own| own == secret)) =>
                {
                    Err("it names a secret that is not in the `secrets` of the server")
                }
                Ok(value) => Ok(value),
            };
            match found {
                Ok(value) => {
                    lowered.insert(name, value);
                }
                Err(why) => {
                    is_valid = false;
                    let message = format!("invalid value of the header {}: {why}", quoted(&name));
                    let hint = "define the value in `secrets`, list its name in the `secrets` of the server, and write `${NAME}`, \
                                or `Bearer ${NAME}` for `Authorization`";
                    self.report(Diagnostic::error("bad_mcp", join(path, &name), message).hint(hint));
                }
            }
        }
        is_valid.then_some(lowered)
    }

    /// Checks that a text for a command line or a file contains no secret, and no variable that an
    /// agent would replace by its value.
    fn no_secret(&mut self, path: String, text: &str) {
        let message = if text.contains("${") {
            "variables are not expanded here"
        } else if has_secret(text) {
            "a secret would be visible in command lines"
        } else {
            return;
        };
        let hint = "define the value in `secrets`, and list its name in the `secrets` of the server: the server gets it in the \
                    variable of the same name";
        self.report(Diagnostic::error("mcp_secret", path, message).hint(hint));
    }
}
