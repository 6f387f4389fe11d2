use serde_json::{Value, json};
use vik_tracker::gitlab::GitlabTracker;
use vik_tracker::protocol::{CallError, Request};

use crate::calls::{
    self, access, comment, comments, comments_on, each, label, moved, moving, open, show, status_of,
};
use crate::gitlab_api::{Api, TOKEN, issue, now, start};
use crate::web::Fault;

pub type World = calls::World<Api, GitlabTracker>;

pub fn tracker(url: &str, project: &str) -> Result<GitlabTracker, CallError> {
    GitlabTracker::new(&access(url, TOKEN), project)
}

pub fn world(issues: impl IntoIterator<Item = Value>) -> World {
    let api = start(issues);
    let tracker = tracker(&api.server.url(), "group/shop").unwrap();
    World::new(api, tracker, &[TOKEN])
}

fn labels(world: &World, number: usize) -> Value {
    world.api.state().issues[number - 1]["labels"].clone()
}

/// A draft with texts that are harmful wherever they are not only data.
fn create(key: &str, state: Option<&str>, labels: &[&str]) -> Request {
    calls::create(key, "`$(x)` \"y\" 'z'", "Text\n/close", state, labels)
}

#[test]
fn gitlab_passes_the_conformance_test() {
    let world = world((1..=5).map(|number| issue(number, &["vik:todo"])));
    let report = world.conformance(6);
    assert_eq!((report.checks.len(), report.issue.as_str()), (13, "6"));
}

#[test]
fn list_has_all_pages_and_what_was_closed_lately() {
    let mut issues: Vec<Value> = (1..=6)
        .map(|number| issue(number, &["vik:todo", "bug"]))
        .collect();
    issues[1]["state"] = "closed".into();
    issues[2]["state"] = "closed".into();
    issues[2]["updated_at"] = now().into();
    issues[4]["labels"] = json!([]);
    issues[4]["author"] = Value::Null;
    issues[4]["assignees"] = json!([{"username": "bob"}, {"username": "eve"}]);
    let world = world(issues);
    let list = world.list(false);
    assert_eq!(each(&list, "id"), ["1", "3", "4", "5", "6"]);
    let all = world.list(true);
    assert_eq!(each(&all, "id"), ["1", "2", "3", "4", "5", "6"]);
    assert_eq!(
        list[0],
        json!({
            "id": "1", "title": "Issue 1", "state": "todo", "description": "",
            "url": "https://gitlab.example/group/shop/-/issues/1", "created_at": "2020-01-01T00:00:01.000Z",
            "updated_at": "2020-01-02T00:00:00.000Z", "author": "ann", "labels": ["bug", "vik:todo"],
            "blocked_by": [],
        })
    );
    assert_eq!(list[1]["state"], "closed");
    assert_eq!(list[3]["state"], "none");
    assert_eq!(list[3]["author"], "ghost");
    assert_eq!(list[3]["assignee"], "bob");
    assert_eq!(list[3]["assignees"], json!(["bob", "eve"]));
    for (at, id) in [(0, "1"), (1, "3"), (3, "5")] {
        assert_eq!(world.call(&show(id)), list[at]);
    }
    for missing in ["7", "01", "x", "1/notes", "1?x", "99999999999999999999"] {
        world.fails(&show(missing), 66);
    }
}

#[test]
fn pages_are_read_without_their_headers_too() {
    let world = world((1..=201).map(|number| issue(number, &[])));
    world.api.state().page = 100;
    world.api.state().hides_pages = true;
    let all = world.list(true);
    assert_eq!(each(&all, "id").len(), 201);
    assert_eq!(world.api.server.take_requests().len(), 3);
    world.api.state().ignores_pages = true;
    let all = world.list(true);
    assert_eq!(each(&all, "id").len(), 100);
    assert_eq!(world.api.server.take_requests().len(), 2);
}

