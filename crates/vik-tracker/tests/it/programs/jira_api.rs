//! A fake of the API of Jira, made from its published description.

use serde_json::{Value, json};

use super::{World, cut, days_ago, has_python, program};
use crate::web::{Fake, WebRequest, WebResponse};

const TOKEN: &str = "jira-secret";
/// The mail address, a colon and the token, in Base64.
const PAIR: &str = "YW5uQGV4YW1wbGUuY29tOmppcmEtc2VjcmV0";

/// What the fake has: issues of the project `ENG`.
#[derive(Default)]
pub(super) struct State {
    pub(super) issues: Vec<Value>,
    /// The key of an issue, and a comment.
    pub(super) comments: Vec<(String, Value)>,
    /// A person moves the first issue to this status before the next transition.
    pub(super) moved_by_person: Option<&'static str>,
    /// How many of the newest issues the search lacks.
    pub(super) lag: usize,
    /// The JQL of the last search.
    pub(super) jql: String,
}

const STATUSES: [(&str, &str); 4] = [
    ("Done", "done"),
    ("To Do", "new"),
    ("In Progress", "indeterminate"),
    ("In Review", "indeterminate"),
];

pub(super) fn status(name: &str) -> Value {
    let (_, category) = STATUSES.iter().find(|(known, _)| *known == name).unwrap();
    json!({"name": name, "statusCategory": {"key": category}})
}

fn time(days: i64) -> String {
    days_ago(days).strftime("%Y-%m-%dT%H:%M:%S.000+0000").to_string()
}

/// Returns an issue that was changed so many days ago.
pub(super) fn issue(number: usize, name: &str, labels: &[&str], days: i64) -> Value {
    json!({"id": format!("1000{number}"), "key": format!("ENG-{number}"), "fields": {
        "summary": format!("Issue {number}"), "description": null, "status": status(name),
        "priority": {"id": "3", "name": "Medium"}, "labels": labels, "issuelinks": [],
        "created": "2020-01-01T02:00:00.000+0200", "updated": time(days),
        "creator": {"accountId": "acc-1", "displayName": "Ann"}, "assignee": null,
    }})
}

/// Returns the program with its fake; `None` if there is no Python.
pub(super) fn world() -> Option<World<State>> {
    if !has_python() {
        return None;
    }
    let api = Fake::start(State::default(), respond);
    let url = api.server.url();
    let variables = [
        ("JIRA_EMAIL", "ann@example.com"),
        ("JIRA_API_TOKEN", TOKEN),
        ("JIRA_BASE_URL", &url),
        ("JIRA_PROJECT", "ENG"),
    ];
    let tracker = program("jira", &variables, &[]);
    Some(World::new(api, tracker, &[TOKEN, PAIR]))
}

fn respond(state: &mut State, request: &WebRequest) -> WebResponse {
    let ok = |body: Value| WebResponse::json(200, &body);
    let refused = |status: u16, message: &str| {
        WebResponse::json(status, &json!({"errorMessages": [message], "errors": {}}))
    };
    if request.header("authorization") != Some(&format!("Basic {PAIR}")) {
        return refused(401, "Client must be authenticated to access this resource.");
    }
    let body = &request.body;
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let ["rest", "api", "3", segments @ ..] = segments.as_slice() else {
        return refused(404, "no such resource");
    };
    match (request.method.as_str(), segments) {
        ("POST", ["search", "jql"]) => search(state, body),
        ("POST", ["issue", "bulkfetch"]) => {
            let keys = body["issueIdsOrKeys"].as_array().unwrap();
            assert!((1..=100).contains(&keys.len()), "{keys:?}");
            let found = state.issues.iter().filter(|issue| keys.contains(&issue["key"]));
            ok(json!({"issues": found.collect::<Vec<_>>(), "issueErrors": []}))
        }
        ("GET", ["project", "ENG", "statuses"]) => {
            let all = STATUSES.map(|(name, _)| status(name));
            ok(json!([{"name": "Task", "statuses": all}, {"name": "Bug", "statuses": [status("To Do")]}]))
        }
        ("POST", ["issue"]) => {
            let fields = &body["fields"];
            assert_eq!(fields["project"]["key"], "ENG");
            assert_eq!(fields["issuetype"]["name"], "Task");
            let mut created = issue(state.issues.len() + 1, "To Do", &[], 0);
            for name in ["summary", "description", "labels"] {
                created["fields"][name] = fields[name].clone();
            }
            created["fields"]["created"] = time(0).into();
            state.issues.push(created.clone());
            WebResponse::json(201, &json!({"id": created["id"], "key": created["key"]}))
        }
        (method, ["issue", key, below @ ..]) => {
            let Some(at) = state.issues.iter().position(|issue| issue["key"] == *key) else {
                return refused(
                    404,
                    "Issue does not exist or you do not have permission to see it.",
                );
            };
            of_issue(state, at, method, below, request)
        }
        _ => refused(404, "no such resource"),
    }
}

