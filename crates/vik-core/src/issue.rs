//! Snapshots of issues, as the pull command prints them.

use std::fmt;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use vik_scope::Scope;

pub use self::activity::{Activity, ActivityKey, Check, CheckState, Comment, OWN_MARK};
pub use self::fields::FieldWarning;
pub(crate) use self::fields::author_of;
use self::pull::Item;
pub use self::pull::{Misspelled, ParsePullError, Pull, Skipped, UNREADABLE_BLOCKER, Wanted};
use crate::ids::IssueId;
use crate::intent::{BadIntent, IssueIntent, may_have_intent};
use crate::trust::Origin;
use crate::workflow::When;

/// The longest id in bytes, because environments and messages contain it whole.
pub const MAX_ID_BYTES: usize = 32 * 1024;

/// One immutable snapshot of one issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    pub id: IssueId,
    /// `title`, "" when absent.
    pub title: Arc<str>,
    pub state: Arc<str>,
    /// `priority` in thousandths, if it is a number; lower ones start first, issues without one
    /// last.
    #[serde(default)]
    pub priority_milli: Option<i64>,
    /// `created_at`, if it is an RFC 3339 time; older ones start first, issues without one last.
    #[serde(default)]
    pub created_at: Option<Timestamp>,
    /// `blocked_by`: the issues that come first.
    #[serde(default)]
    pub blocked_by: Arc<[IssueId]>,
    /// The whole item as it was printed; kept as text, because most items are never used again.
    payload: Arc<str>,
    /// The parsed parts, which are read on first use.
    #[serde(skip)]
    read: ReadOnce,
}

/// The parts of an item that are parsed on first use. They follow from the payload, so comparisons
/// ignore them.
#[derive(Clone, Default)]
struct ReadOnce {
    intent: OnceLock<Arc<Result<IssueIntent, BadIntent>>>,
    /// The intersection of its scope with that of the first stage that asked.
    joined: OnceLock<Arc<(Scope, Result<Scope, BadIntent>)>>,
    origin: OnceLock<Arc<Origin>>,
    activity: OnceLock<Arc<Activity>>,
}

impl fmt::Debug for ReadOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

impl PartialEq for ReadOnce {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ReadOnce {}

/// A hash of the fields by which a person's change is detected: state, title, description.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint([u8; 16]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x?}", &self.0[..4])
    }
}