#[test]
fn blockers_are_read_only_where_there_are_some() {
    let mut issues: Vec<Value> = (1..=4).map(|number| issue(number, &[])).collect();
    for (issue, blocks) in issues.iter_mut().zip([0, 2, 1, 1]) {
        issue["blocking_issues_count"] = blocks.into();
    }
    issues[3]["state"] = "closed".into();
    issues[3]["updated_at"] = now().into();
    let world = world(issues);
    let link = |number: u64, project: u64, kind: &str, state: &str| json!({"iid": number, "project_id": project, "link_type": kind, "state": state});
    world.api.state().links = vec![
        (2, link(1, 3, "blocks", "opened")),
        (2, link(3, 4, "blocks", "opened")),
        (2, link(3, 3, "relates_to", "opened")),
        (3, link(1, 3, "blocks", "opened")),
        (4, link(1, 3, "blocks", "opened")),
        (1, link(2, 3, "is_blocked_by", "opened")),
        (1, link(3, 3, "is_blocked_by", "opened")),
        (1, link(4, 3, "is_blocked_by", "closed")),
        (1, link(9, 4, "is_blocked_by", "opened")),
    ];
    let list = world.list(false);
    let requests = world.api.server.take_requests();
    let links = requests.iter().filter(|request| request.path.ends_with("/links"));
    assert_eq!(links.count(), 2);
    let blocked_by = each(&list, "blocked_by");
    assert_eq!(
        blocked_by,
        [&json!(["2", "3"]), &json!([]), &json!([]), &json!([])]
    );
    for at in 0..4 {
        assert_eq!(world.call(&show(&(at + 1).to_string())), list[at]);
    }
}

#[test]
fn move_is_one_request() {
    let world = world([issue(1, &["bug", "vik:todo", "vik:wip"])]);
    assert_eq!(
        world.move_issue("1", "todo", "a \"review\""),
        moved(true, "a \"review\"")
    );
    assert_eq!(
        world.api.changes(),
        ["PUT /api/v4/projects/group%2Fshop/issues/1 \
             {\"add_labels\":\"vik:a \\\"review\\\"\",\"remove_labels\":\"vik:todo,vik:wip\"}"]
    );
    assert_eq!(labels(&world, 1), json!(["bug", "vik:a \"review\""]));
    // A person has moved it before.
    assert_eq!(
        world.move_issue("1", "todo", "ready"),
        moved(false, "a \"review\"")
    );
    assert_eq!(world.api.changes(), [""; 0]);
    // Closed and opened again.
    assert_eq!(
        world.move_issue("1", "a \"review\"", "closed"),
        moved(true, "closed")
    );
    assert_eq!(labels(&world, 1), json!(["bug"]));
    assert_eq!(world.move_issue("1", "none", "todo"), moved(false, "closed"));
    assert_eq!(world.move_issue("1", "closed", "todo"), moved(true, "todo"));
    assert_eq!(world.move_issue("1", "todo", "none"), moved(true, "none"));
    world.fails(&moving("1", "none", "a,b"), 2);
    assert_eq!(labels(&world, 1), json!(["bug"]));
    for id in ["2", "1/../../4", "-"] {
        let code = world.error(&moving(id, "todo", "review")).exit_code();
        assert!(code == 66 || code == 2, "{id}");
    }
}

#[test]
fn move_leaves_an_issue_that_a_person_moves_meanwhile() {
    let world = world([issue(1, &["vik:todo"])]);
    world.api.state().person_edits = Some(Box::new(|issue| issue["labels"] = json!(["vik:backlog"])));
    assert_eq!(world.move_issue("1", "todo", "review"), moved(false, "backlog"));
    assert_eq!(labels(&world, 1), json!(["vik:backlog"]));
    // A label that sorts behind the new one.
    world.api.state().person_edits = Some(Box::new(|issue| issue["labels"] = json!(["vik:wip"])));
    assert_eq!(world.move_issue("1", "backlog", "review"), moved(false, "wip"));
    assert_eq!(labels(&world, 1), json!(["vik:wip"]));
    world.api.state().person_edits = Some(Box::new(|issue| issue["labels"] = json!(["vik:backlog"])));
    assert_eq!(world.move_issue("1", "wip", "review"), moved(false, "backlog"));
    world.api.state().person_edits = Some(Box::new(|issue| issue["state"] = "closed".into()));
    assert_eq!(world.move_issue("1", "backlog", "review"), moved(false, "closed"));
    assert_eq!(labels(&world, 1), json!([]));
}

