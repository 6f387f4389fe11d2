//! The HTTP API: its answers, its access control, and its record of who steered the daemon.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};
use vik_testkit::{EventStream, HttpClient, ServerEvent};

use crate::support::*;

#[path = "api/service.rs"]
mod service;
#[path = "api/sign_ins.rs"]
mod sign_ins;
#[path = "api/tcp_peers.rs"]
mod tcp_peers;

/// A daemon that serves on TCP.
struct Served {
    world: World,
    daemon: Running,
    address: String,
    token: String,
}

impl Served {
    fn of(world: World) -> Self {
        Self::with(world, &[])
    }

    fn with(world: World, env: &[(&str, &str)]) -> Self {
        Self::with_args(world, &["run", "--port", "0"], env)
    }

    fn with_args(world: World, args: &[&str], env: &[(&str, &str)]) -> Self {
        let daemon = world.start_with(args, env);
        let status = wait_for_value(LONG, || {
            world
                .status()
                .filter(|status| !status["last_pull"].is_null() && !status["api"].is_null())
        });
        let address = status.expect("a daemon that serves")["api"]["address"]
            .as_str()
            .unwrap()
            .to_owned();
        let token = std::fs::read_to_string(instance(&world).join("api.token")).unwrap();
        Self {
            world,
            daemon,
            address,
            token,
        }
    }

    /// Returns a client that sends the token.
    fn client(&self) -> HttpClient {
        self.stranger()
            .with_header("Authorization", &format!("Bearer {}", self.token))
    }

    fn stranger(&self) -> HttpClient {
        HttpClient::tcp(&self.address)
    }

    fn get(&self, path: &str) -> Value {
        self.client()
            .get(&format!("/api/v1{path}"))
            .expect_status(200)
            .json()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.client()
            .post(&format!("/api/v1{path}"), body)
            .expect_status(200)
            .json()
    }

    fn end(self) {
        self.daemon.stop().expect(0);
    }
}

fn instance(world: &World) -> PathBuf {
    let folder = world.env.root().join("state/vik/instances");
    let mut found = std::fs::read_dir(folder).unwrap();
    found.next().unwrap().unwrap().path()
}

/// Returns a daemon whose issue 1 was worked on until it was done.
fn done() -> Served {
    let served = Served::of(World::new(&[("1", "todo")]).script("write out.txt hello; ok"));
    eventually("the issue is done", || {
        served.world.tracker.state("1").as_deref() == Some("done")
            && served.get("/runs")["runs"][0]["state"] == "ended"
    });
    served
}

#[test]
fn paths_all_require_the_token() {
    let served = done();
    let document = served.get("/openapi.json");
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 20, "{}", paths.len());
    let others = ["/metrics", "/healthz", "/readyz", "/nothing", "/api/v1/sign-in"];
    let all = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(move |method| (method.to_uppercase(), path.replace("{id}", "1")))
        })
        .chain(others.map(|path| ("GET".to_owned(), path.to_owned())));
    let other_token = format!("Bearer {}", "0".repeat(served.token.len()));
    for (method, path) in all {
        for client in [
            served.stranger(),
            served.stranger().with_header("Authorization", &other_token),
            served.stranger().with_header("Authorization", "Bearer "),
            served.stranger().with_header("Authorization", &served.token),
            served.stranger().with_header("Cookie", "vik_1=1.2; vik=x"),
            served
                .stranger()
                .with_header("Authorization", &format!("Basic {}", served.token)),
        ] {
            let code = r#"{"code": "guess"}"#;
            let client = client.with_header("Content-Type", "application/json");
            let reply = client
                .request(&method, &path, (method == "POST").then_some(code))
                .expect_status(401);
            assert!(!reply.body.contains("todo"), "{reply:?}");
            assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
        }
    }
    served.end();
}

#[test]
fn request_with_foreign_host_or_origin_is_refused() {
    let served = done();
    let client = served.client();
    for host in ["evil.example", "127.0.0.1.evil.example", ""] {
        let reply = client.clone().with_header("Host", host).get("/api/v1/state");
        assert!(matches!(reply.status, 400 | 421), "{host}: {reply:?}");
    }
    for (name, value) in [
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Origin", "http://127.0.0.1:1"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        let reply = client
            .clone()
            .with_header(name, value)
            .post("/api/v1/pause", &json!({}));
        let reply = reply.expect_status(403);
        assert_eq!(reply.json()["code"], "origin", "{name}: {value}");
    }
    let own = client.with_header("Origin", &format!("http://{}", served.address));
    assert_eq!(
        own.get("/api/v1/state").expect_status(200).json()["paused"],
        false
    );
    served.end();
}

