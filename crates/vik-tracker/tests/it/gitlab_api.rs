//! A small part of GitLab's REST API.

use serde_json::{Value, json};

use crate::web::{Fake, WebRequest, WebResponse};

pub const TOKEN: &str = "glpat-secret";

type Edit = Box<dyn FnOnce(&mut Value) + Send>;

pub struct State {
    pub issues: Vec<Value>,
    /// `issues/N` or `merge_requests/N`, and the note.
    pub notes: Vec<(String, Value)>,
    /// The number of an issue, and what it links to.
    pub links: Vec<(u64, Value)>,
    pub merge_requests: Vec<Value>,
    pub approvals: Value,
    /// The reviewers; null for a version that does not have them.
    pub reviewers: Value,
    /// The names of the labels of the project.
    pub labels: Vec<String>,
    /// The longest page, whatever is asked for.
    pub page: usize,
    /// Whether the headers of pages are missing.
    pub hides_pages: bool,
    /// Whether each page is the first one.
    pub ignores_pages: bool,
    /// Whether the account may not set labels.
    pub ignores_labels: bool,
    /// How a person edits an issue right before its next change.
    pub person_edits: Option<Edit>,
}

pub type Api = Fake<State>;

pub fn start(issues: impl IntoIterator<Item = Value>) -> Api {
    let state = State {
        issues: issues.into_iter().collect(),
        notes: Vec::new(),
        links: Vec::new(),
        merge_requests: Vec::new(),
        approvals: json!({"approved": true, "approved_by": []}),
        reviewers: json!([]),
        labels: Vec::new(),
        page: 2,
        hides_pages: false,
        ignores_pages: false,
        ignores_labels: false,
        person_edits: None,
    };
    Fake::start(state, respond)
}

/// Returns an open issue.
pub fn issue(number: u64, labels: &[&str]) -> Value {
    json!({
        "id": 1000 + number,
        "iid": number,
        "project_id": 3,
        "title": format!("Issue {number}"),
        "description": null,
        "state": "opened",
        "web_url": format!("https://gitlab.example/group/shop/-/issues/{number}"),
        "created_at": format!("2020-01-01T00:00:{number:02}.000Z"),
        "updated_at": "2020-01-02T00:00:00.000Z",
        "author": {"id": 9, "username": "ann"},
        "assignees": [],
        "labels": labels,
    })
}

pub fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.000Z")
        .to_string()
}

fn missing(subject: &str) -> WebResponse {
    WebResponse::json(404, &json!({"message": format!("404 {subject} Not Found")}))
}

fn respond(state: &mut State, request: &WebRequest) -> WebResponse {
    if request.header("private-token") != Some(TOKEN) {
        return WebResponse::json(401, &json!({"message": "401 Unauthorized"}));
    }
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let ["api", "v4", "projects", "group/shop", below @ ..] = segments.as_slice() else {
        return missing("Project");
    };
    let body = &request.body;
    match (request.method.as_str(), below) {
        ("GET", []) => WebResponse::json(200, &json!({"id": 3, "default_branch": "trunk"})),
        ("GET", ["labels"]) => {
            let labels = state.labels.iter().map(|name| json!({"name": name}));
            listed(state, request, labels.collect())
        }
        ("POST", ["labels"]) => {
            state.labels.push(body["name"].as_str().unwrap().to_owned());
            WebResponse::json(201, body)
        }
        ("GET", ["issues"]) => list_issues(state, request),
        ("POST", ["issues"]) => {
            let mut created = issue(state.issues.len() as u64 + 1, &[]);
            created["title"] = body["title"].clone();
            created["description"] = without_quick_actions(&body["description"]);
            created["author"] = json!({"id": 7, "username": "vik"});
            created["created_at"] = now().into();
            created["updated_at"] = now().into();
            set_labels(state, &mut created, &body["labels"], &Value::Null);
            state.issues.push(created.clone());
            WebResponse::json(201, &created)
        }
        ("PUT", ["issues", number]) => {
            let Some(at) = position(&state.issues, number) else {
                return missing("Issue");
            };
            let mut issue = state.issues[at].clone();
            if let Some(edit) = state.person_edits.take() {
                edit(&mut issue);
            }
            match body["state_event"].as_str() {
                Some("close") => issue["state"] = "closed".into(),
                Some("reopen") => issue["state"] = "opened".into(),
                _ => {}
            }
            set_labels(state, &mut issue, &body["add_labels"], &body["remove_labels"]);
            issue["updated_at"] = now().into();
            state.issues[at] = issue.clone();
            WebResponse::json(200, &issue)
        }
        ("GET", ["issues", number, "links"]) => {
            let number: u64 = number.parse().unwrap();
            let links = state.links.iter().filter(|(of, _)| *of == number);
            // This list has no pages.
            WebResponse::json(200, &links.map(|(_, link)| link.clone()).collect())
        }
        (method, [kind @ ("issues" | "merge_requests"), number, "notes"]) => {
            let (list, subject) = match *kind {
                "issues" => (&state.issues, "Issue"),
                _ => (&state.merge_requests, "Merge Request"),
            };
            if position(list, number).is_none() {
                return missing(subject);
            }
            let path = format!("{kind}/{number}");
            if method == "POST" {
                let note = json!({"id": 50 + state.notes.len(), "body": without_quick_actions(&body["body"]),
                    "author": {"username": "vik"}, "created_at": now(), "system": false, "internal": false});
                state.notes.push((path, note.clone()));
                return WebResponse::json(201, &note);
            }
            assert_eq!(request.parameter("sort"), Some("asc"));
            let notes = state.notes.iter().filter(|(of, _)| *of == path);
            let notes = notes.map(|(_, note)| note.clone()).collect();
            listed(state, request, notes)
        }
        ("GET", ["merge_requests"]) => {
            let (head, wanted) = (request.parameter("source_branch"), request.parameter("state"));
            let fits = |found: &&Value| {
                found["source_branch"].as_str() == head
                    && (wanted == Some("all") || found["state"].as_str() == wanted)
            };
            assert_eq!(request.parameter("sort"), Some("desc"));
            let found = state.merge_requests.iter().rev().filter(fits).cloned().collect();
            listed(state, request, found)
        }
        ("POST", ["merge_requests"]) => {
            let number = 100 + state.merge_requests.len();
            let created = json!({"iid": number, "state": "opened", "draft": false, "title": body["title"],
                "description": without_quick_actions(&body["description"]),
                "source_branch": body["source_branch"], "target_branch": body["target_branch"],
                "source_project_id": 3, "target_project_id": 3, "blocking_discussions_resolved": true,
                "web_url": format!("https://gitlab.example/group/shop/-/merge_requests/{number}")});
            state.merge_requests.push(created.clone());
            WebResponse::json(201, &created)
        }
        ("GET", ["merge_requests", number, below @ ..]) => {
            let Some(at) = position(&state.merge_requests, number) else {
                return missing("Merge Request");
            };
            match below {
                [] => WebResponse::json(200, &state.merge_requests[at]),
                ["approvals"] => WebResponse::json(200, &state.approvals),
                ["reviewers"] if state.reviewers.is_null() => missing("Page"),
                ["reviewers"] => listed(state, request, state.reviewers.as_array().unwrap().clone()),
                _ => missing("Page"),
            }
        }
        _ => missing("Page"),
    }
}

