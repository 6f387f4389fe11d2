//! Notifications: their content and their receivers; each is sent once and blocks nothing.

mod server;

use serde_json::{Value, json};

use crate::support::*;

use server::Server;

/// The secret for signatures in these tests.
const SECRET: &str = "do-not-tell-anybody-7f3a";

/// Returns a world whose agents fail at once, with one notifier that writes its notifications to
/// files.
fn failing(issues: &[(&str, &str)], debounce: &str) -> World {
    let world = World::new(issues).attempts(1).script("exit 1");
    let folder = world.env.path("sent");
    std::fs::create_dir_all(&folder).unwrap();
    let command = format!(
        "cd {folder} && cat > $VIK_DELIVERY_ID.tmp && printf '%s|%s|%s' \"$VIK_EVENT\" \"$VIK_ISSUE_ID\" \"$VIK_ISSUE_TITLE\" > \
         $VIK_DELIVERY_ID.env && mv $VIK_DELIVERY_ID.tmp $VIK_DELIVERY_ID.json",
        folder = folder.display()
    );
    world.set(
        "/notify/team",
        json!({"kind": "command", "command": command, "debounce": debounce}),
    )
}

fn webhook(server: &Server, debounce: &str) -> Value {
    let url = format!("http://{}/hook/path-is-secret-too", server.address());
    json!({"kind": "webhook", "url": url, "secret_env": "HOOK_SECRET", "debounce": debounce, "timeout": "10m"})
}

/// Returns the notifications that the command received, in order.
fn notifications(world: &World) -> Vec<Value> {
    list(&world.env.path("sent"))
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
        .collect()
}

/// Returns the outbox for the next daemon; it is empty before there is one.
fn outbox(world: &World) -> String {
    let homes = list(&world.env.work().join("home/workflows"));
    let home = homes.iter().find(|path| path.is_dir());
    let text = home.map(|home| std::fs::read_to_string(home.join("service/notify.json")));
    text.and_then(Result::ok).unwrap_or_default()
}

/// Starts a daemon with the secret in its environment.
fn daemon(world: &World, env: &[(&str, &str)]) -> Running {
    let env: Vec<_> = [("HOOK_SECRET", SECRET)].iter().chain(env).copied().collect();
    world.start_with(&["run"], &env)
}

/// Checks that no file below a folder contains this text.
fn assert_nowhere(folder: &std::path::Path, text: &str) {
    for path in list(folder) {
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            assert_nowhere(&path, text);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let found = String::from_utf8_lossy(&bytes).contains(text);
            assert!(!found, "{} holds the secret", path.display());
        }
    }
}

#[test]
fn parked_issue_is_notified_once_with_its_text_as_data() {
    let world = failing(&[("1", "todo")], "0s");
    let title = "`touch pwned` $(touch pwned) '; touch pwned; \" \u{1b}[31m";
    world.tracker.set("1", "title", json!(title));
    let daemon = daemon(&world, &[]);
    eventually("it is delivered", || notifications(&world).len() == 1);
    let before = world.tracker.pulls();
    eventually("the daemon continues", || world.tracker.pulls() > before + 2);
    daemon.stop().expect(0);
    let notifications = notifications(&world);
    assert_eq!(notifications.len(), 1, "{notifications:?}");
    let (event, item) = (&notifications[0]["event"], &notifications[0]["items"][0]);
    assert_eq!(
        (event, &item["issue_id"], &item["reason"]),
        (&json!("parked"), &json!("1"), &json!("attempts_used_up"))
    );
    assert_eq!(item["events"], json!(["parked", "failed"]));
    assert!(
        !notifications[0].to_string().contains("\\u001b["),
        "{}",
        notifications[0]
    );
    let env = list(&world.env.path("sent"))
        .into_iter()
        .find(|path| path.extension().unwrap() == "env");
    let env = std::fs::read_to_string(env.unwrap()).unwrap();
    assert!(
        env.starts_with("parked|1|`touch pwned` $(touch pwned) '; touch pwned; \""),
        "{env}"
    );
    assert!(!world.env.path("sent/pwned").exists() && !world.env.work().join("pwned").exists());
    world.env.assert_nothing_left();
}

