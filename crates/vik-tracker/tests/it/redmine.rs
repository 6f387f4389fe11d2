use std::time::Duration;

use serde_json::{Value, json};
use vik_tracker::conformance::Status;
use vik_tracker::protocol::{CallError, Protocol, Request};
use vik_tracker::redmine::RedmineTracker;

use crate::calls::{self, access, comment, comments, each, moved, moving, show};
use crate::redmine_api::{Api, TOKEN, issue, start};
use crate::web::{Fault, WebResponse};

type World = calls::World<Api, RedmineTracker>;

fn world(issues: impl IntoIterator<Item = Value>) -> World {
    let api = start(issues);
    let tracker = RedmineTracker::new(&access(&api.server.url(), TOKEN), "shop").unwrap();
    World::new(api, tracker, &[TOKEN])
}

fn status(world: &World, number: usize) -> Value {
    world.api.state().issues[number - 1]["status"]["name"].clone()
}

fn create(key: &str, title: &str, state: Option<&str>) -> Request {
    calls::create(key, title, "Text", state, &[])
}

#[test]
fn redmine_passes_the_conformance_test() {
    let world = world((1..=5).map(|number| issue(number, 1)));
    let report = world.conformance(6);
    assert_eq!((report.tracker.as_str(), report.issue.as_str()), ("redmine", "6"));
    // `label` and `pull_request` are not supported.
    assert_eq!(report.count(Status::Skipped), 2, "{:#?}", report.checks);
}

#[test]
fn list_has_all_pages_and_what_was_closed_lately() {
    let mut issues: Vec<Value> = (1..=7).map(|number| issue(number, 1)).collect();
    issues[1]["status"] = issue(2, 5)["status"].clone();
    issues[2]["status"] = issue(3, 5)["status"].clone();
    issues[2]["updated_on"] = jiff::Timestamp::now().to_string().into();
    issues[3]["project"] = json!({"id": 4, "name": "Other"});
    issues[4]["assigned_to"] = json!({"id": 8, "name": "Bob"});
    issues[4]["category"] = json!({"id": 2, "name": "Checkout"});
    issues[4]["priority"] = json!({"id": 9, "name": "Urgent"});
    issues[4]["description"] = "a\r\nb".into();
    let relation = |from: u64, to: u64, kind: &str| json!({"id": 1, "issue_id": from, "issue_to_id": to, "relation_type": kind, "delay": null});
    issues[4]["relations"] = json!([
        relation(6, 5, "blocks"),
        relation(1, 5, "precedes"),
        relation(5, 7, "blocks"),
        relation(2, 5, "relates"),
        relation(6, 5, "precedes"),
    ]);
    let world = world(issues);
    let list = world.list(false);
    assert_eq!(each(&list, "id"), ["1", "3", "5", "6", "7"]);
    let all = world.list(true);
    assert_eq!(each(&all, "id"), ["1", "2", "3", "5", "6", "7"]);
    let url = world.api.server.url();
    assert_eq!(
        list[0],
        json!({
            "id": "1", "title": "Issue 1", "state": "New", "description": "", "url": format!("{url}/issues/1"),
            "created_at": "2020-01-01T00:00:01Z", "updated_at": "2020-01-02T00:00:00Z", "author": "9", "author_name": "Ann",
            "labels": ["Bug"], "blocked_by": [], "priority": 2,
        })
    );
    let fifth = &list[2];
    assert_eq!(fifth["assignee"], "Bob");
    assert_eq!(fifth["labels"], json!(["Bug", "Checkout"]));
    assert_eq!(fifth["priority"], 1);
    assert_eq!(fifth["blocked_by"], json!(["1", "6"]));
    assert_eq!(list[1]["state"], "Closed");
    for (at, id) in [(0, "1"), (1, "3"), (2, "5")] {
        assert_eq!(world.call(&show(id)), list[at]);
    }
}

#[test]
fn issue_of_another_project_is_neither_read_nor_changed() {
    let mut issues: Vec<Value> = (1..=2).map(|number| issue(number, 1)).collect();
    issues[1]["project"] = json!({"id": 4, "name": "Other"});
    let world = world(issues);
    for id in ["2", "3", "01", "x", "1/../2", "1.json?x", "99999999999999999999"] {
        for request in [
            show(id),
            moving(id, "New", "Closed"),
            comment(id, "k", "Text"),
            comments(id),
        ] {
            world.fails(&request, 66);
        }
    }
    assert_eq!(world.api.changes(), [""; 0]);
}

