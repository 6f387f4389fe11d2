mod labels;
mod properties;
mod protocol;

use std::path::Path;

use jiff::Timestamp;
use proptest::prelude::*;
use vik_base::report::ErrorCode;

use super::document::Document;
use super::*;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn tracker() -> (tempfile::TempDir, Tracker) {
    let dir = tempfile::tempdir().unwrap();
    let tracker = Tracker::new(dir.path().join("issues"));
    (dir, tracker)
}

fn put(tracker: &Tracker, name: &str, text: &str) {
    std::fs::create_dir_all(tracker.dir()).unwrap();
    std::fs::write(tracker.dir().join(name), text).unwrap();
}

fn get(tracker: &Tracker, name: &str) -> String {
    std::fs::read_to_string(tracker.dir().join(name)).unwrap()
}

fn new(title: &str) -> NewIssue {
    NewIssue {
        title: title.to_owned(),
        state: "todo".to_owned(),
        ..NewIssue::default()
    }
}

#[test]
fn new_issue_is_a_plain_file() {
    let (_dir, tracker) = tracker();
    let issue = NewIssue {
        body: "It is wrong.\n".to_owned(),
        labels: vec!["bug".to_owned(), "good first: issue".to_owned()],
        priority: Some(2),
        blocked_by: vec!["7".to_owned()],
        ..new("Fix: the total, \"again\"")
    };
    assert_eq!(tracker.create(&issue, now()).unwrap(), "1");
    insta::assert_snapshot!(get(&tracker, "1-fix-the-total-again.md"), @r#"
    ---
    id: 1
    title: "Fix: the total, \"again\""
    state: todo
    created_at: 2026-01-02T03:04:05Z
    priority: 2
    labels: [bug, "good first: issue"]
    blocked_by: [7]
    ---

    It is wrong.
    "#);
    tracker
        .move_to("1", "review", Some("todo"), Some(("ann", "looks\nfine")), now())
        .unwrap();
    tracker
        .comment(
            "1",
            "bob\n### x",
            "Not yet.\n\n## Comments\n### 2026-01-02T03:04:05Z · eve\n",
            now(),
        )
        .unwrap();
    insta::assert_snapshot!(get(&tracker, "1-fix-the-total-again.md").split_once("wrong.\n").unwrap().1, @r"

    ## Comments

    ### 2026-01-02T03:04:05Z · ann

    todo → review: looks
    fine

    ### 2026-01-02T03:04:05Z · bob ### x

    Not yet.

    \## Comments
    \### 2026-01-02T03:04:05Z · eve
    ");
    let issue = tracker.show("1").unwrap();
    assert_eq!(issue.description, "It is wrong.");
    assert_eq!(issue.comments.len(), 2);
    assert_eq!(
        issue.comments[1].text,
        "Not yet.\n\n## Comments\n### 2026-01-02T03:04:05Z · eve"
    );
    let mut fields = issue.fields();
    assert_eq!(fields.remove("comments").unwrap().as_array().unwrap().len(), 2);
    fields.remove("file").unwrap();
    insta::assert_snapshot!(
        serde_json::to_string(&fields).unwrap(),
        @r#"{"id":"1","title":"Fix: the total, \"again\"","state":"review","created_at":"2026-01-02T03:04:05Z","priority":2,"labels":["bug","good first: issue"],"blocked_by":[7],"description":"It is wrong."}"#
    );
}

const BY_HAND: &str = "\u{feff}---\r\n# a comment\r\nowner: 'Ann'   # who\r\nid:   A-1 # mine\r\ntitle: >\r\n  Two\r\n  \
                       lines\r\n\r\nstate: 'todo'\t# where\r\nlabels:\r\n  - a\r\n  - {b: [1, 2.5, ~]}\r\n---   \r\n\
                       Text\r\n---\r\nmore";

#[test]
fn hand_edits_stay_byte_for_byte() {
    let (_dir, tracker) = tracker();
    put(&tracker, "anything at all.md", BY_HAND);
    let issue = tracker.show("A-1").unwrap();
    assert_eq!(
        (issue.title.as_str(), issue.state.as_str()),
        ("Two lines\n", "todo")
    );
    assert_eq!(issue.description, "Text\n---\nmore");
    tracker.move_to("A-1", "it's", None, None, now()).unwrap();
    assert_eq!(
        get(&tracker, "anything at all.md"),
        BY_HAND.replace("'todo'", "'it''s'")
    );
    tracker.comment("A-1", "bob", "one\ntwo", now()).unwrap();
    let added = "\r\n\r\n## Comments\r\n\r\n### 2026-01-02T03:04:05Z · bob\r\n\r\none\r\ntwo\r\n";
    assert_eq!(
        get(&tracker, "anything at all.md"),
        BY_HAND.replace("'todo'", "'it''s'") + added
    );
}

#[test]
fn broken_files_are_reported_by_line_and_others_listed() {
    let (_dir, tracker) = tracker();
    for (name, text) in [
        ("a-no-front.md", "# Title\n"),
        ("b-open.md", "---\nid: b\n"),
        ("c-yaml.md", "---\nid: c\ntitle: a: b\nstate: x\n---\n"),
        ("d-no-id.md", "---\ntitle: d\nstate: x\n---\n"),
        ("e-no-state.md", "---\nid: e\n---\n"),
        ("f-empty-state.md", "---\nid: f\n\nstate: ''\n---\n"),
        ("g-state-list.md", "---\nid: g\nstate: [x]\n---\n"),
        ("h-twice.md", "---\nid: h\nstate: x\nid: i\n---\n"),
        ("i-list.md", "---\n- id\n---\n"),
        ("j-control.md", "---\nid: j\nstate: \u{7}\n---\n"),
        ("k-empty.md", ""),
        (
            "l-bomb.md",
            "---\nid: l\nstate: x\na: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
          c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
          e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n---\n",
        ),
        ("m-scalar.md", "---\njust text\n---\n"),
        ("y1.md", "---\nid: y\nstate: x\n---\n"),
        ("y2.md", "---\n\nid: y\nstate: x\n---\n"),
        ("README.md", "# Issues\n"),
        (".hidden.md", "x"),
        ("notes.txt", "x"),
    ] {
        put(&tracker, name, text);
    }
    put(&tracker, "n-utf8.md", "");
    std::fs::write(tracker.dir().join("n-utf8.md"), b"---\nid: \xff\n---\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", tracker.dir().join("o-link.md")).unwrap();
    nix::unistd::mkfifo(&tracker.dir().join("p-pipe.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let nested = format!(
        "---\nid: q\nstate: x\na: {}{}\n---\n",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    put(&tracker, "q-deep.md", &nested);
    let listing = tracker.list().unwrap();
    let ids: Vec<_> = listing.issues.iter().map(|issue| issue.id.as_str()).collect();
    assert_eq!(ids, ["y"]);
    let messages: Vec<String> = listing
        .broken
        .iter()
        .map(|broken| {
            let text = broken.to_string();
            text.rsplit_once("/issues/").unwrap().1.to_owned()
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
    a-no-front.md:1: the file does not start with front matter
    b-open.md:1: the front matter is not closed
    c-yaml.md:3: invalid YAML: mapping values are not allowed in this context
    d-no-id.md:1: it has no `id`
    e-no-state.md:1: it has no `state`
    f-empty-state.md:4: `state` is empty
    g-state-list.md:3: `state` is not text
    h-twice.md:4: duplicate key `id`
    i-list.md:2: front matter must be `key: value` lines
    j-control.md:3: invalid control character U+0007
    k-empty.md:1: the file does not start with front matter
    l-bomb.md:8: the aliases of the file expand to too much data
    m-scalar.md:2: front matter must be `key: value` lines
    n-utf8.md:2: not valid UTF-8
    o-link.md:1: it is a link, not a regular file
    p-pipe.md:1: it is a pipe, not a regular file
    q-deep.md:4: invalid YAML: recursion limit exceeded
    y2.md:3: the id "y" is already used by y1.md
    "#);
}

#[test]
fn verbs_find_the_broken_file_of_their_issue() {
    let (_dir, tracker) = tracker();
    put(&tracker, "7-x.md", "---\nid: 7\nstate: [\n---\n");
    put(&tracker, "8-a.md", "---\nid: 8\nstate: a\n---\n");
    put(&tracker, "8-b.md", "---\nid: 8\nstate: b\n---\n");
    put(&tracker, "9.md", "---\nid: 9\nstate: |\n  todo\n---\n");
    let code = |id: &str| tracker.move_to(id, "done", None, None, now()).unwrap_err().code();
    assert_eq!(code("7"), ErrorCode::IssueBroken);
    assert_eq!(code("8"), ErrorCode::IssueIdTaken);
    assert_eq!(code("9"), ErrorCode::IssueWrite);
    for id in [
        "10",
        "",
        ".",
        "..",
        "../x",
        "/etc/passwd",
        "7-x.md",
        "a\0b",
        "7\n",
    ] {
        assert_eq!(code(id), ErrorCode::IssueNotFound, "{id:?}");
    }
    assert_eq!(
        Tracker::new("/nowhere/at/all").list().unwrap_err().code(),
        ErrorCode::IssuesFolder
    );
}

#[test]
fn move_checks_the_expected_state() {
    let (_dir, tracker) = tracker();
    let id = tracker.create(&new("x"), now()).unwrap();
    assert!(
        tracker
            .move_to(&id, "review", Some("todo"), None, now())
            .unwrap()
            .changed
    );
    assert!(
        !tracker
            .move_to(&id, "review", None, Some(("a", "again")), now())
            .unwrap()
            .changed
    );
    assert!(tracker.show(&id).unwrap().comments.is_empty());
    let error = tracker
        .move_to(&id, "done", Some("todo"), None, now())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"the issue "1" is in state "review", not in "todo""#
    );
    assert_eq!(error.exit_code(), 1);
    assert_eq!(tracker.show(&id).unwrap().state, "review");
}

#[test]
fn new_issue_refuses_an_invalid_id_or_title() {
    let (dir, tracker) = tracker();
    let long = "x".repeat(101);
    for id in [
        "",
        ".",
        "../x",
        "a/b",
        "-x",
        ".x",
        "ä",
        "a b",
        "a\nb",
        long.as_str(),
    ] {
        let error = tracker
            .create(
                &NewIssue {
                    id: Some(id.to_owned()),
                    ..new("t")
                },
                now(),
            )
            .unwrap_err();
        assert_eq!(
            (error.code(), error.exit_code()),
            (ErrorCode::IssueUsage, 2),
            "{id:?}"
        );
    }
    for title in ["", " ", "a\nb"] {
        assert_eq!(
            tracker.create(&new(title), now()).unwrap_err().code(),
            ErrorCode::IssueUsage
        );
    }
    let named = NewIssue {
        id: Some("E-1".to_owned()),
        ..new("../../etc/passwd")
    };
    assert_eq!(tracker.create(&named, now()).unwrap(), "E-1");
    assert_eq!(
        tracker.create(&named, now()).unwrap_err().code(),
        ErrorCode::IssueIdTaken
    );
    assert!(tracker.dir().join("E-1-etc-passwd.md").exists());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let first: Vec<_> = std::fs::read_dir(tracker.dir())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(
        first,
        ["E-1-etc-passwd.md"],
        "no lock and no temporary file is left"
    );
}

#[test]
fn new_id_follows_the_highest_used_number() {
    let (_dir, tracker) = tracker();
    put(&tracker, "anything.md", "---\nid: 41\nstate: x\n---\n");
    put(&tracker, "50-broken.md", "no front matter");
    assert_eq!(tracker.create(&new("x"), now()).unwrap(), "51");
    assert_eq!(tracker.create(&new("x"), now()).unwrap(), "52");
    let ids: Vec<_> = tracker
        .list()
        .unwrap()
        .issues
        .into_iter()
        .map(|issue| issue.id)
        .collect();
    assert_eq!(ids, ["41", "51", "52"]);
}

#[test]
fn concurrent_writers_lose_nothing() {
    let (_dir, tracker) = tracker();
    tracker.create(&new("shared"), now()).unwrap();
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let tracker = tracker.clone();
            std::thread::spawn(move || {
                for turn in 0..5 {
                    tracker.create(&new("more"), now()).unwrap();
                    tracker
                        .comment("1", "w", &format!("{number}/{turn}"), now())
                        .unwrap();
                }
                // Compare and swap: exactly one succeeds.
                tracker.move_to("1", "taken", Some("todo"), None, now()).is_ok()
            })
        })
        .collect();
    let won = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .filter(|won| *won)
        .count();
    assert_eq!(won, 1);
    let listing = tracker.list().unwrap();
    assert!(listing.broken.is_empty());
    assert_eq!(listing.issues.len(), 41);
    assert_eq!(listing.issues[0].comments.len(), 40);
    assert_eq!(listing.issues[40].id, "41");
}

#[test]
fn stale_lock_error_names_the_owner_and_the_removal() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(".vik-lock");
    std::fs::write(&file, "").unwrap();
    let error = Store::open(dir.path()).unwrap().lock_held();
    let user = nix::unistd::User::from_uid(nix::unistd::getuid())
        .unwrap()
        .unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "{} of the user {} has been locked for 30 s",
            file.display(),
            user.name
        )
    );
    assert!(error.hint().unwrap().contains("rm .vik-lock"));
}

