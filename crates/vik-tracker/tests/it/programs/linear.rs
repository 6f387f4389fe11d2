use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use vik_tracker::protocol::{CallError, Protocol, Request};

use super::{World, check_protocol, create, cut, days_ago, has_python, moving, program, show};
use crate::alone;
use crate::web::{Fault, WebRequest, WebResponse, WebServer};

const KEY: &str = "lin_api_secret";

/// What the fake has: issues of the team `ENG` in the form of the API, but with plain lists.
#[derive(Default)]
struct State {
    issues: Vec<Value>,
    labels: Vec<Value>,
    /// The id of an issue, and a comment.
    comments: Vec<(String, Value)>,
}

const STATES: [(&str, &str); 6] = [
    ("Backlog", "backlog"),
    ("Todo", "unstarted"),
    ("In Progress", "started"),
    ("In Review", "started"),
    ("Done", "completed"),
    ("Canceled", "canceled"),
];

fn state_of(name: &str) -> Value {
    let at = STATES.iter().position(|(known, _)| *known == name).unwrap();
    json!({"id": format!("s{at}"), "name": name, "type": STATES[at].1, "position": at})
}

/// Returns an issue that was changed so many days ago.
fn issue(number: usize, state: &str, labels: &[&str], days: i64) -> Value {
    let labels: Vec<Value> = labels
        .iter()
        .map(|name| json!({"id": format!("l-{name}"), "name": name}))
        .collect();
    json!({
        "id": format!("uuid-{number}"), "identifier": format!("ENG-{number}"), "number": number,
        "title": format!("Issue {number}"), "description": null, "priority": 0,
        "url": format!("https://linear.app/x/issue/ENG-{number}"),
        "createdAt": "2020-01-01T00:00:00.000Z", "updatedAt": days_ago(days).to_string(),
        "trashed": null, "creator": {"email": "ann@example.com"}, "assignee": null,
        "state": state_of(state), "labels": labels, "inverseRelations": [],
    })
}

fn blocks(blocker: &str, kind: &str, state: &str) -> Value {
    json!({"type": kind, "issue": {"identifier": blocker, "state": state_of(state)}})
}

struct Linear {
    world: World,
    state: Arc<Mutex<State>>,
}

impl Linear {
    fn new() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let server = WebServer::start(move |request| respond(&mut shared.lock().unwrap(), request));
        let url = format!("{}/graphql", server.url());
        let variables = [
            ("LINEAR_API_KEY", KEY),
            ("LINEAR_TEAM", "ENG"),
            ("LINEAR_URL", &url),
        ];
        let tracker = program("linear", &variables, &[]);
        let secrets = vec![KEY.to_owned()];
        Self {
            world: World {
                server,
                tracker,
                secrets,
            },
            state,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns the inputs of the mutations since the last call.
    fn inputs(&self) -> Vec<Value> {
        let requests = self.world.server.take_requests();
        let inputs = requests
            .iter()
            .map(|request| request.body["variables"]["input"].clone());
        inputs.filter(|input| !input.is_null()).collect()
    }
}

fn respond(state: &mut State, request: &WebRequest) -> WebResponse {
    let error = |status: u16, message: &str, code: &str| {
        WebResponse::json(
            status,
            &json!({"errors": [{"message": message, "extensions": {"code": code}}]}),
        )
    };
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", "/graphql")
    );
    if request.header("authorization") != Some(KEY) {
        return error(
            401,
            "It looks like you are not authenticated",
            "AUTHENTICATION_ERROR",
        );
    }
    let query = request.body["query"].as_str().unwrap();
    let name = request.body["operationName"].as_str().unwrap();
    assert!(query.contains(&format!(" {name}(")), "{query}");
    assert_eq!(query.matches('{').count(), query.matches('}').count(), "{query}");
    let variables = &request.body["variables"];
    for variable in variables.as_object().unwrap().keys() {
        assert!(query.contains(&format!("${variable}: ")), "{variable}: {query}");
    }
    match operation(state, name, variables) {
        Ok(data) => WebResponse::json(200, &json!({"data": data})),
        Err(message) => error(200, &message, "INPUT_ERROR"),
    }
}

