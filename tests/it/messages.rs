//! Messages of people to agents: who may send them, where they wait, and what refuses them.

use serde_json::{Value, json};
use vik_testkit::HttpClient;

use crate::support::*;

/// Returns a world whose issue 1 is in work until the file `go` exists.
fn working() -> (World, Running) {
    let world = World::new(&[("1", "todo")]).script("touch up; wait-file go; ok");
    let daemon = world.start(&["run", "--port", "0"]);
    eventually("the daemon answers", || world.status().is_some());
    eventually("the agent is up", || world.workspace("1").join("up").exists());
    (world, daemon)
}

fn client(world: &World) -> HttpClient {
    let status = wait_for_value(LONG, || world.status().filter(|status| !status["api"].is_null()));
    let address = status.expect("a daemon that serves")["api"]["address"].clone();
    let token = std::fs::read_to_string(world.instance().join("api.token")).unwrap();
    HttpClient::tcp(address.as_str().unwrap()).with_header("Authorization", &format!("Bearer {token}"))
}

fn waiting(world: &World) -> Vec<Value> {
    let page = world.vik(&["message", "1", "--list", "--json"]).expect(0).json();
    page["messages"].as_array().unwrap().clone()
}

fn texts(world: &World) -> Vec<String> {
    let text = |message: &Value| message["text"].as_str().unwrap().to_owned();
    waiting(world).iter().map(text).collect()
}

const PATH: &str = "/api/v1/issues/1/messages";

#[test]
fn message_to_a_running_agent_waits_is_listed_and_withdrawn() {
    let (world, daemon) = working();
    let sent = world
        .vik(&["message", "--issue", "1", "use", "the", "other", "table"])
        .expect(0);
    assert!(
        sent.out.contains("stage work") || sent.out.contains("waits"),
        "{}",
        sent.out
    );
    let sent = client(&world)
        .post(PATH, &json!({"text": "two\nlines", "interrupt": true}))
        .expect_status(202)
        .json();
    assert_eq!(sent["text"], "two\nlines");
    assert_eq!(sent["interrupt"], true);
    assert_eq!(sent["delivery"]["stage"], "work", "{sent}");
    assert_eq!(texts(&world), ["use the other table", "two\nlines"]);
    let first = &waiting(&world)[0];
    assert!(first["by"].as_str().unwrap().contains("command line"), "{first}");
    assert!(!first["session_id"].is_null(), "{first}");
    let shown = world.vik(&["message", "1", "--list"]).expect(0).out;
    assert_contains(&shown, "  | two\n  | lines\n");
    for message in waiting(&world) {
        let id = message["id"].as_str().unwrap().to_owned();
        world.vik(&["message", "1", "--withdraw", &id]).expect(0);
        let again = world.vik(&["message", "1", "--withdraw", &id]).expect(8);
        assert_contains(&again.err, "no such message waits");
        let reply = client(&world).request("DELETE", &format!("{PATH}/{id}"), None);
        assert_eq!(reply.expect_status(404).json()["code"], "message_not_waiting");
    }
    assert_eq!(texts(&world), [""; 0]);
    let explained = world.explained("1");
    let decisions = explained["decisions"].to_string();
    assert_contains(&decisions, "withdraw_message");
    assert_contains(&decisions, "a person (API token");
    assert!(
        !decisions.contains("other table"),
        "the transcript has the text: {decisions}"
    );
    world.go();
    daemon.stop().expect(0);
}