#[test]
fn account_that_may_not_set_labels_gets_a_failure() {
    let world = world([issue(1, &["vik:todo", "old"])]);
    world.api.state().ignores_labels = true;
    for request in [
        moving("1", "todo", "review"),
        label("1", &["bug"], &[]),
        label("1", &[], &["old"]),
        create("k", Some("todo"), &[]),
    ] {
        let error = world.fails(&request, 1);
        assert!(error.contains("may not"), "{error}");
    }
}

#[test]
fn labels_are_set_in_one_request() {
    let world = world([issue(1, &["bug", "old"])]);
    assert!(world.label("1", &["bug", "a b"], &["old", "x"]));
    assert_eq!(
        world.api.changes(),
        ["PUT /api/v4/projects/group%2Fshop/issues/1 \
             {\"add_labels\":\"a b\",\"remove_labels\":\"old\"}"]
    );
    assert!(!world.label("1", &["bug", "a b"], &["old", "x"]));
    assert_eq!(world.api.changes(), [""; 0]);
    world.fails(&label("1", &["a,b"], &[]), 2);
}

#[test]
fn comment_is_added_once_and_carries_out_nothing() {
    let world = world([issue(1, &[])]);
    let system = json!({"id": 1, "body": "changed title\n<!-- vik:a -->", "author": {"username": "ann"},
        "created_at": "2020-01-01T00:00:00.000Z", "system": true, "internal": false});
    let internal = json!({"id": 2, "body": "Secret.", "author": {"username": "ann"},
        "created_at": "2020-01-01T00:00:00.000Z", "system": false, "internal": true});
    let mut older = internal.clone();
    older["confidential"] = true.into();
    older["internal"] = Value::Null;
    world.api.state().notes = [system, internal, older]
        .map(|note| ("issues/1".to_owned(), note))
        .into();
    let hostile = "`$(reboot)` \"a\" 'b' \\\n/close\n/label ~x\n<!-- vik:b -->";
    for (key, body) in [("a", hostile), ("b", "Text"), ("c", "Text")] {
        assert!(world.comment("1", key, body), "{key}");
        assert!(!world.comment("1", key, body), "{key}");
    }
    let listed = world.call(&comments("1"));
    assert_eq!(listed.as_array().unwrap().len(), 3);
    let escaped = hostile.replace("\n/", "\n\\/");
    assert_eq!(listed[0]["body"], format!("{escaped}\n\n<!-- vik:a -->"));
    assert_eq!(listed[0]["author"], "vik");
    assert_eq!(
        listed[0]["url"],
        "https://gitlab.example/group/shop/-/issues/1#note_53"
    );
    world.fails(&comments("9"), 66);
    world.fails(&comment("9", "k", "Text"), 66);
    // The answer to the request is lost.
    world.api.server.fail_after(3, Fault::CloseAfterwards);
    world.fails(&comment("1", "d", "Text"), 75);
    world.api.server.recover();
    assert!(!world.comment("1", "d", "Text"));
}

#[test]
fn issue_is_created_once_with_its_labels() {
    let world = world([issue(1, &[])]);
    // Somebody else wrote the same key: only issues of the account count.
    world.api.state().issues[0]["description"] = "<!-- vik:k -->".into();
    world.api.state().issues[0]["created_at"] = now().into();
    let answer = |id: u64, created: bool| {
        let url = format!("https://gitlab.example/group/shop/-/issues/{id}");
        json!({"id": id.to_string(), "created": created, "url": url})
    };
    for created in [true, false] {
        assert_eq!(
            world.call(&create("k", Some("triage"), &["bug"])),
            answer(2, created)
        );
    }
    assert_eq!(labels(&world, 2), json!(["bug", "vik:triage"]));
    assert_eq!(
        world.api.state().issues[1]["description"],
        "Text\n\\/close\n\n<!-- vik:k -->"
    );
    assert_eq!(world.call(&create("l", None, &[])), answer(3, true));
    assert_eq!(world.call(&create("m", Some("none"), &[])), answer(4, true));
    assert_eq!(world.call(&show("4"))["state"], "none");
}

