use serde_json::{Value, json};
use vik_tracker::protocol::{Protocol, Request};

use super::gitea_api::{TOKEN, issue, label, labels, world};
use super::{check_protocol, program};
use crate::calls::{comments_on, create, each, moved, moving, open, show, status_of};
use crate::web::{Fault, WebResponse};

#[test]
fn gitea_follows_the_protocol() {
    let Some(world) = world() else { return };
    world.api.state().issues = (1..=6).map(|number| issue(number, &["vik:todo"], 90)).collect();
    world.api.state().issues[5]["state"] = "closed".into();
    check_protocol(&world, "1", 6, 0);
}

#[test]
fn gitea_lists_issues_with_all_their_fields() {
    let Some(world) = world() else { return };
    let mut issues = vec![
        issue(1, &["vik:todo", "bug"], 90),
        issue(2, &[], 90),
        issue(3, &["vik:todo"], 90),
        issue(4, &[], 3),
        issue(5, &["vik:review", "vik:todo"], 3),
        issue(6, &[], 3),
    ];
    issues[0]["updated_at"] = "2020-01-02T00:00:00Z".into();
    issues[0]["assignees"] = json!([{"login": "bob"}, {"login": "eve"}]);
    issues[1]["user"] = Value::Null;
    issues[2]["state"] = "closed".into();
    issues[3]["state"] = "closed".into();
    issues[5]["pull_request"] = json!({"merged": false});
    let other = |number: u64, name: &str, state: &str| json!({"id": 1000 + number, "number": number, "state": state, "repository": {"full_name": name}});
    world.api.state().dependencies = Some(vec![
        (1, other(5, "o/r", "open")),
        (1, other(4, "o/r", "closed")),
        (1, other(9, "o/other", "open")),
        (1, other(2, "o/r", "open")),
    ]);
    world.api.state().issues = issues;
    assert_eq!(world.ids(false), ["1", "2", "4", "5"]);
    assert_eq!(world.ids(true), ["1", "2", "3", "4", "5"]);
    let list = world.list(false);
    assert_eq!(
        list[0],
        json!({
            "id": "1", "title": "Issue 1", "state": "todo", "description": "",
            "created_at": "2020-01-01T00:00:00Z", "updated_at": "2020-01-02T00:00:00Z",
            "labels": ["bug", "vik:todo"], "url": "https://gitea.example/o/r/issues/1",
            "author": "ann", "assignee": "bob", "assignees": ["bob", "eve"], "blocked_by": ["2", "5"],
        })
    );
    let states = each(&list, "state");
    assert_eq!(states, ["todo", "none", "closed", "review"]);
    assert_eq!(list[1]["author"], "Ghost");
    for (at, id) in world.ids(false).iter().enumerate() {
        assert_eq!(world.call(&show(id)), list[at]);
    }
    for missing in [
        "6",
        "7",
        "01",
        "x",
        "1/comments",
        "99999999999999999999",
        "o/other#1",
    ] {
        world.fails(&show(missing), 66);
    }
    assert!(world.call(&Request::Capabilities).get("states").is_none());
}

#[test]
fn gitea_reads_pages_again_that_moved_meanwhile() {
    let Some(world) = world() else { return };
    world.api.state().issues = (1..=6).map(|number| issue(number, &[], 90)).collect();
    // The first issue is closed after the first page, so that the third one moves to that page.
    world.api.state().close_after = Some(0);
    assert_eq!(world.ids(false), ["2", "3", "4", "5", "6"]);
}

#[test]
fn gitea_adds_the_new_label_before_it_removes_others() {
    let Some(world) = world() else { return };
    world.api.state().issues = vec![issue(1, &["bug", "vik:todo", "vik:old state"], 0)];
    world.api.state().labels = ["a", "b", "c"].map(label).to_vec();
    world.api.state().org_labels = Some(["x", "y", "vik:review"].map(label).to_vec());
    // An issue with two states, as during a move, is in both.
    assert_eq!(world.move_issue("1", "todo", "review"), moved(true, "review"));
    let at = "/sub/api/v1/repos/o/r/issues/1/labels";
    assert_eq!(
        world.changes(),
        [
            format!("POST {at}"),
            format!("DELETE {at}/{}", label("vik:todo")["id"]),
            format!("DELETE {at}/{}", label("vik:old state")["id"])
        ]
    );
    assert_eq!(labels(&world, 0), ["bug", "vik:review"]);
    assert_eq!(world.api.state().labels.len(), 3);
    // A person has moved it.
    assert_eq!(world.move_issue("1", "todo", "ready"), moved(false, "review"));
    assert_eq!(world.changes(), [""; 0]);
    // The label is new.
    assert_eq!(world.move_issue("1", "review", "to do"), moved(true, "to do"));
    assert_eq!(labels(&world, 0), ["bug", "vik:to do"]);
    assert_eq!(world.move_issue("1", "to do", "closed"), moved(true, "closed"));
    assert_eq!(world.move_issue("1", "to do", "todo"), moved(false, "closed"));
    assert_eq!(world.move_issue("1", "closed", "todo"), moved(true, "todo"));
    assert_eq!(world.move_issue("1", "todo", "none"), moved(true, "none"));
    assert_eq!(labels(&world, 0), ["bug"]);
    world.fails(&moving("2", "todo", "none"), 66);
    // After the first step, the issue stays in its state.
    assert_eq!(world.move_issue("1", "none", "todo"), moved(true, "todo"));
    world.api.server.take_requests();
    world
        .api
        .server
        .fail_after(1, Fault::Respond(WebResponse::json(403, &Value::Null)));
    world.fails(&moving("1", "todo", "review"), 1);
    assert_eq!(labels(&world, 0), ["bug", "vik:todo"]);
}

