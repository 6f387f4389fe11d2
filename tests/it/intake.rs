//! Pulls that are slow, broken, huge or wrong. None of them ends intake.

use serde_json::{Value, json};

use crate::support::*;

/// Returns a world with this pull command, which counts its calls in `pulls`.
fn pulling(command: &str) -> World {
    let mut world = World::new(&[]);
    world.put(
        "/issues/pull/command",
        json!(format!("echo . >> pulls; {command}")),
    );
    world
}

fn pulls(world: &World) -> usize {
    world.env.read("work/pulls").lines().count()
}

/// Checks that pulls fail, that each failure is counted with its reason, and that the next pull
/// comes.
#[track_caller]
fn fails(world: &World, reason: &str) {
    let daemon = world.daemon();
    world.wait_for_status("three pulls have failed", |status| {
        status["pulls"]["failed_in_a_row"].as_u64() >= Some(3)
    });
    let status = world.status().unwrap();
    assert_eq!(status["last_pull"]["ok"], false);
    assert_eq!(status["pulls"]["ok"], 0);
    let error = status["last_pull"]["error"].as_str().unwrap();
    assert_contains(error, reason);
    let text = world.vik(&["status"]).expect(0).out;
    assert_contains(&text, "FAILED");
    assert_contains(&text, "in a row");
    daemon.stop();
}

#[test]
fn hanging_pull_is_ended_with_its_descendants() {
    let world =
        pulling("sleep 600 & setsid sleep 600 & sleep 600").set("/issues/pull/timeout", json!("100ms"));
    fails(&world, "100ms");
    world.env.assert_nothing_left();
}

#[test]
fn failed_pull_reports_its_stderr() {
    fails(
        &pulling("echo '[]'; echo no login >&2; exit 4"),
        "exited with 4; stderr: no login",
    );
}

#[test]
fn warnings_of_a_successful_pull_are_logged() {
    let world = pulling("echo 'warning: 4 of 60 requests are left' >&2; echo noise >&2; echo '[]'");
    world.daemon().stop();
    let logs = std::fs::read_dir(world.home().join("logs")).unwrap();
    let log: String = logs
        .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert_contains(&log, "4 of 60 requests are left");
    assert!(!log.contains("noise"), "{log}");
}

