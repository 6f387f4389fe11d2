use serde_json::{Value, json};
use vik_tracker::protocol::Request;

use super::check_protocol;
use super::jira_api::{issue, status, world};
use crate::calls::{comments, create, each, moved, moving, show};
use crate::web::{Fault, WebResponse};

#[test]
fn jira_follows_the_protocol() {
    let Some(world) = world() else { return };
    world.api.state().issues = (1..=6).map(|at| issue(at, "To Do", &["vik"], 90)).collect();
    world.api.state().issues[5]["fields"]["status"] = status("Done");
    check_protocol(&world, "ENG-1", 6, 1);
}

#[test]
fn jira_lists_issues_with_all_their_fields() {
    let Some(world) = world() else { return };
    let mut issues = vec![
        issue(1, "To Do", &["vik", "bug"], 90),
        issue(2, "To Do", &[], 90),
        issue(3, "In Progress", &[], 3),
        issue(4, "Done", &["vik"], 90),
        issue(5, "Done", &[], 3),
        issue(6, "In Review", &["vik"], 90),
    ];
    let link = |kind: &str, inward: &str, side: &str, key: &str, name: &str| json!({"type": {"name": kind, "inward": inward}, side: {"key": key, "fields": {"status": status(name)}}});
    let fields = &mut issues[0]["fields"];
    fields["updated"] = "2020-01-02T03:04:05.678-0100".into();
    fields["assignee"] = json!({"accountId": "acc-2", "emailAddress": "bob@example.com"});
    fields["issuelinks"] = json!([
        link("Blocks", "is blocked by", "inwardIssue", "ENG-6", "In Review"),
        link("Blocks", "is blocked by", "inwardIssue", "ENG-4", "Done"),
        link("Blocks", "is blocked by", "outwardIssue", "ENG-2", "To Do"),
        link("Relates", "relates to", "inwardIssue", "ENG-3", "In Progress"),
    ]);
    world.api.state().issues = issues;
    assert_eq!(world.ids(false), ["ENG-1", "ENG-3", "ENG-5", "ENG-6"]);
    assert_eq!(
        world.api.state().jql,
        "project = \"ENG\" AND ((labels = \"vik\" AND statusCategory != Done) OR updated >= -14d) \
         ORDER BY created ASC, key ASC"
    );
    assert_eq!(world.ids(true).len(), 6);
    let list = world.list(false);
    assert_eq!(
        list[0],
        json!({
            "id": "ENG-1", "title": "Issue 1", "state": "To Do", "description": "", "priority": 3,
            "created_at": "2020-01-01T00:00:00Z", "updated_at": "2020-01-02T04:04:05Z",
            "labels": ["bug", "vik"], "url": format!("{}/browse/ENG-1", world.api.server.url()),
            "author": "acc-1", "assignee": "bob@example.com", "blocked_by": ["ENG-6"],
        })
    );
    let states = each(&list, "state");
    // The label was taken off, and a closed issue is seen.
    assert_eq!(states, ["To Do", "none", "Done", "In Review"]);
    for (at, id) in world.ids(false).iter().enumerate() {
        assert_eq!(world.call(&show(id)), list[at]);
    }
    // Jira shows an issue that has left the project under its old key.
    world.api.state().issues[1]["key"] = "ENG-20".into();
    for missing in [
        "ENG-2",
        "ENG-9",
        "OPS-1",
        "ENG-01",
        "eng-1",
        "ENG-1-1",
        "10001",
        "ENG-1/comment",
    ] {
        world.fails(&show(missing), 66);
    }
    let states = world.call(&Request::Capabilities)["states"].clone();
    assert_eq!(
        states,
        json!(["To Do", "In Progress", "In Review", "Done", "none"])
    );
}

