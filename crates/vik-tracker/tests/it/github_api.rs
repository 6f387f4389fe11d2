//! A small part of GitHub's REST API, on a Unix socket.

use std::io::Write as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::web::{WebRequest, decoded};

/// What the API has, and what was requested.
#[derive(Default)]
pub struct State {
    pub issues: Vec<Value>,
    pub pulls: Vec<Value>,
    /// The number of the issue or pull request, and the comment.
    pub comments: Vec<(u64, Value)>,
    pub reviews: Vec<Value>,
    pub line_comments: Vec<Value>,
    pub check_runs: Vec<Value>,
    /// The names of the labels of the repository.
    pub labels: Vec<String>,
    /// `METHOD PATH` of each request, below the repository.
    pub requests: Vec<String>,
    /// How many requests are answered before all others get this status line with headers.
    pub refuse_after: Option<(usize, String)>,
    /// The number of requests after which a person replaces the labels of the first issue.
    pub person_edits: Option<(usize, &'static [&'static str])>,
}

pub struct Api {
    /// The folder of its socket.
    pub folder: tempfile::TempDir,
    state: Arc<Mutex<State>>,
}

/// The longest page, whatever is asked for.
const PAGE: usize = 2;

impl Api {
    /// Starts the API. It ends with the process.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("api")).unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // One after the other: each response closes its connection.
                let _ = serve(&shared, stream.unwrap());
            }
        });
        Self { folder, state }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("api")
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the requests that were not only reading, and forgets all requests.
    pub fn changes(&self) -> Vec<String> {
        let requests = std::mem::take(&mut self.state().requests);
        requests
            .into_iter()
            .filter(|request| !request.starts_with("GET "))
            .collect()
    }
}

