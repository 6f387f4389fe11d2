//! Sessions: every byte that an agent prints is kept, and every process that it starts is ended,
//! whatever it does.

mod ends;

use serde_json::{Value, json};

use crate::support::*;

/// Returns a world with one issue that allows one attempt.
fn single(script: &str) -> World {
    World::new(&[("1", "todo")]).attempts(1).script(script)
}

fn exit_record(session: &Session) -> Value {
    serde_json::from_str(&session.text(".exit.json")).unwrap()
}

// --- output

#[test]
fn raw_file_holds_exactly_what_the_agent_printed() {
    let world = World::new(&[("1", "todo")]).set(
        "/agents/a/command",
        json!([
            "sh",
            "-c",
            "printf 'line one\\n\\0\\377\\r\\n\\n'; echo to stderr >&2; printf 'tail'"
        ]),
    );
    world.once().expect(0);
    let session = world.session("1");
    assert_eq!(session.raw(), b"line one\n\0\xff\r\n\ntail");
    assert_eq!(session.text(".stderr.log"), "to stderr\n");
    let ended = session.expect("succeeded", None);
    let messages = session.messages();
    assert_eq!(
        (messages.len(), messages[0].as_str(), messages[2].as_str()),
        (3, "line one", "tail"),
        "the last line needs no newline"
    );
    assert!(messages[1].contains('\u{fffd}'));
    assert!(ended["last_message"].as_str().unwrap().ends_with("tail"));
    // The command line prints the same bytes.
    let out = world
        .env
        .vik(["logs", "--raw", "--issue", "1"])
        .output()
        .unwrap()
        .stdout;
    assert_eq!(out, session.raw());
}

#[test]
fn lines_of_megabytes_are_kept_complete() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .script("start; bigline 3000000; message after; done");
    world.once().expect(0);
    let session = world.session("1");
    session.expect("succeeded", None);
    assert!(session.raw().len() > 3_000_000);
    assert!(session.messages().contains(&"after".to_owned()));
    let longest = session.text(".jsonl").lines().map(str::len).max().unwrap();
    assert!(longest >= 3_000_000, "{longest}");
}

#[test]
fn output_flood_loses_no_line() {
    let world = World::new(&[("1", "todo")]).script("flood 200000 60; message the end");
    world.once().expect(0);
    let session = world.session("1");
    session.expect("succeeded", None);
    let raw = session.raw();
    let raw = String::from_utf8(raw).unwrap();
    let messages = session.messages();
    assert!(messages.len() >= 200_001);
    assert!(
        raw.lines().eq(messages.iter().map(String::as_str)),
        "each line once, in order"
    );
}

#[test]
fn simultaneous_floods_lose_no_line() {
    let ids = ["1", "2", "3", "4"];
    let issues: Vec<_> = ids.iter().map(|id| (*id, "todo")).collect();
    let world = World::new(&issues)
        .agent("codex")
        .script("start; flood-events 20000 50; done");
    world.once().expect(0);
    for id in ids {
        let session = world.session(id);
        session.expect("succeeded", None);
        let printed = session
            .raw()
            .split(|&byte| byte == b'\n')
            .filter(|line| line.windows(13).any(|w| w == b"agent_message"))
            .count();
        assert_eq!(session.messages().len(), printed);
        assert!(printed >= 20_000);
    }
}

#[test]
fn garbage_is_recorded_and_ends_nothing() {
    let world = World::new(&[("1", "todo")])
        .agent("claude_code")
        .script("start; garbage 5000; line; nonutf8; partial {\"type\":; line 1}; line [1,2]; line \"text\"; message fine; done");
    world.once().expect(0);
    let session = world.session("1");
    session.expect("succeeded", None);
    assert!(session.messages().contains(&"fine".to_owned()));
    assert!(!session.of_kind("malformed").is_empty());
    // The log has an event for every printed line.
    let kinds: Vec<_> = session
        .events()
        .iter()
        .map(|event| event["kind"].as_str().unwrap().to_owned())
        .collect();
    let strange = kinds
        .iter()
        .filter(|kind| *kind == "malformed" || *kind == "unknown")
        .count();
    assert!(strange >= 4, "{kinds:?}");
}

#[test]
fn incomplete_last_line_is_kept() {
    let world = single("start; message whole; partial '{\"type\":\"item.comp'; exit 3").agent("codex");
    world.once().expect(1);
    let session = world.session("1");
    session.ended();
    assert_eq!(session.of_kind("malformed")[0]["line"], "{\"type\":\"item.comp");
}