#[test]
fn move_changes_the_status_only_from_the_expected_one() {
    let world = world([issue(1, 1)]);
    assert_eq!(
        world.move_issue("1", "New", "Feed \"back\""),
        moved(true, "Feed \"back\"")
    );
    assert_eq!(
        world.api.changes(),
        ["PUT /issues/1.json {\"issue\":{\"status_id\":4}}"]
    );
    // A person has moved it before.
    assert_eq!(
        world.move_issue("1", "New", "Closed"),
        moved(false, "Feed \"back\"")
    );
    assert_eq!(world.api.changes(), [""; 0]);
    // A person moves it right afterwards.
    world.api.state().person_sets = Some(2);
    assert_eq!(
        world.move_issue("1", "Feed \"back\"", "Closed"),
        moved(false, "In Progress")
    );
    // Names of statuses are exact.
    let error = world.error(&moving("1", "In Progress", "closed"));
    assert_eq!(
        error,
        CallError::Usage(
            "Redmine has no status \"closed\", but New, In Progress, Feed \"back\", Closed".to_owned()
        )
    );
}

#[test]
fn move_that_the_workflow_forbids_is_a_failure() {
    let world = world([issue(1, 1)]);
    world.api.state().forbidden = vec![(1, 5)];
    let error = world.fails(&moving("1", "New", "Closed"), 1);
    assert!(error.contains("does not permit it"), "{error}");
    assert_eq!(status(&world, 1), "New");
}

#[test]
fn comment_is_added_once_and_unchanged() {
    let world = world([issue(1, 1)]);
    let hostile = "`$(reboot)` \"a\" 'b' \\ \u{1f600}\n</pre>\n<!-- vik:b -->";
    for (key, body) in [("a", hostile), ("b", "Text"), ("c", "Text")] {
        assert!(world.comment("1", key, body), "{key}");
        assert!(!world.comment("1", key, body), "{key}");
    }
    let private = json!({"id": 4, "user": {"id": 9, "name": "Ann"}, "notes": "Secret.", "private_notes": true,
        "created_on": "2026-01-01T00:00:00Z", "details": []});
    world.api.state().journals.push((1, private));
    let comments = world.call(&comments("1"));
    assert_eq!(comments.as_array().unwrap().len(), 3);
    let url = world.api.server.url();
    assert_eq!(comments[0]["body"], format!("{hostile}\n\n<!-- vik:a -->"));
    assert_eq!(comments[2]["author"], "Vik");
    assert_eq!(comments[2]["url"], json!(format!("{url}/issues/1#change-3")));
    world.api.state().drops_notes = true;
    world.fails(&comment("1", "d", "Text"), 1);
}

#[test]
fn issue_is_created_once_in_the_state_that_was_asked_for() {
    let world = world([issue(1, 1)]);
    // Somebody else wrote the same key: only issues of the account count.
    world.api.state().issues[0]["description"] = "<!-- vik:k -->".into();
    world.api.state().issues[0]["created_on"] = jiff::Timestamp::now().to_string().into();
    let url = world.api.server.url();
    let answer =
        |id: &str, created: bool| json!({"id": id, "created": created, "url": format!("{url}/issues/{id}")});
    let title = "`$(x)` \"y\" 'z' <b>";
    assert_eq!(
        world.call(&create("k", title, Some("In Progress"))),
        answer("2", true)
    );
    assert_eq!(
        world.call(&create("k", title, Some("In Progress"))),
        answer("2", false)
    );
    assert_eq!(
        (status(&world, 2), &world.api.state().issues[1]["subject"]),
        (json!("In Progress"), &json!(title))
    );
    // Redmine ignores this one for a new issue.
    assert_eq!(world.call(&create("l", "New", Some("Closed"))), answer("3", true));
    assert_eq!(status(&world, 3), "Closed");
    assert_eq!(world.call(&create("m", "New", None)), answer("4", true));
    assert_eq!(status(&world, 4), "New");
    world.api.state().forbidden = vec![(1, 5)];
    let error = world.error(&create("n", "New", Some("Closed")));
    assert!(
        error.to_string().starts_with("the issue was created, but "),
        "{error}"
    );
    let error = world.error(&create("o", &"x".repeat(256), None));
    assert_eq!(
        error,
        CallError::Failed(
            "Redmine answered with status 422: Subject is too long (maximum is 255 characters)".to_owned()
        )
    );
    world.fails(&create("o", "New", Some("Unknown")), 2);
    world.fails(&calls::create("p", "New", "", None, &["bug"]), 2);
}

