//! The types of an item's fields.

use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::activity::{Check, Comment};
use crate::ids::IssueId;

/// A field of an issue with a value of another type. The issue is kept without the field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldWarning {
    pub issue: IssueId,
    /// The name of the field in the item.
    pub field: &'static str,
    /// The value's type and the consequence, as text.
    pub reason: String,
}

impl fmt::Display for FieldWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "issue {}: `{}` {}", self.issue, self.field, self.reason)
    }
}

/// Returns the author of an issue or a comment.
pub(crate) fn author_of(fields: &Map<String, Value>) -> Option<Arc<str>> {
    let named = |value: &Value| match value {
        Value::String(name) => Some(name.as_str().into()),
        Value::Object(who) => ["login", "username"]
            .iter()
            .find_map(|key| who.get(*key)?.as_str())
            .map(Into::into),
        _ => None,
    };
    // An `author` that cannot be parsed trusts nobody: anyone may be able to write the other field.
    ["author", "user"]
        .iter()
        .find_map(|key| fields.get(*key).filter(|value| !value.is_null()))
        .and_then(named)
        .filter(|name: &Arc<str>| !name.is_empty())
}

/// The expected type of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Text,
    /// Text is ignored without a warning, because some trackers name their priorities.
    NumberOrText,
    ListOfLabels,
    ListOfComments,
    ListOfChecks,
}

impl Expected {
    /// Returns what is wrong with a value; `null` counts as absent.
    pub(super) fn complaint(self, raw: &RawValue) -> Option<String> {
        let kind = match raw.get().as_bytes().first()? {
            b'n' => return None,
            b'"' => "a string",
            b'{' => "an object",
            b'[' => "a list",
            b't' | b'f' => "true or false",
            _ => "a number",
        };
        let (fits, wanted) = match self {
            Self::Text => (kind == "a string", "a string"),
            Self::NumberOrText => (kind == "a number" || kind == "a string", "a number"),
            Self::ListOfLabels if kind == "a list" => {
                let is_bad = |label: &Label| matches!(label, Label::Other(_));
                let labels: Vec<Label> = serde_json::from_str(raw.get()).unwrap_or_default();
                return labels
                    .iter()
                    .any(is_bad)
                    .then(|| bad_entries("are neither a string nor an object with a `name`"));
            }
            Self::ListOfComments if kind == "a list" => {
                return has_bad(raw, |entry| Comment::read(entry).is_some())
                    .then(|| bad_entries("are no objects with a `body`"));
            }
            Self::ListOfChecks if kind == "a list" => {
                return has_bad(raw, |entry| Check::read(entry).is_some())
                    .then(|| bad_entries("are no objects with a `name` and a known `state`"));
            }
            Self::ListOfLabels | Self::ListOfComments | Self::ListOfChecks => (false, "a list"),
        };
        (!fits).then(|| format!("is ignored: expected {wanted}, found {kind}"))
    }
}

fn bad_entries(kind: &str) -> String {
    format!("contains entries that {kind}: these entries are ignored")
}

fn has_bad(list: &RawValue, is_good: impl Fn(&Value) -> bool) -> bool {
    let entries: Vec<Value> = serde_json::from_str(list.get()).unwrap_or_default();
    !entries.iter().all(is_good)
}

/// An entry of `labels`.
#[derive(Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "only which one it is counts")]
enum Label {
    Text(String),
    Named { name: String },
    Other(serde::de::IgnoredAny),
}