/// Sixteen hexadecimal digits, which are enough to distinguish texts.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..8].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Issue {
    /// Parses one item.
    ///
    /// # Errors
    /// Returns the item's id, where it has one, and the reason as text.
    pub fn parse(item: &str) -> Result<Self, (Option<String>, String)> {
        Item::read(item).map(|item| item.issue(None))
    }

    /// Creates an issue of which only the id is known.
    pub fn bare(id: IssueId) -> Self {
        Self {
            id,
            title: "".into(),
            state: "".into(),
            priority_milli: None,
            created_at: None,
            blocked_by: Arc::default(),
            payload: "{}".into(),
            read: ReadOnce::default(),
        }
    }

    /// Returns all fields of the item with aliases resolved: `id`, `title`, `state` and
    /// `description` are always present.
    pub fn fields(&self) -> Map<String, Value> {
        let mut fields: Map<String, Value> = serde_json::from_str(&self.payload).unwrap_or_default();
        let description = match (fields.get("description"), fields.get("desc")) {
            (Some(Value::String(text)), _) => text.clone(),
            (None | Some(Value::Null), Some(Value::String(text))) => text.clone(),
            _ => String::new(),
        };
        fields.insert("id".to_owned(), self.id.as_str().into());
        fields.insert("title".to_owned(), (&*self.title).into());
        fields.insert("state".to_owned(), (&*self.state).into());
        fields.insert("description".to_owned(), description.into());
        fields
    }

    /// Returns the address of the issue, if `url` is a web address. Anything else could be used to
    /// run a program.
    pub fn url(&self) -> Option<String> {
        match self.fields().remove("url") {
            Some(Value::String(url)) if url.starts_with("https://") || url.starts_with("http://") => {
                Some(url)
            }
            _ => None,
        }
    }

    /// Returns `labels`: texts, or objects with a `name`, as trackers write them.
    pub fn labels(&self) -> Vec<String> {
        let Some(Value::Array(labels)) = self.fields().remove("labels") else {
            return Vec::new();
        };
        let name = |label: Value| match label {
            Value::String(name) => Some(name),
            Value::Object(mut label) => label.remove("name")?.as_str().map(str::to_owned),
            _ => None,
        };
        labels.into_iter().filter_map(name).collect()
    }

    /// Returns the description, "" if absent.
    pub fn description(&self) -> String {
        match self.fields().remove("description") {
            Some(Value::String(text)) => text,
            _ => String::new(),
        }
    }

    /// Returns the intent that the issue declares.
    pub fn intent(&self) -> &Result<IssueIntent, BadIntent> {
        self.read.intent.get_or_init(|| {
            let read = || IssueIntent::read(&self.fields());
            Arc::new(if may_have_intent(&self.payload) {
                read()
            } else {
                Ok(IssueIntent::default())
            })
        })
    }

    /// Returns the intersection of its scope with that of a stage, which `join` computes. The first
    /// result is cached, because usually one stage asks repeatedly.
    pub(crate) fn joined(
        &self,
        stage: &Scope,
        join: impl Fn() -> Result<Scope, BadIntent>,
    ) -> Result<Scope, BadIntent> {
        let known = self.read.joined.get_or_init(|| Arc::new((stage.clone(), join())));
        if known.0 == *stage {
            known.1.clone()
        } else {
            join()
        }
    }

    pub fn origin(&self) -> &Origin {
        self.read
            .origin
            .get_or_init(|| Arc::new(Origin::read(&self.fields(), self.labels())))
    }

    /// Returns the comments and checks.
    pub fn activity(&self) -> &Activity {
        self.read.activity.get_or_init(|| {
            Arc::new(if activity::may_have_activity(&self.payload) {
                Activity::read(&self.fields())
            } else {
                Activity::default()
            })
        })
    }

    /// Returns the issue with the lists of comments and checks of an earlier snapshot, where this one
    /// does not have them.
    #[must_use]
    pub(crate) fn with_activity_of(self, earlier: &Self) -> Self {
        if !activity::may_have_activity(&earlier.payload) {
            return self;
        }
        let mut earlier = earlier.fields();
        let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(&self.payload) else {
            return self;
        };
        let before = fields.len();
        for key in activity::LISTS {
            if !fields.contains_key(key) {
                fields.extend(earlier.remove_entry(key));
            }
        }
        if fields.len() == before {
            return self;
        }
        Self {
            payload: Value::Object(fields).to_string().into(),
            read: ReadOnce::default(),
            ..self
        }
    }

    /// Returns a hash of the text that an approval covers: all fields but the state, the time of the
    /// update, and what others say about the issue. Another fingerprint needs another approval.
    pub fn text_fingerprint(&self) -> Fingerprint {
        let mut fields = self.fields();
        for key in ["state", "status", "updated_at", "updatedAt", "comments", "checks"] {
            fields.remove(key);
        }
        fields.sort_keys();
        hashed(&[&Value::Object(fields).to_string()])
    }

    /// Returns the hash that changes when a person changes the issue.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint_in(&self.state)
    }

    /// Returns whether a stage with this rule takes the issue as it is now.
    pub fn is_taken_by(&self, when: &When) -> bool {
        when.takes(&self.state, || self.labels())
    }

    /// Returns the fingerprint that the issue would have in another state.
    pub fn fingerprint_in(&self, state: &str) -> Fingerprint {
        hashed(&[state, &*self.title, &*self.description()])
    }
}

fn hashed(parts: &[&str]) -> Fingerprint {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let mut short = [0; 16];
    short.copy_from_slice(&hash.finalize()[..16]);
    Fingerprint(short)
}

mod activity;
mod fields;
mod pull;
#[cfg(test)]
mod tests;