#[test]
fn gitea_takes_a_move_back_that_a_person_has_overtaken() {
    let Some(world) = world() else { return };
    let mut closed = issue(1, &["vik:todo"], 0);
    closed["state"] = "closed".into();
    for (meanwhile, state, expected) in [
        (
            issue(1, &["bug", "vik:ready"], 0),
            "ready",
            &["bug", "vik:ready"] as &[&str],
        ),
        // Both labels, as in the middle of another move.
        (
            issue(1, &["vik:todo", "vik:ready"], 0),
            "ready",
            &["vik:todo", "vik:ready"],
        ),
        (issue(1, &["bug"], 0), "none", &["bug"]),
        (closed, "closed", &["vik:todo"]),
    ] {
        world.api.state().issues = vec![issue(1, &["bug", "vik:todo"], 0)];
        world.api.state().meanwhile = Some(meanwhile);
        assert_eq!(world.move_issue("1", "todo", "review"), moved(false, state));
        assert_eq!(labels(&world, 0), expected);
    }
    // Other labels do not matter, nor do states that an interrupted move has left.
    world.api.state().issues = vec![issue(1, &["bug", "vik:old", "vik:todo"], 0)];
    world.api.state().meanwhile = Some(issue(1, &["new", "vik:todo"], 0));
    assert_eq!(world.move_issue("1", "todo", "review"), moved(true, "review"));
    assert_eq!(labels(&world, 0), ["new", "vik:review"]);
}

#[test]
fn gitea_creates_once_with_state_and_labels() {
    let Some(world) = world() else { return };
    // The token may not read the labels of the organization.
    let refusal = Fault::Respond(WebResponse::json(
        403,
        &json!({"message": "token does not have the scope"}),
    ));
    world
        .api
        .server
        .fail_when(refusal, |request| request.path.contains("/orgs/"));
    let request = create("k.1", "New", "Text", Some("todo"), &["bug"]);
    let url = "https://gitea.example/o/r/issues/1";
    assert_eq!(
        world.call(&request),
        json!({"id": "1", "created": true, "url": url})
    );
    assert_eq!(
        world.call(&request),
        json!({"id": "1", "created": false, "url": url})
    );
    assert_eq!(labels(&world, 0), ["bug", "vik:todo"]);
    assert!(world.label("1", &["a b", "bug"], &["x"]));
    assert!(!world.label("1", &["a b"], &["x"]));
    assert_eq!(world.move_issue("1", "todo", "none"), moved(true, "none"));
    let shown = world.call(&show("1"));
    assert_eq!(shown["state"], "none");
    assert_eq!(shown["labels"], json!(["a b", "bug"]));
}

#[test]
fn gitea_finds_a_pull_request_by_its_branch() {
    let Some(world) = world() else { return };
    let open = |head: &str, base: Option<&str>| world.call(&open(head, "", base));
    let status = || world.call(&status_of("vik/1"));
    world.fails(&status_of("vik/1"), 66);
    world.fails(&comments_on("vik/1"), 66);
    let url = "https://gitea.example/o/r/pulls/100";
    assert_eq!(
        open("vik/1", None),
        json!({"id": "100", "created": true, "url": url})
    );
    assert_eq!(
        open("vik/1", None),
        json!({"id": "100", "created": false, "url": url})
    );
    assert_eq!(open("vik/2", Some("next"))["id"], "101");
    {
        let mut state = world.api.state();
        assert_eq!(state.pulls[0]["base"]["ref"], "trunk");
        assert_eq!(state.pulls[1]["base"]["ref"], "next");
        // A branch of the same name in a fork.
        let mut fork = state.pulls[0].clone();
        fork["id"] = 102.into();
        fork["number"] = 102.into();
        fork["head"]["repo_id"] = 2.into();
        state.pulls.push(fork);
        state.status = json!({"state": "pending", "total_count": 0});
        let review = |id: u64, login: &str, kind: &str, body: &str, at: u64| {
            json!({"id": id, "user": {"login": login}, "state": kind, "body": body, "dismissed": false,
                "submitted_at": format!("2026-01-01T01:00:0{at}+01:00"), "html_url": "https://gitea.example/v"})
        };
        state.reviews = vec![
            review(12, "ann", "REQUEST_CHANGES", "Please.", 2),
            review(13, "bob", "APPROVED", "", 3),
            review(14, "ann", "COMMENT", "Hm.", 5),
            review(15, "eve", "PENDING", "Draft.", 6),
        ];
        state.line_comments = vec![
            json!({"id": 3, "user": {"login": "ann"}, "body": "Here.", "path": "src/a.rs",
            "position": 0, "original_position": 7, "created_at": "2026-01-01T00:00:04Z",
            "html_url": "https://gitea.example/l"}),
        ];
        let first = json!({"id": 4, "user": {"login": "eve"}, "body": "First.",
            "created_at": "2026-01-01T00:00:01Z", "html_url": "https://gitea.example/i"});
        state.comments.push((100, first));
    }
    assert_eq!(
        status(),
        json!({"id": "100", "url": url, "state": "open", "draft": false, "checks": "none",
            "review": "changes_requested"})
    );
    let found = world.call(&comments_on("vik/1"));
    let bodies = each(&found, "body");
    assert_eq!(bodies, ["First.", "Please.", "Here.", "Hm."]);
    assert_eq!(found[2]["path"], "src/a.rs");
    assert_eq!(found[2]["line"], 7);
    for (state, expected) in [
        ("pending", "pending"),
        ("success", "passed"),
        ("warning", "passed"),
        ("failure", "failed"),
        ("error", "failed"),
    ] {
        world.api.state().status = json!({"state": state, "total_count": 2});
        assert_eq!(status()["checks"], expected);
    }
    // Merged, and the branch was removed.
    {
        let mut state = world.api.state();
        state.reviews[0]["dismissed"] = true.into();
        state.pulls[0]["state"] = "closed".into();
        state.pulls[0]["merged"] = true.into();
        state.pulls[0]["head"]["ref"] = "refs/pull/100/head".into();
    }
    let merged = status();
    assert_eq!(merged["state"], "merged");
    assert_eq!(merged["review"], "approved");
    assert_eq!(open("vik/1", None)["id"], "103");
    assert_eq!(status()["id"], "103");
}