#[test]
fn stderr_flood_is_kept_and_blocks_nothing() {
    let world = single("stderrflood 50000 100; ok");
    world.once().expect(0);
    assert!(world.session("1").file(".stderr.log").metadata().unwrap().len() >= 5_000_000);
}

#[test]
fn agent_that_closes_its_output_keeps_working() {
    let world = single("message hi; close-stdout; sleep 300; touch later; exit 0");
    world.once().expect(0);
    assert!(world.workspace("1").join("later").exists());
    world.session("1").expect("succeeded", None);
}

#[test]
fn agent_that_ignores_its_prompt_succeeds() {
    let world = World::new(&[("1", "todo")]).set("/agents/a/command", json!(["sh", "-c", "echo done"]));
    world
        .tracker
        .set("1", "description", json!("x".repeat(1_000_000)));
    let world = world.work("prompt", json!("{{ issue.description }}"));
    world.once().expect(0);
    assert_eq!(world.session("1").messages(), ["done"]);
}

#[test]
fn stdin_ends_after_the_prompt() {
    let world = World::new(&[("1", "todo")])
        .set("/agents/a/command", json!(["sh", "-c", "cat > got; echo end"]))
        .work("prompt", json!("to the end"));
    world.once().expect(0);
    let got = world.workspace_file("1", "got");
    let (prompt, section) = got.split_once("\n\n---\n").unwrap();
    assert_eq!(prompt, "to the end");
    assert!(section.starts_with("Vik: if you need a person\n"), "{section}");
}

// --- the environment of an agent, and how its result is read

#[test]
fn agent_environment_holds_only_allowed_variables() {
    let world = World::new(&[("1", "todo")])
        .set("/agents/a/env", json!({"MY_OWN": "mine"}))
        .set("/agents/a/env_pass", json!(["PASSED"]))
        .script("dump-env env; ok");
    let mut command = world.env.vik(["run", "--once"]);
    command.envs([
        ("AWS_SECRET_ACCESS_KEY", "s1"),
        ("GITHUB_TOKEN", "s2"),
        ("PASSED", "p"),
        ("OPENAI_API_KEY", "s3"),
        ("SSH_AUTH_SOCK", "s4"),
    ]);
    world.start_command(command).done().expect(0);
    let env = world.workspace_file("1", "env");
    for absent in [
        "AWS_SECRET",
        "GITHUB_TOKEN",
        "OPENAI_API_KEY",
        "SSH_AUTH_SOCK",
        "VIK_SHIM",
        TestEnv::MARK,
    ] {
        assert!(!env.contains(absent), "{absent}: {env}");
    }
    let workdir = world.workspace("1");
    for line in [
        "MY_OWN=mine",
        "PASSED=p",
        "VIK_ISSUE_ID=1",
        "VIK_ISSUE_TITLE=Issue 1",
        "VIK_STAGE=work",
        "VIK_ATTEMPT=1",
        &format!("HOME={}", world.env.home().display()),
    ] {
        assert!(env.lines().any(|have| have == line), "{line}: {env}");
    }
    let id = world.session("1").file("").to_str().unwrap().to_owned();
    let id = &id[id.len() - 36..];
    assert_contains(&env, format!("VIK_ATTEMPT_ID={id}"));
    assert!(workdir.exists());
    // Codex receives the key of its own provider, and no other.
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .script("dump-env env; ok");
    let mut command = world.env.vik(["run", "--once"]);
    command.envs([("OPENAI_API_KEY", "k1"), ("ANTHROPIC_API_KEY", "k2")]);
    world.start_command(command).done().expect(0);
    let env = world.workspace_file("1", "env");
    assert!(env.contains("OPENAI_API_KEY=k1") && !env.contains("k2"), "{env}");
}

#[test]
fn agent_inherits_no_file_descriptor_of_the_daemon() {
    let world = single("dump-fds fds; ok");
    world.once().expect(0);
    let fds = world.workspace_file("1", "fds");
    let home = world.home();
    let below: Vec<_> = fds
        .lines()
        .filter(|line| line.contains(home.to_str().unwrap()) || line.contains("socket:"))
        .collect();
    // Its prompt, its output, its stderr, and the list of its file descriptors.
    for line in &below {
        let known = [".prompt.md", ".raw.jsonl", ".stderr.log", "/fds"]
            .iter()
            .any(|name| line.contains(name));
        assert!(known, "{fds}");
    }
}

