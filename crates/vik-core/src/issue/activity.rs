//! What people and CI say about an issue beside its text: `comments` and `checks`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::fields::author_of;
use super::hashed;

/// The comments and checks of an issue, and of the pull request that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// `comments`, in the order of the tracker.
    pub comments: Vec<Comment>,
    /// `checks`, in the order of the tracker.
    pub checks: Vec<Check>,
}

/// An entry of `comments`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    pub key: ActivityKey,
    /// The account of the author; never a name that people choose for display.
    pub author: Option<Arc<str>>,
    pub body: String,
    /// All fields as the pull printed them.
    pub fields: Map<String, Value>,
}

/// An entry of `checks`: the result of a job of CI, or whether the branch can be merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub key: ActivityKey,
    pub name: String,
    pub state: CheckState,
    /// The address of the result.
    pub url: Option<String>,
    /// All fields as the pull printed them.
    pub fields: Map<String, Value>,
}

/// The state of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum CheckState {
    Passed,
    Failed,
    /// It has no result yet.
    Pending,
    /// It did not run, was cancelled, or waits for a person.
    Skipped,
}

/// Identifies a comment with its text, or a check with its result, within an issue: an edited
/// comment and the next result of a check have another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ActivityKey(u64);

impl ActivityKey {
    fn of(parts: &[&str]) -> Self {
        let hash = hashed(parts).0;
        // The ledger stores JSON, whose readers elsewhere keep only 53 bits of a number.
        Self(u64::from_le_bytes(std::array::from_fn(|at| hash[at])) >> 11)
    }
}

impl Activity {
    /// Reads the valid entries of both lists.
    pub(super) fn read(fields: &Map<String, Value>) -> Self {
        let entries = |key: &str| match fields.get(key) {
            Some(Value::Array(entries)) => entries.as_slice(),
            _ => &[],
        };
        Self {
            comments: entries("comments").iter().filter_map(Comment::read).collect(),
            checks: entries("checks").iter().filter_map(Check::read).collect(),
        }
    }

    /// Returns the keys of all comments and checks.
    pub fn keys(&self) -> impl Iterator<Item = ActivityKey> {
        let comments = self.comments.iter().map(|comment| comment.key);
        comments.chain(self.checks.iter().map(|check| check.key))
    }
}

impl Comment {
    /// Reads an entry; `None` if it has no text.
    pub(super) fn read(entry: &Value) -> Option<Self> {
        let fields = entry.as_object()?;
        let body = text(fields, &["body"])?;
        let author = author_of(fields);
        let id = identity(fields);
        Some(Self {
            key: ActivityKey::of(&["comment", &id, author.as_deref().unwrap_or(""), body]),
            author,
            body: body.to_owned(),
            fields: fields.clone(),
        })
    }

    /// Returns whether Vik wrote the comment: its last line is the mark of a key. A mark elsewhere
    /// does not count, because people quote.
    pub fn is_own(&self) -> bool {
        let last = self.body.trim_end().lines().next_back();
        last.is_some_and(|line| line.starts_with(OWN_MARK) && line.ends_with("-->"))
    }
}

/// The start of the line with which Vik ends its comments in trackers. Markdown does not show it.
pub const OWN_MARK: &str = "<!-- vik:";

impl Check {
    /// Reads an entry; `None` if it has no name or no known state.
    pub(super) fn read(entry: &Value) -> Option<Self> {
        let fields = entry.as_object()?;
        let name = text(fields, &["name", "context"])?;
        // GitHub has an empty `conclusion` until the `status` is `COMPLETED`.
        let state = text(fields, &["conclusion", "state", "status", "bucket"])?;
        let state = CheckState::read(state)?;
        let url = text(
            fields,
            &[
                "url",
                "detailsUrl",
                "targetUrl",
                "details_url",
                "target_url",
                "web_url",
            ],
        );
        let revision = text(fields, &["revision", "sha", "head_sha"]);
        Some(Self {
            key: ActivityKey::of(&[
                "check",
                name,
                state.as_str(),
                url.unwrap_or(""),
                revision.unwrap_or(""),
            ]),
            name: name.to_owned(),
            state,
            url: url.map(str::to_owned),
            fields: fields.clone(),
        })
    }
}

impl CheckState {
    /// Returns the name used in JSON.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Reads the names of Vik, of the checks and statuses of GitHub, and of the jobs of GitLab.
    fn read(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "passed" | "pass" | "success" | "succeeded" => Self::Passed,
            "failed" | "fail" | "failure" | "error" | "timed_out" | "startup_failure" => Self::Failed,
            "pending"
            | "queued"
            | "in_progress"
            | "waiting"
            | "requested"
            | "expected"
            | "created"
            | "preparing"
            | "running"
            | "scheduled"
            | "waiting_for_resource" => Self::Pending,
            "skipped" | "skipping" | "neutral" | "cancelled" | "canceled" | "cancel" | "stale" | "manual"
            | "action_required" => Self::Skipped,
            _ => return None,
        })
    }
}