#[test]
fn api_reports_runs_issues_and_session_events() {
    let served = done();
    let state = served.get("/state");
    assert_eq!(state["state"], "running");
    assert_eq!(state["paused"], false);
    assert_eq!(state["workflow"]["stages"][0]["stage"], "work");
    let runs = served.get("/runs");
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
    assert_eq!(runs["runs"], json!(served.world.runs()));
    let selected = served.get("/runs?outcome=succeeded&since=1w&q=issue&stage=work&limit=1");
    assert_eq!(selected["runs"], runs["runs"]);
    let id = runs["runs"][0]["run_id"].as_str().unwrap();
    for none in [
        &format!("before={id}"),
        "until=yesterday",
        "outcome=failed,lost",
        "agent=none",
    ] {
        assert_eq!(served.get(&format!("/runs?{none}"))["runs"], json!([]), "{none}");
    }
    let issue = served.get("/issues/1");
    assert_eq!(issue["runs"], runs["runs"]);
    assert!(issue["decisions"].as_array().unwrap().len() > 1, "{issue}");
    let session = runs["runs"][0]["attempts"][0]["session_id"].as_str().unwrap();
    let detail = served.get(&format!("/sessions/{session}"));
    assert_contains(detail["prompt"]["text"].as_str().unwrap(), "write out.txt");
    let scripts = detail["scripts"].as_array().unwrap();
    assert!(
        scripts.iter().all(|script| script["duration_ms"].is_u64()),
        "{scripts:?}"
    );
    assert!(
        scripts
            .iter()
            .any(|script| script["name"] == "after_run" && script["ok"] == true),
        "{scripts:?}"
    );
    // The pages together are the whole log.
    let all = served.get(&format!("/sessions/{session}/events"));
    assert_eq!(all["ended"], true);
    let (mut after, mut seen) = (0, Vec::new());
    loop {
        let page = served.get(&format!("/sessions/{session}/events?after={after}&limit=1"));
        let events = page["events"].as_array().unwrap().clone();
        let Some(event) = events.last() else { break };
        assert_eq!(events.len(), 1);
        after = event["seq"].as_u64().unwrap();
        seen.extend(events);
    }
    assert_eq!(json!(seen), all["events"]);
    assert_eq!(json!(after), all["last_seq"]);
    assert_eq!(served.get(&format!("/sessions/{session}/stderr"))["left_out"], 0);
    let diff = served.get(&format!("/sessions/{session}/diff"));
    assert_eq!((&diff["base"], &diff["note"]), (&Value::Null, &Value::Null));
    let diff = served.get("/issues/1/diff");
    assert_contains(diff["note"].as_str().unwrap(), "not a git work tree");
    // A search returns what matches, and how far it got.
    let found = served.get(&format!("/sessions/{session}/events?kinds=ended"));
    assert_eq!(found["events"].as_array().unwrap().len(), 1);
    assert_eq!(found["scanned_to"], found["last_seq"]);
    let failures = served.get(&format!(
        "/sessions/{session}/events?errors=true&q=no%20such%20text"
    ));
    assert_eq!(failures["events"], json!([]));
    served.end();
}

#[test]
fn unknown_path_and_bad_request_get_problem_json() {
    let served = done();
    let client = served.client();
    for (path, status, code) in [
        ("/api/v1/nothing", 404, "not_found"),
        ("/api/v1/issues/none", 404, "unknown_issue"),
        ("/api/v1/sessions/x", 404, "no_session"),
        (
            "/api/v1/sessions/01a20412-c9b3-7dc2-ad00-000001b84f95",
            404,
            "no_session",
        ),
        (
            "/api/v1/sessions/01a20412-c9b3-7dc2-ad00-000001b84f95/diff",
            404,
            "no_session",
        ),
        ("/api/v1/issues/none/diff", 404, "unknown_issue"),
        ("/api/v1/issues?limit=0", 400, "bad_request"),
        ("/api/v1/issues?limit=1001", 400, "bad_request"),
        ("/api/v1/issues?limt=1", 400, "bad_request"),
        ("/api/v1/issues/%ff", 400, "bad_request"),
        ("/assets/..%2f..%2fetc%2fpasswd", 404, "not_found"),
    ] {
        let reply = client.get(path).expect_status(status);
        assert_eq!(
            reply.header("content-type"),
            Some("application/problem+json"),
            "{path}"
        );
        let problem = reply.json();
        assert_eq!(problem["code"], code, "{path}");
        assert_eq!(problem["status"], status, "{path}");
    }
    let json = client.clone().with_header("Content-Type", "application/json");
    let huge = format!("{{\"issue_id\":\"{}\"}}", "x".repeat(100_000));
    for (body, status) in [
        (None, 400),
        (Some("{"), 400),
        (Some("[]"), 422),
        (Some("{\"issue\":\"1\"}"), 422),
        (Some(huge.as_str()), 413),
    ] {
        let reply = json.request("POST", "/api/v1/pause", body);
        assert_eq!(reply.status, status, "{body:.40?}: {reply:?}");
    }
    let _ = client
        .request("POST", "/api/v1/pause", Some("{}"))
        .expect_status(415);
    let _ = client.request("DELETE", "/api/v1/state", None).expect_status(405);
    assert_eq!(served.get("/state")["paused"], false);
    served.end();
}

