//! GitHub issues, through the GitHub CLI `gh`, which has the login.
//!
//! GitHub has only the states open and closed, so labels are the states of open issues: `vik:todo`
//! is the state `todo`. An open issue without such a label is in the state `none`.

mod api;
mod pulls;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::http::{KEYS_KNOWN_FOR, LISTED_FOR, before, encoded, items, missing_project, number, string};
use crate::mark::{is_marked, marked};
use crate::protocol::{
    CallError, Capabilities, Changed, Comment, Created, CreatedIssue, Moved, Protocol, Request, States,
    answer,
};
use crate::states::{self, CLOSED, Transition};
use api::Gh;

/// The longest text, in characters. GitHub permits 65,536, with the mark of the key.
const MAX_TEXT: usize = 65_250;

/// The issues of one repository.
#[derive(Clone, Debug)]
pub struct GithubTracker {
    gh: Gh,
}

impl GithubTracker {
    /// Creates the tracker of a repository: `OWNER/NAME`, or else the one that `gh` chooses for the
    /// current folder. `program` is the name or the path of `gh`.
    ///
    /// # Errors
    /// When there is no such program, or the name is invalid.
    pub fn new(program: &str, repository: Option<&str>) -> Result<Self, CallError> {
        Ok(Self {
            gh: Gh::new(program, repository)?,
        })
    }

    /// Returns the issues, the oldest first.
    fn list(&self, all: bool) -> Result<Vec<Value>, CallError> {
        let since = encoded(&before(LISTED_FOR));
        let recent = format!("issues?state=all&sort=created&direction=asc&since={since}");
        let queries = if all {
            vec!["issues?state=all&sort=created&direction=asc"]
        } else {
            // The recent ones come second: an issue that is closed or opened meanwhile is among them.
            vec!["issues?state=open&sort=created&direction=asc", &recent]
        };
        // An issue can be on two pages if another one changes between them.
        let mut found = BTreeMap::new();
        for query in queries {
            let issues = self.gh.get_all(query)?.into_iter().filter(is_issue);
            found.extend(issues.map(|found| (found["number"].as_u64(), found)));
        }
        found.values().map(|found| self.issue(found)).collect()
    }

    /// Returns an issue in the form of the protocol. One that others block takes one more request.
    fn issue(&self, found: &Value) -> Result<Value, CallError> {
        let mut shown = issue(found);
        let open_blockers = found["issue_dependencies_summary"]["blocked_by"].as_u64();
        if !is_closed(found) && open_blockers.unwrap_or(0) > 0 {
            let path = format!("issues/{}/dependencies/blocked_by", found["number"]);
            let blockers = match self.gh.get_all(&path) {
                // The issue was removed meanwhile, or this GitHub has no dependencies.
                Err(CallError::NotFound(_)) => Vec::new(),
                blockers => blockers?,
            };
            let here = |blocker: &&Value| !is_closed(blocker) && repository(blocker) == repository(found);
            let ids = blockers
                .iter()
                .filter(here)
                .map(|blocker| blocker["number"].to_string());
            shown["blocked_by"] = ids.collect::<Vec<_>>().into();
        }
        Ok(shown)
    }

    /// Returns an issue as GitHub prints it.
    fn find(&self, id: &str) -> Result<Value, CallError> {
        let path = issue_path(id, "")?;
        let found = match self.gh.get(&path) {
            Err(CallError::NotFound(reason)) => {
                // GitHub hides a repository from a token that may not read it.
                self.gh.get("").map_err(missing_project)?;
                return Err(CallError::NotFound(reason));
            }
            found => found?,
        };
        if is_issue(&found) {
            Ok(found)
        } else {
            Err(CallError::NotFound(format!("{id} is a pull request")))
        }
    }

