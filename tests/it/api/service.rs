//! What the API shows of the daemon itself, and where the workflow serves it.

use serde_json::{Value, json};

use super::{Served, done};
use crate::support::{World, assert_contains, eventually};

#[test]
fn api_shows_the_workflow_the_log_and_the_pulls() {
    let world = World::new(&[("1", "todo")])
        .script("ok")
        .set("/agents/a/env", json!({"TOKEN": "hidden value"}))
        .work("hooks/before_run", json!("echo 'two\nlines'"));
    let served = Served::of(world);
    eventually("the attempt has ended", || {
        served.get("/log?q=attempt+ended")["lines"]
            .as_array()
            .is_some_and(|lines| !lines.is_empty())
    });

    let workflow = served.get("/workflow");
    assert!(workflow["path"].as_str().unwrap().ends_with("workflow.yml"));
    assert!(workflow["workflow"]["loaded_at"].is_string());
    let settings = workflow["settings"].as_array().unwrap();
    let value = |key: &str| {
        let found = settings.iter().find(|setting| setting["key"] == key);
        found.unwrap_or_else(|| panic!("{key}: {workflow}"))["value"].clone()
    };
    assert_eq!(value("loop.max_issue_concurrency"), "10");
    assert_eq!(value("issue.stages.work.when.state"), "[`todo`]");
    assert_eq!(value("issue.stages.work.hooks.before_run"), "echo 'two\nlines'");
    assert_eq!(value("agents.a.env.TOKEN"), Value::Null);
    assert!(!workflow.to_string().contains("hidden value"));

    let line = &served.get("/log?q=attempt+ended&issue=1&level=info")["lines"][0];
    assert_eq!(line["level"], "info");
    assert_eq!(line["stage"], "work");
    assert_eq!(line["attempt"], 1);
    assert_eq!(line["session"], served.world.session("1").id());
    assert_eq!(served.get("/log?issue=2")["lines"], json!([]));
    let page = served.get("/log?limit=1");
    let before = page["next"].as_str().unwrap();
    assert_ne!(
        served.get(&format!("/log?limit=1&before={before}"))["lines"],
        page["lines"]
    );
    for invalid in ["before=x", "before=2026-01-01:x", "level=loud", "limit=0"] {
        let reply = served.client().get(&format!("/api/v1/log?{invalid}"));
        assert!(matches!(reply.status, 400 | 422), "{invalid}: {reply:?}");
    }

    let pulls = || served.get("/pulls")["pulls"].as_array().unwrap().clone();
    eventually("a second pull has ended", || pulls().len() >= 2);
    let pulls = pulls();
    assert!(pulls.iter().all(|pull| pull["ok"] == true), "{pulls:?}");
    assert_eq!(pulls.last().unwrap()["issues"], 1);
    served.end();
}

#[test]
fn running_again_needs_a_tracker_that_vik_knows() {
    let served = done();
    let reply = served
        .client()
        .post("/api/v1/issues/1/run-again", &json!({"stage": "work"}))
        .expect_status(409)
        .json();
    let hint = reply["hint"].as_str().unwrap();
    assert!(hint.contains("move the issue to `todo`"), "{reply}");
    served.end();
}

#[test]
fn workflow_sets_the_port_and_the_names_of_a_reverse_proxy() {
    let http = json!({"port": 0, "names": ["vik.example.com"]});
    let world = World::new(&[("1", "todo")]).set("/http", http);
    let mut served = Served::with_args(world, &["run"], &[]);
    let proxied = |served: &Served, host: &str, origin: &str| {
        let client = served.client().with_header("Host", host);
        let client = client.with_header("Origin", origin);
        client.post("/api/v1/refresh", &json!({})).status
    };
    let name = "vik.example.com";
    assert_eq!(proxied(&served, name, &format!("https://{name}")), 200);
    assert_eq!(proxied(&served, name, "https://evil.example"), 403);
    assert_eq!(proxied(&served, "evil.example", "https://evil.example"), 421);
    // The name replaces no token.
    let stranger = served.stranger().with_header("Host", name);
    let _ = stranger.get("/api/v1/state").expect_status(401);

    // A change waits for a restart.
    served.world.put("/http/names", json!(["other.example.com"]));
    served.world.vik(&["refresh"]).expect(0);
    assert_eq!(proxied(&served, name, &format!("https://{name}")), 200);
    served.daemon.stop().expect(0);

    // Flags replace the keys, and an unattended round of work opens no port.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    served.world.put("/http", json!({"port": port}));
    let failed = served.world.vik(&["run"]).expect(1);
    assert_contains(&failed.err, "http.port");
    served.world.vik(&["run", "--once"]).expect(0);
    let served = Served::with_args(served.world, &["run", "--port", "0"], &[]);
    assert_ne!(served.address, format!("127.0.0.1:{port}"));
    served.end();
}
