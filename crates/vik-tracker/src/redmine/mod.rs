//! Issues of one project of Redmine, through its REST API.
//!
//! The states are the issue statuses of Redmine, by their names. Labels do not exist there: the
//! tracker of Redmine, such as `Bug`, and the category of an issue are its labels, and `label` is not
//! supported.

mod issue;

use reqwest::Method;
use serde_json::{Value, json};

use crate::http::{
    Access, KEYS_KNOWN_FOR, LISTED_FOR, Names, Server, before, encoded, items, missing_project, number,
    string,
};
use crate::mark::{is_marked, marked};
use crate::protocol::{
    CallError, Capabilities, Comment, Created, CreatedIssue, IssueDraft, Moved, Protocol, Request, answer,
};
use issue::{Priorities, status};

const NAMES: Names = Names {
    tracker: "Redmine",
    header: "x-redmine-api-key",
    variable: "REDMINE_API_KEY",
};
/// All issues of the project itself, the oldest first. Its parts of a query are encoded: `!*` and
/// `>=` are operators of Redmine.
const ISSUES: &str = "issues.json?subproject_id=%21%2A&include=relations&sort=id&limit=100";

/// The issues of one project.
#[derive(Debug)]
pub struct RedmineTracker {
    server: Server,
    /// The identifier of the project, encoded.
    project: String,
}

impl RedmineTracker {
    /// Creates the tracker of a project with this identifier, or number; sends nothing yet.
    ///
    /// # Errors
    /// When the address, the token or the identifier is invalid.
    pub fn new(access: &Access, project: &str) -> Result<Self, CallError> {
        let is_identifier = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if project.is_empty() || !project.bytes().all(is_identifier) {
            let reason = format!("{project:?} is not the identifier of a project: see its settings");
            return Err(CallError::Usage(reason));
        }
        Ok(Self {
            server: Server::new(NAMES, access)?,
            project: encoded(project),
        })
    }

    /// Returns the issues of the project that match a filter, sorted by their numbers.
    fn issues(&self, filter: &str) -> Result<Vec<Value>, CallError> {
        let mut found: Vec<Value> = Vec::new();
        let mut first = 1;
        loop {
            // Pages by number instead of by offset: no issue moves to another page meanwhile.
            let path = format!(
                "/projects/{}/{ISSUES}&issue_id=%3E%3D{first}&{filter}",
                self.project
            );
            let page = self.server.get(&path).map_err(missing_project)?;
            let issues = issues_of(&page)?;
            let numbers = issues.iter().filter_map(|issue| issue["id"].as_u64());
            if numbers.clone().any(|number| number < first) {
                let reason = "this version of Redmine cannot list issues by their numbers";
                return Err(CallError::Failed(reason.to_owned()));
            }
            let Some(last) = numbers.max() else {
                return Ok(found);
            };
            found.extend_from_slice(issues);
            if page["total_count"].as_u64() == Some(issues.len() as u64) {
                return Ok(found);
            }
            first = last + 1;
        }
    }

    fn list(&self, all: bool) -> Result<Vec<Value>, CallError> {
        let mut found = Vec::new();
        if all {
            found = self.issues("status_id=%2A")?;
        } else {
            found.extend(self.issues("status_id=open")?);
            // The recent ones come second: an issue that is closed or opened meanwhile is among them.
            let since = encoded(&before(LISTED_FOR));
            found.extend(self.issues(&format!("status_id=%2A&updated_on=%3E%3D{since}"))?);
        }
        let priorities = self.priorities()?;
        let issues = found
            .iter()
            .map(|found| (found["id"].as_u64(), self.issue(found, &priorities)));
        // The later one of two counts.
        let issues: std::collections::BTreeMap<_, _> = issues.collect();
        Ok(issues.into_values().collect())
    }

