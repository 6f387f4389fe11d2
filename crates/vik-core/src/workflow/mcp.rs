//! `mcp`: servers of the Model Context Protocol, whose tools agents can call.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::duration::Span;

/// The header whose value can be a bearer token.
pub const AUTHORIZATION: &str = "authorization";

/// `mcp.N`: a server whose tools agents can call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    pub transport: McpTransport,
    /// The names of secrets: variables of the server, and of its agent unless the server has a
    /// sandbox of its own.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// The tools that agents may call.
    pub tools: McpTools,
    /// The time for its start; `None` for the default of the agent.
    #[serde(default)]
    pub startup_timeout: Option<Span>,
    /// The time limit of one call; `None` for the default of the agent.
    #[serde(default)]
    pub call_timeout: Option<Span>,
    /// The maximum size of a result, in bytes; `None` for the default of the agent.
    #[serde(default)]
    pub max_output: Option<u64>,
}

/// How an agent reaches a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum McpTransport {
    /// A process that speaks on its standard input and output.
    Stdio {
        /// The program and its arguments.
        command: Vec<String>,
        env: BTreeMap<String, String>,
        #[serde(default)]
        sandbox: McpSandbox,
    },
    /// A server over HTTP.
    Http {
        url: HttpUrl,
        headers: BTreeMap<String, HeaderValue>,
    },
}

/// Where the process of a server runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpSandbox {
    /// As a child of the agent, in its sandbox. The agent gets the secrets of the server.
    #[default]
    Agent,
    /// Beside the agent, in a sandbox of its own. The agent gets no secret of the server.
    Own,
}

/// The tools of a server that agents may call, as a list of names or `["*"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub enum McpTools {
    #[default]
    None,
    All,
    /// At least one name.
    Named(Vec<String>),
}

/// The value of a header: a text, or a secret by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HeaderValue {
    Text(String),
    /// The value of a secret alone, `${NAME}`.
    Secret(String),
    /// A secret after the word `Bearer`.
    Bearer(String),
}

/// An address with `https://`, or with `http://` and a host of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpUrl {
    text: String,
    host: String,
    port: u16,
}

/// Why a text is not the address of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    #[error("it is not an address with `https://`, a host and a path")]
    Form,
    #[error("`http://` sends all data in plain text, which is permitted for this machine only")]
    Plain,
    #[error("it contains a user name or a password")]
    Credentials,
}

impl McpServer {
    /// Returns the name of the tool for a model, as every agent forms it.
    pub fn model_name(server: &str, tool: &str) -> String {
        format!("mcp__{server}__{tool}")
    }

    /// Returns whether the server has a sandbox of its own, which keeps its secrets from the agent.
    pub fn has_own_sandbox(&self) -> bool {
        let own = McpSandbox::Own;
        matches!(&self.transport, McpTransport::Stdio { sandbox, .. } if *sandbox == own)
    }
}

impl McpTools {
    /// The name for all tools.
    pub const ALL: &str = "*";
}

impl From<Vec<String>> for McpTools {
    fn from(names: Vec<String>) -> Self {
        match names.as_slice() {
            [] => Self::None,
            names if names.iter().any(|name| name == Self::ALL) => Self::All,
            _ => Self::Named(names),
        }
    }
}

impl From<McpTools> for Vec<String> {
    fn from(tools: McpTools) -> Self {
        match tools {
            McpTools::None => Self::new(),
            McpTools::All => vec![McpTools::ALL.to_owned()],
            McpTools::Named(names) => names,
        }
    }
}

impl HeaderValue {
    /// Returns the name of the secret in it.
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Secret(name) | Self::Bearer(name) => Some(name),
        }
    }
}

impl TryFrom<String> for HeaderValue {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (is_bearer, tail) = match text.strip_prefix("Bearer ") {
            Some(tail) => (true, tail.trim()),
            None => (false, text.as_str()),
        };
        match secret_name(tail) {
            Some(name) if is_bearer => Ok(Self::Bearer(name.to_owned())),
            Some(name) => Ok(Self::Secret(name.to_owned())),
            None if text.contains("${") => Err("`${NAME}` is the whole value, or follows `Bearer `"),
            None if text.contains(|c: char| c.is_control()) => Err("it contains a control character"),
            None => Ok(Self::Text(text)),
        }
    }
}

