//! Issues of Redmine in the form of the protocol.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::http::{items, string};

/// The priorities as numbers: the highest one of Redmine is 1, since lower numbers go first.
pub(super) struct Priorities(BTreeMap<u64, usize>);

impl Priorities {
    /// Takes the priorities in the order of Redmine, the lowest first.
    pub(super) fn new(priorities: &[Value]) -> Self {
        let ids = priorities
            .iter()
            .rev()
            .filter_map(|priority| priority["id"].as_u64());
        Self(ids.zip(1..).collect())
    }
}

/// Returns the name of the status.
pub(super) fn status(found: &Value) -> String {
    string(&found["status"], "name")
}

/// Returns an issue in the form of the protocol.
pub(super) fn issue(found: &Value, url: &str, priorities: &Priorities) -> Value {
    let labels: Vec<String> = ["tracker", "category"]
        .map(|field| string(&found[field], "name"))
        .into_iter()
        .filter(|label| !label.is_empty())
        .collect();
    let mut issue = json!({
        "id": found["id"].to_string(),
        "title": string(found, "subject"),
        "state": status(found),
        "description": string(found, "description"),
        "url": url,
        "created_at": string(found, "created_on"),
        "updated_at": string(found, "updated_on"),
        // Trust depends on the author, and people choose their names.
        "author": found["author"]["id"].to_string(),
        "author_name": string(&found["author"], "name"),
        "labels": labels,
        "blocked_by": blockers(found),
    });
    let priority = found["priority"]["id"].as_u64();
    if let Some(number) = priority.and_then(|id| priorities.0.get(&id)) {
        issue["priority"] = (*number).into();
    }
    if let Some(assignee) = found["assigned_to"]["name"].as_str() {
        issue["assignee"] = assignee.into();
    }
    issue
}

/// Returns the ids of the issues that block this one, or precede it.
fn blockers(found: &Value) -> Vec<String> {
    let id = &found["id"];
    let relations = items(&found["relations"]).iter();
    let blocking = relations.filter(|relation| {
        relation["issue_to_id"] == *id
            && ["blocks", "precedes"].contains(&string(relation, "relation_type").as_str())
    });
    let blockers: BTreeSet<u64> = blocking
        .filter_map(|relation| relation["issue_id"].as_u64())
        .collect();
    blockers.iter().map(u64::to_string).collect()
}
