use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use vik_tracker::protocol::{Protocol, Request};

use super::linear_api::{KEY, blocks, complexity, inputs, issue, state_of, world};
use super::{check_protocol, program};
use crate::calls::{create, each, moved, moving, show};
use crate::web::{Fault, WebResponse};

#[test]
fn linear_follows_the_protocol() {
    let Some(world) = world() else { return };
    // One old and closed.
    world.api.state().issues = (1..=6).map(|at| issue(at, "Todo", &["vik"], 90)).collect();
    world.api.state().issues[5]["state"] = state_of("Done");
    check_protocol(&world, "ENG-1", 6, 1);
}

#[test]
fn linear_lists_issues_with_all_their_fields() {
    let Some(world) = world() else { return };
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
    // More labels and relations than the list of issues has of one issue; the last ones count.
    let many: Vec<String> = (10..60)
        .map(|at| format!("a{at}"))
        .chain(["vik".to_owned()])
        .collect();
    issues[7]["labels"] =
        issue(8, "Todo", &many.iter().map(String::as_str).collect::<Vec<_>>(), 3)["labels"].clone();
    let mut relations = vec![blocks("ENG-1", "related", "Todo"); 5];
    relations.push(blocks("ENG-2", "blocks", "Todo"));
    issues[4]["inverseRelations"] = relations.into();
    world.api.state().issues = issues;
    assert_eq!(world.ids(false), ["ENG-1", "ENG-3", "ENG-5", "ENG-6", "ENG-8"]);
    assert_eq!(
        world.ids(true),
        ["ENG-1", "ENG-2", "ENG-3", "ENG-4", "ENG-5", "ENG-6", "ENG-8"]
    );
    let list = world.list(false);
    assert_eq!(
        list[0],
        json!({
            "id": "ENG-1", "title": "Issue 1", "state": "Todo", "description": "", "priority": 2,
            "created_at": "2020-01-01T00:00:00.000Z", "updated_at": "2020-01-02T00:00:00.000Z",
            "labels": ["bug", "vik"], "url": "https://linear.app/x/issue/ENG-1",
            "author": "ann@example.com", "assignee": "bob@example.com", "blocked_by": ["ENG-3", "ENG-8"],
        })
    );
    let states = each(&list, "state");
    // The label was taken off, closed issues are seen, and a label may be anywhere.
    assert_eq!(states, ["Todo", "none", "Done", "Canceled", "Todo"]);
    assert_eq!(list[4]["labels"].as_array().unwrap().len(), 51);
    assert_eq!(list[2]["blocked_by"], json!(["ENG-2"]));
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
fn linear_counts_the_points_of_queries() {
    let variables = json!({"first": 10});
    let query =
        "query Q($first: Int!) { a(first: $first, filter: { b: { eq: 1 } }) { nodes { id c { d } } } }";
    // 1 for `a`, and ten times 1 for `nodes`, 0.1 for `id`, 1 for `c` and 0.1 for `d`.
    assert!((complexity(query, &variables) - 23.0).abs() < 1e-9);
    let query = "query Q($x: Int!) { a { nodes { id } pageInfo { more } } }";
    assert!((complexity(query, &variables) - 111.0).abs() < 1e-9);
}

#[test]
fn linear_lists_cost_what_the_page_states() {
    let Some(world) = world() else { return };
    world.api.state().issues = vec![issue(1, "Todo", &["vik"], 0)];
    world.ids(false);
    let points = world.api.state().points;
    assert!((1800.0..1900.0).contains(&points), "{points}");
    world.call(&show("ENG-1"));
    let points = world.api.state().points;
    assert!(points < 1900.0, "{points}");
}

#[test]
fn linear_moves_only_what_no_person_has_moved() {
    let Some(world) = world() else { return };
    world.api.state().issues = vec![issue(1, "Todo", &["vik"], 0), issue(2, "Todo", &[], 0)];
    world.api.state().labels = vec![
        json!({"id": "l-other", "name": "vik", "team": null}),
        json!({"id": "l-vik", "name": "vik", "team": {"key": "ENG"}}),
    ];
    assert_eq!(
        world.move_issue("ENG-1", "Todo", "In Review"),
        moved(true, "In Review")
    );
    assert_eq!(inputs(&world), [json!({"stateId": "s3"})]);
    assert_eq!(
        world.move_issue("ENG-1", "Todo", "Done"),
        moved(false, "In Review")
    );
    world.api.state().moved_by_person = Some("Canceled");
    assert_eq!(
        world.move_issue("ENG-1", "In Review", "Done"),
        moved(false, "Canceled")
    );
    assert_eq!(inputs(&world), [Value::Null; 0]);
    world.api.state().issues[0]["state"] = state_of("In Review");
    // Without the label, an issue is in no state of the team; both change at once.
    assert_eq!(world.move_issue("ENG-2", "Todo", "Done"), moved(false, "none"));
    assert_eq!(inputs(&world), [Value::Null; 0]);
    assert_eq!(
        world.move_issue("ENG-2", "none", "In Progress"),
        moved(true, "In Progress")
    );
    let input = json!({"stateId": "s2", "addedLabelIds": ["l-vik"]});
    assert_eq!(inputs(&world), [input]);
    assert_eq!(
        world.move_issue("ENG-2", "In Progress", "none"),
        moved(true, "none")
    );
    assert_eq!(inputs(&world), [json!({"removedLabelIds": ["l-vik"]})]);
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
    let Some(world) = world() else { return };
    world.api.state().labels = vec![json!({"id": "l-bug", "name": "bug", "team": null})];
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
    assert_eq!(shown["state"], "Todo");
    assert_eq!(shown["labels"], json!(["bug", "new", "vik"]));
    // Without a state, no stage takes it, whatever its labels are.
    world.call(&create("k.2", "New", "", None, &["vik"]));
    let shown = world.call(&show("ENG-2"));
    assert_eq!(shown["state"], "none");
    assert_eq!(shown["description"], "<!-- vik:k.2 -->");
    assert!(world.label("ENG-2", &["vik", "a b"], &["x"]));
    assert!(!world.label("ENG-2", &["vik"], &["x"]));
    assert_eq!(world.call(&show("ENG-2"))["labels"], json!(["a b", "vik"]));
    // A person has deleted the text with the mark, or the editor has changed it.
    assert!(world.comment("ENG-1", "k", "x"));
    world.api.state().comments[0].1["body"] = "x".into();
    assert!(!world.comment("ENG-1", "k", "x"));
    world.fails(&create("k.3", "New", "", Some("Shipped"), &[]), 1);
    assert_eq!(world.api.state().issues.len(), 2);
}

#[test]
fn linear_limits_name_the_time_to_wait() {
    let Some(world) = world() else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(90);
    let later = (now + Duration::from_secs(900)).as_millis().to_string();
    let body = json!({"errors": [{"message": "slow down", "extensions": {"code": "RATELIMITED"}}]});
    let response = WebResponse::json(400, &body)
        .with_header("X-RateLimit-Requests-Remaining", "7")
        .with_header("X-RateLimit-Requests-Reset", &later)
        .with_header("X-RateLimit-Complexity-Remaining", "0")
        .with_header("X-RateLimit-Complexity-Reset", &now.as_millis().to_string());
    for (response, expected) in [(response, 60..=90), (WebResponse::json(400, &body), 60..=60)] {
        world.api.server.fail_after(0, Fault::Respond(response));
        let wait = world.wait(&show("ENG-1"));
        assert!(expected.contains(&wait), "{wait}");
    }
}

#[test]
fn linear_with_a_wrong_team_or_key_is_a_failure() {
    let Some(world) = world() else { return };
    let url = format!("{}/graphql", world.api.server.url());
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
