//! The subject of a call, which rules and approvals are about.

use serde_json::Value;

/// What the pattern of a rule is matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Paths as given, relative to the workspace if inside it.
    Paths(Vec<String>),
    /// A line for the shell.
    Command(String),
    Host(String),
    /// The name of a skill.
    Name(String),
    /// Unknown: no allow with a pattern matches, and every deny does.
    Unknown,
}

impl Subject {
    /// Returns the paths in these arguments; a missing one is the workspace itself.
    pub(super) fn of_paths(input: &Value, names: &[&str]) -> Self {
        let mut all = Vec::new();
        for name in names {
            match input.get(name) {
                None => all.push(".".to_owned()),
                Some(Value::String(path)) => all.push(path.clone()),
                Some(Value::Array(paths)) => {
                    all.extend(paths.iter().filter_map(Value::as_str).map(str::to_owned));
                }
                Some(_) => return Self::Unknown,
            }
        }
        if all.is_empty() {
            Self::Unknown
        } else {
            Self::Paths(all)
        }
    }
}