/// Returns at most two issues. The token is the number of issues before them.
fn search(state: &mut State, body: &Value) -> WebResponse {
    let jql = body["jql"].as_str().unwrap().to_owned();
    assert!(jql.starts_with("project = \"ENG\""), "{jql}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let fits = |issue: &&Value| {
        let fields = &issue["fields"];
        let has_label = fields["labels"].as_array().unwrap().contains(&json!("vik"));
        let is_done = fields["status"]["statusCategory"]["key"] == "done";
        if jql.contains("updated >= -14d") {
            has_label && !is_done || text(&fields["updated"]) >= time(14)
        } else {
            !jql.contains("created >= -30d") || text(&fields["created"]) >= time(30)
        }
    };
    let indexed = &state.issues[..state.issues.len() - state.lag];
    let mut found: Vec<Value> = indexed.iter().filter(fits).cloned().collect();
    if jql.ends_with("ORDER BY key DESC") {
        found.reverse();
    }
    let at = body["nextPageToken"]
        .as_str()
        .map_or(0, |token| token.parse().unwrap());
    let (page, more) = cut(&found, at, 2);
    let mut answer = json!({"issues": page, "isLast": !more});
    if more {
        answer["nextPageToken"] = (at + 2).to_string().into();
    }
    state.jql = jql;
    WebResponse::json(200, &answer)
}

/// Returns the transitions of an issue: there is one to each other status.
fn transitions(issue: &Value) -> Value {
    let now = &issue["fields"]["status"]["name"];
    let others = STATUSES.iter().enumerate().filter(|(_, (name, _))| now != name);
    others
        .map(|(id, (name, _))| json!({"id": id.to_string(), "name": "Go", "to": status(name)}))
        .collect()
}

fn of_issue(state: &mut State, at: usize, method: &str, below: &[&str], request: &WebRequest) -> WebResponse {
    let body = &request.body;
    let key = state.issues[at]["key"].as_str().unwrap().to_owned();
    let done = || WebResponse::json(204, &Value::Null);
    match (method, below) {
        ("GET", []) => {
            let mut found = state.issues[at].clone();
            if request.parameter("expand") == Some("transitions") {
                found["transitions"] = transitions(&found);
            }
            WebResponse::json(200, &found)
        }
        ("PUT", []) => {
            let labels = state.issues[at]["fields"]["labels"].as_array_mut().unwrap();
            for change in body["update"]["labels"].as_array().unwrap() {
                labels.retain(|label| *label != change["add"] && *label != change["remove"]);
                if change["add"].is_string() {
                    labels.push(change["add"].clone());
                }
            }
            done()
        }
        ("POST", ["transitions"]) => {
            if let Some(name) = state.moved_by_person.take() {
                state.issues[at]["fields"]["status"] = status(name);
                let body = json!({"errorMessages": ["It seems that you have tried to perform an illegal workflow operation."]});
                return WebResponse::json(400, &body);
            }
            let id: usize = body["transition"]["id"].as_str().unwrap().parse().unwrap();
            state.issues[at]["fields"]["status"] = status(STATUSES[id].0);
            done()
        }
        ("GET", ["comment"]) => {
            assert_eq!(request.parameter("orderBy"), Some("created"));
            let of_issue = state.comments.iter().filter(|(of, _)| *of == key);
            let found: Vec<Value> = of_issue.map(|(_, comment)| comment.clone()).collect();
            let at = request.parameter("startAt").unwrap().parse().unwrap();
            let (page, _) = cut(&found, at, 2);
            WebResponse::json(
                200,
                &json!({"startAt": at, "maxResults": 2, "total": found.len(), "comments": page}),
            )
        }
        ("POST", ["comment"]) => {
            assert_eq!(body["body"]["type"], "doc");
            assert_eq!(body["body"]["version"], 1);
            let id = (state.comments.len() + 1).to_string();
            let comment = json!({"id": id, "author": {"accountId": "acc-2", "emailAddress": "vik@example.com"},
                "body": body["body"], "created": time(0)});
            state.comments.push((key, comment.clone()));
            WebResponse::json(201, &comment)
        }
        _ => WebResponse::json(404, &Value::Null),
    }
}