/// Returns one page of at most two items. The cursor is the number of items before it.
fn connection(items: &[Value], variables: &Value) -> Value {
    let at = variables["after"]
        .as_str()
        .map_or(0, |after| after.parse().unwrap());
    let (nodes, more) = cut(items, at, 2);
    json!({"pageInfo": {"hasNextPage": more, "endCursor": (at + nodes.len()).to_string()}, "nodes": nodes})
}

fn operation(state: &mut State, name: &str, variables: &Value) -> Result<Value, String> {
    let success = || json!({"success": true});
    let input = &variables["input"];
    Ok(match name {
        "Issues" => {
            let is_team = variables["team"] == "ENG";
            let found: Vec<Value> = state
                .issues
                .iter()
                .filter(|issue| is_team && fits(issue, &variables["filter"]))
                .map(|issue| with_connections(issue, &variables["nested"]))
                .collect();
            let teams = if is_team {
                vec![json!({"id": "team"})]
            } else {
                vec![]
            };
            json!({"teams": {"nodes": teams}, "issues": connection(&found, variables)})
        }
        "Team" => {
            let mut states = STATES.map(|(name, _)| state_of(name));
            states.reverse();
            json!({"teams": {"nodes": [{"id": "team", "states": {"nodes": states}}]}})
        }
        "Labels" => {
            let names = variables["filter"]["name"]["in"].as_array().unwrap();
            let found = state.labels.iter().filter(|label| names.contains(&label["name"]));
            json!({"issueLabels": {"nodes": found.collect::<Vec<_>>()}})
        }
        "CreateLabel" => {
            assert_eq!(input["teamId"], "team");
            let id = format!("l-{}", input["name"].as_str().unwrap());
            state
                .labels
                .push(json!({"id": id, "name": input["name"], "team": {"key": "ENG"}}));
            json!({"issueLabelCreate": {"success": true, "issueLabel": {"id": id}}})
        }
        "Comments" => {
            let of_issue = state.comments.iter().filter(|(id, _)| variables["issue"] == **id);
            // The newest first.
            let found: Vec<Value> = of_issue.rev().map(|(_, comment)| comment.clone()).collect();
            json!({"issue": {"comments": connection(&found, variables)}})
        }
        "CreateComment" => {
            if state.comments.iter().any(|(_, known)| known["id"] == input["id"]) {
                return Err("the id is taken".to_owned());
            }
            let at = format!("2026-01-01T00:00:{:02}.000Z", state.comments.len());
            let comment = json!({"id": input["id"], "body": input["body"], "createdAt": at,
                "url": "https://linear.app/c", "user": {"email": "vik@example.com"}});
            let issue = input["issueId"].as_str().unwrap().to_owned();
            state.comments.push((issue, comment));
            json!({"commentCreate": success()})
        }
        "CreateIssue" => {
            assert_eq!(input["teamId"], "team");
            let mut created = issue(state.issues.len() + 1, "Backlog", &[], 0);
            created["id"] = input["id"].clone();
            created["title"] = input["title"].clone();
            created["description"] = input["description"].clone();
            change(
                state,
                &mut created,
                &input["stateId"],
                &input["labelIds"],
                &Value::Null,
            );
            state.issues.push(created.clone());
            json!({"issueCreate": {"success": true, "issue": created}})
        }
        "UpdateIssue" => {
            let at = state
                .issues
                .iter()
                .position(|issue| issue["id"] == variables["id"]);
            let at = at.ok_or("Entity not found: Issue")?;
            let mut changed = state.issues[at].clone();
            changed["updatedAt"] = days_ago(0).to_string().into();
            let (add, remove) = (&input["addedLabelIds"], &input["removedLabelIds"]);
            change(state, &mut changed, &input["stateId"], add, remove);
            state.issues[at] = changed;
            json!({"issueUpdate": success()})
        }
        other => panic!("unknown operation {other}"),
    })
}