#[test]
fn bad_messages_are_refused_and_change_nothing() {
    let (world, daemon) = working();
    let client = client(&world);
    for (text, status, code) in [
        ("", 422, "message_invalid"),
        (" \n", 422, "message_invalid"),
        ("\u{1b}[2J", 422, "message_invalid"),
        (&"a".repeat(64 * 1024 + 1), 413, "message_invalid"),
        (&"a".repeat(1 << 20), 413, "bad_request"),
    ] {
        let reply = client.post(PATH, &json!({ "text": text })).expect_status(status);
        assert_eq!(reply.json()["code"], code);
    }
    let _ = client.post(PATH, &json!({"txt": "a"})).expect_status(422);
    let _ = client.post(PATH, &json!({"text": 7})).expect_status(422);
    let other = "/api/v1/issues/9/messages";
    let _ = client.post(other, &json!({"text": "a"})).expect_status(404);
    let _ = client.get(other).expect_status(404);
    let _ = client
        .request("DELETE", &format!("{PATH}/x"), None)
        .expect_status(404);
    world.vik(&["message", "9", "a"]).expect(8);
    let empty = world.vik(&["message", "1", " "]).expect(2);
    assert_contains(&empty.err, "the message is empty");
    world.vik(&["message", "1", "--file", "missing.txt"]).expect(1);
    world.vik(&["message", "1", "a", "--list"]).expect(2);
    world.vik(&["message", "--issue", "1", "a", "--list"]).expect(2);
    world
        .vik(&["message", "1", "a", "--file", "missing.txt"])
        .expect(2);
    assert_eq!(texts(&world), [""; 0]);
    // The largest message, escaped as far as JSON can.
    let largest = "\\u0061".repeat(64 * 1024);
    let body = format!(r#"{{"text": "{largest}"}}"#);
    let client = client.with_header("Content-Type", "application/json");
    let _ = client.request("POST", PATH, Some(&body)).expect_status(202);
    for _ in 1..64 {
        let _ = client.post(PATH, &json!({"text": "a"})).expect_status(202);
    }
    let full = client.post(PATH, &json!({"text": "a"})).expect_status(409).json();
    assert_eq!(full["code"], "message_refused");
    assert!(full["hint"].as_str().unwrap().contains("--withdraw"), "{full}");
    world.go();
    world.wait_for_state("1", "done");
    world.wait_for_status("no agent runs", |status| status["sessions"] == json!([]));
    let reply = client.post(PATH, &json!({"text": "a"}));
    let _ = reply.expect_status(409);
    daemon.stop().expect(0);
}

#[test]
fn agent_cannot_send_messages() {
    let vik = env!("CARGO_BIN_EXE_vik");
    let world = World::new(&[("1", "todo")]).set("/agents/a/sandbox", json!("off"));
    let workflow = world.env.work().join("workflow.yml").display().to_string();
    let script = format!(
        "run '{vik}' message --workflow {workflow} 1 hello > refused 2>&1 || touch tried; touch up; wait-file go; ok"
    );
    let world = world.script(&script);
    let daemon = world.daemon();
    eventually("the agent has tried", || world.workspace("1").join("up").exists());
    assert!(world.workspace("1").join("tried").exists());
    let refused = world.workspace_file("1", "refused");
    assert_contains(&refused, "agents must not control");
    assert_eq!(texts(&world), [""; 0]);
    world.go();
    daemon.stop().expect(0);
}

#[test]
fn message_without_a_daemon_waits_for_the_next_attempt() {
    let world = World::new(&[("1", "todo")]).script("exit 3").attempts(1);
    world.once().expect(1);
    std::fs::write(world.env.work().join("text"), "from a file\r\n").unwrap();
    let file = world.env.work().join("text").display().to_string();
    let sent = world.vik(&["message", "1", "--file", &file]).expect(0);
    assert_contains(&sent.out, "waits: no daemon is running");
    world.vik(&["message", "1", "second"]).expect(0);
    world.vik(&["message", "9", "a"]).expect(8);
    world.vik(&["message", "1", "a\u{7}"]).expect(2);
    assert_eq!(texts(&world), ["from a file", "second"]);
    let id = waiting(&world)[1]["id"].as_str().unwrap().to_owned();
    world.vik(&["message", "1", "--withdraw", &id]).expect(0);
    world.vik(&["message", "1", "--withdraw", &id]).expect(8);
    assert_eq!(texts(&world), ["from a file"]);
    // The parked stage stays parked.
    world.once().expect(10);
    assert_eq!(world.sessions("1").len(), 1);
    assert_eq!(texts(&world), ["from a file"]);
}

#[test]
fn message_in_a_prompt_waits_until_a_model_has_answered() {
    let world = World::new(&[("1", "todo")]).agent("claude_code");
    let count = world.env.path("attempts").display().to_string();
    let go = world.env.path("go");
    let script = format!(
        "count {count}\non 1 'usage 0 0; fail 529 overloaded; exit 1'\non 2+ 'start; wait-file {}; ok'",
        go.display()
    );
    let world = world
        .script(&script)
        .work("approve", json!({"before": true}))
        .work("resume", json!(false));
    let daemon = world.daemon();
    eventually("the start waits for an approval", || {
        world.vik(&["message", "1", "keep the old format"]).code == 0
    });
    world.vik(&["approve", "1"]).expect(0);
    eventually("the second attempt has started", || {
        world.sessions("1").len() == 2
    });
    let sessions = world.sessions("1");
    eventually("both have their prompt", || {
        let mut prompts = sessions.iter().map(|session| session.text(".prompt.md"));
        prompts.all(|prompt| prompt.contains("keep the old format"))
    });
    sessions[0].expect("failed", Some("overloaded"));
    let page = world.vik(&["message", "1", "--list", "--json"]).expect(0).json();
    assert_eq!(page["messages"][0]["in_prompt"], true, "{page}");
    let shown = world.vik(&["message", "1", "--list"]).expect(0).out;
    assert_contains(&shown, "delivered, not taken");
    let id = page["messages"][0]["id"].as_str().unwrap();
    let done = world.vik(&["message", "1", "--withdraw", id]).expect(1);
    assert_contains(&done.err, "may have read");
    std::fs::write(go, "").unwrap();
    world.wait_for_state("1", "done");
    eventually("the message is taken", || texts(&world).is_empty());
    daemon.stop().expect(0);
}

#[test]
fn messages_and_takeovers_of_a_finished_issue_are_refused_with_its_state() {
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .script("ok")
        .set("/issue/terminal_states", json!(["done"]));
    let daemon = world.daemon();
    for issue in ["1", "2"] {
        world.wait_for_state(issue, "done");
    }
    // The daemon keeps only issues in memory that are in use.
    for issue in ["1", "2"] {
        eventually("the daemon has forgotten the issue", || {
            let page = world.vik(&["message", issue, "--list"]);
            page.code == 8
        });
    }
    let refused = world.vik(&["message", "1", "a"]).expect(1);
    assert_contains(&refused.err, "the terminal state `done`");
    for verb in ["takeover", "pause"] {
        let refused = world.vik(&[verb, "2"]).expect(8);
        assert_contains(&refused.err, "its last known state is `done`");
    }
    let unknown = world.vik(&["message", "9", "a"]).expect(8);
    assert_contains(&unknown.err, "unknown issue `9`");
    daemon.stop().expect(0);
}
