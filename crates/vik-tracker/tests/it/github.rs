use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use vik_tracker::github::GithubTracker;
use vik_tracker::protocol::{CallError, Request};

use crate::calls::{self, comments, comments_on, create, each, label, moved, moving, open, show, status_of};
use crate::github_api::{Api, issue};

type World = calls::World<Api, GithubTracker>;

/// Returns `gh`, if it is installed.
fn real_gh() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join("gh"))
        .find(|file| file.is_file())
}

/// Creates a world with the stand-in for `gh`.
fn world(issues: impl IntoIterator<Item = Value>) -> World {
    with_gh(None, issues)
}

fn with_gh(gh: Option<PathBuf>, issues: impl IntoIterator<Item = Value>) -> World {
    let api = Api::start();
    api.state().issues = issues.into_iter().collect();
    let root = api.folder.path();
    let socket = api.socket();
    let script = match gh {
        None => format!(
            "VIK_TEST_GH_SOCKET='{}' exec '{}' \"$@\"",
            socket.display(),
            env!("CARGO_BIN_EXE_vik-gh-test")
        ),
        Some(gh) => {
            let config = format!("http_unix_socket: {}\n", socket.display());
            std::fs::write(root.join("config.yml"), config).unwrap();
            format!(
                "export HOME='{0}' GH_CONFIG_DIR='{0}' GH_TOKEN=secret GH_REPO=o/r GH_PROMPT_DISABLED=1 \
                     GH_NO_UPDATE_NOTIFIER=1\nunset GH_HOST\nexec '{1}' \"$@\"",
                root.display(),
                gh.display()
            )
        }
    };
    let program = root.join("gh");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    let tracker = GithubTracker::new(program.to_str().unwrap(), None).unwrap();
    World::new(api, tracker, &[])
}

/// Returns the stand-in for `gh`, and the real one if it is installed.
fn each_gh() -> Vec<Option<PathBuf>> {
    let real = real_gh();
    std::iter::once(None).chain(real.map(Some)).collect()
}

