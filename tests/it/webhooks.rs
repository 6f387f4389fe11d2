//! Webhooks: a verified call triggers a pull at once, and no other call does anything.

use std::io::{Read, Write};
use std::net::TcpStream;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use vik_testkit::{HttpClient, Reply};

use crate::support::*;

const SECRET: &str = "a-secret-of-a-test-0123456789";

/// A daemon that polls once an hour and listens for webhooks.
struct Hooked {
    world: World,
    daemon: Running,
    address: String,
}

impl Hooked {
    fn new(hooks: &serde_json::Value) -> Self {
        let world = World::new(&[("1", "later")])
            .set("/issues/pull/idle_sec", json!("1h"))
            .set(
                "/webhooks",
                json!({"listen": "127.0.0.1:0", "min_gap": "500ms", "hooks": hooks}),
            );
        let daemon = world.start_with(&["run"], &[("HOOK_SECRET", SECRET)]);
        let status = wait_for_value(LONG, || {
            world
                .status()
                .filter(|status| !status["last_pull"].is_null() && !status["webhooks"].is_null())
        });
        let status = status.unwrap_or_else(|| panic!("no daemon that listens: {}", daemon.err()));
        let address = status["webhooks"]["address"].as_str().unwrap().to_owned();
        Self {
            world,
            daemon,
            address,
        }
    }

    fn github() -> Self {
        Self::new(&json!({"gh": {"kind": "github", "secret_env": "HOOK_SECRET"}}))
    }

    fn client(&self) -> HttpClient {
        HttpClient::tcp(&self.address)
    }

    fn deliver(&self, hook: &str, id: &str) -> Reply {
        deliver(&self.address, hook, id)
    }

    fn pulls(&self) -> u64 {
        let pulls = self.world.status().unwrap()["pulls"].clone();
        pulls["ok"].as_u64().unwrap()
    }

    fn log(&self) -> String {
        let logs = list(&self.world.home().join("logs")).into_iter();
        logs.filter(|path| path.is_file())
            .map(|path| std::fs::read_to_string(path).unwrap())
            .collect()
    }

    fn end(self) {
        self.daemon.stop().expect(0);
    }
}

fn deliver(address: &str, hook: &str, id: &str) -> Reply {
    let body = json!({"action": "opened", "id": id}).to_string();
    HttpClient::tcp(address)
        .with_header("X-GitHub-Event", "issues")
        .with_header("X-GitHub-Delivery", id)
        .with_header("X-Hub-Signature-256", &format!("sha256={}", sign(&body)))
        .request("POST", &format!("/hooks/{hook}"), Some(&body))
}

fn sign(body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let bytes = mac.finalize().into_bytes();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn call_triggers_a_pull_at_once_and_a_replay_does_not() {
    let hooked = Hooked::github();
    assert_eq!(hooked.pulls(), 1);
    hooked.world.tracker.move_to("1", "todo");
    assert_eq!(hooked.deliver("gh", "a").status, 202);
    hooked.world.wait_for_state("1", "done");
    // The end of an attempt triggers a pull of its own: after that nothing else does.
    eventually("nothing runs or waits", || {
        let status = hooked.world.status().unwrap();
        status["sessions"] == json!([]) && status["waiting"] == json!([])
    });
    let log = hooked.log();
    assert!(
        log.contains("delivery=\"a\"") || log.contains("delivery=a"),
        "{log}"
    );
    assert!(!log.contains(SECRET), "a secret in the log");
    assert_eq!(hooked.deliver("gh", "a").status, 200);
    // If the replay triggered a pull, it would come before the pull of this call.
    let before = hooked.pulls();
    assert_eq!(hooked.deliver("gh", "b").status, 202);
    eventually("it was looked at once more", || hooked.pulls() > before);
    assert_eq!(hooked.pulls(), before + 1);
    hooked.end();
}

#[test]
fn burst_of_calls_triggers_few_pulls() {
    let hooked = Hooked::github();
    let before = hooked.pulls();
    let start = std::time::Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let address = &hooked.address;
            scope.spawn(move || {
                for number in 0..50 {
                    assert_eq!(deliver(address, "gh", &format!("{thread}-{number}")).status, 202);
                }
            });
        }
    });
    let max_pulls = start.elapsed().as_millis() / 500 + 2;
    eventually("they were looked at", || hooked.pulls() > before);
    let made = u128::from(hooked.pulls() - before);
    assert!(
        made <= max_pulls,
        "{made} pulls of 200 calls, {max_pulls} at most"
    );
    hooked.end();
}

