//! Which issues are trusted, by who wrote them and by their labels.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::issue::Issue;
use crate::workflow::{TrustPolicy, Untrusted};

/// Who stands behind an issue, as far as the tracker tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `author`, or the `login` or `username` of it; else those of `user`. Never a name that people give themselves.
    pub author: Option<Arc<str>>,
    /// `labels`.
    pub labels: Vec<String>,
}

/// What an issue's text may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// It is read as it is: by a rule, or since there is none.
    #[default]
    Trusted,
    /// It stands in prompts as data, in a fence.
    Fenced,
    /// It starts nothing.
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
        // One that is there and cannot be read is nobody: the other field may say what anybody can write.
        let author = ["author", "user"]
            .iter()
            .find_map(|key| fields.get(*key).filter(|value| !value.is_null()))
            .and_then(named)
            .filter(|name: &Arc<str>| !name.is_empty());
        Self { author, labels }
    }
}

impl TrustPolicy {
    /// What the text of an issue may do. Names are compared letter by letter.
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