#[test]
fn answers_that_are_no_success_have_the_exit_codes_of_the_protocol() {
    let world = world((1..=5).map(|number| issue(number, 1)));
    let list = Request::List { all: true };
    let respond = |status: u16, body: &str| WebResponse {
        status,
        headers: Vec::new(),
        body: body.to_owned(),
    };
    let limited = |status: u16, seconds: &str| respond(status, "").with_header("Retry-After", seconds);
    let echo = format!("{{\"errors\": [\"the key {TOKEN} is wrong\"]}}");
    let wrong_key = "[REDACTED] is wrong; REDMINE_API_KEY must";
    let redirect = respond(302, "").with_header("Location", "https://other.example/login?back=secret");
    let redirected = "correct the URL; it redirects to https://other.example/login";
    let huge = respond(200, &"x".repeat(33 * 1024 * 1024));
    let refusals = [
        (2, limited(429, "17"), 75, 17, "429"),
        (0, respond(429, ""), 75, 60, "429"),
        (1, respond(500, "<html>"), 75, 0, "500"),
        (0, limited(503, "5"), 75, 5, "503"),
        (0, respond(401, &echo), 1, 0, wrong_key),
        (0, respond(403, ""), 1, 0, "lacks a permission"),
        (0, respond(404, ""), 1, 0, "cannot find the project"),
        (0, redirect, 1, 0, redirected),
        (0, respond(200, "<html>"), 1, 0, "is the URL right?"),
        (0, respond(200, "{\"issues\": ["), 75, 0, "incomplete"),
        (0, respond(200, "[]"), 1, 0, "no list"),
        (0, huge, 1, 0, "more than 33554432 bytes"),
    ];
    let refusals = refusals
        .map(|(answered, response, code, wait, text)| (answered, Fault::Respond(response), code, wait, text));
    let broken = [
        (3, Fault::Close, 75, 0, "did not answer"),
        (2, Fault::Truncate, 75, 0, "did not answer"),
    ];
    for (answered, fault, code, wait, text) in refusals.into_iter().chain(broken) {
        world.api.server.fail_after(answered, fault);
        let error = world.error(&list);
        assert_eq!(error.exit_code(), code, "{error}");
        assert!(error.to_string().contains(text), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        if let CallError::Later { wait: found, .. } = error {
            assert_eq!(found, Duration::from_secs(wait), "{text}");
        }
    }
    world.api.server.recover();
    assert_eq!(each(&world.call(&list), "id").len(), 5);
    let other = RedmineTracker::new(&access(&world.api.server.url(), "other"), "shop").unwrap();
    let error = other.call(&list).unwrap_err();
    assert_eq!(error.exit_code(), 1, "{error}");
    let missing = RedmineTracker::new(&access(&world.api.server.url(), TOKEN), "missing").unwrap();
    assert_eq!(missing.call(&show("1")).unwrap_err().exit_code(), 1);
}

#[test]
fn server_that_is_down_can_be_tried_later() {
    let url = world([]).api.server.url();
    let tracker = RedmineTracker::new(&access(&url, TOKEN), "shop").unwrap();
    let error = tracker.call(&show("1")).unwrap_err();
    assert_eq!(error.exit_code(), 75, "{error}");
    assert!(error.to_string().contains("cannot connect"), "{error}");
}

#[test]
fn answer_that_was_lost_is_found_by_a_second_call() {
    let world = world([issue(1, 1)]);
    // The comment was added, but its answer is lost.
    world.api.server.fail_after(2, Fault::CloseAfterwards);
    world.fails(&comment("1", "k", "Text"), 75);
    world.api.server.recover();
    assert!(!world.comment("1", "k", "Text"));
}

#[test]
fn invalid_projects_are_refused() {
    for project in ["", "a/b", "..", "a b", "a?b", "ä"] {
        let error = RedmineTracker::new(&access("http://127.0.0.1:1", TOKEN), project).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{project}");
    }
}
