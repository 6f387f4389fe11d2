use serde_json::{Value, json};

use super::*;
use crate::protocol::{
    CallError, FilesTracker, IssueDraft, MessageBody, Protocol, PullRequestDraft, Request,
};

fn files() -> (tempfile::TempDir, Tracker, FilesTracker) {
    let (dir, tracker) = tracker();
    tracker.create(&new("First"), now()).unwrap();
    let files = FilesTracker::new(tracker.clone(), "ann", |_| {});
    (dir, tracker, files)
}

fn comment(key: &str, body: &str) -> Request {
    Request::Comment {
        id: "1".to_owned(),
        key: key.to_owned(),
        input: MessageBody {
            body: body.to_owned(),
        },
    }
}

fn move_from(from: &str, to: &str) -> Request {
    Request::Move {
        id: "1".to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
    }
}

#[test]
fn files_list_and_show_the_same_issue() {
    let (_dir, tracker, files) = files();
    tracker.move_to("1", "done", None, None, now()).unwrap();
    let list = files.call(&Request::List { all: false }).unwrap();
    let show = files.call(&Request::Show { id: "1".to_owned() }).unwrap();
    assert_eq!(list, Value::Array(vec![show.clone()]));
    assert_eq!(show["state"], "done");
    let missing = files.call(&Request::Show { id: "2".to_owned() });
    assert!(matches!(missing, Err(CallError::NotFound(_))), "{missing:?}");
}

#[test]
fn files_move_only_from_the_expected_state() {
    let (_dir, _, files) = files();
    let moved = |request: &Request| files.call(request).unwrap();
    assert_eq!(
        moved(&move_from("review", "done")),
        json!({"moved": false, "state": "todo"})
    );
    assert_eq!(
        moved(&move_from("todo", "review")),
        json!({"moved": true, "state": "review"})
    );
    assert_eq!(
        moved(&move_from("todo", "review")),
        json!({"moved": false, "state": "review"})
    );
}

#[test]
fn files_add_one_comment_for_each_key() {
    let (_dir, tracker, files) = files();
    let created = |request: &Request| files.call(request).unwrap()["created"] == true;
    assert!(created(&comment("k-1", "Done.\n")));
    assert!(!created(&comment("k-1", "Done again.")));
    // A mark that the text itself contains is not the last line.
    assert!(created(&comment("k-2", "I know:\n<!-- vik:k-3 -->")));
    assert!(created(&comment("k-3", "Last.")));
    let comments = files.call(&Request::Comments { id: "1".to_owned() }).unwrap();
    let bodies: Vec<_> = comments
        .as_array()
        .unwrap()
        .iter()
        .map(|comment| comment["body"].as_str().unwrap())
        .collect();
    assert_eq!(
        bodies,
        [
            "Done.\n\n<!-- vik:k-1 -->",
            "I know:\n<!-- vik:k-3 -->\n\n<!-- vik:k-2 -->",
            "Last.\n\n<!-- vik:k-3 -->"
        ]
    );
    assert_eq!(comments[0]["author"], "ann");
    assert_eq!(tracker.show("1").unwrap().comments.len(), 3);
}

#[test]
fn files_create_one_issue_for_each_key() {
    let (_dir, tracker, files) = files();
    let create = |key: &str, state: Option<&str>| {
        let request = Request::Create {
            key: key.to_owned(),
            input: IssueDraft {
                title: "New".to_owned(),
                body: String::new(),
                state: state.map(str::to_owned),
                labels: vec!["bug".to_owned()],
            },
        };
        files.call(&request).unwrap()
    };
    assert_eq!(create("a", None), json!({"id": "2", "created": true}));
    assert_eq!(create("b", Some("todo")), json!({"id": "3", "created": true}));
    // Moved and commented meanwhile, it is still the same issue.
    tracker
        .move_to("2", "done", None, Some(("ann", "no")), now())
        .unwrap();
    assert_eq!(create("a", None), json!({"id": "2", "created": false}));
    let states: Vec<_> = tracker
        .list()
        .unwrap()
        .issues
        .into_iter()
        .map(|issue| issue.state)
        .collect();
    assert_eq!(states, ["todo", "done", "todo"]);
    assert!(get(&tracker, "2-new.md").contains("\nlabels: [bug]\n---\n\n<!-- vik:a -->\n"));
}

#[test]
fn files_change_labels_once_and_refuse_the_remaining_verbs() {
    let (_dir, tracker, files) = files();
    let label = Request::Label {
        id: "1".to_owned(),
        add: vec!["bug".to_owned()],
        remove: vec!["x".to_owned()],
    };
    assert_eq!(files.call(&label), Ok(json!({"changed": true})));
    assert_eq!(files.call(&label), Ok(json!({"changed": false})));
    let head = "vik/1".to_owned();
    let open = Request::OpenPullRequest {
        head,
        input: PullRequestDraft {
            title: "t".to_owned(),
            body: String::new(),
            base: None,
        },
    };
    assert!(matches!(files.call(&open), Err(CallError::Usage(_))));
    let capabilities = files.call(&Request::Capabilities).unwrap();
    assert_eq!(capabilities["protocol"], 1);
    assert!(!capabilities["verbs"].to_string().contains("pull_request"));
    std::fs::write(tracker.dir().join("1-first.md"), "x").unwrap();
    let broken = files.call(&Request::List { all: false });
    assert!(matches!(broken, Err(CallError::Failed(_))), "{broken:?}");
}