#[test]
fn parked_issue_is_notified_with_its_dependents() {
    let world = failing(&[("1", "todo"), ("2", "todo"), ("3", "todo")], "0s");
    world.tracker.set("2", "blocked_by", json!(["1"]));
    world.tracker.set("3", "blocked_by", json!(["2"]));
    let daemon = daemon(&world, &[]);
    eventually("the first is parked", || notifications(&world).len() == 1);
    daemon.stop().expect(0);
    let item = &notifications(&world)[0]["items"][0];
    assert_eq!(item["issue_id"], "1");
    let detail = item["detail"].as_str().unwrap();
    assert!(detail.ends_with("; 2 issues wait for it: 2, 3"), "{detail}");
    world.env.assert_nothing_left();
}

#[test]
fn burst_is_combined_into_one_notification() {
    let ids: Vec<String> = (1..=8).map(|id| id.to_string()).collect();
    let issues: Vec<_> = ids.iter().map(|id| (id.as_str(), "todo")).collect();
    let world = failing(&issues, "1h");
    // A drain does not wait for the hour.
    world.once().expect(1);
    let notifications = notifications(&world);
    assert_eq!(notifications.len(), 1, "{notifications:?}");
    assert_eq!(notifications[0]["items"].as_array().unwrap().len(), 8);
    assert_eq!(notifications[0]["title"], "Vik: 8 parked");
    // Another run has nothing new to report.
    world.once();
    assert_eq!(self::notifications(&world).len(), 1);
}

#[test]
fn webhook_is_signed_retried_and_delivered_once() {
    let server = Server::start(&[500, 500, 200]);
    let world = failing(&[("1", "todo")], "0s");
    let hook = webhook(&server, "0s");
    let world = world.set("/notify", json!({"hook": hook}));
    let daemon = daemon(&world, &[]);
    eventually("it is delivered", || server.requests().len() == 3);
    let health = || {
        world
            .status()
            .map(|status| status["notify"][0].clone())
            .unwrap_or_default()
    };
    eventually("that is known", || health()["undelivered"] == 0);
    assert_eq!(health()["failures_in_a_row"], 0, "{}", health());
    daemon.stop().expect(0);
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(request.header("x-vik-event"), "parked");
        assert_eq!(
            request.header("x-vik-delivery"),
            requests[0].header("x-vik-delivery")
        );
        assert_eq!(request.body, requests[0].body);
        assert_eq!(request.header("x-vik-signature"), request.signature(SECRET));
    }
    let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!(body["delivery_id"], requests[0].header("x-vik-delivery"));
    for secret in [SECRET, "path-is-secret-too"] {
        assert_nowhere(&world.home(), secret);
        assert_nowhere(&world.env.path("output"), secret);
    }
}

#[test]
fn webhook_response_does_not_reveal_the_secret() {
    let server = Server::echoing(&[418], SECRET);
    let world = failing(&[("1", "todo")], "0s");
    let hook = webhook(&server, "0s");
    let world = world.set("/notify", json!({"hook": hook}));
    let daemon = daemon(&world, &[]);
    world.wait_for_status("it failed", |status| {
        status["notify"][0]["failures_in_a_row"].as_u64() > Some(0)
    });
    let shown = world.vik(&["status"]).expect(0).out;
    assert_contains(&shown, "notify hook: 1 delivery failing");
    assert_contains(&shown, "418");
    assert_contains(&shown, "[REDACTED]");
    assert!(!shown.contains(SECRET), "{shown}");
    daemon.stop().expect(0);
    assert_nowhere(&world.home(), SECRET);
}

#[test]
fn webhook_redirect_is_not_followed() {
    let elsewhere = Server::start(&[200]);
    let server = Server::redirecting(&format!("http://{}/x", elsewhere.address()));
    let world = failing(&[("1", "todo")], "0s").set("/notify", json!({"hook": webhook(&server, "0s")}));
    let done = world
        .start_with(&["notify", "test"], &[("HOOK_SECRET", SECRET)])
        .done()
        .expect(1);
    assert_contains(&done.out, "redirects are not followed");
    assert_eq!(elsewhere.requests().len(), 0);
}