#[test]
fn exit_record_describes_the_end_of_an_attempt() {
    let world = single("message hi; exit 0");
    world.once().expect(0);
    let session = world.session("1");
    let record = exit_record(&session);
    assert_eq!(record["schema"], 1);
    assert_eq!(record["code"], 0);
    assert_eq!(record["cause"], "exited");
    assert!(record["agent"]["pid"].is_i64() && record["agent"]["start_time"].is_u64());
    assert!(record["ended_at_ms"].as_u64() >= record["started_at_ms"].as_u64());
    session.expect("succeeded", None);
}

#[test]
fn usage_is_priced_when_the_agent_reports_no_cost() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .set(
            "/agents/a/price",
            json!({"input": 2.0, "cached_input": 0.5, "output": 10.0}),
        )
        .script("start; usage 1000000 100000 400000; message hi; done");
    let done = world.once().expect(0);
    let ended = world.session("1").expect("succeeded", None);
    let usage = &ended["usage"];
    assert_eq!(usage["input_tokens"], json!(1_000_000));
    assert_eq!(usage["cached_input_tokens"], json!(400_000));
    assert_eq!(usage["output_tokens"], json!(100_000));
    // Per million tokens: 600k fresh at 2, 400k cached at 0.5, 100k output at 10.
    assert!(
        (ended["cost_usd"].as_f64().unwrap() - 2.4).abs() < 1e-9,
        "{ended}"
    );
    assert_eq!(ended["cost_source"], "price");
    assert_contains(&done.out, "$2.40");
    assert_contains(&done.out, "1.1M");
    let runs = world.runs();
    assert!((runs[0]["attempts"][0]["cost_usd"].as_f64().unwrap() - 2.4).abs() < 1e-9);
}

#[test]
fn status_follows_a_running_session() {
    let world = World::new(&[("1", "todo")]).agent("codex").script(
        "start; message hi; usage 50 5; tool t1 make check; touch up; wait-file go; toolend t1 0; done",
    );
    let daemon = world.daemon();
    world.wait_for_status("the tool is open", |status| {
        status["sessions"][0]["activity"]
            .as_str()
            .is_some_and(|doing| doing.contains("make check"))
    });
    let status = world.status().unwrap();
    let session = &status["sessions"][0];
    for key in [
        "session_id",
        "issue_id",
        "stage",
        "agent",
        "model",
        "attempt",
        "since",
        "last_event_at",
        "usage",
        "cost_usd",
    ] {
        assert!(session.get(key).is_some(), "{key}: {session}");
    }
    assert_eq!(session["phase"], "running");
    assert_eq!(session["attempt"], 1);
    assert_eq!(session["model"], "scripted");
    assert_eq!(world.runs()[0]["state"], "running");
    // A log can be read while it grows.
    let log = world.vik(&["logs", "--issue", "1", "--json"]).expect(0).out;
    assert_contains(&log, "\"hi\"");
    assert!(
        log.lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{log}"
    );
    let follow = world.start(&["logs", "-f", "--issue", "1"]);
    world.go();
    let followed = follow.done().expect(0).out;
    assert_contains(&followed, "make check");
    assert_contains(&followed, "■ succeeded");
    daemon.stop().expect(0);
}

#[test]
fn app_server_that_does_not_respond_fails_soon_and_uses_up_no_attempt() {
    let world = World::new(&[("1", "todo")])
        .agent("codex")
        .set("/agents/a/steer", json!(true))
        .set("/agents/a/read_timeout", json!("200ms"))
        .set("/agents/a/command", json!(["sh", "-c", "exec sleep 600"]));
    let done = world.once();
    let sessions = world.sessions("1");
    assert_eq!(sessions.len(), 3, "{}", done.err);
    for session in &sessions {
        let ended = session.expect("failed", Some("internal"));
        let reason = ended["reason"].as_str().unwrap();
        assert_eq!(
            reason,
            "the agent did not respond to `initialize` within 200ms (`read_timeout`)"
        );
    }
    let explained = world.explained("1");
    assert_eq!(explained["now"]["life"]["attempts"], 0, "{explained}");
    assert_eq!(explained["now"]["stages"][0]["hold"]["reason"], "parked");
}
