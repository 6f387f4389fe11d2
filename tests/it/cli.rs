//! What people and scripts read: help, listings, errors, exit codes, JSON.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use serde_json::{Value, json};

use crate::support::*;

/// Replaces what differs from run to run in a text.
fn settled(world: &World, text: &str) -> String {
    let mut text = text.to_owned();
    let key = world
        .env
        .work()
        .join("workflow.yml")
        .canonicalize()
        .unwrap()
        .display()
        .to_string()
        .replace('/', "-");
    text = text.replace(&key, "KEY");
    for root in [
        world.env.root().canonicalize().unwrap(),
        world.env.root().to_owned(),
    ] {
        text = text.replace(root.to_str().unwrap(), "ROOT");
    }
    text
}

macro_rules! assert_settled {
    ($world:expr, $text:expr, $name:literal) => {{
        let text = settled($world, $text);
        insta::with_settings!({filters => vec![
            (r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
            (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
            (r"\d{4}-\d\d-\d\d \d\d:\d\d\b", "MINUTE"),
            (r"\b\d\d:\d\d:\d\d\b", "CLOCK"),
            (r"pid \d+", "pid PID"),
            // In its first second a daemon does not print its uptime.
            (r"running( for \d+m?s)? \(pid", "running (pid"),
            // In its first second a hold has no duration.
            (r" \(for \d+m?s\)", ""),
            (r"\d{4}-\d\d-\d\d", "DATE"),
            (r"proof of process exit: \w+", "proof of process exit: PROOF"),
            (r"\b\d+(\.\d+)?(ms|s)\b( +)?", "DUR "),
            // The widths of columns depend on what was replaced.
            (r"(DURATION|TIME|SINCE|IDLE|IN) +", "$1  "),
            (r" +\n", "\n"),
        ]}, { insta::assert_snapshot!($name, text) });
    }};
}

#[test]
fn verbs_all_have_help_text() {
    let world = World::new(&[]);
    let mut text = String::new();
    let verbs = [
        "",
        "init",
        "doctor",
        "run",
        "status",
        "stop",
        "restart",
        "uninstall",
        "runs",
        "show",
        "diff",
        "logs",
        "report",
        "top",
        "sign-ins",
        "sign-ins revoke",
        "explain",
        "trace",
        "trace log",
        "trace blame",
        "trace verify",
        "trace export",
        "trace map",
        "schedule",
        "refresh",
        "pause",
        "resume",
        "cancel",
        "retry",
        "approve",
        "deny",
        "answer",
        "message",
        "takeover",
        "handback",
        "drain",
        "prune",
        "notify",
        "notify test",
        "issue",
        "issue new",
        "issue list",
        "issue show",
        "issue move",
        "issue comment",
        "issue close",
        "tracker",
        "tracker files",
        "tracker github",
        "tracker gitlab",
        "tracker redmine",
        "tracker test",
        "git",
        "git push",
        "git fetch",
        "git reset",
        "git clean",
        "git record",
        "schema",
        "completions",
        "man",
    ];
    for verb in verbs {
        let args: Vec<_> = verb.split_whitespace().chain(["--help"]).collect();
        let done = world.vik(&args).expect(0);
        assert_eq!(done.err, "");
        text.push_str(&format!("$ vik {}\n{}\n", args.join(" "), done.out));
    }
    assert_settled!(&world, &text, "help");
    // Every verb that the help lists exists.
    let help = world.vik(&["--help"]).expect(0).out;
    let listed: Vec<_> = help
        .lines()
        .skip_while(|line| !line.starts_with("Start:"))
        .take_while(|line| !line.starts_with("Options:"))
        .filter(|line| line.starts_with("  "))
        .filter(|line| line.as_bytes().get(2).is_some_and(|byte| *byte != b' '))
        .map(|line| line.split_whitespace().next().unwrap())
        .collect();
    for verb in listed.iter().filter(|verb| !["vex", "help"].contains(verb)) {
        assert!(verbs.contains(verb), "{verb} has no snapshot of its help");
    }
    assert!(!text.contains("--daemon-child") && !text.contains("__shim"));
}

#[test]
fn version_is_printed_by_its_option() {
    let world = World::new(&[]);
    assert_eq!(
        world.vik(&["--version"]).expect(0).out,
        format!("vik {}\n", env!("CARGO_PKG_VERSION"))
    );
    let done = world.vik(&[]).expect(2);
    assert!(done.err.contains("Usage") && done.out.is_empty());
}

// --- errors

#[test]
fn errors_name_the_remedy() {
    let world = World::new(&[]);
    let mut text = String::new();
    for (args, code) in [
        (&["frobnicate"][..], 2),
        (&["statsu"], 2),
        (&["run", "--frobnicate"], 2),
        (&["run", "-d", "--once"], 2),
        (&["logs", "--raw", "--json"], 2),
        (&["status"], 4),
        (&["stop"], 4),
        (&["stop", "--keep-sessions"], 4),
        (&["refresh"], 4),
        (&["resume", "1"], 8),
        (&["continue", "1"], 8),
        (&["cancel", "1"], 8),
        (&["cancel"], 2),
        (&["retry", "1"], 8),
        (&["unpark", "1"], 8),
        (&["retry", "1", "--attempts", "0"], 2),
        (&["drain"], 4),
        (&["drain", "--timeout", "1"], 2),
        (&["run", "--once", "missing.yml"], 3),
        (&["show", "1"], 8),
        (&["explain", "1"], 8),
        (&["show", "--issue", "1"], 8),
        (&["show", "1", "--issue", "1"], 2),
        (&["retry", "--issue", "1"], 8),
        (&["pause", "--issue", "1"], 8),
        (&["approve", "--issue", "1"], 8),
        (&["logs", "1"], 8),
        (&["trace", "log", "1"], 8),
        (&["runs", "99"], 8),
        (&["runs", "--issue", "99"], 8),
        (&["doctor", "--orphans", "--repair"], 2),
        (&["logs", "--session", "0"], 8),
        (&["run", "--once", "--stage", "plan"], 2),
    ] {
        let done = world.vik(args).expect(code);
        if args.contains(&"--json") {
            assert_eq!(done.json()["error"]["code"], "usage", "{args:?}");
        } else {
            assert_eq!(done.out, "", "{args:?}: errors go to stderr");
        }
        text.push_str(&format!("$ vik {}\n{}\n", args.join(" "), done.err));
    }
    assert_settled!(&world, &text, "errors");
}

#[test]
fn workflow_of_symphony_is_recognized() {
    let world = World::new(&[]);
    let file = world.env.work().join("WORKFLOW.md");
    std::fs::write(file, "---\ntracker: {kind: linear}\n---\nDo {{ issue.title }}.\n").unwrap();
    let refused = world.vik(&["run", "--once", "WORKFLOW.md"]).expect(3);
    assert_contains(&refused.err, "coming-from-symphony.md");
}

#[test]
fn broken_workflow_is_reported_with_all_its_faults() {
    let world = World::new(&[]);
    world.env.workflow(
        "agents:\n  a: {runtime: codx, model: m}\nissues:\n  pull: {command: 'true', idel_sec: 5}\nissue:\n  stages:\n    work:\n      \
         when: {state: todo}\n      agent: b\n      prompt: x\n      timeout: soon\n",
    );
    let done = world.once().expect(3);
    for fault in [
        "codx",
        "idel_sec",
        "soon",
        "workflow.yml:2:",
        "workflow.yml:4:",
        "workflow.yml:11:",
    ] {
        assert_contains(&done.err, fault);
    }
    assert_settled!(&world, &done.err, "broken_workflow");
    world.vik(&["doctor", "--offline"]).expect(3);
    let report = world.vik(&["doctor", "--offline", "--json"]).expect(3).json();
    assert!(report.is_object());
}

#[test]
fn errors_are_json_when_json_is_requested() {
    let world = World::new(&[]);
    let status = world.vik(&["status", "--json"]).expect(4).json();
    assert_eq!(status["schema"], 1);
    assert_eq!(status["state"], "not_running");
    assert_eq!(status["pid"], Value::Null);
    let error = world.vik(&["show", "1", "--json"]).expect(8).json();
    assert_eq!(error["schema"], 1);
    assert_eq!(error["error"]["code"], "unknown_issue");
    assert!(error["error"]["message"].is_string() && error["error"]["hint"].is_string());
    let error = world.vik(&["logs", "--session", "x", "--json"]).expect(8).json();
    assert_eq!(error["error"]["code"], "no_session");
    let error = world
        .vik(&["issue", "show", "9", "--dir", ".", "--json"])
        .expect(8)
        .json();
    assert!(error["error"]["message"].is_string(), "{error}");
    std::fs::remove_file(world.env.work().join("workflow.yml")).unwrap();
    let error = world.vik(&["runs", "--json"]).expect(3).json();
    assert_eq!(error["error"]["code"], "workflow_unreadable");
    assert_eq!(
        world.vik(&["status", "--all", "--json"]).expect(0).json(),
        json!([])
    );
}

// --- listings

/// Returns a daemon with one running session, one parked issue, one that waits for its back-off,
/// and one that waits for a slot.
fn busy() -> World {
    let world = World::new(&[("run", "todo"), ("park", "todo"), ("wait", "todo"), ("slot", "review")])
        .stage("review", "review", "SCRIPT: ok")
        .set("/loop", json!({"max_issue_concurrency": 1}))
        .agent("codex")
        .work("retry", json!({"max_attempts": 1}))
        .work("prompt", json!("SCRIPT: {{ {'park': 'stderr no such file; exit 3', 'wait': 'exit 4', 'run': 'start; usage 1200 34; message hi; tool t1 make check; touch up; hang'}[issue.id] }}"));
    world
        .tracker
        .set("park", "title", json!("Fix \u{1b}[31mthe\u{202e} total"));
    world
}

#[test]
fn listings_show_the_work_of_a_running_daemon() {
    let world = busy();
    world.tracker.set("run", "priority", json!(3));
    world.tracker.set("slot", "priority", json!(4));
    world.tracker.set("park", "priority", json!(1));
    world.tracker.set("wait", "priority", json!(2));
    let daemon = world.daemon();
    eventually("the last one runs", || {
        world.sessions("run").len() == 1 && world.workspace("run").join("up").exists()
    });
    world.wait_for_status("its tool is seen", |status| {
        status["sessions"][0]["activity"]
            .as_str()
            .is_some_and(|a| a.contains("make"))
    });
    world.wait_for_status("two are parked", |status| {
        status["parked"].as_array().unwrap().len() == 2
    });
    let status = world.vik(&["status"]).expect(0).out;
    assert!(!status.contains('\x1b'));
    let status: String = status
        .lines()
        .filter(|line| !line.starts_with("last pull"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_settled!(&world, &status, "status");
    assert_settled!(&world, &world.vik(&["runs"]).expect(0).out, "runs");
    let latest = world.vik(&["runs", "--limit", "1"]).expect(0).out;
    assert!(latest.contains("run ") && !latest.contains("park"), "{latest}");
    assert_contains(&latest, "earlier runs are not shown; `--limit 0` shows all");
    let all = world.vik(&["runs", "--limit", "0"]).expect(0).out;
    assert_eq!(all, world.vik(&["runs", "--limit", "3"]).expect(0).out);
    let latest = world.vik(&["runs", "--json", "--limit", "2"]).expect(0).json();
    let ids: Vec<_> = latest
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["issue_id"])
        .collect();
    assert_eq!(ids, ["wait", "run"]);
    let issues = |args: &[&str]| -> Vec<String> {
        let runs = world.vik(&[&["runs", "--json"], args].concat()).expect(0).json();
        let ids = runs.as_array().unwrap().iter().map(|run| &run["issue_id"]);
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        issues(&["--outcome", "succeeded,failed", "--since", "1h"]),
        ["park", "wait"]
    );
    assert_eq!(issues(&["--until", "yesterday"]), Vec::<String>::new());
    assert_eq!(issues(&["--search", "PAR", "--stage", "work"]), ["park"]);
    let none = world.vik(&["runs", "--agent", "nobody"]).expect(0).out;
    assert_eq!(none, "no runs match\n");
    let wrong = world.vik(&["runs", "--outcome", "fine"]).expect(2).err;
    assert_contains(&wrong, "timed_out");
    assert_settled!(&world, &world.vik(&["show", "park"]).expect(0).out, "show");
    assert_settled!(
        &world,
        &world.vik(&["logs", "--issue", "run"]).expect(0).out,
        "logs"
    );
    let runs = world.runs();
    let states: Vec<_> = runs
        .iter()
        .map(|run| (run["issue_id"].as_str().unwrap(), run["state"].as_str().unwrap()))
        .collect();
    assert_eq!(
        states,
        [("park", "parked"), ("wait", "parked"), ("run", "running")]
    );
    for key in ["run_id", "issue_id", "stage", "state", "outcome", "attempts"] {
        assert!(runs[0].get(key).is_some(), "{key}");
    }
    for key in [
        "attempt",
        "session_id",
        "outcome",
        "failure_class",
        "exit_code",
        "started_at",
        "ended_at",
        "usage",
        "cost_usd",
        "log",
    ] {
        assert!(runs[0]["attempts"][0].get(key).is_some(), "{key}");
    }
    let only = world.vik(&["runs", "--json", "--issue", "park"]).expect(0).json();
    assert_eq!(only.as_array().unwrap().len(), 1);
    let status = world.status().unwrap();
    for key in [
        "schema",
        "state",
        "pid",
        "started_at",
        "workflow_path",
        "home",
        "last_pull",
        "sessions",
        "parked",
        "waiting",
    ] {
        assert!(status.get(key).is_some(), "{key}");
    }
    for key in ["at", "ok", "issues", "skipped"] {
        assert!(status["last_pull"].get(key).is_some(), "{key}");
    }
    for key in ["issue_id", "stage", "since", "reason", "detail", "freed_by"] {
        assert!(status["parked"][0].get(key).is_some(), "{key}");
    }
    let session = runs[2]["attempts"][0]["session_id"].as_str().unwrap();
    let by_session = world.vik(&["logs", "--session", &session[..20], "--json"]);
    assert_contains(&by_session.out, "make check");
    assert!(by_session.code == 0, "{by_session:?}");
    daemon.stop().expect(0);
    // The same listing without a daemon.
    let runs = world.runs();
    let states: Vec<_> = runs.iter().map(|run| run["state"].as_str().unwrap()).collect();
    // What waits without a daemon keeps its state; the next daemon retries what was stopped.
    assert_eq!(states, ["parked", "parked", "waiting"], "{runs:?}");
    assert_settled!(&world, &world.vik(&["runs"]).expect(0).out, "runs_afterwards");
}

#[test]
fn listings_are_all_valid_json() {
    let world = World::new(&[("1", "todo")]);
    world.once().expect(0);
    for args in [
        &["runs", "--json"][..],
        &["show", "1", "--json"],
        &["report", "--json"],
        &["prune", "--json"],
        &["doctor", "--json"],
        &["status", "--all", "--json"],
    ] {
        let done = world.vik(args);
        assert!(done.code == 0, "{args:?}: {done:?}");
        done.json();
    }
    let log = world.vik(&["logs", "--json"]).expect(0).out;
    assert!(
        log.lines().count() == 1
            && log
                .lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{log}"
    );
    let schema = world.vik(&["schema"]).expect(0).json();
    assert!(schema["properties"]["agents"].is_object());
    world.vik(&["issue", "new", "Title"]).expect(0);
    assert_eq!(
        world.vik(&["issue", "list", "--json"]).expect(0).json()[0]["title"],
        "Title"
    );
    for shell in ["bash", "zsh", "fish"] {
        assert!(world.vik(&["completions", shell]).expect(0).out.contains("vik"));
    }
    assert!(world.vik(&["man"]).expect(0).out.contains(".TH vik"));
}

#[test]
fn run_once_prints_progress_and_a_summary() {
    let world = World::new(&[("1", "todo"), ("2", "todo")])
        .agent("claude_code")
        .work("retry/max_attempts", json!(1))
        .set("/loop", json!({"max_issue_concurrency": 1}))
        .work("prompt", json!("SCRIPT: start; usage 1500 20; cost 0.5; {{ 'done' if issue.id == '1' else 'failed 500 it broke; exit 1' }}"));
    let done = world.once().expect(1);
    assert_settled!(&world, &done.out, "summary");
    assert_settled!(&world, &done.err, "progress");
}

#[test]
fn run_is_listed_after_its_files_were_removed() {
    let world = World::new(&[("1", "todo")]);
    world.once().expect(0);
    std::fs::remove_dir_all(world.home().join("sessions")).unwrap();
    let runs = world.runs();
    assert_eq!(runs.len(), 1);
    let attempt = &runs[0]["attempts"][0];
    assert_eq!(runs[0]["outcome"], "succeeded");
    assert_eq!(runs[0]["issue_title"], "Issue 1");
    assert_eq!(attempt["files_removed"], true);
}

#[test]
fn times_are_local_with_their_offset_and_json_has_utc() {
    let world = World::new(&[("1", "todo")]);
    world.once().expect(0);
    let zoned = |args: &[&str]| {
        let mut command = world.env.vik(args);
        let out = command.env("TZ", "Asia/Kolkata").output().unwrap();
        assert!(out.status.success(), "{args:?}: {out:?}");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(out.stdout), text(out.stderr))
    };
    for args in [
        &["show", "1"][..],
        &["explain", "1"],
        &["runs"],
        &["logs", "1"],
        &["logs", "1", "--timestamps"],
        &["report"],
    ] {
        let text = zoned(args).0;
        assert!(
            text.contains("+05:30") && !text.contains("00Z"),
            "{args:?}: {text}"
        );
    }
    assert!(zoned(&["run", "--once"]).1.contains("(+05:30)\n"));
    for args in [&["runs", "--json"][..], &["explain", "1", "--json"]] {
        assert!(!zoned(args).0.contains("+05:30"), "{args:?}");
    }
    let runs = zoned(&["runs"]).0;
    assert!(
        runs.starts_with("ISSUE  STAGE  STATE  OUTCOME    STARTED (+05:30)  ATTEMPTS"),
        "{runs}"
    );
}

// --- colour

/// Returns what `vik` writes to a terminal.
fn on_a_terminal(world: &World, args: &[&str], env: &[(&str, &str)]) -> String {
    let pty = nix::pty::openpty(None, None).unwrap();
    let (out, err): (OwnedFd, OwnedFd) = (pty.slave.try_clone().unwrap(), pty.slave);
    let mut command = world.env.vik(args);
    command.env("TERM", "xterm-256color").envs(env.iter().copied());
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .unwrap();
    // The command holds copies of the terminal: reading ends only after they are closed.
    drop(command);
    let mut text = Vec::new();
    // Reading at the end of a terminal returns an error.
    let _ = File::from(pty.master).read_to_end(&mut text);
    child.wait().unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn colour_is_used_only_on_terminals_that_allow_it() {
    let world = World::new(&[]);
    assert!(on_a_terminal(&world, &["status"], &[]).contains('\x1b'));
    for env in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let text = on_a_terminal(&world, &["status"], &[env]);
        assert!(
            !text.contains('\x1b') && text.contains("no daemon"),
            "{env:?}: {text:?}"
        );
    }
    // An empty NO_COLOR has no effect.
    assert!(on_a_terminal(&world, &["status"], &[("NO_COLOR", "")]).contains('\x1b'));
    assert!(!world.vik(&["status"]).err.contains('\x1b'));
    let help = on_a_terminal(&world, &["--help"], &[("NO_COLOR", "1")]);
    assert!(!help.contains('\x1b'), "{help:?}");
    let world = World::new(&[("1", "todo")]);
    let text = on_a_terminal(&world, &["run", "--once"], &[("NO_COLOR", "1")]);
    assert!(!text.contains("\x1b[3") && text.contains("succeeded"), "{text:?}");
}

#[test]
fn tables_fit_the_terminal() {
    let world = World::new(&[("1", "todo")]);
    let title = "A title that is much longer than the terminal is wide";
    world.tracker.set("1", "title", json!(title));
    world.once().expect(0);
    for args in [&["runs"][..], &["prune", "--older-than", "0s"]] {
        let text = on_a_terminal(&world, args, &[("COLUMNS", "70")]);
        assert!(text.contains('…'), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 70), "{text}");
        // A pipe has no width.
        assert!(!world.vik(args).out.contains("…/"), "{args:?}");
    }
    assert!(world.vik(&["runs"]).expect(0).out.contains(&title[..40]));
}