    fn move_issue(&self, id: &str, from: &str, to: &str) -> Result<Moved, CallError> {
        let found = self.find(id)?;
        let transition = states::transition(is_closed(&found), &labels(&found), from, to);
        let Some(transition) = transition else {
            let state = state(&found);
            return Ok(Moved { moved: false, state });
        };
        let before = labels(&found);
        // The new label first: an issue without a label is in no state.
        if let Some(label) = &transition.add {
            let present = self.add_labels(id, std::slice::from_ref(label))?;
            let has_left = states::label(from).is_some_and(|from| !present.contains(&from));
            if has_left || !transition.is_undisturbed(&present, &before) {
                return self.take_back(id, &transition);
            }
        }
        if let Some(close) = transition.close {
            let state = if close { CLOSED } else { "open" };
            self.gh
                .send("PATCH", &issue_path(id, "")?, &json!({"state": state}))?;
        }
        for label in &transition.remove {
            let is_undisturbed = match self.remove_label(id, label)? {
                Some(present) => transition.is_undisturbed(&present, &before),
                None => states::label(from).as_ref() != Some(label),
            };
            if !is_undisturbed {
                return self.take_back(id, &transition);
            }
        }
        Ok(Moved {
            moved: true,
            state: to.to_owned(),
        })
    }

    /// Takes the label of the new state back from an issue that a person has moved at the same time.
    fn take_back(&self, id: &str, transition: &Transition) -> Result<Moved, CallError> {
        if let Some(label) = &transition.add {
            self.remove_label(id, label)?;
        }
        Ok(Moved {
            moved: false,
            state: state(&self.find(id)?),
        })
    }

    fn comments(&self, id: &str) -> Result<Vec<Comment>, CallError> {
        let comments = self.gh.get_all(&issue_path(id, "/comments")?)?;
        Ok(comments.iter().map(comment).collect())
    }

    fn comment(&self, id: &str, key: &str, body: &str) -> Result<bool, CallError> {
        let comments = self.comments(id)?;
        if comments.iter().any(|comment| is_marked(&comment.body, key)) {
            return Ok(false);
        }
        let body = json!({"body": marked(&cut(body), key)});
        self.gh.send("POST", &issue_path(id, "/comments")?, &body)?;
        Ok(true)
    }

    fn states(&self, wanted: &[String]) -> Result<States, CallError> {
        let labels = self.gh.get_all("labels")?;
        let names = labels.iter().map(|label| string(label, "name"));
        states::existing(names, wanted, |label| {
            let body = json!({"name": label, "description": "A state of issues for Vik"});
            self.gh.send("POST", "labels", &body).map(drop)
        })
    }

    fn label(&self, id: &str, add: &[String], remove: &[String]) -> Result<bool, CallError> {
        states::refuse(add.iter().chain(remove))?;
        let present = labels(&self.find(id)?);
        let added: Vec<String> = add
            .iter()
            .filter(|label| !present.contains(label))
            .cloned()
            .collect();
        let removed: Vec<&String> = remove.iter().filter(|label| present.contains(label)).collect();
        if !added.is_empty() {
            self.add_labels(id, &added)?;
        }
        for label in &removed {
            self.remove_label(id, label)?;
        }
        Ok(!added.is_empty() || !removed.is_empty())
    }

    /// Adds labels to an issue, and returns all that it has then. GitHub creates those that the
    /// repository lacks.
    fn add_labels(&self, id: &str, added: &[String]) -> Result<Vec<String>, CallError> {
        let body = json!({"labels": added});
        let present = self.gh.send("POST", &issue_path(id, "/labels")?, &body)?;
        Ok(labels(&json!({"labels": present})))
    }