#[test]
fn gitea_opens_one_pull_request_for_a_key() {
    let Some(world) = world() else { return };
    let url = world.api.server.url() + "/sub";
    let open = |key: &str| {
        let variables = [
            ("GITEA_TOKEN", TOKEN),
            ("GITEA_URL", url.as_str()),
            ("GITEA_REPO", "o/r"),
            ("VIK_OUTPUT_KEY", key),
        ];
        program("gitea", &variables, &[]).call(&open("vik/1", "Text", None))
    };
    let opened = |key: &str| {
        let found = open(key).unwrap();
        (found["id"].clone(), found["created"].clone())
    };
    assert_eq!(opened("k.1"), (json!("100"), json!(true)));
    assert_eq!(world.api.state().pulls[0]["body"], "Text\n\n<!-- vik:k.1 -->");
    // Another output finds the open one, and the same output its own, whatever became of it.
    assert_eq!(opened("k.2"), (json!("100"), json!(false)));
    world.api.state().pulls[0]["state"] = "closed".into();
    assert_eq!(opened("k.1"), (json!("100"), json!(false)));
    assert_eq!(opened("k.2"), (json!("101"), json!(true)));
    world.api.state().pulls[1]["state"] = "closed".into();
    world.api.state().pulls[1]["merged"] = true.into();
    assert_eq!(opened("k.2"), (json!("101"), json!(false)));
    // Without a key, only an open one counts.
    assert_eq!(opened(""), (json!("102"), json!(true)));
    assert_eq!(world.api.state().pulls[2]["body"], "Text");
    assert_eq!(open("k 1").unwrap_err().exit_code(), 2);
}

#[test]
fn gitea_without_the_repository_is_a_failure() {
    let Some(world) = world() else { return };
    let url = world.api.server.url() + "/sub";
    let tracker = |token: &str, repository: &str| {
        let variables = [
            ("GITEA_TOKEN", token),
            ("GITEA_URL", url.as_str()),
            ("GITEA_REPO", repository),
        ];
        program("gitea", &variables, &[])
    };
    let list = Request::List { all: false };
    let error = tracker(TOKEN, "o/other").call(&list).unwrap_err();
    assert!(
        error.exit_code() == 1 && error.to_string().contains("cannot find the repository"),
        "{error}"
    );
    let error = tracker(TOKEN, "o/other").call(&show("1")).unwrap_err();
    assert_eq!(error.exit_code(), 1, "{error}");
    let error = tracker("wrong", "o/r").call(&list).unwrap_err();
    assert!(
        error.exit_code() == 1 && error.to_string().contains("status 401"),
        "{error}"
    );
}

#[test]
fn gitea_states_are_labels_and_missing_ones_are_created() {
    let Some(world) = world() else { return };
    world.api.state().labels = ["bug", "vik:todo", "question"].map(label).to_vec();
    world.api.state().org_labels = Some(["vik:old state"].map(label).to_vec());
    let known = ["closed", "none", "old state", "review", "todo"];
    assert_eq!(
        world.states(&[]),
        json!({"states": ["closed", "none", "old state", "todo"], "created": []})
    );
    assert_eq!(
        world.states(&["todo", "review", "review"]),
        json!({"states": known, "created": ["review"]})
    );
    assert_eq!(world.states(&["review"]), json!({"states": known, "created": []}));
}
