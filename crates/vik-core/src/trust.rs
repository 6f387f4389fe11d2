//! Decides which issues are trusted, by their author and labels.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::issue::Issue;
use crate::workflow::{TrustPolicy, Untrusted};

/// The origin of an issue, as far as the tracker reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `author`, or its `login` or `username`; else those of `user`. Never a name that people
    /// choose for display.
    pub author: Option<Arc<str>>,
    pub labels: Vec<String>,
}

/// The trust level of the text of an issue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TrustView")]
pub enum Trust {
    /// Prompts contain the text unchanged.
    #[default]
    Trusted,
    /// Prompts contain the text as fenced data.
    Fenced,
    /// The issue does not start.
    Held,
}

impl Origin {
    pub(crate) fn read(fields: &Map<String, Value>, labels: Vec<String>) -> Self {
        let named = |value: &Value| match value {
            Value::String(name) => Some(name.as_str().into()),
            Value::Object(who) => ["login", "username"]
                .iter()
                .find_map(|key| who.get(*key)?.as_str())
                .map(Into::into),
            _ => None,
        };
        // An `author` that cannot be parsed trusts nobody: anyone may be able to write the other
        // field.
        let author = ["author", "user"]
            .iter()
            .find_map(|key| fields.get(*key).filter(|value| !value.is_null()))
            .and_then(named)
            .filter(|name: &Arc<str>| !name.is_empty());
        Self { author, labels }
    }
}

impl TrustPolicy {
    /// Returns how far the text of an issue is trusted. Names must match exactly.
    pub fn judge(&self, issue: &Issue) -> Trust {
        let origin = issue.origin();
        let by_author = origin
            .author
            .as_ref()
            .is_some_and(|author| self.authors.iter().any(|known| **known == **author));
        let by_label = origin.labels.iter().any(|label| self.labels.contains(label));
        match self.untrusted {
            _ if by_author || by_label => Trust::Trusted,
            Untrusted::Fence => Trust::Fenced,
            Untrusted::Hold => Trust::Held,
        }
    }
}
