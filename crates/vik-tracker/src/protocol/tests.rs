use std::time::Duration;

use serde_json::json;

use super::*;

fn text(text: &str) -> String {
    text.to_owned()
}

fn requests() -> Vec<Request> {
    let (id, head) = (text("7"), text("vik/7"));
    vec![
        Request::Capabilities,
        Request::States {
            create: vec![text("to do"), text("review")],
        },
        Request::List { all: false },
        Request::List { all: true },
        Request::Show { id: id.clone() },
        Request::Move {
            id: id.clone(),
            from: text("to do"),
            to: text("review"),
        },
        Request::Comment {
            id: id.clone(),
            key: text("k-1"),
            input: MessageBody {
                body: text("it is \"done\"\n"),
            },
        },
        Request::Comments { id: id.clone() },
        Request::Label {
            id,
            add: vec![text("a"), text("b")],
            remove: vec![text("c")],
        },
        Request::Create {
            key: text("k-2"),
            input: IssueDraft {
                title: text("t"),
                body: text("-"),
                state: None,
                labels: Vec::new(),
            },
        },
        Request::OpenPullRequest {
            head: head.clone(),
            input: PullRequestDraft {
                title: text("t"),
                body: text(""),
                base: Some(text("main")),
            },
        },
        Request::PullRequestStatus { head: head.clone() },
        Request::PullRequestComments { head },
    ]
}

#[test]
fn requests_are_command_lines_and_json() {
    let lines: String = requests()
        .iter()
        .map(|request| {
            assert_eq!(request.check(), Ok(()));
            let line = format!("{} {}", request.args().join(" "), request.input());
            format!("{}\n", line.trim_end())
        })
        .collect();
    insta::assert_snapshot!(lines, @r#"
    capabilities
    states --create to do --create review
    list
    list --all
    show 7
    move 7 --from to do --to review
    comment 7 --key k-1 {"body":"it is \"done\"\n"}
    comments 7
    label 7 --add a --add b --remove c
    create --key k-2 {"title":"t","body":"-","labels":[]}
    pull_request open vik/7 {"title":"t","body":"","base":"main"}
    pull_request status vik/7
    pull_request comments vik/7
    "#);
}

#[test]
fn invalid_arguments_are_refused() {
    for id in ["", " ", "-1", "--help", "a\nb", "a\0", &"x".repeat(1025)] {
        let id = id.to_owned();
        let error = Request::Show { id }.check().unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }
    for key in ["", "-k", "a b", "a>b", "é", &"k".repeat(129)] {
        assert!(check_key(key).is_err(), "{key:?}");
    }
    let valid = requests();
    for request in valid {
        let mut bad = request.clone();
        match &mut bad {
            Request::Capabilities | Request::List { .. } => continue,
            Request::States { create } => create.push(text("--create")),
            Request::Show { id } | Request::Comments { id } => id.insert(0, '-'),
            Request::Move { from, .. } => from.clear(),
            Request::Comment { input, .. } => input.body.clear(),
            Request::Label { add, remove, .. } => remove.clone_from(add),
            Request::Create { input, .. } => input.title.push('\n'),
            Request::OpenPullRequest { input, .. } => input.base = Some(text("--force")),
            Request::PullRequestStatus { head } | Request::PullRequestComments { head } => head.clear(),
        }
        assert!(matches!(bad.check(), Err(CallError::Usage(_))), "{bad:?}");
    }
}

#[test]
fn exit_codes_are_errors() {
    let read = |code, stdout: &str, stderr| read_answer("show", code, stdout.as_bytes(), stderr);
    assert_eq!(
        read(Some(0), "\u{feff}{\"a\": 1}\n", "noise"),
        Ok(json!({"a": 1}))
    );
    assert!(matches!(read(Some(0), "", ""), Err(CallError::Failed(_))));
    assert!(matches!(read(Some(0), "{} {}", ""), Err(CallError::Failed(_))));
    for (code, stderr, expected) in [
        (
            Some(1),
            "",
            CallError::Failed(text("`show` failed with exit code 1")),
        ),
        (None, "", CallError::Failed(text("`show` was killed"))),
        (
            Some(2),
            "x",
            CallError::Usage(text("`show` failed with exit code 2: x")),
        ),
        (
            Some(66),
            "no\nretry-after: 3",
            CallError::NotFound(text("`show` failed with exit code 66: no retry-after: 3")),
        ),
    ] {
        assert_eq!(read(code, "{}", stderr), Err(expected.clone()));
        if let Some(code) = code {
            assert_eq!(i32::from(expected.exit_code()), code);
        }
    }
    for (code, stderr, seconds) in [(75, "", 0), (75, "retry-after: 9\n", 9), (1, "retry-after: 9", 9)] {
        let error = read(Some(code), "", stderr).unwrap_err();
        let CallError::Later { wait, .. } = error else {
            panic!("{error:?}")
        };
        assert_eq!(wait, Duration::from_secs(seconds));
    }
}

#[test]
fn answer_of_another_type_is_a_failure() {
    struct Fixed(Value);
    impl Protocol for Fixed {
        fn call(&self, _: &Request) -> Result<Value, CallError> {
            Ok(self.0.clone())
        }
    }
    let requests = requests();
    let request = requests.iter().find(|request| request.verb() == "move").unwrap();
    let moved = call::<Moved>(
        &Fixed(json!({"moved": true, "state": "review", "more": 1})),
        request,
    );
    assert_eq!(
        moved,
        Ok(Moved {
            moved: true,
            state: text("review")
        })
    );
    let error = call::<Moved>(&Fixed(json!({"moved": "yes"})), request).unwrap_err();
    assert!(matches!(&error, CallError::Failed(text) if text.starts_with("the answer to `move` is invalid")));
}
