//! A fake of the API of Gitea, made from its published description.

use serde_json::{Value, json};

use super::{World, cut, days_ago, has_python, program};
use crate::calls::each;
use crate::web::{Fake, WebRequest, WebResponse};

pub(super) const TOKEN: &str = "gitea-secret";

/// What the fake has: the repository `o/r`.
#[derive(Default)]
pub(super) struct State {
    pub(super) issues: Vec<Value>,
    pub(super) labels: Vec<Value>,
    /// The labels of the organization; `None` if the owner is a person.
    pub(super) org_labels: Option<Vec<Value>>,
    /// The number of an issue, and the issues that it depends on; `None` if that is disabled.
    pub(super) dependencies: Option<Vec<(u64, Value)>>,
    /// The number of an issue or a pull request, and a comment.
    pub(super) comments: Vec<(u64, Value)>,
    pub(super) pulls: Vec<Value>,
    pub(super) reviews: Vec<Value>,
    pub(super) line_comments: Vec<Value>,
    pub(super) status: Value,
    /// Closes the first issue after this number of lists.
    pub(super) close_after: Option<usize>,
    /// What a person makes of an issue before the next label is added.
    pub(super) meanwhile: Option<Value>,
}

pub(super) fn label(name: &str) -> Value {
    // Any number that differs.
    let id: u32 = name
        .bytes()
        .fold(7, |id, byte| id * 31 % 65_521 + u32::from(byte));
    json!({"id": id, "name": name, "color": "ededed"})
}

/// Returns an open issue that was changed so many days ago.
pub(super) fn issue(number: u64, labels: &[&str], days: i64) -> Value {
    json!({
        "id": 1000 + number, "number": number, "title": format!("Issue {number}"), "body": "",
        "state": "open", "html_url": format!("https://gitea.example/o/r/issues/{number}"),
        "created_at": "2020-01-01T00:00:00Z", "updated_at": days_ago(days).to_string(),
        "user": {"login": "ann"}, "assignees": null, "pull_request": null,
        "labels": labels.iter().map(|name| label(name)).collect::<Vec<_>>(),
    })
}

/// Returns the program with its fake; `None` if there is no Python.
pub(super) fn world() -> Option<World<State>> {
    if !has_python() {
        return None;
    }
    let api = Fake::start(State::default(), respond);
    let url = format!("{}/sub/", api.server.url());
    let variables = [("GITEA_TOKEN", TOKEN), ("GITEA_REPO", "x/y"), ("GITEA_URL", &url)];
    let tracker = program("gitea", &variables, &["--repo", "o/r"]);
    Some(World::new(api, tracker, &[TOKEN]))
}