#[test]
fn unresponsive_notifier_blocks_neither_work_nor_stop() {
    let server = Server::silent();
    let world = failing(&[("1", "todo")], "0s")
        .set("/notify/hook", webhook(&server, "0s"))
        .set(
            "/notify/team",
            json!({"kind": "command", "command": "sleep 100000", "debounce": "0s", "timeout": "10m"}),
        );
    let daemon = daemon(&world, &[]);
    eventually("it is asked", || server.requests().len() == 1);
    world.tracker.add("2", "more", "todo");
    world.tracker.add("3", "more", "todo");
    world.wait_for_status("the work continues", |status| {
        status["parked"].as_array().map(Vec::len) == Some(3)
    });
    world.vik(&["stop"]).expect(0);
    daemon.done().expect(0);
    world.env.assert_nothing_left();
    let kept = outbox(&world);
    assert_contains(&kept, "\"issue_id\": \"1\"");
}

#[test]
fn gathered_notification_survives_a_daemon_crash() {
    let mut world = failing(&[("1", "todo")], "1h");
    let daemon = daemon(&world, &[]);
    eventually("it is kept", || outbox(&world).contains("attempts_used_up"));
    daemon.kill();
    assert_eq!(notifications(&world).len(), 0);
    world.put("/notify/team/debounce", json!("0s"));
    let daemon = self::daemon(&world, &[]);
    eventually("it is delivered", || notifications(&world).len() == 1);
    daemon.stop().expect(0);
    assert_eq!(notifications(&world).len(), 1);
    assert_eq!(notifications(&world)[0]["items"][0]["issue_id"], "1");
}

#[test]
fn delivery_cut_by_a_crash_is_repeated_with_the_same_id() {
    let server = Server::silent();
    let world = failing(&[("1", "todo")], "0s").set("/notify", json!({"hook": webhook(&server, "0s")}));
    let daemon = daemon(&world, &[]);
    eventually("it is on its way", || server.requests().len() == 1);
    daemon.kill();
    server.answer();
    let daemon = self::daemon(&world, &[]);
    eventually("it comes again", || server.requests().len() == 2);
    daemon.stop().expect(0);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        requests[0].header("x-vik-delivery"),
        requests[1].header("x-vik-delivery")
    );
}

#[test]
fn issue_parked_just_before_a_crash_is_notified() {
    let world = failing(&[("1", "todo")], "0s");
    world.arm("end_committed");
    let daemon = daemon(&world, &[("VIK_CRASH_DIR", world.crash_dir().to_str().unwrap())]);
    world.wait_for_point("end_committed");
    daemon.kill();
    assert_eq!(notifications(&world).len(), 0);
    let daemon = self::daemon(&world, &[]);
    eventually("it is delivered", || notifications(&world).len() == 1);
    daemon.stop().expect(0);
    assert_eq!(world.sessions("1").len(), 1, "no second attempt was made");
    world.once();
    assert_eq!(notifications(&world).len(), 1, "and once");
}

#[test]
fn daily_summary_is_sent_once_across_restarts() {
    let world = failing(&[("1", "todo")], "0s");
    let world = world.set("/notify/team/on", json!(["daily_summary"]));
    let world = world.set("/notify/team/daily_at", json!("08:00"));
    let now = jiff::Timestamp::now().as_second();
    // Sets the clock to 07:00 UTC tomorrow, so that the attempts of now belong to the summarised
    // day.
    let jump = (now / 86_400 + 1) * 86_400 + 7 * 3600 - now;
    world.jump(jump);
    let points = world.crash_dir();
    let env = [("VIK_CRASH_DIR", points.to_str().unwrap())];
    let daemon = daemon(&world, &env);
    eventually("it looked at the clock", || {
        outbox(&world).contains("\"summed_up\": \"2")
    });
    eventually("there is something to sum up", || {
        world.runs().iter().any(|run| run["state"] == "parked")
    });
    assert_eq!(notifications(&world).len(), 0, "it is not time yet");
    world.jump(jump + 2 * 3600);
    eventually("it is delivered", || notifications(&world).len() == 1);
    daemon.stop().expect(0);
    let daemon = self::daemon(&world, &env);
    let before = world.tracker.pulls();
    eventually("the daemon continues", || world.tracker.pulls() > before + 2);
    assert_eq!(notifications(&world).len(), 1, "not again");
    world.jump(jump + 20 * 86_400);
    eventually("one for all the days that were missed", || {
        notifications(&world).len() == 2
    });
    world.jump(jump + 3600);
    let before = world.tracker.pulls();
    eventually("the daemon continues", || world.tracker.pulls() > before + 2);
    daemon.stop().expect(0);
    let notifications = notifications(&world);
    assert_eq!(notifications.len(), 2, "{notifications:?}");
    assert_eq!(notifications[0]["event"], "daily_summary");
    assert_eq!(
        notifications[0]["summary"]["total"]["attempts"], 1,
        "{}",
        notifications[0]
    );
}