fn change(state: &State, issue: &mut Value, state_id: &Value, add: &Value, remove: &Value) {
    if let Some(id) = state_id.as_str() {
        let at: usize = id.strip_prefix('s').unwrap().parse().unwrap();
        issue["state"] = state_of(STATES[at].0);
    }
    let labels = issue["labels"].as_array_mut().unwrap();
    let ids = |ids: &Value| ids.as_array().cloned().unwrap_or_default();
    labels.retain(|label| !ids(remove).contains(&label["id"]));
    for id in ids(add) {
        let label = state.labels.iter().find(|label| label["id"] == id).unwrap();
        labels.push(json!({"id": id, "name": label["name"]}));
    }
}

fn with_connections(issue: &Value, nested: &Value) -> Value {
    let mut issue = issue.clone();
    for name in ["labels", "inverseRelations"] {
        let limit = usize::try_from(nested.as_u64().unwrap()).unwrap();
        let (nodes, more) = cut(issue[name].as_array().unwrap(), 0, limit);
        issue[name] = json!({"nodes": nodes, "pageInfo": {"hasNextPage": more}});
    }
    issue
}

/// Returns whether an issue fulfils a filter, with the comparators that the program uses.
fn fits(issue: &Value, filter: &Value) -> bool {
    filter
        .as_object()
        .unwrap()
        .iter()
        .all(|(name, condition)| match name.as_str() {
            "team" => condition["key"]["eq"] == "ENG",
            "or" => condition.as_array().unwrap().iter().any(|any| fits(issue, any)),
            "number" | "id" => issue[name] == condition["eq"],
            "updatedAt" => issue[name].as_str() >= condition["gte"].as_str(),
            "labels" => {
                let labels = issue["labels"].as_array().unwrap();
                labels
                    .iter()
                    .any(|label| label["name"] == condition["name"]["eq"])
            }
            "state" => {
                let closed = condition["type"]["nin"].as_array().unwrap();
                !closed.contains(&issue["state"]["type"])
            }
            other => panic!("unknown filter {other}"),
        })
}

#[test]
fn linear_follows_the_protocol() {
    let _alone = alone();
    if !has_python() {
        return;
    }
    let linear = Linear::new();
    // One old and closed.
    linear.state().issues = (1..=6).map(|at| issue(at, "Todo", &["vik"], 90)).collect();
    linear.state().issues[5]["state"] = state_of("Done");
    check_protocol(&linear.world, "ENG-1", 6, 1);
}