/// Returns the first of these fields that is a text with content.
fn text<'f>(fields: &'f Map<String, Value>, keys: &[&str]) -> Option<&'f str> {
    let texts = keys.iter().filter_map(|key| fields.get(*key)?.as_str());
    let mut texts = texts.filter(|text| !text.trim().is_empty());
    texts.next()
}

/// Returns `id`, a text or a number; else the time; else "".
fn identity(fields: &Map<String, Value>) -> String {
    match fields.get("id") {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => text(fields, &["created_at", "createdAt"])
            .unwrap_or_default()
            .to_owned(),
    }
}

/// The fields of an item with comments and checks.
pub(super) const LISTS: [&str; 2] = ["comments", "checks"];

/// Returns whether the text of an item may have comments or checks.
pub(super) fn may_have_activity(payload: &str) -> bool {
    payload.contains("\"comments\"") || payload.contains("\"checks\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(fields: Value) -> Activity {
        let Value::Object(fields) = fields else {
            panic!("not an object")
        };
        Activity::read(&fields)
    }

    #[test]
    fn comments_and_checks_of_github_and_gitlab_are_read() {
        let activity = read(json!({
            "comments": [
                {"id": "IC_1", "author": {"login": "ann"}, "body": "Use a map.", "createdAt": "2026-01-01T00:00:00Z"},
                {"id": 7, "author": {"username": "bob", "name": "Bob"}, "body": "Fine"},
            ],
            "checks": [
                {"__typename": "CheckRun", "name": "build", "status": "COMPLETED", "conclusion": "FAILURE"},
                {"__typename": "CheckRun", "name": "lint", "status": "IN_PROGRESS", "conclusion": ""},
                {"__typename": "StatusContext", "context": "ci/deploy", "state": "SUCCESS"},
                {"name": "docs", "status": "canceled"},
                {"name": "merge", "state": "failed", "summary": "it conflicts with main"},
            ],
        }));
        let authors: Vec<_> = activity
            .comments
            .iter()
            .map(|one| one.author.as_deref())
            .collect();
        assert_eq!(authors, [Some("ann"), Some("bob")]);
        let checks: Vec<_> = activity
            .checks
            .iter()
            .map(|check| (check.name.as_str(), check.state))
            .collect();
        let expected = [
            ("build", CheckState::Failed),
            ("lint", CheckState::Pending),
            ("ci/deploy", CheckState::Passed),
            ("docs", CheckState::Skipped),
            ("merge", CheckState::Failed),
        ];
        assert_eq!(checks, expected);
    }

    #[test]
    fn entries_of_another_shape_are_left_out() {
        let activity = read(json!({
            "comments": ["text", {"author": "ann"}, {"body": 7}, {"body": " "}, {"body": "kept"}],
            "checks": [7, {"name": "a"}, {"name": "b", "state": "purple"}, {"state": "failed"}],
        }));
        assert_eq!(activity.comments.len(), 1);
        assert_eq!(activity.comments[0].author, None);
        assert!(activity.checks.is_empty());
        let none = read(json!({"comments": "no list", "checks": null}));
        assert_eq!(none, Activity::default());
    }

    #[test]
    fn key_changes_with_the_text_or_the_result_only() {
        let comment = |body: &str, more: &str| {
            Comment::read(&json!({"id": "1", "author": "ann", "body": body, "seen": more}))
                .unwrap()
                .key
        };
        assert_eq!(comment("a", "x"), comment("a", "y"));
        assert_ne!(comment("a", "x"), comment("b", "x"));
        let at = |time: &str| {
            Comment::read(&json!({"body": "ping", "created_at": time}))
                .unwrap()
                .key
        };
        assert_ne!(at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"));
        let check = |state: &str, url: &str| {
            Check::read(&json!({"name": "build", "state": state, "url": url, "seconds": url.len()}))
                .unwrap()
                .key
        };
        assert_eq!(check("failed", "u1"), check("FAILURE", "u1"));
        assert_ne!(check("failed", "u1"), check("passed", "u1"));
        assert_ne!(check("failed", "u1"), check("failed", "u2"));
    }

    #[test]
    fn own_comment_ends_with_a_mark_and_a_quoted_one_does_not() {
        let is_own = |body: &str| Comment::read(&json!({"body": body})).unwrap().is_own();
        assert!(is_own("Done.\n\n<!-- vik:0b1c -->\n"));
        assert!(!is_own("> Done.\n> <!-- vik:0b1c -->"));
        assert!(!is_own("> Done.\n<!-- vik:0b1c -->\n\nNo, it is not."));
    }
}
