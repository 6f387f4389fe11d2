//! The settings of a server, and its variables.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::name::check_server_name;
use crate::config::Period;
use crate::redact::redact;
use crate::tools::MAX_OUTPUT_BYTES;

/// The maximum of `max_output`, in bytes: what a server sends beyond it is not even read.
const MAX_MAX_OUTPUT: usize = 1024 * 1024;

/// A server of tools (Model Context Protocol), which `vex` starts or reaches by HTTP.
///
/// In `command`, `args`, `env`, `url` and `headers`, `${VAR}` is a variable of vex, and
/// `${VAR:-TEXT}` one with a default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerConfig {
    /// The program of the server. It runs in the workspace, with the sandbox and the environment of commands.
    pub command: Option<String>,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Variables of the program, in addition to those of all commands.
    pub env: BTreeMap<String, String>,
    /// The URL of a server that is reached by HTTP (streamable HTTP).
    pub url: Option<String>,
    /// Headers of each request to `url`.
    pub headers: BTreeMap<String, String>,
    /// The tools to use, by the names of the server: none if the list is empty, all that the rules
    /// allow without a list.
    pub tools: Option<Vec<String>>,
    /// Whether the run fails if the server does not start.
    pub required: bool,
    /// How long the server may take to start and to list its tools.
    pub startup_timeout: Period,
    /// How long a call may take.
    pub call_timeout: Period,
    /// The maximum output of a call in the conversation, in bytes: a number, or a text such as `64KiB`.
    pub max_output: ByteSize,
}

impl Default for McpServerConfig {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            url: None,
            headers: BTreeMap::new(),
            tools: None,
            required: true,
            startup_timeout: Period::seconds(30),
            call_timeout: Period::seconds(120),
            max_output: ByteSize(MAX_OUTPUT_BYTES),
        }
    }
}

