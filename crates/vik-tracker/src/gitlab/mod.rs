//! Issues of one project of GitLab, through its REST API.
//!
//! GitLab has only the states opened and closed, so labels are the states of open issues, as on
//! GitHub.

mod issue;
mod merge_requests;
mod quick_actions;

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::http::{
    Access, KEYS_KNOWN_FOR, LISTED_FOR, Names, Server, before, encoded, items, missing_project, number,
    string,
};
use crate::mark::{is_marked, marked};
use crate::protocol::{
    CallError, Capabilities, Changed, Comment, Created, CreatedIssue, IssueDraft, Moved, Protocol, Request,
    States, answer,
};
use crate::states;
use issue::{Blockers, is_closed, labels, state};
use quick_actions::escaped;

const NAMES: Names = Names {
    tracker: "GitLab",
    header: "private-token",
    variable: "GITLAB_TOKEN",
};

/// The color of labels that Vik creates.
const LABEL_COLOR: &str = "#6699cc";

/// The issues and the merge requests of one project.
#[derive(Debug)]
pub struct GitlabTracker {
    server: Server,
    /// The path of the project in the API.
    project: String,
}

impl GitlabTracker {
    /// Creates the tracker of a project: `GROUP/NAME`, or its number; sends nothing yet.
    ///
    /// # Errors
    /// When the address, the token or the project is invalid.
    pub fn new(access: &Access, project: &str) -> Result<Self, CallError> {
        let is_part = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !["", ".", ".."].contains(&part) && !part.starts_with('-') && part.bytes().all(plain)
        };
        let is_id = project.bytes().all(|byte| byte.is_ascii_digit());
        if !project.split('/').all(is_part) || !(is_id || project.contains('/')) {
            return Err(CallError::Usage(format!("{project:?} is not GROUP/NAME")));
        }
        Ok(Self {
            server: Server::new(NAMES, access)?,
            project: format!("/api/v4/projects/{}", encoded(project)),
        })
    }

    /// Returns the path of an issue. Only numbers are ids, so that no id leads to another path.
    fn issue_path(&self, id: &str, below: &str) -> Result<String, CallError> {
        let number = number(NAMES.tracker, id)?;
        Ok(format!("{}/issues/{number}{below}", self.project))
    }

    fn issues(&self, query: &str) -> Result<Vec<Value>, CallError> {
        let path = format!(
            "{}/issues?scope=all&order_by=created_at&sort=asc&{query}",
            self.project
        );
        self.server.get_all(&path).map_err(missing_project)
    }

    /// Returns the issues, the oldest first.
    fn list(&self, all: bool) -> Result<Vec<Value>, CallError> {
        let recent = format!("state=all&updated_after={}", encoded(&before(LISTED_FOR)));
        let queries: &[&str] = if all {
            &["state=all"]
        } else {
            // The recent ones come second: an issue that is closed or opened meanwhile is among them.
            &["state=opened", &recent]
        };
        // An issue can be on two pages if another one changes between them.
        let mut found = BTreeMap::new();
        for query in queries {
            let issues = self.issues(query)?.into_iter();
            found.extend(issues.map(|issue| (issue["iid"].as_u64(), issue)));
        }
        let mut blockers = Blockers::default();
        for blocker in found.values().filter(|found| issue::blocks_others(found)) {
            let path = self.issue_path(&blocker["iid"].to_string(), "/links")?;
            match self.server.get(&path) {
                Ok(links) => blockers.add(blocker, items(&links)),
                // It was removed meanwhile.
                Err(CallError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found
            .values()
            .map(|found| issue::issue(found, &blockers.of(found)))
            .collect())
    }

    /// Returns an issue as GitLab lists it. In a project that cannot be read, this is a failure: the
    /// issue may exist.
    fn find(&self, id: &str) -> Result<Value, CallError> {
        let number = number(NAMES.tracker, id)?;
        let found = self.issues(&format!("state=all&iids%5B%5D={number}"))?;
        let found = found.into_iter().find(|found| found["iid"] == number);
        found.ok_or_else(|| CallError::NotFound(format!("there is no issue {id} in the project")))
    }

    fn show(&self, id: &str) -> Result<Value, CallError> {
        let found = self.find(id)?;
        let blockers = if issue::may_be_blocked(&found) {
            match self.server.get(&self.issue_path(id, "/links")?) {
                Err(CallError::NotFound(_)) => Vec::new(),
                links => issue::blockers(&found, items(&links?)),
            }
        } else {
            Vec::new()
        };
        Ok(issue::issue(&found, &blockers))
    }

    fn move_issue(&self, id: &str, from: &str, to: &str) -> Result<Moved, CallError> {
        let found = self.find(id)?;
        let transition = states::transition(is_closed(&found), &labels(&found), from, to);
        let Some(transition) = transition else {
            let state = state(&found);
            return Ok(Moved { moved: false, state });
        };
        let add: Vec<String> = transition.add.iter().cloned().collect();
        let mut change = label_change(&add, &transition.remove)?;
        if let Some(close) = transition.close {
            change["state_event"] = if close { "close" } else { "reopen" }.into();
        }
        let changed = self.update(id, &change)?;
        let state = state(&changed);
        // An open issue with another label of a state was moved by a person at the same time.
        if state == to && (to == states::CLOSED || transition.is_undisturbed(&labels(&changed), &[])) {
            return Ok(Moved { moved: true, state });
        }
        // GitLab ignores labels and states that the account may not set.
        if state == from {
            return Err(CallError::Failed(format!(
                "GitLab did not move the issue {id} from {from:?} to {to:?}: the account of the token may not \
                 change it"
            )));
        }
        let changed = self.update(id, &label_change(&[], &add)?)?;
        Ok(Moved {
            moved: false,
            state: self::state(&changed),
        })
    }

    /// Changes an issue, and returns it.
    fn update(&self, id: &str, change: &Value) -> Result<Value, CallError> {
        self.server.send(Method::PUT, &self.issue_path(id, "")?, change)
    }

    /// Returns the comments of people, the oldest first.
    fn notes(&self, path: &str) -> Result<Vec<Value>, CallError> {
        let path = format!("{path}/notes?order_by=created_at&sort=asc");
        let mut notes = self.server.get_all(&path)?;
        notes.retain(|note| note["system"] != true);
        Ok(notes)
    }

    fn comments(&self, id: &str) -> Result<Vec<Comment>, CallError> {
        let found = self.find(id)?;
        let notes = self.notes(&self.issue_path(id, "")?)?;
        Ok(issue::comments(&found, &notes))
    }

    fn comment(&self, id: &str, key: &str, body: &str) -> Result<bool, CallError> {
        let issue = self.issue_path(id, "")?;
        let mut notes = self.notes(&issue)?.into_iter();
        if notes.any(|note| is_marked(&string(&note, "body"), key)) {
            return Ok(false);
        }
        let body = json!({"body": marked(&escaped(body), key)});
        self.server.send(Method::POST, &format!("{issue}/notes"), &body)?;
        Ok(true)
    }

    fn states(&self, wanted: &[String]) -> Result<States, CallError> {
        let path = format!("{}/labels", self.project);
        let labels = self.server.get_all(&path)?;
        let names = labels.iter().map(|label| string(label, "name"));
        states::existing(names, wanted, |label| {
            let body =
                json!({"name": label, "color": LABEL_COLOR, "description": "A state of issues for Vik"});
            self.server.send(Method::POST, &path, &body).map(drop)
        })
    }

    fn label(&self, id: &str, add: &[String], remove: &[String]) -> Result<bool, CallError> {
        states::refuse(add.iter().chain(remove))?;
        let present = labels(&self.find(id)?);
        let missing = |label: &&String| !present.contains(label);
        let added: Vec<String> = add.iter().filter(missing).cloned().collect();
        let removed: Vec<String> = remove.iter().filter(|label| !missing(label)).cloned().collect();
        if added.is_empty() && removed.is_empty() {
            return Ok(false);
        }
        let present = labels(&self.update(id, &label_change(&added, &removed)?)?);
        // GitLab ignores labels that the account may not set.
        let is_set = added.iter().all(|label| present.contains(label))
            && !removed.iter().any(|label| present.contains(label));
        is_set.then_some(true).ok_or_else(|| {
            CallError::Failed(format!(
                "GitLab did not change the labels of the issue {id}: the account of the token may not set them"
            ))
        })
    }

    fn create(&self, key: &str, draft: &IssueDraft) -> Result<CreatedIssue, CallError> {
        let since = encoded(&before(KEYS_KNOWN_FOR));
        let path = format!(
            "{}/issues?scope=created_by_me&state=all&order_by=created_at&sort=asc&created_after={since}",
            self.project
        );
        let recent = self.server.get_all(&path).map_err(missing_project)?;
        let known = recent
            .into_iter()
            .find(|found| is_marked(&string(found, "description"), key));
        let (found, created) = match known {
            Some(known) => (known, false),
            None => (self.create_issue(key, draft)?, true),
        };
        Ok(CreatedIssue {
            id: found["iid"].to_string(),
            created,
            url: Some(string(&found, "web_url")),
        })
    }

    fn create_issue(&self, key: &str, draft: &IssueDraft) -> Result<Value, CallError> {
        let mut wanted = draft.labels.clone();
        wanted.extend(draft.state.as_deref().and_then(states::label));
        let body = json!({
            "title": draft.title,
            "description": marked(&escaped(&draft.body), key),
            "labels": joined(&wanted)?,
        });
        let path = format!("{}/issues", self.project);
        let created = self.server.send(Method::POST, &path, &body);
        let created = created.map_err(missing_project)?;
        let present = labels(&created);
        if !wanted.iter().all(|label| present.contains(label)) {
            return Err(CallError::Failed(format!(
                "the issue {} was created, but without its labels: the account of the token may not set them",
                created["iid"]
            )));
        }
        Ok(created)
    }
}

impl Protocol for GitlabTracker {
    fn warning(&self) -> Option<&str> {
        self.server.warning()
    }

    fn call(&self, request: &Request) -> Result<Value, CallError> {
        request.check()?;
        match request {
            Request::Capabilities => answer(Capabilities::new("gitlab", &[])),
            Request::States { create } => answer(self.states(create).map_err(missing_project)?),
            Request::List { all } => answer(self.list(*all)?),
            Request::Show { id } => self.show(id),
            Request::Move { id, from, to } => answer(self.move_issue(id, from, to)?),
            Request::Comment { id, key, input } => answer(Created {
                created: self.comment(id, key, &input.body)?,
            }),
            Request::Comments { id } => answer(self.comments(id)?),
            Request::Label { id, add, remove } => answer(Changed {
                changed: self.label(id, add, remove)?,
            }),
            Request::Create { key, input } => answer(self.create(key, input)?),
            Request::OpenPullRequest { head, input } => answer(self.open_merge_request(head, input)?),
            Request::PullRequestStatus { head } => answer(self.merge_request_status(head)?),
            Request::PullRequestComments { head } => answer(self.merge_request_comments(head)?),
        }
    }
}

/// Returns a change of labels for the API.
fn label_change(add: &[String], remove: &[String]) -> Result<Value, CallError> {
    Ok(json!({"add_labels": joined(add)?, "remove_labels": joined(remove)?}))
}

/// Joins labels. No label of GitLab has a comma.
fn joined(labels: &[String]) -> Result<String, CallError> {
    match labels.iter().find(|label| label.contains(',')) {
        Some(label) => Err(CallError::Usage(format!(
            "labels of GitLab cannot contain a comma: {label:?}"
        ))),
        None => Ok(labels.join(",")),
    }
}
