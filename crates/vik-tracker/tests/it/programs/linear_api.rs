//! A fake of the API of Linear, made from its published description.

use serde_json::{Value, json};

use super::{World, cut, days_ago, has_python, program};
use crate::web::{Fake, WebRequest, WebResponse};

pub(super) const KEY: &str = "lin_api_secret";
/// The most points that Linear permits for a query.
const MAX_COMPLEXITY: f64 = 10_000.0;

/// What the fake has: issues of the team `ENG` in the form of the API, but with plain lists.
#[derive(Default)]
pub(super) struct State {
    pub(super) issues: Vec<Value>,
    pub(super) labels: Vec<Value>,
    /// The id of an issue, and a comment.
    pub(super) comments: Vec<(String, Value)>,
    /// A person moves the first issue to this state while the states of the team are read.
    pub(super) moved_by_person: Option<&'static str>,
    /// The points of the most complex query.
    pub(super) points: f64,
}

const STATES: [(&str, &str); 6] = [
    ("Backlog", "backlog"),
    ("Todo", "unstarted"),
    ("In Progress", "started"),
    ("In Review", "started"),
    ("Done", "completed"),
    ("Canceled", "canceled"),
];

pub(super) fn state_of(name: &str) -> Value {
    let at = STATES.iter().position(|(known, _)| *known == name).unwrap();
    json!({"id": format!("s{at}"), "name": name, "type": STATES[at].1, "position": at})
}

/// Returns an issue that was changed so many days ago.
pub(super) fn issue(number: usize, state: &str, labels: &[&str], days: i64) -> Value {
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

pub(super) fn blocks(blocker: &str, kind: &str, state: &str) -> Value {
    json!({"type": kind, "issue": {"identifier": blocker, "state": state_of(state)}})
}

/// Returns the program with its fake; `None` if there is no Python.
pub(super) fn world() -> Option<World<State>> {
    if !has_python() {
        return None;
    }
    let api = Fake::start(State::default(), respond);
    let url = format!("{}/graphql", api.server.url());
    let variables = [
        ("LINEAR_API_KEY", KEY),
        ("LINEAR_TEAM", "ENG"),
        ("LINEAR_URL", &url),
    ];
    let tracker = program("linear", &variables, &[]);
    Some(World::new(api, tracker, &[KEY]))
}

/// Returns the inputs of the mutations since the last call.
pub(super) fn inputs(world: &World<State>) -> Vec<Value> {
    let requests = world.api.server.take_requests();
    let inputs = requests
        .iter()
        .map(|request| request.body["variables"]["input"].clone());
    inputs.filter(|input| !input.is_null()).collect()
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
    let points = complexity(query, variables);
    if points > MAX_COMPLEXITY {
        let text = format!(
            "The query is too complex. Complexity: {points}. Maximum allowed complexity: {MAX_COMPLEXITY}."
        );
        let extensions = json!({"code": "INPUT_ERROR", "type": "invalid input", "statusCode": 400,
            "userError": true, "userPresentableMessage": text});
        let body = json!({"errors": [{"message": "Query too complex", "extensions": extensions}]});
        return WebResponse::json(400, &body);
    }
    state.points = state.points.max(points);
    match operation(state, name, variables) {
        Ok(data) => WebResponse::json(200, &json!({"data": data})),
        Err(message) => error(200, &message, "INPUT_ERROR"),
    }
}

/// Returns the points that Linear counts for a query before it runs: 0.1 for each property, 1 for
/// each object; a connection multiplies its children by the size of its page, which is 50 by
/// default.
pub(super) fn complexity(query: &str, variables: &Value) -> f64 {
    let spaced = query
        .chars()
        .flat_map(|character| match character {
            '{' | '}' | '(' | ')' => vec![' ', character, ' '],
            ':' | ',' => vec![' '],
            other => vec![other],
        })
        .collect::<String>();
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    // The name of the operation, and the types of its variables.
    let mut at = tokens.iter().position(|token| *token == ")").unwrap() + 2;
    let (points, _) = selection(&tokens, &mut at, variables);
    points
}

/// Returns the points of the fields up to the next closing brace, and whether they are those of a
/// connection.
fn selection(tokens: &[&str], at: &mut usize, variables: &Value) -> (f64, bool) {
    let (mut points, mut has_nodes) = (0.0, false);
    while tokens[*at] != "}" {
        has_nodes |= tokens[*at] == "nodes";
        *at += 1;
        let mut page = 50.0;
        if tokens[*at] == "(" {
            let end = *at + tokens[*at..].iter().position(|token| *token == ")").unwrap();
            if let Some(first) = tokens[*at..end].iter().position(|token| *token == "first") {
                let value = tokens[*at + first + 1];
                page = value.strip_prefix('$').map_or_else(
                    || value.parse().unwrap(),
                    |name| variables[name].as_f64().unwrap(),
                );
            }
            *at = end + 1;
        }
        if tokens[*at] == "{" {
            *at += 1;
            let (children, is_connection) = selection(tokens, at, variables);
            points += 1.0 + children * if is_connection { page } else { 1.0 };
        } else {
            points += 0.1;
        }
    }
    *at += 1;
    (points, has_nodes)
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
                .map(|issue| with_connections(issue, variables))
                .collect();
            let teams = if is_team {
                vec![json!({"id": "team"})]
            } else {
                vec![]
            };
            json!({"teams": {"nodes": teams}, "issues": connection(&found, variables)})
        }
        "Team" => {
            if let Some(name) = state.moved_by_person.take() {
                state.issues[0]["state"] = state_of(name);
            }
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

fn with_connections(issue: &Value, variables: &Value) -> Value {
    let mut issue = issue.clone();
    for (name, limit) in [("labels", "labels"), ("inverseRelations", "relations")] {
        let limit = usize::try_from(variables[limit].as_u64().unwrap()).unwrap();
        let (nodes, _) = cut(issue[name].as_array().unwrap(), 0, limit);
        issue[name] = json!({"nodes": nodes});
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
