//! vex in the daemon, from the issue to the moved issue, on the scripted model server, once with
//! each protocol.

use serde_json::{Value, json};
use vik_testkit::server::ModelServer;

use crate::support::*;

fn works_and_commits(settings: &str, provider: &str, key: &str) {
    let script = json!([
        {"thinking": "Let me see.", "text": "First a command.", "run": "echo hi > out.txt; cat out.txt; mkdir -p \"$npm_config_cache\" && echo cached > out.txt"},
        {"tools": [{"write": {"path": "hello.txt", "content": "hello\nworld\n"}}]},
        {"run": "git add -A && git commit -q -m 'Say hello'", "usage": {"input": 1500, "cached": 1000, "output": 30}},
        {"text": "I have said hello.", "expect": "hello"}
    ]);
    let server = ModelServer::start_json(script).unwrap();
    let create = "git init -q && git commit -q --allow-empty -m base";
    let price = json!({"input": 1.0, "cached_input": 0.1, "cache_write": 1.0, "output": 10.0});
    let mut world = World::new(&[("1", "todo")])
        .set("/issue/hooks", json!({"after_create": create}))
        .set(
            "/agents/a",
            json!({"runtime": "vex", "model": "scripted", "provider": provider, "price": price,
                   "env": {key: "sk-scripted"}}),
        )
        .work("prompt", json!("Do the task."))
        .attempts(1);
    world.vex_settings(&settings.replace("URL", &server.url()));
    let done = world.once().expect(0);
    assert_eq!(server.failures(), [""; 0]);
    world.env.assert_nothing_left();
    assert_eq!(world.tracker.state("1").as_deref(), Some("done"), "{done:?}");
    assert_eq!(world.workspace_file("1", "hello.txt"), "hello\nworld\n");
    // Its own confinement leaves the folder for caches of Vik's sandbox writable.
    assert_eq!(world.workspace_file("1", "out.txt"), "cached\n");

    let session = world.session("1");
    let ended = session.expect("succeeded", None);
    assert_eq!(ended["last_message"], "I have said hello.");
    // Equal to the token counts that the server reported, over all requests.
    let usage = &ended["usage"];
    assert_eq!(
        [
            &usage["input_tokens"],
            &usage["cached_input_tokens"],
            &usage["output_tokens"]
        ],
        [4500, 1000, 90]
    );
    assert_eq!(ended["cost_source"], "reported");
    let cost = ended["cost_usd"].as_f64().unwrap();
    assert!((cost - (3500.0 + 100.0 + 900.0) / 1e6).abs() < 1e-9, "{cost}");
    let result = &session.of_kind("completed")[0]["result"];
    assert_eq!(result["commits"][0]["subject"], "Say hello");
    for kind in [
        "session_started",
        "message",
        "tool_call",
        "tool_result",
        "token_usage",
        "completed",
    ] {
        assert!(!session.of_kind(kind).is_empty(), "no {kind}");
    }
    assert_eq!(session.of_kind("unknown"), [Value::Null; 0]);
    assert_eq!(session.of_kind("malformed"), [Value::Null; 0]);
    let runs = world.runs();
    let attempt = &runs[0]["attempts"][0];
    assert_eq!(
        (&attempt["usage"], &attempt["cost_usd"]),
        (&ended["usage"], &ended["cost_usd"])
    );
}

/// Returns a stage whose agent is vex on this script, with the protocol of the settings; its stall
/// timeout is 2 s.
fn impatient(server: &ModelServer, protocol: &str) -> World {
    let mut world = World::new(&[("1", "todo")])
        .set(
            "/agents/a",
            json!({"runtime": "vex", "model": "scripted", "provider": "house",
                   "env": {"HOUSE_KEY": "sk-scripted"}}),
        )
        .work("prompt", json!("Do the task."))
        .work("stall_timeout", json!("2s"))
        .attempts(1);
    let url = if protocol == "messages" {
        server.url()
    } else {
        server.v1()
    };
    world.house(protocol, &url);
    world
}

#[test]
fn streaming_answer_is_no_stall() {
    // Each part alone takes longer than the stall timeout: 16 pieces, 200 ms apart.
    let long = "A thought or an answer that needs its time to arrive, bit by bit";
    let content = format!("{long}\n");
    let script = json!([
        {"thinking": long, "chunk_chars": 4, "chunk_ms": 200,
         "tools": [{"write": {"path": "hello.txt", "content": content}}]},
        {"text": long, "chunk_chars": 4, "chunk_ms": 200}
    ]);
    let streams = &|protocol: &str| {
        let server = ModelServer::start_json(script.clone()).unwrap();
        let world = impatient(&server, protocol);
        let done = world.once();
        let session = world.session("1");
        let ended = session.expect("succeeded", None);
        done.expect(0);
        assert_eq!(ended["last_message"], long, "{protocol}");
        assert_eq!(world.workspace_file("1", "hello.txt"), content, "{protocol}");
        // Lines that only report activity are not in the session log.
        let raw = String::from_utf8(session.raw()).unwrap();
        assert!(raw.contains(r#""type":"activity""#), "{protocol}: {raw}");
        assert_eq!(session.of_kind("unknown"), [Value::Null; 0], "{protocol}");
        world.env.assert_nothing_left();
    };
    std::thread::scope(|scope| {
        for protocol in ["messages", "chat", "responses"] {
            scope.spawn(move || streams(protocol));
        }
    });
}

#[test]
fn model_that_only_pings_is_a_stall() {
    for turn in [
        json!({"text": "never whole", "stall": "mid", "ping": true}),
        json!({"text": "never", "stall": "headers"}),
    ] {
        let server = ModelServer::start_json(json!([turn])).unwrap();
        let world = impatient(&server, "messages");
        world.once().expect(1);
        let ended = world.session("1").expect("stalled", None);
        assert!(ended["reason"].as_str().unwrap().contains("2s"), "{ended}");
        world.env.assert_nothing_left();
    }
}

#[test]
fn vex_works_with_the_messages_protocol() {
    let settings = "[providers.anthropic]\nbase_url = \"URL\"\n";
    works_and_commits(settings, "anthropic", "ANTHROPIC_API_KEY");
}

#[test]
fn vex_works_with_the_chat_protocol() {
    let settings =
        "[providers.house]\nprotocol = \"chat\"\nbase_url = \"URL/v1\"\napi_key_env = \"HOUSE_KEY\"\n";
    works_and_commits(settings, "house", "HOUSE_KEY");
}

#[test]
fn vex_works_with_the_responses_protocol() {
    let settings = "[providers.openai]\nbase_url = \"URL/v1\"\n";
    works_and_commits(settings, "openai", "OPENAI_API_KEY");
}