#[test]
fn jira_moves_only_what_no_person_has_moved() {
    let Some(world) = world() else { return };
    world.api.state().issues = vec![issue(1, "To Do", &["vik"], 0), issue(2, "To Do", &[], 0)];
    assert_eq!(
        world.move_issue("ENG-1", "To Do", "In Progress"),
        moved(true, "In Progress")
    );
    let transitions = |number: usize| format!("POST /rest/api/3/issue/ENG-{number}/transitions");
    // No request is between reading the status and changing it.
    let requests = world.api.server.take_requests();
    let methods: Vec<_> = requests.iter().map(|request| request.method.as_str()).collect();
    assert_eq!(methods, ["GET", "POST"]);
    assert_eq!(
        world.move_issue("ENG-1", "To Do", "Done"),
        moved(false, "In Progress")
    );
    assert_eq!(world.changes(), [""; 0]);
    // A person moves it after it was read: the transition is not one of the new status.
    world.api.state().moved_by_person = Some("In Review");
    assert_eq!(
        world.move_issue("ENG-1", "In Progress", "Done"),
        moved(false, "In Review")
    );
    world.changes();
    // The label comes last.
    assert_eq!(world.move_issue("ENG-2", "To Do", "Done"), moved(false, "none"));
    assert_eq!(
        world.move_issue("ENG-2", "none", "In Review"),
        moved(true, "In Review")
    );
    assert_eq!(
        world.changes(),
        [transitions(2), "PUT /rest/api/3/issue/ENG-2".to_owned()]
    );
    assert_eq!(
        world.move_issue("ENG-2", "In Review", "none"),
        moved(true, "none")
    );
    // An earlier call was interrupted before it added the label.
    assert_eq!(
        world.move_issue("ENG-2", "none", "In Review"),
        moved(true, "In Review")
    );
    let error = world.fails(&moving("ENG-1", "In Review", "Shipped"), 1);
    assert!(
        error.contains("no transition leads to `Shipped`; there are: Done, To Do"),
        "{error}"
    );
    // The transition is refused for another reason.
    world.api.state().moved_by_person = Some("In Review");
    let error = world.fails(&moving("ENG-1", "In Review", "Done"), 1);
    assert!(error.contains("illegal workflow operation"), "{error}");
    assert_eq!(
        world.move_issue("ENG-1", "In Review", "Done"),
        moved(true, "Done")
    );
    world.fails(&moving("ENG-1", "Done", "none"), 1);
    world.fails(&moving("OPS-1", "To Do", "Done"), 66);
}

#[test]
fn jira_creates_once_with_state_and_labels() {
    let Some(world) = world() else { return };
    let request = create("k.1", "New", "Text", Some("In Progress"), &["bug"]);
    let url = format!("{}/browse/ENG-1", world.api.server.url());
    assert_eq!(
        world.call(&request),
        json!({"id": "ENG-1", "created": true, "url": url})
    );
    assert_eq!(
        world.call(&request),
        json!({"id": "ENG-1", "created": false, "url": url})
    );
    let shown = world.call(&show("ENG-1"));
    assert_eq!(shown["state"], "In Progress");
    assert_eq!(shown["labels"], json!(["bug", "vik"]));
    // The call was interrupted after the issue was created.
    world.api.state().issues[0] = {
        let mut created = world.api.state().issues[0].clone();
        created["fields"]["status"] = status("To Do");
        created["fields"]["labels"] = json!(["bug"]);
        created
    };
    assert_eq!(world.call(&request)["created"], false);
    assert_eq!(world.call(&show("ENG-1"))["state"], "In Progress");
    // Without a state, no stage takes it, whatever its labels are.
    world.call(&create("k.2", "New", "", None, &["vik"]));
    let shown = world.call(&show("ENG-2"));
    assert_eq!(shown["state"], "none");
    assert_eq!(shown["description"], "<!-- vik:k.2 -->");
    assert!(world.label("ENG-2", &["vik", "new"], &["x"]));
    assert!(!world.label("ENG-2", &["vik"], &["x"]));
    assert_eq!(world.call(&show("ENG-2"))["labels"], json!(["new", "vik"]));
}

#[test]
fn jira_creates_once_while_the_search_lags() {
    for known in [0, 1, 30, 200] {
        let Some(world) = world() else { return };
        let world = &world;
        world.api.state().issues = (1..=known).map(|at| issue(at, "To Do", &[], 90)).collect();
        // The issue was created, but the program was killed before it had the answer.
        world.api.server.fail_when(Fault::CloseAfterwards, |request| {
            request.path.ends_with("/issue") && request.method == "POST"
        });
        let request = create("k.1", "New", "Text", None, &[]);
        assert_eq!(world.wait(&request), 60);
        world.api.server.recover();
        // Others have created issues meanwhile, and the search has none of all these.
        for other in 2..10 {
            world
                .api
                .state()
                .issues
                .push(issue(known + other, "To Do", &[], 0));
        }
        world.api.state().lag = 9;
        let id = format!("ENG-{}", known + 1);
        let found = world.call(&request);
        assert_eq!((&found["id"], &found["created"]), (&json!(id), &json!(false)));
        // The search has a later issue, but not this one.
        world.api.state().lag = 0;
        let missing = world.api.state().issues.remove(known);
        world.api.state().issues.push(missing);
        world.api.state().lag = 1;
        assert_eq!(world.call(&request)["created"], false);
        assert_eq!(world.api.state().issues.len(), known + 9);
    }
}

