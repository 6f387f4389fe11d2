//! The types of an item's fields.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

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

/// The expected type of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Text,
    /// Text is ignored without a warning, because some trackers name their priorities.
    NumberOrText,
    ListOfLabels,
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
                let labels: Vec<Label> = serde_json::from_str(raw.get()).unwrap_or_default();
                let bad = labels
                    .iter()
                    .filter(|label| matches!(label, Label::Other(_)))
                    .count();
                return (bad > 0).then(|| {
                    "contains entries that are neither a string nor an object with a `name`: these entries are ignored"
                        .to_owned()
                });
            }
            Self::ListOfLabels => (false, "a list"),
        };
        (!fits).then(|| format!("is ignored: expected {wanted}, found {kind}"))
    }
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