#[test]
fn failed_run_of_a_moved_issue_is_notified_as_failed() {
    let world = failing(&[("1", "todo")], "0s");
    let moves = world.tracker.move_command("done");
    let world = world.work("hooks", json!({"after_run": moves}));
    world.once().expect(1);
    let notifications = notifications(&world);
    assert_eq!(notifications.len(), 1, "{notifications:?}");
    let item = &notifications[0]["items"][0];
    assert_eq!(notifications[0]["event"], "failed");
    assert_eq!(item["issue_id"], "1");
    assert_eq!(item["freed_by"], json!(null));
}

#[test]
fn day_limit_is_notified_once_a_day() {
    let world = failing(&[("1", "todo"), ("2", "todo")], "0s")
        .agent("codex")
        .set("/loop", json!({"max_issue_concurrency": 1}))
        .set("/limits", json!({"tokens_per_day": 100}))
        .script("start; usage 150 0 10; done");
    let of_day = || {
        let notifications = notifications(&world);
        let items = notifications
            .iter()
            .flat_map(|notification| notification["items"].as_array().unwrap().clone());
        items
            .filter(|item| item["reason"] == "day_limit")
            .collect::<Vec<_>>()
    };
    let daemon = daemon(&world, &[]);
    eventually("it is delivered", || of_day().len() == 1);
    daemon.stop().expect(0);
    world.once();
    world.once();
    let notifications = of_day();
    assert_eq!(notifications.len(), 1, "{notifications:?}");
    assert_eq!(notifications[0]["event"], "over_budget");
}

#[test]
fn edit_adds_a_notifier_and_a_rejected_edit_is_notified() {
    let mut world = failing(&[("1", "todo")], "0s");
    let notify = json!({"kind": "command", "command": "exit 3", "debounce": "0s"});
    let team = serde_json::from_str::<Value>(&world.env.read("work/workflow.yml")).unwrap()["notify"]["team"]
        .clone();
    world.put("/notify", json!(null));
    let daemon = world.daemon();
    world.wait_for_status("it is parked", |status| {
        status["parked"].as_array().map(Vec::len) == Some(1)
    });
    world.put("/notify", json!({"team": team, "broken": notify}));
    world.wait_for_status("the notifiers are there", |status| {
        status["notify"].as_array().map(Vec::len) == Some(2)
    });
    world.tracker.add("2", "more", "todo");
    eventually("later events are delivered", || !notifications(&world).is_empty());
    world.put("/issue/stages/work/agent", json!("nobody"));
    eventually("a rejected edit is delivered", || {
        notifications(&world)
            .iter()
            .any(|notification| notification["items"][0]["reason"] == "edit_rejected")
    });
    daemon.stop().expect(0);
    assert!(
        notifications(&world)
            .iter()
            .all(|notification| notification["items"][0]["issue_id"] != "1"),
        "what was before is no news"
    );
}

#[test]
fn notify_test_reports_the_result_of_each_notifier() {
    let world = failing(&[("1", "todo")], "0s");
    let done = world.vik(&["notify", "test"]).expect(0);
    assert_eq!(done.out, "team: delivered\n");
    assert_eq!(notifications(&world)[0]["event"], "test");
    let world = world
        .set(
            "/notify/hook",
            json!({"kind": "webhook", "url": "http://127.0.0.1:9/x", "secret_env": "NOT_SET"}),
        )
        .set(
            "/notify/bad",
            json!({"kind": "command", "command": "echo no >&2; exit 3"}),
        );
    let done = world.vik(&["notify", "test"]).expect(1);
    assert_eq!(
        done.out,
        "bad: FAILED: the command exited with 3; output: no\nhook: FAILED: the variable NOT_SET is not set\nteam: delivered\n"
    );
    let done = world.vik(&["notify", "test", "hook", "--json"]).expect(1).json();
    assert_eq!(done[0]["ok"], false);
    assert_eq!(done[0]["notifier"], "hook");
    let done = world.vik(&["notify", "test", "tema"]).expect(2);
    assert_contains(&done.err, "known notifiers: bad, hook, team");
    let doctor = world.vik(&["doctor", "--offline"]).expect(1);
    assert_contains(&doctor.out, "the variable NOT_SET is not set");
}