#[test]
fn unauthenticated_call_is_refused_and_triggers_no_pull() {
    let hooked = Hooked::new(&json!({
        "gh": {"kind": "github", "secret_env": "HOOK_SECRET"},
        "gl": {"kind": "gitlab", "secret_env": "HOOK_SECRET"},
        "ln": {"kind": "linear", "secret_env": "HOOK_SECRET"},
        "unset": {"kind": "github", "secret_env": "HOOK_SECRET_THAT_IS_NOT_SET"},
    }));
    let before = hooked.pulls();
    let client = || hooked.client();
    let post = |client: &HttpClient, path: &str, body: &str| client.request("POST", path, Some(body)).status;
    assert_eq!(post(&client(), "/hooks/gh", "{}"), 401);
    let wrong = client().with_header("X-Hub-Signature-256", &format!("sha256={}", sign("other")));
    assert_eq!(post(&wrong, "/hooks/gh", "{}"), 401);
    assert_eq!(
        post(
            &client().with_header("X-Gitlab-Token", "wrong"),
            "/hooks/gl",
            "{}"
        ),
        401
    );
    let old = json!({"type": "Issue", "webhookTimestamp": 1_676_056_940_508_i64}).to_string();
    assert_eq!(
        post(
            &client().with_header("Linear-Signature", &sign(&old)),
            "/hooks/ln",
            &old
        ),
        401
    );
    assert_eq!(hooked.deliver("unset", "a").status, 401);
    // Nothing else is served here: no API, no dashboard, no hint of either.
    for (method, path) in [
        ("GET", "/hooks/gh"),
        ("DELETE", "/hooks/gh"),
        ("GET", "/"),
        ("GET", "/api/v1/state"),
        ("POST", "/api/v1/stop"),
        ("POST", "/hooks/none"),
        ("GET", "/healthz"),
        ("GET", "/metrics"),
    ] {
        let reply = client().request(method, path, None).expect_status(404);
        assert_eq!(reply.body, "");
    }
    let huge = "x".repeat(3 * 1024 * 1024);
    assert_eq!(post(&wrong, "/hooks/gh", &huge), 413);
    let good = client().with_header("X-Gitlab-Token", SECRET);
    assert_eq!(hooked.pulls(), before, "no unsigned call was accepted");
    assert_eq!(post(&good, "/hooks/gl", "{}"), 202);
    eventually("who was believed made a pull", || hooked.pulls() == before + 1);
    let doctor = hooked.world.vik(&["doctor", "--offline", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let unset = checks
        .iter()
        .find(|check| check["check"] == "webhook.unset")
        .unwrap();
    assert_eq!(unset["code"], "hook_secret");
    hooked.end();
}

#[test]
fn slow_body_times_out_with_408() {
    let hooked = Hooked::github();
    let mut stream = TcpStream::connect(&hooked.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
        .write_all(
            b"POST /hooks/gh HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256=00\r\nContent-Length: 100\r\n\r\n{",
        )
        .unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    hooked.end();
}

#[test]
fn hooks_are_added_and_removed_by_an_edit() {
    let mut hooked = Hooked::github();
    assert_eq!(hooked.deliver("more", "a").status, 404);
    hooked.world.put(
        "/webhooks/hooks",
        json!({"more": {"kind": "github", "secret_env": "HOOK_SECRET"}}),
    );
    eventually("it is there", || hooked.deliver("more", "b").status != 404);
    assert_eq!(hooked.deliver("gh", "c").status, 404);
    hooked.world.put("/webhooks/listen", json!("127.0.0.1:1"));
    eventually("the other place needs a restart", || {
        hooked.world.status().unwrap()["workflow"]["needs_restart"] == json!(["webhooks.listen"])
    });
    assert_eq!(hooked.deliver("more", "d").status, 202);
    hooked.end();
}

#[test]
fn call_during_a_pull_triggers_another_pull() {
    let mut hooked = Hooked::github();
    let command = format!(
        "if [ -e gate ]; then touch waits; while [ -e gate ]; do sleep 0.02; done; fi; {}",
        hooked.world.tracker.pull_command()
    );
    hooked.world.env.write("work/gate", "");
    hooked.world.put("/issues/pull/command", json!(command));
    let waits = hooked.world.env.work().join("waits");
    eventually("a pull waits", || waits.exists());
    let before = hooked.pulls();
    assert_eq!(hooked.deliver("gh", "a").status, 202);
    assert_eq!(hooked.deliver("gh", "b").status, 202);
    eventually("the daemon was asked twice", || {
        hooked.log().matches("by=a webhook").count() == 2
    });
    std::fs::remove_file(hooked.world.env.work().join("gate")).unwrap();
    eventually("one more came after it", || hooked.pulls() == before + 2);
    hooked.end();
}
