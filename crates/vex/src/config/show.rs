//! The settings as `vex config show` prints them: each value with its origin, never a secret.

use serde::Serialize;
use serde_json::Value;

use super::LoadedConfig;
use super::layers::Origin;
use crate::redact::redact_json;

/// One value of the settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownSetting {
    /// The key, with dots between the tables.
    pub key: String,
    /// The value; null if there is none.
    pub value: Value,
    /// The origin: `default`, a file, `$VARIABLE`, `--config` or a flag.
    pub origin: String,
}

impl LoadedConfig {
    /// Returns all values, in the order of the settings.
    pub fn shown(&self) -> Vec<ShownSetting> {
        let all = serde_json::to_value(&self.settings).unwrap_or_default();
        let mut shown = Vec::new();
        self.walk(&all, &mut Vec::new(), &mut shown);
        shown
    }

    fn walk(&self, value: &Value, path: &mut Vec<String>, shown: &mut Vec<ShownSetting>) {
        match value {
            Value::Object(fields) if !path.is_empty() || !fields.is_empty() => {
                for (key, value) in fields {
                    path.push(key.clone());
                    self.walk(value, path, shown);
                    path.pop();
                }
            }
            // An absent value of a provider or a model is not a setting.
            Value::Null if path.len() > 2 => {}
            Value::Array(entries) if !entries.is_empty() => {
                let origins = self.origins.get(path);
                for (index, entry) in entries.iter().enumerate() {
                    let origin = origins.and_then(|origins| origins.get(index).or(origins.first()));
                    shown.push(one(format!("{}[{index}]", dotted(path)), entry, origin));
                }
            }
            value => {
                let origin = self.origins.get(path).and_then(|origins| origins.first());
                let is_hidden = match path.as_slice() {
                    [section, _, key, _] => match section.as_str() {
                        "providers" => key == "headers" || key == "query",
                        "mcp" => key == "headers" || key == "env",
                        _ => false,
                    },
                    _ => false,
                };
                let hidden = Value::String("[set]".to_owned());
                shown.push(one(dotted(path), if is_hidden { &hidden } else { value }, origin));
            }
        }
    }
}

fn one(key: String, value: &Value, origin: Option<&Origin>) -> ShownSetting {
    ShownSetting {
        key,
        value: redact_json(value).into_owned(),
        origin: origin.unwrap_or(&Origin::Default).to_string(),
    }
}

/// Returns a path as TOML writes it: `models."gpt-5.2".input`.
fn dotted(path: &[String]) -> String {
    let bare = |part: &str| {
        part.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let parts = path.iter().map(|part| {
        if bare(part) && !part.is_empty() {
            part.clone()
        } else {
            toml::Value::String(part.clone()).to_string()
        }
    });
    parts.collect::<Vec<_>>().join(".")
}
