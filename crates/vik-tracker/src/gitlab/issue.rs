//! Issues and comments of GitLab in the form of the protocol.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::http::{items, string};
use crate::protocol::Comment;
use crate::states::{self, CLOSED};

/// The field with the number of issues that an issue blocks. It is missing if GitLab has no
/// blocking issues.
const BLOCKS: &str = "blocking_issues_count";

/// Which open issues block others of the project.
#[derive(Default)]
pub(super) struct Blockers(BTreeMap<u64, BTreeSet<u64>>);

impl Blockers {
    /// Adds the links of an open issue.
    pub(super) fn add(&mut self, blocker: &Value, links: &[Value]) {
        for blocked in linked(blocker, links, "blocks") {
            self.0.entry(blocked).or_default().extend(blocker["iid"].as_u64());
        }
    }

    pub(super) fn of(&self, found: &Value) -> Vec<String> {
        let blockers = found["iid"].as_u64().and_then(|number| self.0.get(&number));
        blockers.into_iter().flatten().map(u64::to_string).collect()
    }
}

/// Returns whether an issue blocks others.
pub(super) fn blocks_others(found: &Value) -> bool {
    !is_closed(found) && found[BLOCKS].as_u64().unwrap_or(0) > 0
}

/// Returns whether others can block an issue.
pub(super) fn may_be_blocked(found: &Value) -> bool {
    found.get(BLOCKS).is_some()
}

/// Returns the open issues that block this one.
pub(super) fn blockers(found: &Value, links: &[Value]) -> Vec<String> {
    let open: Vec<Value> = links.iter().filter(|link| !is_closed(link)).cloned().collect();
    let blockers: BTreeSet<u64> = linked(found, &open, "is_blocked_by").collect();
    blockers.iter().map(u64::to_string).collect()
}

/// Returns the issues of the same project that are linked in this way.
fn linked(found: &Value, links: &[Value], kind: &'static str) -> impl Iterator<Item = u64> {
    let links = links
        .iter()
        .filter(move |link| link["link_type"] == kind && link["project_id"] == found["project_id"]);
    links.filter_map(|link| link["iid"].as_u64())
}

/// Returns an issue in the form of the protocol.
pub(super) fn issue(found: &Value, blocked_by: &[String]) -> Value {
    let mut issue = json!({
        "id": found["iid"].to_string(),
        "title": string(found, "title"),
        "state": state(found),
        "description": string(found, "description"),
        "url": string(found, "web_url"),
        "created_at": string(found, "created_at"),
        "updated_at": string(found, "updated_at"),
        "author": username(&found["author"]),
        "labels": labels(found),
        "blocked_by": blocked_by,
    });
    let assignees: Vec<String> = items(&found["assignees"]).iter().map(username).collect();
    if let Some(first) = assignees.first() {
        issue["assignee"] = first.as_str().into();
        issue["assignees"] = assignees.into();
    }
    issue
}

/// Returns the notes below an issue or a merge request that all who can read it can read.
pub(super) fn comments(found: &Value, notes: &[Value]) -> Vec<Comment> {
    let public = notes.iter().filter(|note| {
        // Older versions have another name for it.
        note["internal"] != true && note["confidential"] != true
    });
    let url = string(found, "web_url");
    let comment = |note: &Value| {
        let position = &note["position"];
        let path = [&position["new_path"], &position["old_path"]];
        let line = [&position["new_line"], &position["old_line"]];
        Comment {
            author: username(&note["author"]),
            body: string(note, "body"),
            created_at: string(note, "created_at"),
            url: Some(format!("{url}#note_{}", note["id"])),
            path: path.into_iter().find_map(Value::as_str).map(str::to_owned),
            line: line.into_iter().find_map(Value::as_u64),
        }
    };
    public.map(comment).collect()
}

/// Returns the name of a user; that of GitLab for an account that was deleted.
pub(super) fn username(user: &Value) -> String {
    user["username"].as_str().unwrap_or("ghost").to_owned()
}

/// Returns the sorted labels.
pub(super) fn labels(found: &Value) -> Vec<String> {
    let labels = items(&found["labels"]).iter().filter_map(Value::as_str);
    let mut labels: Vec<String> = labels.map(str::to_owned).collect();
    labels.sort();
    labels
}

pub(super) fn is_closed(found: &Value) -> bool {
    found["state"] == CLOSED
}

pub(super) fn state(found: &Value) -> String {
    states::state(is_closed(found), &labels(found))
}