#[test]
fn jira_texts_that_are_too_long_end_with_a_note() {
    let Some(world) = world() else { return };
    let created = |title: &str, body: &str| {
        let key = format!("k.{}", world.api.state().issues.len());
        let id = world.call(&create(&key, title, body, None, &[]))["id"].clone();
        let shown = world.call(&show(id.as_str().unwrap()));
        let text = shown["description"].as_str().unwrap().to_owned();
        let mark = format!("\n\n<!-- vik:{key} -->");
        let text = text.strip_suffix(&mark).unwrap().to_owned();
        (shown["title"].as_str().unwrap().to_owned(), text)
    };
    let full = ("t".repeat(255), "x".repeat(32_500));
    assert_eq!(created(&full.0, &full.1), full);
    let (title, text) = created(&"t".repeat(256), &"x".repeat(40_000));
    assert_eq!(title, format!("{}…", "t".repeat(254)));
    let expected = format!("{}\n\n[cut: 7,550 more characters]", "x".repeat(32_450));
    assert_eq!(text, expected);
    // Jira counts UTF-16 units. No character is cut in two.
    let (title, text) = created(
        &"\u{1F980}".repeat(128),
        &format!("x{}", "\u{1F980}".repeat(20_000)),
    );
    assert_eq!(title, format!("{}…", "\u{1F980}".repeat(127)));
    assert!(text.encode_utf16().count() <= 32_500);
    assert!(
        text.ends_with("\u{1F980}\n\n[cut: 3,776 more characters]"),
        "{}",
        &text[text.len() - 60..]
    );
    assert!(world.comment("ENG-1", "k", &"x".repeat(32_501)));
    let found = world.call(&comments("ENG-1"));
    let body = found[0]["body"].as_str().unwrap();
    assert!(body.ends_with("x\n\n[cut: 51 more characters]\n\n<!-- vik:k -->"));
    assert!(!world.comment("ENG-1", "k", &"x".repeat(32_501)));
}

#[test]
fn jira_documents_become_markdown() {
    let Some(world) = world() else { return };
    let text = |text: &str| json!({"type": "text", "text": text});
    let with = |kind: &str, content: Value| json!({"type": kind, "content": content});
    let paragraph = |content: &str| with("paragraph", json!([text(content)]));
    let item = |content: Value| with("listItem", content);
    let mut heading = with("heading", json!([text("Title")]));
    heading["attrs"] = json!({"level": 2});
    let mut code = with("codeBlock", json!([text("a\n  b")]));
    code["attrs"] = json!({"language": "sh"});
    let description = json!({"type": "doc", "version": 1, "content": [
        heading,
        with("paragraph", json!([
            text("see "),
            {"type": "text", "text": "here", "marks": [{"type": "link", "attrs": {"href": "https://x.example"}}]},
            {"type": "hardBreak"},
            {"type": "text", "text": "bold", "marks": [{"type": "strong"}]},
            text(" "),
            {"type": "mention", "attrs": {"id": "1", "text": "@Ann"}},
        ])),
        with("bulletList", json!([
            item(json!([paragraph("one"), with("orderedList", json!([item(json!([paragraph("first")]))]))])),
            item(json!([paragraph("two")])),
        ])),
        code,
        with("blockquote", json!([paragraph("said")])),
        {"type": "rule"},
        {"type": "unknown", "content": [paragraph("kept")]},
        with("table", json!([with("tableRow", json!([with("tableCell", json!([paragraph("a")])),
            with("tableCell", json!([paragraph("b")]))]))])),
    ]});
    let mut found = issue(1, "To Do", &["vik"], 0);
    found["fields"]["description"] = description;
    world.api.state().issues = vec![found];
    let shown = world.call(&show("ENG-1"));
    let expected = "## Title\n\nsee [here](https://x.example)\n**bold** @Ann\n\n- one\n  1. first\n- two\n\n\
                    ```sh\na\n  b\n```\n\n> said\n\n---\n\nkept\n\n| a | b |";
    assert_eq!(shown["description"], expected);
    assert!(world.comment("ENG-1", "k", "a\n\n\nb"));
    let found = world.call(&comments("ENG-1"));
    assert_eq!(found[0]["body"], "a\n\n\nb\n\n<!-- vik:k -->");
    assert_eq!(found[0]["author"], "vik@example.com");
    assert_eq!(
        found[0]["url"],
        format!("{}/browse/ENG-1?focusedCommentId=1", world.api.server.url())
    );
}

#[test]
fn jira_limits_name_the_time_to_wait() {
    let Some(world) = world() else { return };
    let reset = (jiff::Timestamp::now() + jiff::SignedDuration::from_secs(300)).strftime("%Y-%m-%dT%H:%MZ");
    let response = WebResponse::json(429, &Value::Null).with_header("X-RateLimit-Reset", &reset.to_string());
    world.api.server.fail_after(0, Fault::Respond(response));
    let wait = world.wait(&show("ENG-1"));
    assert!((200..=300).contains(&wait), "{wait}");
}