impl From<HeaderValue> for String {
    fn from(value: HeaderValue) -> Self {
        match value {
            HeaderValue::Text(text) => text,
            HeaderValue::Secret(name) => format!("${{{name}}}"),
            HeaderValue::Bearer(name) => format!("Bearer ${{{name}}}"),
        }
    }
}

/// Returns the name of the secret in a text of the form `${NAME}`.
pub(super) fn secret_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name = name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
    is_name.then_some(name)
}

impl HttpUrl {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the host in lower case, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl TryFrom<String> for HttpUrl {
    type Error = BadUrl;

    fn try_from(text: String) -> Result<Self, BadUrl> {
        let (tail, is_plain) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(tail), _) => (tail, false),
            (None, Some(tail)) => (tail, true),
            (None, None) => return Err(BadUrl::Form),
        };
        let authority = tail.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(BadUrl::Credentials);
        }
        let (host, suffix) = match authority.strip_prefix('[') {
            Some(inner) => inner.split_once(']').ok_or(BadUrl::Form)?,
            None => authority
                .find(':')
                .map_or((authority, ""), |colon| authority.split_at(colon)),
        };
        let port = match suffix.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| BadUrl::Form)?,
            None if suffix.is_empty() => {
                if is_plain {
                    80
                } else {
                    443
                }
            }
            None => return Err(BadUrl::Form),
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_fine = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '$' | '\\' | '"');
        if host.is_empty() || !text.chars().all(is_fine) {
            return Err(BadUrl::Form);
        }
        let address = host.parse::<std::net::IpAddr>();
        if is_plain && host != "localhost" && !address.is_ok_and(|address| address.is_loopback()) {
            return Err(BadUrl::Plain);
        }
        Ok(Self { text, host, port })
    }
}

impl From<HttpUrl> for String {
    fn from(url: HttpUrl) -> Self {
        url.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_reached_in_plain_text() {
        for (text, host, port) in [
            ("https://Mcp.Example.com/mcp", "mcp.example.com", 443),
            ("https://a:8443", "a", 8443),
            ("http://localhost/mcp", "localhost", 80),
            ("http://127.0.0.1:9/x?y", "127.0.0.1", 9),
            ("http://[::1]:9/x", "::1", 9),
        ] {
            let url = HttpUrl::try_from(text.to_owned()).unwrap();
            assert_eq!((url.as_str(), url.host(), url.port()), (text, host, port));
        }
        for (text, why) in [
            ("http://example.com/mcp", BadUrl::Plain),
            ("http://127.0.0.1.example.com", BadUrl::Plain),
            ("http://localhost@example.com", BadUrl::Credentials),
            ("https://u:p@example.com", BadUrl::Credentials),
            ("ftp://a", BadUrl::Form),
            ("https://", BadUrl::Form),
            ("https://a/${TOKEN}", BadUrl::Form),
            ("https://a:x/", BadUrl::Form),
            ("https://a b", BadUrl::Form),
        ] {
            assert_eq!(HttpUrl::try_from(text.to_owned()).unwrap_err(), why, "{text}");
        }
    }

    #[test]
    fn header_value_is_a_text_or_a_secret() {
        for (text, value) in [
            ("a $5 b", HeaderValue::Text("a $5 b".to_owned())),
            ("${TOKEN}", HeaderValue::Secret("TOKEN".to_owned())),
            ("Bearer ${TOKEN}", HeaderValue::Bearer("TOKEN".to_owned())),
        ] {
            let read = HeaderValue::try_from(text.to_owned()).unwrap();
            assert_eq!(read, value);
            assert_eq!(String::from(read), text);
        }
        for bad in ["token ${TOKEN}", "${TOKEN}x", "${A-b}", "${A:-b}", "a\n"] {
            assert!(HeaderValue::try_from(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