#[test]
fn steering_by_a_person_is_recorded_with_its_origin() {
    let served = Served::of(World::new(&[("1", "todo")]).script("touch up; wait-file go; ok"));
    eventually("the agent is up", || {
        served.world.workspace("1").join("up").exists()
    });
    assert_eq!(served.post("/pause", &json!({}))["count"], 1);
    assert_eq!(
        served.post("/pause", &json!({}))["nothing"],
        "it is already paused"
    );
    assert_eq!(served.post("/resume", &json!({"issue_id": null}))["count"], 1);
    // The former paths do the same.
    assert_eq!(
        served.post("/continue", &json!({}))["nothing"],
        "it is not paused"
    );
    let unparked = served.post("/issues/1/unpark", &json!({}));
    assert_eq!(unparked["nothing"], "the issue has no parked stage");
    assert_eq!(served.post("/issues/1/cancel", &json!({}))["count"], 1);
    eventually("it is parked", || {
        served.get("/state")["parked"][0]["reason"] == "cancelled"
    });
    let held = &served.get("/issues/1")["now"]["stages"][0];
    assert_eq!(held["hold"]["reason"], "parked");
    std::fs::remove_file(served.world.workspace("1").join("up")).unwrap();
    assert_eq!(
        served.post("/issues/1/retry", &json!({"attempts": 9}))["count"],
        1
    );
    eventually("it is worked on again", || {
        served.world.workspace("1").join("up").exists()
    });
    served.post("/refresh", &json!({}));
    let decisions = served.get("/decisions")["decisions"].clone();
    for (kind, message) in [
        ("pause", "paused by"),
        ("continue", "resumed by"),
        ("cancel", "cancelled by"),
        ("unpark", "9 attempts added by"),
    ] {
        let decided = decisions
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["kind"] == kind);
        let detail = decided.unwrap_or_else(|| panic!("{kind}: {decisions}"))["detail"].as_str();
        assert_eq!(
            detail,
            Some(format!("{message} a person (API token, 127.0.0.1)").as_str())
        );
    }
    served.world.go();
    let daemon_ends = served.post("/drain", &json!({}));
    assert!(daemon_ends["count"].is_number());
    served.daemon.done().expect(0);
}

#[test]
fn feed_sends_events_and_resumes_from_last_event_id() {
    let served = Served::of(World::new(&[]));
    let mut events = served.client().events("/api/v1/events");
    served.world.tracker.add("1", "One", "todo");
    let mut seen = Vec::new();
    loop {
        let event = events.next().expect("the feed continues");
        seen.push(event.clone());
        if event.event == "session_ended" {
            assert_eq!(event.data["issue_id"], "1");
            assert_eq!(event.data["outcome"], "succeeded");
            break;
        }
    }
    assert!(
        seen.iter()
            .any(|event| event.event == "issue" && event.data["issue_id"] == "1"),
        "{seen:?}"
    );
    // A client that reconnects with the id of the first event gets all later events.
    let numbered: Vec<_> = seen.iter().filter(|event| event.id.is_some()).collect();
    let first = numbered[0].id.clone().unwrap();
    let again = served
        .client()
        .with_header("Last-Event-ID", &first)
        .events("/api/v1/events");
    let missed: Vec<_> = again.take(numbered.len() - 1).collect();
    assert_eq!(missed.iter().collect::<Vec<_>>(), numbered[1..]);
    // An id of another daemon, or no id at all, gives no position in the feed.
    for strange in ["1-1", "nonsense", &format!("{first}0000000000")] {
        let mut reader = served
            .client()
            .with_header("Last-Event-ID", strange)
            .events("/api/v1/events");
        assert_eq!(reader.next().unwrap().event, "reset", "{strange}");
    }
    drop(events);
    served.end();
}

/// Reads events until one matches, and returns it.
fn until(events: &mut EventStream, matches: impl Fn(&ServerEvent) -> bool) -> ServerEvent {
    let deadline = Instant::now() + LONG;
    let mut seen = Vec::new();
    loop {
        let event = events.next().expect("the feed continues");
        if matches(&event) {
            return event;
        }
        seen.push(event);
        assert!(Instant::now() < deadline, "it does not come: {seen:?}");
    }
}