pub(super) fn labels(world: &World<State>, at: usize) -> Vec<String> {
    let labels = world.api.state().issues[at]["labels"].clone();
    let names = each(&labels, "name").into_iter();
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn missing() -> WebResponse {
    WebResponse::json(404, &json!({"message": "The target couldn't be found."}))
}

fn respond(state: &mut State, request: &WebRequest) -> WebResponse {
    if request.header("authorization") != Some(&format!("token {TOKEN}")) {
        return WebResponse::json(401, &json!({"message": "invalid username, password or token"}));
    }
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let ["sub", "api", "v1", segments @ ..] = segments.as_slice() else {
        return missing();
    };
    let segments = match segments {
        ["orgs", "o", "labels"] => {
            let labels = state.org_labels.as_deref();
            return labels.map_or_else(missing, |labels| page(request, labels));
        }
        ["repos", "o", "r", segments @ ..] => segments,
        _ => return missing(),
    };
    let body = &request.body;
    match (request.method.as_str(), segments) {
        ("GET", []) => WebResponse::json(200, &json!({"default_branch": "trunk"})),
        ("GET", ["labels"]) => page(request, &state.labels),
        ("POST", ["labels"]) => {
            let created = label(body["name"].as_str().unwrap());
            state.labels.push(created.clone());
            WebResponse::json(201, &created)
        }
        ("GET", ["issues"]) => {
            let response = page(request, &listed(state, request));
            if let Some(left) = &mut state.close_after {
                if *left == 0 {
                    state.issues[0]["state"] = "closed".into();
                    state.close_after = None;
                } else {
                    *left -= 1;
                }
            }
            response
        }
        ("POST", ["issues"]) => {
            let mut created = issue(state.issues.len() as u64 + 1, &[], 0);
            created["title"] = body["title"].clone();
            created["body"] = body["body"].clone();
            add_labels(state, &mut created, &body["labels"]);
            state.issues.push(created.clone());
            WebResponse::json(201, &created)
        }
        ("GET" | "POST", ["pulls"]) => pulls(state, request),
        ("GET", ["pulls", _, "reviews"]) => page(request, &state.reviews),
        // Without pages.
        ("GET", ["pulls", _, "reviews", "12", "comments"]) => {
            WebResponse::json(200, &Value::from(state.line_comments.clone()))
        }
        ("GET", ["pulls", _, "reviews", _, "comments"]) => WebResponse::json(200, &json!([])),
        ("GET", ["commits", "abc", "status"]) => WebResponse::json(200, &state.status),
        (method, ["issues", number, below @ ..]) => {
            let number: u64 = number.parse().unwrap();
            of_issue(state, number, method, below, request)
        }
        _ => missing(),
    }
}

/// Returns at most two items, and the number of all.
fn page(request: &WebRequest, items: &[Value]) -> WebResponse {
    let number: usize = request.parameter("page").unwrap().parse().unwrap();
    let (page, _) = cut(items, (number - 1) * 2, 2);
    WebResponse::json(200, &page.into()).with_header("X-Total-Count", &items.len().to_string())
}

fn listed(state: &State, request: &WebRequest) -> Vec<Value> {
    let is_listed = |issue: &&Value| {
        let type_of = if issue["pull_request"].is_null() {
            "issues"
        } else {
            "pulls"
        };
        request.parameter("type") == Some(type_of)
    };
    let wanted = request.parameter("state").unwrap();
    let since = request.parameter("since").unwrap_or_default();
    let fits = |issue: &&Value| {
        (wanted == "all" || issue["state"] == wanted) && issue["updated_at"].as_str().unwrap() >= since
    };
    let pulls: Vec<Value> = state
        .pulls
        .iter()
        .map(|pull| {
            let mut pull = pull.clone();
            pull["pull_request"] = json!({"merged": pull["merged"]});
            pull
        })
        .collect();
    let all = state.issues.iter().chain(&pulls);
    all.filter(is_listed).filter(fits).cloned().collect()
}

fn add_labels(state: &State, issue: &mut Value, ids: &Value) {
    let labels = issue["labels"].as_array_mut().unwrap();
    for id in ids.as_array().unwrap() {
        let all = state.labels.iter().chain(state.org_labels.iter().flatten());
        let added = all.into_iter().find(|label| label["id"] == *id).unwrap();
        if !labels.contains(added) {
            labels.push(added.clone());
        }
    }
}

fn of_issue(
    state: &mut State,
    number: u64,
    method: &str,
    below: &[&str],
    request: &WebRequest,
) -> WebResponse {
    let body = &request.body;
    if let ("GET", ["comments"]) = (method, below) {
        // Without pages.
        let found = state.comments.iter().filter(|(of, _)| *of == number);
        let found: Vec<Value> = found.map(|(_, comment)| comment.clone()).collect();
        return WebResponse::json(200, &found.into());
    }
    let Some(at) = state.issues.iter().position(|issue| issue["number"] == number) else {
        return missing();
    };
    let mut found = state.issues[at].clone();
    match (method, below) {
        ("GET", []) => return WebResponse::json(200, &found),
        ("GET", ["dependencies"]) => {
            let Some(all) = &state.dependencies else {
                return missing();
            };
            let of_issue = all.iter().filter(|(of, _)| *of == number);
            return page(
                request,
                &of_issue.map(|(_, other)| other.clone()).collect::<Vec<_>>(),
            );
        }
        ("POST", ["comments"]) => {
            let id = state.comments.len() + 1;
            let comment = json!({"id": id, "user": {"login": "vik"}, "body": body["body"],
                "created_at": days_ago(0).to_string(), "html_url": "https://gitea.example/c"});
            state.comments.push((number, comment.clone()));
            return WebResponse::json(201, &comment);
        }
        ("PATCH", []) => found["state"] = body["state"].clone(),
        ("POST", ["labels"]) => {
            found = state.meanwhile.take().unwrap_or(found);
            add_labels(state, &mut found, &body["labels"]);
        }
        ("DELETE", ["labels", id]) => {
            let labels = found["labels"].as_array_mut().unwrap();
            let id: u64 = id.parse().unwrap();
            labels.retain(|label| label["id"] != id);
        }
        _ => return missing(),
    }
    found["updated_at"] = days_ago(0).to_string().into();
    state.issues[at] = found.clone();
    WebResponse::json(200, &found)
}

fn pulls(state: &mut State, request: &WebRequest) -> WebResponse {
    let body = &request.body;
    if request.method == "POST" {
        let number = 100 + state.pulls.len();
        let created = json!({"id": number, "number": number, "state": "open", "merged": false, "draft": false,
            "html_url": format!("https://gitea.example/o/r/pulls/{number}"), "title": body["title"],
            "body": body["body"], "updated_at": days_ago(0).to_string(),
            "head": {"label": body["head"], "ref": body["head"], "sha": "abc", "repo_id": 1},
            "base": {"ref": body["base"], "repo_id": 1}});
        state.pulls.push(created.clone());
        return WebResponse::json(201, &created);
    }
    let wanted = request.parameter("state").unwrap();
    let fits = |pull: &&Value| wanted == "all" || pull["state"] == wanted;
    page(
        request,
        &state.pulls.iter().filter(fits).cloned().collect::<Vec<_>>(),
    )
}