    /// Returns an issue of the project as Redmine lists it. An issue of another project is not
    /// found, so that it is never changed.
    fn find(&self, id: &str) -> Result<Value, CallError> {
        let number = number(NAMES.tracker, id)?;
        let path = format!("/projects/{}/{ISSUES}&issue_id={id}&status_id=%2A", self.project);
        let page = self.server.get(&path).map_err(missing_project)?;
        let found = issues_of(&page)?.iter().find(|found| found["id"] == number);
        found
            .cloned()
            .ok_or_else(|| CallError::NotFound(format!("there is no issue {id} in the project")))
    }

    fn move_issue(&self, id: &str, from: &str, to: &str) -> Result<Moved, CallError> {
        let state = status(&self.find(id)?);
        if state != from || from == to {
            return Ok(Moved { moved: false, state });
        }
        self.update(id, &json!({"status_id": self.status_id(to)?}))?;
        let state = status(&self.find(id)?);
        // Redmine ignores a status that is not permitted.
        if state == from {
            return Err(CallError::Failed(not_permitted(id, from, to)));
        }
        Ok(Moved {
            moved: state == to,
            state,
        })
    }

    fn update(&self, id: &str, fields: &Value) -> Result<(), CallError> {
        let body = json!({"issue": fields});
        let path = format!("/issues/{id}.json");
        self.server.send(Method::PUT, &path, &body).map(drop)
    }

    /// Returns the statuses with their numbers, in the order of Redmine.
    fn statuses(&self) -> Result<Vec<(String, u64)>, CallError> {
        let body = self.server.get("/issue_statuses.json").map_err(missing_project)?;
        let statuses = items(&body["issue_statuses"]).iter();
        Ok(statuses
            .filter_map(|status| Some((string(status, "name"), status["id"].as_u64()?)))
            .collect())
    }

    fn status_id(&self, name: &str) -> Result<u64, CallError> {
        let statuses = self.statuses()?;
        let found = statuses.iter().find(|(known, _)| known == name);
        found.map(|(_, id)| *id).ok_or_else(|| {
            let known: Vec<&str> = statuses.iter().map(|(name, _)| name.as_str()).collect();
            CallError::Usage(format!(
                "Redmine has no status {name:?}, but {}",
                known.join(", ")
            ))
        })
    }

    fn priorities(&self) -> Result<Priorities, CallError> {
        let path = "/enumerations/issue_priorities.json";
        let body = self.server.get(path).map_err(missing_project)?;
        Ok(Priorities::new(items(&body["issue_priorities"])))
    }

    fn issue(&self, found: &Value, priorities: &Priorities) -> Value {
        let url = self.server.page(&format!("/issues/{}", found["id"]));
        issue::issue(found, &url, priorities)
    }

    /// Returns the journals of an issue that have a text, the oldest first.
    fn notes(&self, id: &str) -> Result<Vec<Value>, CallError> {
        let path = format!("/issues/{id}.json?include=journals");
        let body = self.server.get(&path)?;
        let journals = items(&body["issue"]["journals"]).iter();
        let mut notes: Vec<Value> = journals
            .filter(|journal| !string(journal, "notes").trim().is_empty())
            .cloned()
            .collect();
        // An account can prefer the newest ones first.
        notes.sort_by_key(|journal| journal["id"].as_u64());
        Ok(notes)
    }

    fn comments(&self, id: &str) -> Result<Vec<Comment>, CallError> {
        self.find(id)?;
        let notes = self.notes(id)?;
        let public = notes.iter().filter(|note| note["private_notes"] != true);
        let comments = public.map(|note| Comment {
            author: string(&note["user"], "name"),
            body: string(note, "notes"),
            created_at: string(note, "created_on"),
            url: Some(self.server.page(&format!("/issues/{id}#change-{}", note["id"]))),
            path: None,
            line: None,
        });
        Ok(comments.collect())
    }

    fn comment(&self, id: &str, key: &str, body: &str) -> Result<bool, CallError> {
        self.find(id)?;
        let exists = || -> Result<bool, CallError> {
            let notes = self.notes(id)?;
            Ok(notes.iter().any(|note| is_marked(&string(note, "notes"), key)))
        };
        if exists()? {
            return Ok(false);
        }
        self.update(id, &json!({"notes": marked(body, key)}))?;
        // Redmine ignores a note that is not permitted.
        if exists()? {
            Ok(true)
        } else {
            Err(CallError::Failed(format!(
                "Redmine did not add the comment to the issue {id}: the account of the token may not add notes"
            )))
        }
    }

