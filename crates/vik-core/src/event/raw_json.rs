//! JSON that is passed on as its author wrote it.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A JSON value as the agent printed it. It borrows from the agent's output while events are
/// written, and owns an equal value when they are read back.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct RawJson<'a>(Cow<'a, RawValue>);

impl RawJson<'_> {
    /// Returns the JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Returns the decoded value; `null` if it is nested too deeply.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.get()).unwrap_or_default()
    }
}

impl<'a> From<&'a RawValue> for RawJson<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self(Cow::Borrowed(raw))
    }
}

impl<'de> Deserialize<'de> for RawJson<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The tag of an event makes serde buffer its fields, so the raw text is no longer there.
        let value = Value::deserialize(deserializer)?;
        let raw = to_raw_value(&value).map_err(de::Error::custom)?;
        Ok(Self(Cow::Owned(raw)))
    }
}