    /// Removes a label from an issue, and returns those that it has then; `None` if somebody else
    /// has removed the label.
    fn remove_label(&self, id: &str, label: &str) -> Result<Option<Vec<String>>, CallError> {
        let path = issue_path(id, &format!("/labels/{}", encoded(label)))?;
        match self.gh.send("DELETE", &path, &Value::Null) {
            Ok(present) => Ok(Some(labels(&json!({"labels": present})))),
            Err(CallError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, key: &str, draft: &crate::protocol::IssueDraft) -> Result<CreatedIssue, CallError> {
        let since = encoded(&before(KEYS_KNOWN_FOR));
        let recent = self.gh.get_all(&format!("issues?state=all&since={since}"))?;
        let known = recent
            .iter()
            .find(|found| is_issue(found) && is_marked(&string(found, "body"), key));
        let (found, created) = match known {
            Some(known) => (known.clone(), false),
            None => {
                let mut labels = draft.labels.clone();
                labels.extend(draft.state.as_deref().and_then(states::label));
                let body = json!({
                    "title": draft.title,
                    "body": marked(&cut(&draft.body), key),
                    "labels": labels,
                });
                (self.gh.send("POST", "issues", &body)?, true)
            }
        };
        Ok(CreatedIssue {
            id: found["number"].to_string(),
            created,
            url: Some(string(&found, "html_url")),
        })
    }
}

impl Protocol for GithubTracker {
    fn warning(&self) -> Option<&str> {
        self.gh.warning()
    }

    fn call(&self, request: &Request) -> Result<Value, CallError> {
        request.check()?;
        match request {
            Request::Capabilities => answer(Capabilities::new("github", &[])),
            Request::States { create } => answer(self.states(create).map_err(missing_project)?),
            Request::List { all } => answer(self.list(*all).map_err(missing_project)?),
            Request::Show { id } => self.issue(&self.find(id)?),
            Request::Move { id, from, to } => answer(self.move_issue(id, from, to)?),
            Request::Comment { id, key, input } => answer(Created {
                created: self.comment(id, key, &input.body)?,
            }),
            Request::Comments { id } => answer(self.comments(id)?),
            Request::Label { id, add, remove } => answer(Changed {
                changed: self.label(id, add, remove)?,
            }),
            Request::Create { key, input } => answer(self.create(key, input).map_err(missing_project)?),
            Request::OpenPullRequest { head, input } => {
                answer(pulls::open(&self.gh, head, input).map_err(missing_project)?)
            }
            Request::PullRequestStatus { head } => answer(pulls::status(&self.gh, head)?),
            Request::PullRequestComments { head } => answer(pulls::comments(&self.gh, head)?),
        }
    }
}

/// Returns the text, or its beginning and a note if it is too long for GitHub together with a mark.
fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_TEXT) {
        None => text.into(),
        Some((end, _)) => {
            let more = text[end..].chars().count();
            format!("{}\n\n[cut: {more} more characters]", &text[..end]).into()
        }
    }
}

/// Returns the path of an issue.
fn issue_path(id: &str, below: &str) -> Result<String, CallError> {
    number("GitHub", id)?;
    Ok(format!("issues/{id}{below}"))
}

/// Returns whether this is an issue: GitHub lists pull requests as issues too.
fn is_issue(found: &Value) -> bool {
    found.get("pull_request").is_none()
}

/// Returns the address of the repository of an issue.
fn repository(found: &Value) -> Option<&str> {
    Some(found["html_url"].as_str()?.rsplit_once("/issues/")?.0)
}

/// Returns an issue in the form of the protocol, without its blockers.
fn issue(found: &Value) -> Value {
    let mut issue = json!({
        "id": found["number"].to_string(),
        "title": string(found, "title"),
        "state": state(found),
        "description": string(found, "body"),
        "url": string(found, "html_url"),
        "created_at": string(found, "created_at"),
        "updated_at": string(found, "updated_at"),
        "author": login(&found["user"]),
        "labels": labels(found),
    });
    let assignees: Vec<String> = items(&found["assignees"]).iter().map(login).collect();
    if let Some(first) = assignees.first() {
        issue["assignee"] = first.as_str().into();
        issue["assignees"] = assignees.into();
    }
    issue
}

fn comment(found: &Value) -> Comment {
    Comment {
        author: login(&found["user"]),
        body: string(found, "body"),
        created_at: string(found, "created_at"),
        url: Some(string(found, "html_url")),
        path: None,
        line: None,
    }
}

/// Returns the name of a user; that of GitHub for an account that was deleted.
fn login(user: &Value) -> String {
    user["login"].as_str().unwrap_or("ghost").to_owned()
}

/// Returns the sorted names of the labels.
fn labels(found: &Value) -> Vec<String> {
    let labels = items(&found["labels"]).iter();
    let mut names: Vec<String> = labels.map(|label| string(label, "name")).collect();
    names.sort();
    names
}

fn is_closed(found: &Value) -> bool {
    found["state"] == CLOSED
}

fn state(found: &Value) -> String {
    states::state(is_closed(found), &labels(found))
}