/// Returns an open issue.
pub fn issue(number: u64, labels: &[&str]) -> Value {
    let labels: Vec<Value> = labels.iter().map(|name| json!({"name": name})).collect();
    json!({
        "number": number,
        "title": format!("Issue {number}"),
        "body": null,
        "state": "open",
        "html_url": format!("https://github.com/o/r/issues/{number}"),
        "created_at": format!("2020-01-01T00:00:{number:02}Z"),
        "updated_at": "2020-01-02T00:00:00Z",
        "user": {"login": "ann"},
        "assignees": [],
        "labels": labels,
    })
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn serve(state: &Mutex<State>, mut stream: UnixStream) -> std::io::Result<()> {
    let Some(request) = WebRequest::read(&stream)? else {
        return Ok(());
    };
    let (method, target, body) = (&request.method, &request.target, &request.body);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut state = state.lock().unwrap();
    let below = path.strip_prefix("/repos/o/r").unwrap_or("?").to_owned();
    let shown = if query.is_empty() {
        String::new()
    } else {
        format!("?{query}")
    };
    state.requests.push(format!("{method} {below}{shown}"));
    match state.person_edits.take() {
        Some((0, labels)) => {
            let labels = labels.iter().map(|name| json!({"name": name}));
            state.issues[0]["labels"] = labels.collect();
        }
        left => state.person_edits = left.map(|(left, labels)| (left - 1, labels)),
    }
    let refused = match &mut state.refuse_after {
        Some((0, head)) => Some(head.clone()),
        Some((left, _)) => {
            *left -= 1;
            None
        }
        None => None,
    };
    let (head, answer) = match refused {
        Some(head) => (head, json!({"message": "refused"})),
        None => respond(&mut state, method, &below, target, query, body),
    };
    drop(state);
    let answer = if answer.is_null() {
        String::new()
    } else {
        answer.to_string()
    };
    write!(
        stream,
        "HTTP/1.1 {head}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{answer}",
        answer.len()
    )
}

fn respond(
    state: &mut State,
    method: &str,
    below: &str,
    target: &str,
    query: &str,
    body: &Value,
) -> (String, Value) {
    let ok = |value: Value| ("200 OK".to_owned(), value);
    let missing = || ("404 Not Found".to_owned(), json!({"message": "Not Found"}));
    let parameter = |name: &str| {
        let found = query
            .split('&')
            .find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        found.map(decoded)
    };
    let listed = |items: Vec<Value>| {
        let page: usize = parameter("page").map_or(1, |page| page.parse().unwrap());
        let more = items.len() > page * PAGE;
        let items: Vec<Value> = items.into_iter().skip((page - 1) * PAGE).take(PAGE).collect();
        let base = target.split("&page=").next().unwrap();
        let next = format!(
            "\r\nLink: <https://api.github.com{base}&page={}>; rel=\"next\"",
            page + 1
        );
        (
            format!("200 OK{}", if more { &next } else { "" }),
            Value::Array(items),
        )
    };
    let segments: Vec<String> = below.split('/').skip(1).map(decoded).collect();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let position = |number: &str, list: &[Value]| {
        let number: u64 = number.parse().unwrap();
        list.iter().position(|item| item["number"] == number)
    };
    match (method, segments.as_slice()) {
        ("GET", ["issues", number, "dependencies", "blocked_by"]) => {
            let blockers = state.issues[position(number, &state.issues).unwrap()]["blockers"].clone();
            listed(blockers.as_array().cloned().unwrap_or_default())
        }
        ("GET", []) => ok(json!({"default_branch": "trunk"})),
        ("GET", ["labels"]) => listed(state.labels.iter().map(|name| json!({"name": name})).collect()),
        ("POST", ["labels"]) => {
            state.labels.push(body["name"].as_str().unwrap().to_owned());
            ok(body.clone())
        }
        ("GET", ["issues"]) => {
            let (wanted, since) = (
                parameter("state").unwrap(),
                parameter("since").unwrap_or_default(),
            );
            let fits = |issue: &&Value| {
                (wanted == "all" || issue["state"] == *wanted)
                    && issue["updated_at"].as_str().unwrap() >= &*since
            };
            listed(state.issues.iter().filter(fits).cloned().collect())
        }
        ("POST", ["issues"]) => {
            let number = state.issues.len() as u64 + 1;
            let labels: Vec<&str> = body["labels"]
                .as_array()
                .unwrap()
                .iter()
                .map(|label| label.as_str().unwrap())
                .collect();
            let mut created = issue(number, &labels);
            created["title"] = body["title"].clone();
            created["body"] = body["body"].clone();
            created["updated_at"] = now().into();
            state.issues.push(created.clone());
            ("201 Created".to_owned(), created)
        }
        ("GET" | "POST", ["pulls"]) => pulls(state, method, &parameter, body),
        ("GET", ["pulls", _, "reviews"]) => listed(state.reviews.clone()),
        ("GET", ["pulls", _, "comments"]) => listed(state.line_comments.clone()),
        ("GET", ["commits", "abc", "check-runs"]) => ok(json!({"check_runs": state.check_runs})),
        ("GET", ["commits", "abc", "status"]) => ok(json!({"state": "pending", "total_count": 0})),
        ("GET", ["issues", number, "comments"]) => {
            let number: u64 = number.parse().unwrap();
            let found = state.comments.iter().filter(|(of, _)| *of == number);
            let exists = [&state.issues, &state.pulls]
                .iter()
                .any(|list| list.iter().any(|item| item["number"] == number));
            if exists {
                listed(found.map(|(_, comment)| comment.clone()).collect())
            } else {
                missing()
            }
        }
        (_, ["issues", number, below @ ..]) => {
            let Some(at) = position(number, &state.issues) else {
                return missing();
            };
            let issue = &mut state.issues[at];
            if method != "GET" {
                issue["updated_at"] = now().into();
            }
            match (method, below) {
                ("GET", []) => ok(issue.clone()),
                ("PATCH", []) => {
                    issue["state"] = body["state"].clone();
                    ok(issue.clone())
                }
                ("POST", ["labels"]) => {
                    let labels = issue["labels"].as_array_mut().unwrap();
                    for label in body["labels"].as_array().unwrap() {
                        if !labels.iter().any(|known| known["name"] == *label) {
                            labels.push(json!({"name": label}));
                        }
                    }
                    ok(issue["labels"].clone())
                }
                ("DELETE", ["labels", name]) => {
                    let labels = issue["labels"].as_array_mut().unwrap();
                    let before = labels.len();
                    labels.retain(|label| label["name"] != *name);
                    if labels.len() == before {
                        missing()
                    } else {
                        ok(issue["labels"].clone())
                    }
                }
                ("POST", ["comments"]) => {
                    let comment = json!({"user": {"login": "vik"}, "body": body["body"], "created_at": now(),
                        "html_url": "https://github.com/c"});
                    state.comments.push((number.parse().unwrap(), comment.clone()));
                    ("201 Created".to_owned(), comment)
                }
                _ => missing(),
            }
        }
        _ => missing(),
    }
}

fn pulls(
    state: &mut State,
    method: &str,
    parameter: &dyn Fn(&str) -> Option<String>,
    body: &Value,
) -> (String, Value) {
    if method == "POST" {
        let number = 100 + state.pulls.len() as u64;
        let pull = json!({"number": number, "state": "open", "merged_at": null, "draft": false,
            "html_url": format!("https://github.com/o/r/pull/{number}"), "title": body["title"],
            "head": {"ref": body["head"], "sha": "abc"}, "base": body["base"]});
        state.pulls.push(pull.clone());
        return ("201 Created".to_owned(), pull);
    }
    let head = parameter("head").unwrap();
    let head = head.strip_prefix("o:").unwrap();
    let wanted = parameter("state").unwrap();
    let fits = |pull: &&Value| pull["head"]["ref"] == *head && (wanted == "all" || pull["state"] == *wanted);
    let newest = state.pulls.iter().rev().find(fits);
    ("200 OK".to_owned(), newest.cloned().into_iter().collect())
}