impl McpServerConfig {
    /// Checks values that depend on each other. An error starts with the key below the server.
    pub(crate) fn check(&self, name: &str) -> Result<(), String> {
        check_server_name(name)?;
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => Err("`command` and `url` exclude each other".to_owned()),
            (None, None) => Err("`command` or `url` is missing".to_owned()),
            (Some(_), None) if !self.headers.is_empty() => Err("`headers` needs `url`".to_owned()),
            (None, Some(_)) if !self.env.is_empty() || !self.args.is_empty() => {
                Err("`args` and `env` need `command`".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Returns whether this tool of the server may be used.
    pub(super) fn uses(&self, tool: &str) -> bool {
        let tools = self.tools.as_ref();
        tools.is_none_or(|tools| tools.iter().any(|name| name == tool))
    }

    /// Returns the settings with the values of the variables.
    ///
    /// # Errors
    /// If a variable is not set, or an argument contains a secret. The text starts with the key.
    pub(super) fn resolve(&self, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let text = |key: &str, text: &str| expand(text, variable).map_err(|error| format!("{key}: {error}"));
        let table = |key: &str, values: &BTreeMap<String, String>| {
            let one = |(name, value): (&String, &String)| {
                Ok((name.clone(), text(&format!("{key}.{name}"), value)?))
            };
            values.iter().map(one).collect::<Result<BTreeMap<_, _>, String>>()
        };
        let given =
            |key: &str, value: &Option<String>| value.as_deref().map(|value| text(key, value)).transpose();
        let args: Result<Vec<String>, String> = self.args.iter().map(|arg| text("args", arg)).collect();
        let args = args?;
        if let Some(secret) = args.iter().position(|arg| matches!(redact(arg), Cow::Owned(_))) {
            return Err(format!(
                "args[{secret}] contains a secret, which every program of this machine could see: pass it in `env`"
            ));
        }
        Ok(Self {
            command: given("command", &self.command)?,
            args,
            env: table("env", &self.env)?,
            url: given("url", &self.url)?,
            headers: table("headers", &self.headers)?,
            ..self.clone()
        })
    }

    /// Returns the variables whose values this server gets.
    pub(crate) fn variables(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .env
            .values()
            .chain(self.headers.values())
            .flat_map(|text| references(text))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// A number of bytes above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenSize", into = "usize")]
pub struct ByteSize(usize);

impl ByteSize {
    /// Returns the number of bytes.
    pub fn bytes(self) -> usize {
        self.0
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": ["integer", "string"], "minimum": 1})
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a number of bytes, or a text such as `64KiB`")]
enum WrittenSize {
    Bytes(usize),
    Text(String),
}

impl TryFrom<WrittenSize> for ByteSize {
    type Error = String;

    fn try_from(written: WrittenSize) -> Result<Self, String> {
        let bytes = match &written {
            WrittenSize::Bytes(bytes) => Some(*bytes),
            WrittenSize::Text(text) => size(text.trim()),
        };
        match bytes {
            Some(bytes @ 1..=MAX_MAX_OUTPUT) => Ok(Self(bytes)),
            Some(_) => Err("a size between 1 byte and 1 MiB is expected".to_owned()),
            None => Err("a number of bytes, or a text such as `64KiB`, is expected".to_owned()),
        }
    }
}

impl From<ByteSize> for usize {
    fn from(size: ByteSize) -> Self {
        size.0
    }
}

fn size(text: &str) -> Option<usize> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: usize = text[..digits].parse().ok()?;
    let factor = match text[digits..].trim_start() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// A part of a text with variables.
enum Piece<'a> {
    Text(&'a str),
    Variable { name: &'a str, default: Option<&'a str> },
}

/// Splits a text at its references. A `$` without a name in braces is plain text.
fn pieces(mut text: &str) -> Vec<Piece<'_>> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut pieces = Vec::new();
    while let Some(start) = text.find("${") {
        let after = &text[start + 2..];
        let inside = after.find('}').map(|end| &after[..end]);
        let reference = inside.and_then(|inside| {
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            is_name(name).then_some((inside, name, default))
        });
        match reference {
            Some((inside, name, default)) => {
                pieces.push(Piece::Text(&text[..start]));
                pieces.push(Piece::Variable { name, default });
                text = &after[inside.len() + 1..];
            }
            None => {
                pieces.push(Piece::Text(&text[..start + 2]));
                text = after;
            }
        }
    }
    pieces.push(Piece::Text(text));
    pieces
}

fn expand(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut expanded = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => expanded.push_str(text),
            Piece::Variable { name, default } => {
                match (variable(name).filter(|value| !value.is_empty()), default) {
                    (Some(value), _) => expanded.push_str(&value),
                    (None, Some(default)) => expanded.push_str(default),
                    (None, None) => return Err(format!("the variable {name} is not set")),
                }
            }
        }
    }
    Ok(expanded)
}

fn references(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Variable { name, .. } => Some(name),
        Piece::Text(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("t0".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced_once() {
        let expanded = |text: &str| expand(text, &variable);
        assert_eq!(expanded("Bearer ${TOKEN}!").unwrap(), "Bearer t0!");
        assert_eq!(expanded("${EMPTY:-a}${NONE:-${TOKEN}}").unwrap(), "a${TOKEN}");
        assert_eq!(
            expanded("$TOKEN ${} ${1X} ${a b} ${").unwrap(),
            "$TOKEN ${} ${1X} ${a b} ${"
        );
        assert_eq!(expanded("${NONE}").unwrap_err(), "the variable NONE is not set");
        assert_eq!(references("${A} ${B:-x} $C").collect::<Vec<_>>(), ["A", "B"]);
    }

    #[test]
    fn arguments_contain_no_secret() {
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
        let config = McpServerConfig {
            command: Some("server".to_owned()),
            args: vec!["--token".to_owned(), "${GITHUB}".to_owned()],
            ..McpServerConfig::default()
        };
        let error = config.resolve(&|_| Some(secret.to_owned())).unwrap_err();
        assert!(error.starts_with("args[1] contains a secret"), "{error}");
        assert!(!error.contains(secret));
    }

    #[test]
    fn sizes_have_units_and_a_limit() {
        let parsed = |text: &str| serde_json::from_str::<ByteSize>(text).map(ByteSize::bytes);
        assert_eq!(parsed("5").unwrap(), 5);
        assert_eq!(parsed("\"64KiB\"").unwrap(), 65536);
        assert_eq!(parsed("\"64 kB\"").unwrap(), 64000);
        for text in ["0", "-1", "\"0\"", "\"5 parsecs\"", "\"2MiB\"", "true"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