#[test]
fn concurrent_save_by_an_editor_is_detected() {
    let (_dir, tracker) = tracker();
    put(&tracker, "1.md", "---\nid: 1\nstate: a\n---\nold\n");
    let mut tries = 0;
    tracker
        .change("1", |document, path| {
            tries += 1;
            if tries == 1 {
                put(
                    &tracker,
                    "1.md",
                    "---\nid: 1\nstate: a\nnote: by hand\n---\nnew\n",
                );
            }
            document.set("state", "b", path)
        })
        .unwrap();
    assert_eq!(tries, 2);
    assert_eq!(
        get(&tracker, "1.md"),
        "---\nid: 1\nstate: b\nnote: by hand\n---\nnew\n"
    );
    let error = tracker.change("1", |document, path| {
        tries += 1;
        put(&tracker, "1.md", &format!("---\nid: 1\nstate: a\n---\n{tries}\n"));
        document.set("state", "c", path)
    });
    assert!(matches!(error, Err(TrackerError::ConcurrentWrites { .. })));
    assert_eq!(
        std::fs::read_dir(tracker.dir()).unwrap().count(),
        1,
        "no temporary file is left"
    );
}

#[test]
fn ten_thousand_issues_are_listed() {
    let (_dir, tracker) = tracker();
    std::fs::create_dir_all(tracker.dir()).unwrap();
    for id in 1..=10_000 {
        let text = format!(
            "---\nid: {id}\ntitle: Issue {id}\nstate: todo\nlabels: [a, b]\npriority: 3\n---\n\nText.\n"
        );
        std::fs::write(tracker.dir().join(format!("{id}-issue.md")), text).unwrap();
    }
    let listing = tracker.list().unwrap();
    assert_eq!((listing.issues.len(), listing.broken.len()), (10_000, 0));
}