#[test]
fn linear_lists_issues_with_all_their_fields() {
    let _alone = alone();
    if !has_python() {
        return;
    }
    let linear = Linear::new();
    let world = &linear.world;
    let mut issues: Vec<Value> = vec![
        issue(1, "Todo", &["vik", "bug"], 90),
        issue(2, "Todo", &[], 90),
        issue(3, "In Progress", &[], 3),
        issue(4, "Done", &["vik"], 90),
        issue(5, "Done", &[], 3),
        issue(6, "Canceled", &["vik"], 13),
        issue(7, "Todo", &["vik"], 3),
        issue(8, "Todo", &["vik"], 3),
    ];
    issues[0]["priority"] = json!(2);
    issues[0]["assignee"] = json!({"email": "bob@example.com"});
    issues[0]["updatedAt"] = "2020-01-02T00:00:00.000Z".into();
    issues[0]["inverseRelations"] = json!([
        blocks("ENG-8", "blocks", "Todo"),
        blocks("ENG-7", "related", "Todo"),
        blocks("ENG-4", "blocks", "Done"),
        blocks("ENG-3", "blocks", "In Progress"),
    ]);
    issues[6]["trashed"] = json!(true);
    // More labels than the list of issues has of one issue, and the label is the last of them.
    let many: Vec<String> = (10..60)
        .map(|at| format!("a{at}"))
        .chain(["vik".to_owned()])
        .collect();
    issues[7]["labels"] =
        issue(8, "Todo", &many.iter().map(String::as_str).collect::<Vec<_>>(), 3)["labels"].clone();
    linear.state().issues = issues;
    assert_eq!(world.ids(false), ["ENG-1", "ENG-3", "ENG-5", "ENG-6", "ENG-8"]);
    assert_eq!(
        world.ids(true),
        ["ENG-1", "ENG-2", "ENG-3", "ENG-4", "ENG-5", "ENG-6", "ENG-8"]
    );
    let list = world.call(&Request::List { all: false });
    assert_eq!(
        list[0],
        json!({
            "id": "ENG-1", "title": "Issue 1", "state": "Todo", "description": "", "priority": 2,
            "created_at": "2020-01-01T00:00:00.000Z", "updated_at": "2020-01-02T00:00:00.000Z",
            "labels": ["bug", "vik"], "url": "https://linear.app/x/issue/ENG-1",
            "author": "ann@example.com", "assignee": "bob@example.com", "blocked_by": ["ENG-3", "ENG-8"],
        })
    );
    let states: Vec<&Value> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|found| &found["state"])
        .collect();
    // The label was taken off, closed issues are seen, and a label may be anywhere.
    assert_eq!(states, ["Todo", "none", "Done", "Canceled", "Todo"]);
    assert_eq!(list[4]["labels"].as_array().unwrap().len(), 51);
    for (at, id) in world.ids(false).iter().enumerate() {
        assert_eq!(world.call(&show(id)), list[at]);
    }
    for missing in [
        "ENG-7", "ENG-9", "OPS-1", "ENG-01", "eng-1", "ENG-1-1", "uuid-1", "1",
    ] {
        world.fails(&show(missing), 66);
    }
    let states = world.call(&Request::Capabilities)["states"].clone();
    let expected = [
        "Backlog",
        "Todo",
        "In Progress",
        "In Review",
        "Done",
        "Canceled",
        "none",
    ];
    assert_eq!(states, json!(expected));
}

#[test]
fn linear_moves_only_what_no_person_has_moved() {
    let _alone = alone();
    if !has_python() {
        return;
    }
    let linear = Linear::new();
    let world = &linear.world;
    linear.state().issues = vec![issue(1, "Todo", &["vik"], 0), issue(2, "Todo", &[], 0)];
    linear.state().labels = vec![
        json!({"id": "l-other", "name": "vik", "team": null}),
        json!({"id": "l-vik", "name": "vik", "team": {"key": "ENG"}}),
    ];
    let moved = |is: bool, state: &str| (is, state.to_owned());
    assert_eq!(
        world.move_issue("ENG-1", "Todo", "In Review"),
        moved(true, "In Review")
    );
    assert_eq!(linear.inputs(), [json!({"stateId": "s3"})]);
    assert_eq!(
        world.move_issue("ENG-1", "Todo", "Done"),
        moved(false, "In Review")
    );
    // Without the label, an issue is in no state of the team; both change at once.
    assert_eq!(world.move_issue("ENG-2", "Todo", "Done"), moved(false, "none"));
    assert_eq!(linear.inputs(), [Value::Null; 0]);
    assert_eq!(
        world.move_issue("ENG-2", "none", "In Progress"),
        moved(true, "In Progress")
    );
    let input = json!({"stateId": "s2", "addedLabelIds": ["l-vik"]});
    assert_eq!(linear.inputs(), [input]);
    assert_eq!(
        world.move_issue("ENG-2", "In Progress", "none"),
        moved(true, "none")
    );
    assert_eq!(linear.inputs(), [json!({"removedLabelIds": ["l-vik"]})]);
    let error = world.fails(&moving("ENG-1", "In Review", "Shipped"), 1);
    assert!(
        error.contains("no state `Shipped`; it has: Backlog, Todo"),
        "{error}"
    );
    assert_eq!(
        world.move_issue("ENG-1", "In Review", "Done"),
        moved(true, "Done")
    );
    world.fails(&moving("ENG-1", "Done", "none"), 1);
    world.fails(&moving("OPS-1", "Todo", "Done"), 66);
}

