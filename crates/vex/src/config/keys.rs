//! The keys that a variable or `--config` can set, each with the kind of its value.

use toml::Value;

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    Text,
    Integer,
    Number,
    Switch,
    Time,
    /// A list of texts; a variable has one per line.
    List,
}

/// A key of the settings.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The name, with dots between the tables.
    pub name: &'static str,
    pub kind: ValueKind,
}

impl Key {
    /// Returns the variable that sets this key.
    pub fn variable(&self) -> String {
        format!("VEX_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// Parses a text as a value of this key.
    pub(super) fn value(&self, text: &str) -> Result<Value, String> {
        let trimmed = text.trim();
        let number = |expected: &str| format!("{trimmed:?} is not a {expected}");
        match self.kind {
            ValueKind::Text => Ok(Value::String(text.to_owned())),
            ValueKind::Time => Ok(Value::String(trimmed.to_owned())),
            ValueKind::Integer => trimmed
                .parse()
                .map(Value::Integer)
                .map_err(|_| number("whole number")),
            ValueKind::Number => trimmed.parse().map(Value::Float).map_err(|_| number("number")),
            ValueKind::Switch => match trimmed.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Ok(Value::Boolean(true)),
                "0" | "false" | "no" | "off" | "" => Ok(Value::Boolean(false)),
                _ => Err(format!("{trimmed:?} is neither true nor false")),
            },
            ValueKind::List => Ok(Value::Array(
                text.lines()
                    .filter(|line| !line.trim().is_empty())
                    .map(|line| Value::String(line.trim().to_owned()))
                    .collect(),
            )),
        }
    }
}

const fn key(name: &'static str, kind: ValueKind) -> Key {
    Key { name, kind }
}

/// All keys with a fixed name; `providers.NAME.…` and `models."NAME".…` are not among them.
pub const KEYS: &[Key] = &[
    key("model", ValueKind::Text),
    key("fallback_model", ValueKind::Text),
    key("provider", ValueKind::Text),
    key("base_url", ValueKind::Text),
    key("effort", ValueKind::Text),
    key("permission", ValueKind::Text),
    key("tools", ValueKind::List),
    key("allow", ValueKind::List),
    key("deny", ValueKind::List),
    key("write.prefer_edit_lines", ValueKind::Integer),
    key("write.max_lines", ValueKind::Integer),
    key("sandbox.write", ValueKind::List),
    key("sandbox.require", ValueKind::Switch),
    key("env_pass", ValueKind::List),
    key("max_turns", ValueKind::Integer),
    key("max_tokens", ValueKind::Integer),
    key("max_usd", ValueKind::Number),
    key("timeout", ValueKind::Time),
    key("verify", ValueKind::Text),
    key("verify_attempts", ValueKind::Integer),
    key("tries", ValueKind::Integer),
    key("second_look", ValueKind::Switch),
    key("output_schema", ValueKind::Text),
    key("instructions", ValueKind::List),
    key("skills", ValueKind::Switch),
    key("trusted_projects", ValueKind::List),
    key("context.soft", ValueKind::Integer),
    key("context.hard", ValueKind::Integer),
    key("retry.max_tries", ValueKind::Integer),
    key("retry.max_broken", ValueKind::Integer),
    key("retry.first_wait_ms", ValueKind::Integer),
    key("retry.max_wait_ms", ValueKind::Integer),
    key("deadlines.connect_ms", ValueKind::Integer),
    key("deadlines.first_byte_ms", ValueKind::Integer),
    key("deadlines.stall_ms", ValueKind::Integer),
    key("deadlines.silence_ms", ValueKind::Integer),
    key("deadlines.total_ms", ValueKind::Integer),
    key("ca_file", ValueKind::Text),
    key("no_session", ValueKind::Switch),
];

/// Variables with the prefix that are not settings.
pub(super) const OTHER_VARIABLES: &[&str] = &[
    "VEX_HOME",
    "VEX_REPLAY_DIR",
    "VEX_JSON",
    "VEX_CD",
    "VEX_RESUME",
    "VEX_FORK",
    "VEX_OUTPUT",
];

/// Returns the known name most similar to this one, if there is one.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