    fn create(&self, key: &str, draft: &IssueDraft) -> Result<CreatedIssue, CallError> {
        if !draft.labels.is_empty() {
            return Err(CallError::Usage("Redmine has no labels".to_owned()));
        }
        let since = encoded(&before(KEYS_KNOWN_FOR));
        let recent = self.issues(&format!("status_id=%2A&author_id=me&created_on=%3E%3D{since}"))?;
        let known = recent
            .into_iter()
            .find(|found| is_marked(&string(found, "description"), key));
        let (found, created) = match known {
            Some(known) => (known, false),
            None => (self.create_issue(key, draft)?, true),
        };
        let id = found["id"].to_string();
        Ok(CreatedIssue {
            url: Some(self.server.page(&format!("/issues/{id}"))),
            id,
            created,
        })
    }

    fn create_issue(&self, key: &str, draft: &IssueDraft) -> Result<Value, CallError> {
        let mut fields = json!({"subject": draft.title, "description": marked(&draft.body, key)});
        let wanted = match &draft.state {
            Some(name) => Some((name, self.status_id(name)?)),
            None => None,
        };
        if let Some((_, status_id)) = wanted {
            fields["status_id"] = status_id.into();
        }
        let path = format!("/projects/{}/issues.json", self.project);
        let body = json!({"issue": fields});
        let answer = self.server.send(Method::POST, &path, &body);
        let mut body = answer.map_err(missing_project)?;
        let created = body["issue"].take();
        if !created["id"].is_u64() {
            return Err(CallError::Failed(
                "Redmine did not return the new issue".to_owned(),
            ));
        }
        // Redmine ignores a first status that is not permitted, but may permit to move on to it.
        if let Some((name, status_id)) = wanted
            && status(&created) != *name
        {
            let id = created["id"].to_string();
            self.update(&id, &json!({"status_id": status_id}))?;
            if status(&self.find(&id)?) != *name {
                let reason = not_permitted(&id, &status(&created), name);
                return Err(CallError::Failed(format!("the issue was created, but {reason}")));
            }
        }
        Ok(created)
    }
}

impl Protocol for RedmineTracker {
    fn warning(&self) -> Option<&str> {
        self.server.warning()
    }

    fn call(&self, request: &Request) -> Result<Value, CallError> {
        request.check()?;
        match request {
            Request::Capabilities => answer(Capabilities {
                states: Some(self.statuses()?.into_iter().map(|(name, _)| name).collect()),
                ..Capabilities::new("redmine", &["states", "label", "pull_request"])
            }),
            Request::List { all } => answer(self.list(*all)?),
            Request::Show { id } => {
                let found = self.find(id)?;
                Ok(self.issue(&found, &self.priorities()?))
            }
            Request::Move { id, from, to } => answer(self.move_issue(id, from, to)?),
            Request::Comment { id, key, input } => answer(Created {
                created: self.comment(id, key, &input.body)?,
            }),
            Request::Comments { id } => answer(self.comments(id)?),
            Request::Create { key, input } => answer(self.create(key, input)?),
            Request::States { .. }
            | Request::Label { .. }
            | Request::OpenPullRequest { .. }
            | Request::PullRequestStatus { .. }
            | Request::PullRequestComments { .. } => Err(CallError::unsupported(request)),
        }
    }
}

/// Returns the issues of one page.
fn issues_of(page: &Value) -> Result<&[Value], CallError> {
    let issues = page["issues"].as_array().map(Vec::as_slice);
    issues.ok_or_else(|| CallError::Failed("Redmine sent no list of issues".to_owned()))
}

fn not_permitted(id: &str, from: &str, to: &str) -> String {
    format!(
        "Redmine did not move the issue {id} from {from:?} to {to:?}: the workflow of its tracker does not \
         permit it to the role of the account"
    )
}
