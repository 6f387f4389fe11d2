//! A small part of Redmine's REST API.

use serde_json::{Value, json};

use crate::web::{Fake, WebRequest, WebResponse};

pub const TOKEN: &str = "0123-secret-key";
/// The longest page, whatever is asked for.
const PAGE: usize = 2;
/// The statuses with their numbers; the last one is closed.
const STATUSES: [(u64, &str); 4] = [
    (1, "New"),
    (2, "In Progress"),
    (4, "Feed \"back\""),
    (5, "Closed"),
];

#[derive(Default)]
pub struct State {
    pub issues: Vec<Value>,
    /// The number of the issue, and the journal.
    pub journals: Vec<(u64, Value)>,
    /// Changes of the status that the workflow does not permit.
    pub forbidden: Vec<(u64, u64)>,
    /// Whether the account may not add notes.
    pub drops_notes: bool,
    /// The status that a person sets right after a change.
    pub person_sets: Option<u64>,
}

pub type Api = Fake<State>;

pub fn start(issues: impl IntoIterator<Item = Value>) -> Api {
    let state = State {
        issues: issues.into_iter().collect(),
        ..State::default()
    };
    Fake::start(state, respond)
}

/// Returns an issue of the project `shop` in the status with this number.
pub fn issue(number: u64, status: u64) -> Value {
    json!({
        "id": number,
        "project": {"id": 3, "name": "Shop"},
        "tracker": {"id": 1, "name": "Bug"},
        "status": status_of(status),
        "priority": {"id": 4, "name": "Normal"},
        "author": {"id": 9, "name": "Ann"},
        "subject": format!("Issue {number}"),
        "description": null,
        "created_on": format!("2020-01-01T00:00:{number:02}Z"),
        "updated_on": "2020-01-02T00:00:00Z",
        "relations": [],
    })
}

fn status_of(id: u64) -> Value {
    let (_, name) = STATUSES.iter().find(|(known, _)| *known == id).unwrap();
    json!({"id": id, "name": name, "is_closed": id == 5})
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn respond(state: &mut State, request: &WebRequest) -> WebResponse {
    if request.header("x-redmine-api-key") != Some(TOKEN) {
        return WebResponse::json(401, &Value::Null);
    }
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match (request.method.as_str(), segments.as_slice()) {
        ("GET", ["issue_statuses.json"]) => {
            let statuses: Vec<Value> = STATUSES.iter().map(|(id, _)| status_of(*id)).collect();
            WebResponse::json(200, &json!({"issue_statuses": statuses}))
        }
        ("GET", ["enumerations", "issue_priorities.json"]) => {
            let priority =
                |id: u64, name: &str| json!({"id": id, "name": name, "is_default": id == 4, "active": true});
            let priorities = [priority(3, "Low"), priority(4, "Normal"), priority(9, "Urgent")];
            WebResponse::json(200, &json!({"issue_priorities": priorities}))
        }
        ("GET", ["projects", "shop", "issues.json"]) => list(state, request),
        ("POST", ["projects", "shop", "issues.json"]) => create(state, &request.body["issue"]),
        (method, ["issues", file]) => {
            let number: u64 = file.strip_suffix(".json").unwrap().parse().unwrap();
            let Some(at) = state.issues.iter().position(|issue| issue["id"] == number) else {
                return WebResponse::json(404, &Value::Null);
            };
            match method {
                "GET" => {
                    assert_eq!(request.parameter("include"), Some("journals"));
                    let journals = state.journals.iter().filter(|(of, _)| *of == number);
                    // As the account prefers it: the newest first.
                    let journals: Vec<&Value> = journals.map(|(_, journal)| journal).rev().collect();
                    let mut issue = state.issues[at].clone();
                    issue["journals"] = json!(journals);
                    WebResponse::json(200, &json!({"issue": issue}))
                }
                "PUT" => {
                    update(state, at, &request.body["issue"]);
                    WebResponse::json(204, &Value::Null)
                }
                _ => WebResponse::json(405, &Value::Null),
            }
        }
        _ => WebResponse::json(404, &Value::Null),
    }
}

fn list(state: &State, request: &WebRequest) -> WebResponse {
    let parameter = |name| request.parameter(name);
    assert_eq!(
        (
            parameter("sort"),
            parameter("include"),
            parameter("subproject_id")
        ),
        (Some("id"), Some("relations"), Some("!*"))
    );
    let since = |name| parameter(name).map(|value| value.strip_prefix(">=").unwrap());
    let fits = |issue: &&Value| {
        let is_asked_for = match parameter("issue_id").unwrap() {
            ids if ids.starts_with(">=") => issue["id"].as_u64() >= ids[2..].parse().ok(),
            id => issue["id"].as_u64() == id.parse().ok(),
        };
        let is_author =
            parameter("author_id").is_none_or(|author| author == "me" && issue["author"]["id"] == 7);
        let is_open = issue["status"]["is_closed"] == false;
        is_asked_for
            && is_author
            && issue["project"]["id"] == 3
            && (parameter("status_id") == Some("*") || is_open)
            && since("updated_on").is_none_or(|since| issue["updated_on"].as_str().unwrap() >= since)
            && since("created_on").is_none_or(|since| issue["created_on"].as_str().unwrap() >= since)
    };
    let mut found: Vec<&Value> = state.issues.iter().filter(fits).collect();
    found.sort_by_key(|issue| issue["id"].as_u64());
    let total = found.len();
    found.truncate(PAGE);
    let page = json!({"issues": found, "total_count": total, "offset": 0, "limit": PAGE});
    WebResponse::json(200, &page)
}

fn create(state: &mut State, fields: &Value) -> WebResponse {
    if fields["subject"].as_str().unwrap().chars().count() > 255 {
        let errors = json!({"errors": ["Subject is too long (maximum is 255 characters)"]});
        return WebResponse::json(422, &errors);
    }
    let number = state.issues.len() as u64 + 1;
    let mut created = issue(number, 1);
    created["author"] = json!({"id": 7, "name": "Vik"});
    for (field, value) in [
        ("subject", &fields["subject"]),
        ("description", &fields["description"]),
    ] {
        created[field] = value.clone();
    }
    created["created_on"] = now().into();
    created["updated_on"] = now().into();
    // Issues begin as `New`; a first status that needs another right is ignored.
    if fields["status_id"] == 2 {
        created["status"] = status_of(2);
    }
    state.issues.push(created.clone());
    WebResponse::json(201, &json!({"issue": created}))
}

fn update(state: &mut State, at: usize, fields: &Value) {
    let issue = &mut state.issues[at];
    let number = issue["id"].as_u64().unwrap();
    issue["updated_on"] = now().into();
    if let Some(to) = fields["status_id"].as_u64() {
        let from = issue["status"]["id"].as_u64().unwrap();
        if !state.forbidden.contains(&(from, to)) {
            issue["status"] = status_of(to);
        }
        if let Some(status) = state.person_sets.take() {
            issue["status"] = status_of(status);
        }
    }
    let notes = fields["notes"].as_str().filter(|_| !state.drops_notes);
    let journal = json!({"id": state.journals.len() + 1, "user": {"id": 7, "name": "Vik"},
        "notes": notes.unwrap_or_default(), "created_on": now(), "private_notes": false, "details": []});
    state.journals.push((number, journal));
}