#[test]
fn linear_creates_once_with_state_and_labels() {
    let _alone = alone();
    if !has_python() {
        return;
    }
    let linear = Linear::new();
    let world = &linear.world;
    linear.state().labels = vec![json!({"id": "l-bug", "name": "bug", "team": null})];
    let request = create("k.1", "New", "Text", Some("Todo"), &["bug", "new"]);
    let url = "https://linear.app/x/issue/ENG-1";
    assert_eq!(
        world.call(&request),
        json!({"id": "ENG-1", "created": true, "url": url})
    );
    assert_eq!(
        world.call(&request),
        json!({"id": "ENG-1", "created": false, "url": url})
    );
    let shown = world.call(&show("ENG-1"));
    assert_eq!(
        (&shown["state"], &shown["labels"]),
        (&json!("Todo"), &json!(["bug", "new", "vik"]))
    );
    // Without a state, no stage takes it, whatever its labels are.
    world.call(&create("k.2", "New", "", None, &["vik"]));
    let shown = world.call(&show("ENG-2"));
    assert_eq!(
        (&shown["state"], &shown["description"]),
        (&json!("none"), &json!("<!-- vik:k.2 -->"))
    );
    assert!(world.label("ENG-2", &["vik", "a b"], &["x"]));
    assert!(!world.label("ENG-2", &["vik"], &["x"]));
    assert_eq!(world.call(&show("ENG-2"))["labels"], json!(["a b", "vik"]));
    // A person has deleted the text with the mark, or the editor has changed it.
    assert!(world.comment("ENG-1", "k", "x"));
    linear.state().comments[0].1["body"] = "x".into();
    assert!(!world.comment("ENG-1", "k", "x"));
    world.fails(&create("k.3", "New", "", Some("Shipped"), &[]), 1);
    assert_eq!(linear.state().issues.len(), 2);
}

#[test]
fn linear_limits_name_the_time_to_wait() {
    let _alone = alone();
    if !has_python() {
        return;
    }
    let linear = Linear::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(90);
    let later = (now + Duration::from_secs(900)).as_millis().to_string();
    let body = json!({"errors": [{"message": "slow down", "extensions": {"code": "RATELIMITED"}}]});
    let response = WebResponse::json(400, &body)
        .with_header("X-RateLimit-Requests-Remaining", "7")
        .with_header("X-RateLimit-Requests-Reset", &later)
        .with_header("X-RateLimit-Complexity-Remaining", "0")
        .with_header("X-RateLimit-Complexity-Reset", &now.as_millis().to_string());
    for (response, expected) in [(response, 60..=90), (WebResponse::json(400, &body), 60..=60)] {
        linear.world.server.fail_after(0, Fault::Respond(response));
        let error = linear.world.tracker.call(&show("ENG-1")).unwrap_err();
        let CallError::Later { wait, .. } = error else {
            panic!("{error:?}")
        };
        assert!(expected.contains(&wait.as_secs()), "{wait:?}");
    }
}

#[test]
fn linear_with_a_wrong_team_or_key_is_a_failure() {
    let _alone = alone();
    if !has_python() {
        return;
    }
    let linear = Linear::new();
    let url = format!("{}/graphql", linear.world.server.url());
    let tracker = |key: &str| {
        let variables = [
            ("LINEAR_API_KEY", key),
            ("LINEAR_TEAM", "ENG"),
            ("LINEAR_URL", &url),
        ];
        program("linear", &variables, &["--team", "OPS", "--label", "x"])
    };
    let list = Request::List { all: false };
    let error = tracker(KEY).call(&list).unwrap_err();
    assert!(
        error.exit_code() == 1 && error.to_string().contains("no team `OPS`"),
        "{error}"
    );
    let error = tracker("wrong").call(&list).unwrap_err();
    assert!(
        error.exit_code() == 1 && error.to_string().contains("status 401"),
        "{error}"
    );
}
