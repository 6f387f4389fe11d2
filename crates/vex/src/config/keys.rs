//! The keys that a variable or `--config` can set, each with its kind.

use toml::Value;

/// What a value of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// `true` or `false`.
    Switch,
    /// A length of time.
    Time,
    /// Texts, one a line in a variable.
    List,
}

/// A key of the settings.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name, with dots between the tables.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
}

impl Key {
    /// The variable that sets it.
    pub fn variable(&self) -> String {
        format!("VEX_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// A text as a value of this key.
    pub(super) fn value(&self, text: &str) -> Result<Value, String> {
        let trimmed = text.trim();
        let number = |what: &str| format!("{trimmed:?} is no {what}");
        match self.kind {
            Kind::Text => Ok(Value::String(text.to_owned())),
            Kind::Time => Ok(Value::String(trimmed.to_owned())),
            Kind::Integer => trimmed
                .parse()
                .map(Value::Integer)
                .map_err(|_| number("whole number")),
            Kind::Number => trimmed.parse().map(Value::Float).map_err(|_| number("number")),
            Kind::Switch => match trimmed.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Ok(Value::Boolean(true)),
                "0" | "false" | "no" | "off" | "" => Ok(Value::Boolean(false)),
                _ => Err(format!("{trimmed:?} is neither true nor false")),
            },
            Kind::List => Ok(Value::Array(
                text.lines()
                    .filter(|line| !line.trim().is_empty())
                    .map(|line| Value::String(line.trim().to_owned()))
                    .collect(),
            )),
        }
    }
}

const fn key(name: &'static str, kind: Kind) -> Key {
    Key { name, kind }
}

/// All keys with a place of their own; `providers.NAME.…` and `models."NAME".…` have none.
pub const KEYS: &[Key] = &[
    key("model", Kind::Text),
    key("fallback_model", Kind::Text),
    key("provider", Kind::Text),
    key("base_url", Kind::Text),
    key("effort", Kind::Text),
    key("permission", Kind::Text),
    key("tools", Kind::List),
    key("allow", Kind::List),
    key("deny", Kind::List),
    key("write.prefer_edit_lines", Kind::Integer),
    key("write.max_lines", Kind::Integer),
    key("sandbox.write", Kind::List),
    key("sandbox.require", Kind::Switch),
    key("env_pass", Kind::List),
    key("max_turns", Kind::Integer),
    key("max_tokens", Kind::Integer),
    key("max_usd", Kind::Number),
    key("timeout", Kind::Time),
    key("verify", Kind::Text),
    key("verify_attempts", Kind::Integer),
    key("second_look", Kind::Switch),
    key("output_schema", Kind::Text),
    key("instructions", Kind::List),
    key("context.soft", Kind::Integer),
    key("context.hard", Kind::Integer),
    key("retry.max_tries", Kind::Integer),
    key("retry.max_broken", Kind::Integer),
    key("retry.first_wait_ms", Kind::Integer),
    key("retry.max_wait_ms", Kind::Integer),
    key("deadlines.connect_ms", Kind::Integer),
    key("deadlines.first_byte_ms", Kind::Integer),
    key("deadlines.stall_ms", Kind::Integer),
    key("deadlines.silence_ms", Kind::Integer),
    key("deadlines.total_ms", Kind::Integer),
    key("ca_file", Kind::Text),
    key("no_session", Kind::Switch),
];

/// Variables with the prefix that are no settings.
pub(super) const OTHER_VARIABLES: &[&str] = &[
    "VEX_HOME",
    "VEX_REPLAY_DIR",
    "VEX_JSON",
    "VEX_CD",
    "VEX_RESUME",
    "VEX_FORK",
    "VEX_OUTPUT",
];

/// The known name that is most like this one, where one is.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}