fn labels(world: &World, number: usize) -> Vec<String> {
    let labels = world.api.state().issues[number - 1]["labels"].clone();
    let names = each(&labels, "name").into_iter();
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// With the stand-in, and with the real `gh` if it is installed.
#[test]
fn github_passes_the_conformance_test() {
    for gh in each_gh() {
        let world = with_gh(gh, (1..=3).map(|number| issue(number, &["vik:todo"])));
        let report = world.conformance(4);
        assert_eq!((report.checks.len(), report.issue.as_str()), (13, "4"));
    }
}

#[test]
fn list_has_all_pages_and_what_was_closed_lately() {
    let world = world([]);
    let mut issues: Vec<Value> = (1..=5)
        .map(|number| issue(number, &["bug", "vik:todo"]))
        .collect();
    issues[1]["state"] = "closed".into();
    issues[2]["state"] = "closed".into();
    issues[2]["updated_at"] = jiff::Timestamp::now().to_string().into();
    issues[3]["pull_request"] = json!({});
    issues[4]["labels"] = json!([]);
    issues[4]["user"] = Value::Null;
    issues[4]["assignees"] = json!([{"login": "bob"}, {"login": "eve"}]);
    issues.push(issue(6, &["vik:review", "vik:todo"]));
    world.api.state().issues = issues;
    let list = world.list(false);
    assert_eq!(each(&list, "id"), ["1", "3", "5", "6"]);
    let all = world.list(true);
    assert_eq!(each(&all, "id"), ["1", "2", "3", "5", "6"]);
    assert_eq!(
        list[0],
        json!({
            "id": "1", "title": "Issue 1", "state": "todo", "description": "",
            "url": "https://github.com/o/r/issues/1", "created_at": "2020-01-01T00:00:01Z",
            "updated_at": "2020-01-02T00:00:00Z", "author": "ann", "labels": ["bug", "vik:todo"],
        })
    );
    assert_eq!(list[2]["state"], "none");
    assert_eq!(list[2]["author"], "ghost");
    assert_eq!(list[2]["assignees"], json!(["bob", "eve"]));
    assert_eq!(list[3]["state"], "review");
    assert_eq!(list[1]["state"], "closed");
    assert_eq!(world.call(&show("3")), list[1]);
    for missing in ["7", "4", "01", "x", "1/comments", "99999999999999999999"] {
        world.fails(&show(missing), 66);
    }
}

#[test]
fn move_adds_the_new_label_before_it_removes_others() {
    let world = world([issue(1, &["bug", "vik:todo", "vik:old state"])]);
    assert_eq!(world.move_issue("1", "todo", "review"), moved(true, "review"));
    assert_eq!(
        world.api.changes(),
        [
            "POST /issues/1/labels",
            "DELETE /issues/1/labels/vik%3Aold%20state",
            "DELETE /issues/1/labels/vik%3Atodo"
        ]
    );
    assert_eq!(labels(&world, 1), ["bug", "vik:review"]);
    // A label that is a state is moved only from a known one.
    world.fails(&label("1", &["VIK:ready"], &[]), 1);
    // A person has moved it.
    assert_eq!(world.move_issue("1", "todo", "ready"), moved(false, "review"));
    // An earlier move was interrupted after the first step.
    world.api.state().issues = vec![issue(1, &["vik:ready", "vik:review"])];
    assert_eq!(world.move_issue("1", "review", "ready"), moved(true, "ready"));
    assert_eq!(labels(&world, 1), ["vik:ready"]);
    // Closed and opened again.
    assert_eq!(world.move_issue("1", "ready", "closed"), moved(true, "closed"));
    assert_eq!(world.move_issue("1", "ready", "todo"), moved(false, "closed"));
    assert_eq!(labels(&world, 1), [""; 0]);
    assert_eq!(world.move_issue("1", "closed", "todo"), moved(true, "todo"));
    assert_eq!(world.move_issue("1", "todo", "none"), moved(true, "none"));
    assert_eq!(labels(&world, 1), [""; 0]);
}

#[test]
fn move_leaves_an_issue_that_a_person_moves_meanwhile() {
    // The requests of a move: the issue, the new label, the old one.
    for (after, edited, state) in [
        (1, &["bug", "vik:wip"][..], "wip"),
        (1, &["vik:todo", "vik:backlog"], "backlog"),
        (1, &[], "none"),
        (2, &["vik:review", "vik:wip"], "wip"),
        (2, &["vik:review"], "none"),
        (2, &["vik:todo", "vik:review", "vik:wip"], "wip"),
    ] {
        let world = world([issue(1, &["vik:todo"])]);
        world.api.state().person_edits = Some((after, edited));
        assert_eq!(
            world.move_issue("1", "todo", "review"),
            moved(false, state),
            "{after}"
        );
        let labels = labels(&world, 1);
        assert!(!labels.contains(&"vik:review".to_owned()), "{labels:?}");
    }
}

#[test]
fn failed_move_leaves_the_issue_in_its_state() {
    let world = world([issue(1, &["vik:todo"])]);
    world.api.state().refuse_after = Some((1, "403 Forbidden".to_owned()));
    let error = world.error(&moving("1", "todo", "review"));
    assert_eq!(
        error,
        CallError::Failed("GitHub answered with status 403: refused".to_owned())
    );
    assert_eq!(labels(&world, 1), ["vik:todo"]);
}

#[test]
fn limits_name_the_time_to_wait() {
    for gh in each_gh() {
        let world = with_gh(gh, (1..=4).map(|number| issue(number, &[])));
        // The second page is refused.
        world.api.state().refuse_after = Some((1, "429 Too Many Requests\r\nRetry-After: 17".to_owned()));
        assert_eq!(world.wait(&Request::List { all: true }), 17);
    }
}

#[test]
fn missing_repository_is_a_failure() {
    let world = world([]);
    world.api.state().refuse_after = Some((0, "404 Not Found".to_owned()));
    world.fails(&Request::List { all: false }, 1);
}

#[test]
fn comments_and_issues_are_created_once() {
    let world = world([issue(1, &[])]);
    // The key is found on the second page too.
    for key in ["a", "b", "c"] {
        assert!(world.comment("1", key, "`$(x)` \"y\""));
    }
    for key in ["a", "b", "c"] {
        assert!(!world.comment("1", key, "`$(x)` \"y\""));
    }
    let listed = world.call(&comments("1"));
    assert_eq!(listed[2]["body"], "`$(x)` \"y\"\n\n<!-- vik:c -->");
    world.fails(&comments("9"), 66);
    let create = || world.call(&create("k", "New", "Text", Some("triage"), &["bug"]));
    let url = "https://github.com/o/r/issues/2";
    assert_eq!(create(), json!({"id": "2", "created": true, "url": url}));
    assert_eq!(create(), json!({"id": "2", "created": false, "url": url}));
    assert_eq!(labels(&world, 2), ["bug", "vik:triage"]);
}

#[test]
fn pull_request_is_found_by_its_branch() {
    let world = world([]);
    let open = |head: &str| world.call(&open(head, "", None));
    let status = || world.call(&status_of("vik/1"));
    world.fails(&status_of("vik/1"), 66);
    let url = "https://github.com/o/r/pull/100";
    assert_eq!(open("vik/1"), json!({"id": "100", "created": true, "url": url}));
    assert_eq!(open("vik/1"), json!({"id": "100", "created": false, "url": url}));
    assert_eq!(open("vik/2")["id"], "101");
    {
        let mut state = world.api.state();
        assert_eq!(state.pulls[0]["base"], "trunk");
        state.check_runs = vec![
            json!({"status": "completed", "conclusion": "success"}),
            json!({"status": "in_progress", "conclusion": null}),
        ];
        let review = |login: &str, kind: &str, body: &str, at: &str| {
            json!({"user": {"login": login}, "state": kind, "body": body,
                "submitted_at": format!("2026-01-01T00:00:0{at}Z"), "html_url": "https://github.com/v"})
        };
        state.reviews = vec![
            review("ann", "CHANGES_REQUESTED", "Please.", "2"),
            review("bob", "APPROVED", "", "3"),
            review("ann", "COMMENTED", "Hm.", "5"),
        ];
        state.line_comments = vec![
            json!({"user": {"login": "bob"}, "body": "Here.", "path": "src/a.rs",
            "line": null, "original_line": 7, "created_at": "2026-01-01T00:00:04Z", "html_url": "https://github.com/l"}),
        ];
        let first = json!({"user": {"login": "eve"}, "body": "First.", "created_at": "2026-01-01T00:00:01Z",
            "html_url": "https://github.com/i"});
        state.comments.push((100, first));
    }
    assert_eq!(
        status(),
        json!({"id": "100", "url": url, "state": "open", "draft": false, "checks": "pending",
            "review": "changes_requested"})
    );
    let comments = world.call(&comments_on("vik/1"));
    let bodies = each(&comments, "body");
    assert_eq!(bodies, ["First.", "Please.", "Here.", "Hm."]);
    assert_eq!(comments[2]["path"], "src/a.rs");
    assert_eq!(comments[2]["line"], 7);
    // After a merge, the branch gets another pull request.
    world.api.state().pulls[0]["state"] = "closed".into();
    world.api.state().pulls[0]["merged_at"] = "2026-01-02T00:00:00Z".into();
    world
        .api
        .state()
        .reviews
        .push(json!({"user": {"login": "ann"}, "state": "APPROVED"}));
    let merged = status();
    assert_eq!(merged["state"], "merged");
    assert_eq!(merged["review"], "approved");
    assert_eq!(open("vik/1")["id"], "102");
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
        world.states(&["todo", "review", "closed", "none", "review"]),
        json!({"states": known, "created": ["review"]})
    );
    assert_eq!(world.states(&["review"]), json!({"states": known, "created": []}));
    assert_eq!(world.api.changes(), ["POST /labels"]);
}