fn position(list: &[Value], number: &str) -> Option<usize> {
    let number: u64 = number.parse().unwrap();
    list.iter().position(|item| item["iid"] == number)
}

fn list_issues(state: &State, request: &WebRequest) -> WebResponse {
    let parameter = |name| request.parameter(name);
    assert_eq!(
        (parameter("order_by"), parameter("sort")),
        (Some("created_at"), Some("asc"))
    );
    let since = |field: &str, issue: &Value| {
        let since = request.parameter(&field.replace("_at", "_after"));
        since.is_none_or(|since| issue[field].as_str().unwrap() >= since)
    };
    let fits = |issue: &&Value| {
        let wanted = parameter("state").unwrap();
        (wanted == "all" || issue["state"] == *wanted)
            && (parameter("scope") == Some("all") || issue["author"]["id"] == 7)
            && parameter("iids[]").is_none_or(|number| issue["iid"].as_u64() == number.parse().ok())
            && since("updated_at", issue)
            && since("created_at", issue)
    };
    listed(
        state,
        request,
        state.issues.iter().filter(fits).cloned().collect(),
    )
}

/// Returns the page of a list that was asked for.
fn listed(state: &State, request: &WebRequest, items: Vec<Value>) -> WebResponse {
    let number = |name: &str| -> usize { request.parameter(name).unwrap().parse().unwrap() };
    let page = if state.ignores_pages { 1 } else { number("page") };
    let size = number("per_page").min(state.page);
    let has_more = items.len() > page * size;
    let items: Vec<Value> = items.into_iter().skip((page - 1) * size).take(size).collect();
    let response = WebResponse::json(200, &Value::from(items));
    let next = if has_more {
        (page + 1).to_string()
    } else {
        String::new()
    };
    if state.hides_pages {
        response
    } else {
        response.with_header("X-Next-Page", &next)
    }
}

fn set_labels(state: &State, issue: &mut Value, add: &Value, remove: &Value) {
    if state.ignores_labels {
        return;
    }
    let split = |labels: &Value| -> Vec<String> {
        let labels = labels.as_str().unwrap_or_default().split(',');
        labels
            .filter(|label| !label.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let (add, remove) = (split(add), split(remove));
    let present = issue["labels"].as_array().unwrap().iter();
    let present = present.map(|label| label.as_str().unwrap().to_owned());
    let mut labels: Vec<String> = present.filter(|label| !remove.contains(label)).collect();
    labels.extend(add);
    labels.sort();
    labels.dedup();
    issue["labels"] = json!(labels);
}

/// GitLab would carry out such a line.
fn without_quick_actions(text: &Value) -> Value {
    let lines = text.as_str().unwrap().lines();
    for line in lines {
        let name = line.trim_start().strip_prefix('/').unwrap_or_default();
        assert!(
            !["close", "merge", "label"]
                .iter()
                .any(|action| name.starts_with(action)),
            "{line}"
        );
    }
    text.clone()
}