#[test]
fn feed_reports_pause_and_session_progress() {
    let served = Served::of(World::new(&[]).script("wait-file go; message hello; wait-file on; ok"));
    let mut events = served.client().events("/api/v1/events");
    let session = |event: &ServerEvent| event.event == "session" && event.data["issue_id"] == "1";
    served.world.tracker.add("1", "One", "todo");
    let first = until(&mut events, session);
    let event_count = |event: &ServerEvent| event.data["events"].as_u64().unwrap();
    served.world.go();
    let more = until(&mut events, |event| {
        session(event) && event_count(event) > event_count(&first)
    });
    assert_eq!(more.data["session_id"], first.data["session_id"]);
    served.post("/pause", &json!({}));
    until(&mut events, |event| event.event == "state");
    assert_eq!(served.get("/state")["paused"], true);
    served.post("/resume", &json!({}));
    until(&mut events, |event| event.event == "state");
    std::fs::write(served.world.workspace("1").join("on"), "").unwrap();
    until(&mut events, |event| event.event == "session_ended");
    drop(events);
    served.end();
}

#[test]
fn control_socket_serves_http() {
    let world = World::new(&[("1", "todo")]);
    let daemon = world.daemon();
    let client = HttpClient::unix(instance(&world).join("vik.sock"));
    let state = client.get("/api/v1/state").expect_status(200).json();
    assert_eq!(state["api"], Value::Null);
    let _ = client.post("/api/v1/pause", &json!({})).expect_status(200);
    let decided = client.get("/api/v1/decisions?limit=1").expect_status(200).json();
    let detail = decided["decisions"][0]["detail"].as_str().unwrap().to_owned();
    let own = format!("paused by a person (control socket, pid {})", std::process::id());
    assert_eq!(detail, own);
    assert!(world.vik(&["status"]).expect(0).out.contains("PAUSED"));
    daemon.stop().expect(0);
}

#[test]
fn stop_and_sign_in_links_are_refused_over_tcp() {
    let served = done();
    let socket = HttpClient::unix(instance(&served.world).join("vik.sock"));
    for path in ["/api/v1/stop", "/api/v1/link", "/api/v1/sign-ins/revoke"] {
        let refused = served.client().post(path, &json!({})).expect_status(403).json();
        assert_eq!(refused["code"], "refused", "{path}");
    }
    let link = socket.post("/api/v1/link", &json!({})).expect_status(200).json();
    let start = format!("http://{}/login#code=", served.address);
    assert!(link["url"].as_str().unwrap().starts_with(&start), "{link}");
    let stop = json!({"keep_sessions": false});
    let _ = socket.post("/api/v1/stop", &stop).expect_status(200);
    served.daemon.done().expect(0);
}

#[test]
fn token_is_hidden_from_hooks_and_agents() {
    let world = World::new(&[("1", "todo")])
        .script("dump-env agent-env; ok")
        .work("hooks", json!({"before_run": "env > hook-env"}));
    let token = "a-token-of-the-user-0123456789";
    let daemon = world.start_with(&["run", "--port", "0"], &[("VIK_API_TOKEN", token)]);
    world.wait_for_status("it has pulled", |status| !status["last_pull"].is_null());
    eventually("the hook has run", || {
        world.workspace("1").join("hook-env").exists()
    });
    let address = world.status().unwrap()["api"]["address"]
        .as_str()
        .unwrap()
        .to_owned();
    let client = HttpClient::tcp(&address).with_header("Authorization", &format!("Bearer {token}"));
    let _ = client.get("/api/v1/healthz").expect_status(200);
    assert!(!instance(&world).join("api.token").exists());
    world.wait_for_status("the attempt is over", |status| status["sessions"] == json!([]));
    let hook = std::fs::read_to_string(world.workspace("1").join("hook-env")).unwrap();
    let agent = std::fs::read_to_string(world.workspace("1").join("agent-env")).unwrap();
    for seen in [hook, agent] {
        assert!(seen.contains("PATH") && !seen.contains(token), "{seen}");
    }
    daemon.stop().expect(0);
    let refused = world.start_with(&["run", "--port", "0"], &[("VIK_API_TOKEN", "short")]);
    let done = refused.done().expect(1);
    assert_contains(&done.err, "VIK_API_TOKEN");
    assert_contains(&done.err, "16");
}

#[test]
fn port_in_use_is_reported_and_prevents_the_start() {
    let world = World::new(&[("1", "todo")]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let done = world.vik(&["run", "--once", "--port", &port]).expect(1);
    assert_contains(&done.err, "--port 0");
    let detached = world.vik(&["run", "-d", "--port", &port]).expect(1);
    assert_contains(&detached.err, &port);
    assert!(world.sessions("1").is_empty());
}