#[test]
fn open_blockers_of_the_repository_are_listed() {
    let world = world([]);
    let mut closed = issue(3, &[]);
    closed["state"] = "closed".into();
    let mut elsewhere = issue(4, &[]);
    elsewhere["html_url"] = "https://github.com/o/other/issues/4".into();
    let mut blocked = issue(1, &["vik:todo"]);
    blocked["issue_dependencies_summary"] = json!({"blocked_by": 3, "total_blocked_by": 4});
    blocked["blockers"] = json!([issue(2, &[]), closed, elsewhere, issue(5, &[])]);
    let mut free = issue(2, &["vik:todo"]);
    free["issue_dependencies_summary"] = json!({"blocked_by": 0, "total_blocked_by": 1});
    world.api.state().issues = vec![blocked, free];
    let list = world.list(false);
    assert_eq!(list[0]["blocked_by"], json!(["2", "5"]));
    assert_eq!(list[1].get("blocked_by"), None);
    assert_eq!(world.call(&show("1"))["blocked_by"], json!(["2", "5"]));
}

#[test]
fn longest_text_leaves_room_for_the_mark() {
    let world = world([issue(1, &[])]);
    let (key, text) = ("k".repeat(128), "é".repeat(65_536));
    assert!(world.comment("1", &key, &text));
    assert!(!world.comment("1", &key, &text));
    let body = world.api.state().comments[0].1["body"].clone();
    let body = body.as_str().unwrap();
    assert!(body.chars().count() <= 65_536, "{}", body.chars().count());
    assert!(
        body.contains("é\n\n[cut: 286 more characters]\n"),
        "{}",
        &body[body.len() - 300..]
    );
}

#[test]
fn hidden_repository_is_no_missing_issue() {
    let world = world([]);
    world.fails(&show("1"), 66);
    world.api.state().refuse_after = Some((0, "404 Not Found".to_owned()));
    world.fails(&show("1"), 1);
    // Dependencies that cannot be read are none.
    let mut blocked = issue(1, &["vik:todo"]);
    blocked["issue_dependencies_summary"] = json!({"blocked_by": 1});
    world.api.state().issues = vec![blocked];
    world.api.state().refuse_after = Some((1, "404 Not Found".to_owned()));
    assert_eq!(world.call(&show("1"))["blocked_by"], json!([]));
}