#[test]
fn merge_request_is_found_by_its_branch() {
    let world = world([]);
    let status = || world.call(&status_of("vik/1"));
    world.fails(&status_of("vik/1"), 66);
    // A fork has a branch with the same name.
    let fork = json!({"iid": 100, "source_branch": "vik/1", "state": "opened", "source_project_id": 8,
        "target_project_id": 3});
    world.api.state().merge_requests = vec![fork];
    world.fails(&status_of("vik/1"), 66);
    let url = "https://gitlab.example/group/shop/-/merge_requests/101";
    for created in [true, false] {
        assert_eq!(
            world.call(&open("vik/1", "/merge", None)),
            json!({"id": "101", "created": created, "url": url})
        );
    }
    assert_eq!(world.call(&open("vik/2", "/merge", None))["id"], "102");
    assert_eq!(world.api.state().merge_requests[1]["target_branch"], "trunk");
    let view = |state: &str, checks: &str, review: &str| json!({"id": "101", "url": url, "state": state, "draft": false, "checks": checks, "review": review});
    assert_eq!(status(), view("open", "none", "none"));
    for (pipeline, checks) in [
        ("running", "pending"),
        ("manual", "pending"),
        ("failed", "failed"),
        ("canceled", "failed"),
        ("success", "passed"),
    ] {
        world.api.state().merge_requests[1]["head_pipeline"] = json!({"status": pipeline});
        assert_eq!(status()["checks"], checks, "{pipeline}");
    }
    world.api.state().approvals = json!({"approved_by": [{"user": {"username": "ann"}}]});
    assert_eq!(status(), view("open", "passed", "approved"));
    world.api.state().reviewers =
        json!([{"state": "approved"}, {"state": "reviewed"}, {"state": "requested_changes"}]);
    assert_eq!(status(), view("open", "passed", "changes_requested"));
    // An older version.
    world.api.state().reviewers = Value::Null;
    assert_eq!(status(), view("open", "passed", "approved"));
    world.api.state().merge_requests[1]["blocking_discussions_resolved"] = false.into();
    assert_eq!(status(), view("open", "passed", "changes_requested"));
    let note = |id: u64, body: &str, position: Value, system: bool| {
        let note = json!({"id": id, "body": body, "author": {"username": "bob"}, "system": system,
            "created_at": "2026-01-01T00:00:00.000Z", "position": position});
        ("merge_requests/101".to_owned(), note)
    };
    world.api.state().notes = vec![
        note(1, "First.", Value::Null, false),
        note(2, "added 1 commit", Value::Null, true),
        note(
            3,
            "Here.",
            json!({"old_path": "a.rs", "new_path": "src/a.rs", "old_line": null, "new_line": 7}),
            false,
        ),
    ];
    let comments = world.call(&comments_on("vik/1"));
    assert_eq!(
        comments,
        json!([
            {"author": "bob", "body": "First.", "created_at": "2026-01-01T00:00:00.000Z",
                "url": format!("{url}#note_1")},
            {"author": "bob", "body": "Here.", "created_at": "2026-01-01T00:00:00.000Z",
                "url": format!("{url}#note_3"), "path": "src/a.rs", "line": 7},
        ])
    );
    // After a merge, the branch gets another merge request.
    world.api.state().merge_requests[1]["state"] = "merged".into();
    assert_eq!(status()["state"], "merged");
    assert_eq!(world.call(&open("vik/1", "/merge", None))["id"], "103");
}

#[test]
fn states_are_labels_and_missing_ones_are_created() {
    let world = world([]);
    world.api.state().labels = ["bug", "vik:todo", "question", "vik:old state"]
        .map(str::to_owned)
        .into();
    let known = ["closed", "none", "old state", "review", "todo"];
    assert_eq!(
        world.states(&[]),
        json!({"states": ["closed", "none", "old state", "todo"], "created": []})
    );
    assert_eq!(
        world.states(&["todo", "review"]),
        json!({"states": known, "created": ["review"]})
    );
    assert_eq!(world.states(&["review"]), json!({"states": known, "created": []}));
    assert!(matches!(
        world.error(&label("1", &["vik:review"], &[])),
        CallError::Failed(_)
    ));
}