#[test]
fn failed_pull_waits_as_long_as_its_command_asks() {
    for command in [
        "echo 'Retry-After: 300'; exit 1",
        "echo 'retry-after: 300' >&2; exit 75",
    ] {
        let world = pulling(command);
        let daemon = world.daemon();
        let pull = &world.status().unwrap()["last_pull"];
        let time = |name: &str| pull[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let wait = time("next_at").duration_since(time("at")).as_secs();
        assert!((299..=301).contains(&wait), "{command}: {wait}");
        let text = world.vik(&["status"]).expect(0).out;
        assert_contains(&text, "next pull in ");
        assert_eq!(pulls(&world), 1);
        world.vik(&["refresh"]).expect(0);
        eventually("a person pulls at once", || pulls(&world) == 2);
        daemon.stop();
        let done = world.once().expect(8);
        assert_contains(&done.err, "not pulling again for 5m");
        assert_eq!(pulls(&world), 3, "it does not wait for so long");
    }
}

#[test]
fn killed_pull_reports_its_signal() {
    fails(&pulling("kill -9 $$"), "signal 9");
}

#[test]
fn flooding_pull_is_cut_off_at_the_size_limit() {
    let world = pulling("yes").set("/issues/pull/idle_sec", json!("1s"));
    let daemon = world.daemon();
    let error = world.status().unwrap()["last_pull"]["error"].clone();
    assert!(error.as_str().unwrap().contains("more than 64 MB"), "{error}");
    let pid = daemon.pid();
    let peak = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak: u64 = peak
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .unwrap();
    assert!(peak < 200 * 1024, "{peak} kB");
    daemon.stop();
}

#[test]
fn garbage_is_refused_as_a_list_of_issues() {
    fails(&pulling("echo Please log in first"), "Please log in first");
    let world = pulling("echo '{\"issues\":[]}'");
    fails(&world, "JSON array");
    let world = pulling("printf '[{\"id\":1,\"state\":\"todo\"},'");
    fails(&world, "JSON array");
    let world = pulling("true");
    fails(&world, "JSON array");
}

#[test]
fn failed_pull_changes_nothing_and_the_next_resumes_work() {
    let world = World::new(&[("1", "todo")]).script("touch up; wait-file go; ok");
    let good = world.tracker.pull_command();
    let world = world.set(
        "/issues/pull/command",
        json!(format!("echo . >> pulls; test -e broken && exit 1; {good}")),
    );
    let daemon = world.daemon();
    world.wait_for_agent(1);
    world.env.write("work/broken", "");
    world.wait_for_status("pulls fail", |status| {
        status["pulls"]["failed_in_a_row"].as_u64() >= Some(2)
    });
    world.wait_for_status("the agent runs", |status| {
        status["sessions"][0]["phase"] == "running"
    });
    world.tracker.add("2", "Two", "todo");
    world.go();
    std::fs::remove_file(world.env.path("work/broken")).unwrap();
    eventually("the next one runs", || {
        world.sessions("2").len() == 1 && world.workspace("2").join("up").exists()
    });
    let counts = world.status().unwrap()["pulls"].clone();
    assert!(
        counts["failed"].as_u64() >= Some(2) && counts["failed_in_a_row"] == 0,
        "{counts}"
    );
    std::fs::write(world.workspace("2").join("go"), "").unwrap();
    world.wait_for_state("2", "done");
    assert_eq!(world.sessions("1").len(), 1);
    daemon.stop().expect(0);
}

#[test]
fn stalled_first_pull_does_not_block_status_or_stop() {
    let world = pulling("sleep 600");
    world.vik(&["run", "-d"]).expect(0);
    eventually("it pulls", || pulls(&world) == 1);
    let status = world.status().unwrap();
    assert_eq!(status["state"], "running");
    assert_eq!(status["last_pull"], Value::Null);
    world.vik(&["stop"]).expect(0);
    world.env.assert_nothing_left();
}

#[test]
fn invalid_items_are_skipped_with_a_reason() {
    let world = pulling("cat issues.json");
    world.env.issues(&json!([
        {"id": "a", "title": "no state"}, 7, null, "text", [], {}, {"state": "todo"}, {"id": {}, "state": "todo"},
        {"id": "", "state": "todo"}, {"id": "b", "state": 5}, {"id": "c", "state": "todo", "title": 3},
        {"id": "good", "title": "first", "state": "todo"}, {"id": "good", "title": "second", "state": "todo"},
        {"identifier": "E-1", "status": "todo"}, {"id": 42, "state": "todo", "desc": "by its other name"}
    ]));
    let world = world.work("prompt", json!("{{ issue.id }}|{{ issue.title }}|{{ issue.state }}|{{ issue.description }}|\nSCRIPT: write x y; ok"))
        .work("hooks/after_run", json!("echo '[]' > {{ workflow_dir }}/issues.json"))
        .attempts(1);
    let done = world.once().expect(0);
    assert_eq!(done.err.matches("skipped").count(), 11, "{}", done.err);
    assert_contains(
        &done.err,
        "issue c: `title` is ignored: expected a string, found a number",
    );
    for reason in [
        "it has no `state`",
        "it is not an object",
        "it has no `id`",
        "an earlier item has the same id",
    ] {
        assert_contains(&done.err, reason);
    }
    let first = |id: &str| {
        world
            .session(id)
            .text(".prompt.md")
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(first("good"), "good|first|todo||");
    assert_eq!(first("E-1"), "E-1||todo||");
    assert_eq!(first("42"), "42||todo|by its other name|");
}

#[test]
fn pull_of_ten_thousand_issues_is_accepted() {
    let mut world = pulling("cat issues.json");
    let issues: Vec<_> = (0..10_000)
        .map(|n| json!({"id": n, "title": format!("Issue {n}"), "state": if n == 9_999 { "todo" } else { "later" }}))
        .collect();
    world.env.issues(&json!(issues));
    world.put(
        "/issue/stages/work/prompt",
        json!("SCRIPT: touch up; wait-file go; ok"),
    );
    let daemon = world.daemon();
    let status = world.status().unwrap();
    assert_eq!(status["last_pull"]["issues"], json!(10_000));
    assert_eq!(status["last_pull"]["skipped"], 0);
    eventually("the one runs", || {
        world.sessions("9999").len() == 1 && world.workspace("9999").join("up").exists()
    });
    assert_eq!(list(&world.workspaces()).len(), 1);
    daemon.stop().expect(0);
}

#[test]
fn pull_of_fifty_megabytes_is_read_completely() {
    let mut world = pulling("cat issues.json");
    let text = "x".repeat(5_000_000);
    let issues: Vec<_> = (0..10)
        .map(|n| json!({"id": n, "state": "todo", "description": text}))
        .collect();
    world.env.issues(&json!(issues));
    world.put("/loop", json!({"max_issue_concurrency": 1}));
    world.put(
        "/issue/stages/work/prompt",
        json!("{{ issue.description | length }}\nSCRIPT: write x y; ok"),
    );
    world.put(
        "/issue/stages/work/hooks/after_run",
        json!("echo '[]' > {{ workflow_dir }}/issues.json"),
    );
    let done = world.vik(&["run", "--once", "--issue", "9"]).expect(0);
    assert!(
        done.err.contains("10 issues") || done.out.contains("succeeded"),
        "{done:?}"
    );
    assert!(world.session("9").text(".prompt.md").starts_with("5000000\n"));
}

#[test]
fn pull_runs_beside_the_workflow_with_the_daemon_environment() {
    let world = pulling("pwd > where; env > env; echo '[]'");
    let mut command = world
        .env
        .vik(["run", "--once", "--workflow", "../work/workflow.yml"]);
    command.current_dir(world.env.home()).env("MY_TOKEN", "secret");
    world.start_command(command).done().expect(0);
    let work = world.env.work().canonicalize().unwrap();
    assert_eq!(world.env.read("work/where").trim(), work.to_str().unwrap());
    let env = world.env.read("work/env");
    assert_contains(&env, "MY_TOKEN=secret\n");
    assert_contains(&env, format!("VIK_ISSUES_DIR={}/issues\n", work.display()));
}

#[test]
fn stderr_of_an_earlier_pull_is_not_repeated() {
    let world = pulling("test -e second || { touch second; echo first fault >&2; exit 1; }; exit 2");
    let daemon = world.daemon();
    world.wait_for_status("the second failed", |status| {
        status["last_pull"]["error"]
            .as_str()
            .is_some_and(|error| error.contains("exited with 2"))
    });
    let status = world.status().unwrap();
    assert!(
        !status["last_pull"]["error"]
            .as_str()
            .unwrap()
            .contains("first fault"),
        "{status}"
    );
    daemon.stop();
}

#[test]
fn field_of_a_wrong_type_is_reported_and_may_hold_its_issue() {
    let issues = json!([
        {"id": "1", "title": "One", "state": "todo", "description": {"type": "doc"}},
        {"id": "2", "title": "Two", "state": "todo", "blocked_by": [{"number": 1}]},
    ]);
    let world = pulling(&format!("echo '{issues}'"));
    let dry = world.vik(&["run", "--dry-run"]).expect(0);
    let warnings = [
        "issue 1: `description` is ignored: expected a string, found an object",
        "issue 2: `blocked_by` contains an entry that is not an id",
    ];
    for warning in warnings {
        assert_contains(&dry.err, warning);
    }
    let daemon = world.daemon();
    eventually("the first issue ran", || !world.sessions("1").is_empty());
    let status = world.status().unwrap();
    let text = world.vik(&["status"]).expect(0).out;
    for warning in warnings {
        assert_contains(status["last_pull"]["warnings"].to_string(), warning);
        assert_contains(&text, warning);
    }
    let why = world.vik(&["explain", "2"]).out;
    assert_contains(&why, "an invalid entry in `blocked_by`");
    assert!(world.sessions("2").is_empty());
    daemon.stop();
}
