//! The real `vex` program: events, exit codes, signals.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use common::{Fixture, events};

/// Runs a recording as the task `go`.
fn run(fixture: &Fixture, args: &[&str]) -> (Vec<Value>, Output) {
    let (events, output) = fixture.run(&[args, &["go"]].concat());
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index as u64 + 1);
    }
    (events, output)
}

fn end(events: &[Value], output: &Output) -> Value {
    let end = events.last().unwrap().clone();
    assert_eq!(end["exit_code"].as_i64(), output.status.code().map(i64::from));
    assert_eq!(end["ok"], output.status.success());
    end
}

fn call(tool: &str, input: Value) -> Value {
    json!({"tool": tool, "input": input})
}

fn calls(calls: &[Value]) -> Value {
    json!({"kind": "turn", "tool_calls": calls, "usage": {"input_tokens": 10, "output_tokens": 2}, "cost_usd": 0.5})
}

fn text_turn(text: &str) -> Value {
    json!({"kind": "turn", "text": text, "usage": {"input_tokens": 20, "output_tokens": 3}})
}

#[test]
fn exec_replays_a_recording_with_real_tools() {
    let fixture = Fixture::new(&[
        calls(&[call("write_file", json!({"path": "a.txt", "content": "one\n"}))]),
        calls(&[
            call("edit_file", json!({"path": "a.txt", "old": "one", "new": "two"})),
            json!({"tool": "run_command", "input": {"command": "cat a.txt; exit 3"}, "expect": {"exit_code": 3}}),
        ]),
        calls(&[call(
            "run_command",
            json!({"command": "git init -q && git config user.name n && git config user.email e@e && \
                                  git add . && git commit -qm 'Add a'"}),
        )]),
        text_turn("All done."),
    ]);
    let (events, output) = run(&fixture, &["-m", "m1"]);
    let end = end(&events, &output);
    assert_eq!(
        std::fs::read_to_string(fixture.path("work/a.txt")).unwrap(),
        "two\n"
    );
    let kinds: Vec<_> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    insta::assert_snapshot!(kinds.join(" "), @"session_start usage tool_call tool_result usage tool_call tool_result tool_call tool_result usage tool_call tool_result delta usage message end");
    assert_eq!(events[0]["model"], "m1");
    assert_eq!(events[8]["output"], "two\n");
    assert_eq!(
        (&events[8]["exit_code"], &events[8]["is_error"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(end["message"], "All done.");
    assert_eq!(end["usage"]["input_tokens"], 50);
    assert_eq!(end["usage"]["output_tokens"], 9);
    assert_eq!(end["cost_usd"], 1.5);
    assert_eq!(end["evidence"]["files_changed"], json!(["a.txt"]));
    assert_eq!(end["evidence"]["commits"][0]["subject"], "Add a");
    assert_eq!(end["evidence"]["commands"][0]["exit_code"], 3);
}

#[test]
fn deviating_result_ends_as_failed() {
    let fixture = Fixture::new(&[
        calls(&[call("run_command", json!({"command": "exit 1"}))]),
        text_turn("All tests pass."),
    ]);
    let (events, output) = run(&fixture, &[]);
    let end = end(&events, &output);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(end["reason"], "failed");
    insta::assert_snapshot!(end["message"].as_str().unwrap(), @r#"the run differs from the recording: turn 1 of "only" called run_command {"command":"exit 1"}: it failed"#);
    assert!(events.iter().all(|e| e["type"] != "message"));
    assert_eq!(events[events.len() - 2]["fatal"], true);
}

#[test]
fn prompt_chooses_the_conversation() {
    let fixture = Fixture::new(&[
        json!({"kind": "conversation", "name": "a", "when": ["stage: a", "issue: 1"]}),
        text_turn("This is what a has to say."),
        json!({"kind": "conversation", "name": "b", "when": ["stage: b"]}),
        text_turn("This is what b has to say."),
    ]);
    let ask = |prompt: &str| {
        let (events, output) = fixture.run(&[prompt]);
        let end = end(&events, &output);
        (
            output.status.code(),
            end["message"].as_str().unwrap().replace("../model.jsonl", "R"),
        )
    };
    assert_eq!(
        ask("issue: 1\nstage: a"),
        (Some(0), "This is what a has to say.".to_owned())
    );
    assert_eq!(
        ask("stage: b"),
        (Some(0), "This is what b has to say.".to_owned())
    );
    let (code, shown) = ask("stage: c");
    assert_eq!(code, Some(3));
    insta::assert_snapshot!(shown, @r#"no conversation of R matches this prompt; it has: a (when the prompt contains "stage: a" and "issue: 1"), b (when the prompt contains "stage: b")"#);
}

#[test]
fn recording_is_found_by_model_name_with_prompt_on_stdin() {
    let fixture = Fixture::new(&[text_turn("Hello, there was nothing to do.")]);
    for (args, env) in [
        (vec!["--provider", "replay", "--base-url", ".."], None),
        (vec!["--provider", "replay"], Some("..")),
    ] {
        let mut command = fixture.vex(&["exec", "-m", "model"]);
        command
            .args(args)
            .arg("-")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(dir) = env {
            command.env("VEX_REPLAY_DIR", dir);
        }
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"go").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "Hello, there was nothing to do.\n"
        );
        assert!(
            String::from_utf8(output.stderr)
                .unwrap()
                .contains("20 tokens in, 3 out")
        );
    }
}

#[test]
fn read_only_denies_writes_and_commands() {
    for tool in [
        call("write_file", json!({"path": "a", "content": ""})),
        call("edit_file", json!({"path": "a", "old": "a", "new": "b"})),
        call("run_command", json!({"command": "touch a"})),
    ] {
        let fixture = Fixture::new(&[calls(&[tool]), text_turn("I did it.")]);
        let (events, output) = run(&fixture, &["--permission", "read-only"]);
        let end = end(&events, &output);
        assert_eq!(
            (output.status.code(), end["reason"].as_str()),
            (Some(7), Some("denied"))
        );
        assert!(end["message"].as_str().unwrap().contains("read-only"), "{end}");
        assert!(!fixture.path("work/a").exists());
    }
}

#[test]
fn check_decides_whether_a_refused_last_call_matters() {
    // The recording continues after the refusal.
    let outside = || json!({"tool": "write_file", "input": {"path": "../out", "content": "x"}, "expect": {"is_error": true}});
    let inside = call("write_file", json!({"path": "a", "content": "x"}));
    let alone = [
        calls(std::slice::from_ref(&inside)),
        calls(&[outside()]),
        text_turn("Both are written."),
    ];
    // One refused call among those of the last answer.
    let together = [calls(&[inside, outside()]), text_turn("Both are written.")];
    let code = |recording: &[Value], args: &[&str]| {
        let fixture = Fixture::new(recording);
        let (events, output) = run(&fixture, args);
        let end = end(&events, &output);
        assert!(fixture.path("work/a").exists());
        assert!(!fixture.path("out").exists());
        let reason = end["reason"].as_str().unwrap().to_owned();
        (output.status.code().unwrap(), reason)
    };
    for recording in [&alone[..], &together[..]] {
        assert_eq!(code(recording, &[]), (7, "denied".to_owned()));
        assert_eq!(
            code(recording, &["--verify", "test -e a"]),
            (0, "done".to_owned())
        );
        let fails = ["--verify", "test -e ../out", "--config", "verify_attempts=1"];
        assert_eq!(code(recording, &fails), (1, "failed".to_owned()));
    }
}

#[test]
fn paths_outside_are_denied_unless_everything_is_allowed() {
    let recording = [
        calls(&[call("write_file", json!({"path": "../out", "content": "x"}))]),
        text_turn("I did it."),
    ];
    let fixture = Fixture::new(&recording);
    assert_eq!(run(&fixture, &[]).1.status.code(), Some(7));
    assert!(!fixture.path("out").exists());
    assert_eq!(run(&fixture, &["--permission", "full"]).1.status.code(), Some(0));
    assert!(fixture.path("out").exists());
}

#[test]
fn end_reasons_have_their_exit_codes() {
    let code = |lines: &[Value], args: &[&str]| {
        let (events, output) = run(&Fixture::new(lines), args);
        let end = end(&events, &output);
        assert!(end["message"].is_string(), "{end}");
        let class = &events[events.len() - 2]["class"];
        (
            output.status.code().unwrap(),
            end["reason"].as_str().unwrap().to_owned(),
            class.clone(),
        )
    };
    let looping = calls(&[call("list_dir", json!({}))]);
    let error = |class: &str| json!({"kind": "error", "message": "no", "class": class});
    let shown = [
        code(std::slice::from_ref(&looping), &[]),
        code(
            &[looping.clone(), looping.clone(), looping],
            &["--max-turns", "2"],
        ),
        code(&[json!({"kind": "turn", "text": " "})], &[]),
        code(&[error("auth")], &[]),
        code(&[error("rate_limit")], &[]),
        code(&[text_turn("x")], &["--provider", "anthropic"]),
        code(&[text_turn("x")], &["-C", "nowhere"]),
        code(&[json!({"kind": "trun"})], &[]),
        code(&[calls(&[call("no_such", json!({}))])], &[]),
        code(&[calls(&[call("list_dir", json!({"depth": 3}))])], &[]),
    ]
    .map(|(code, reason, class)| format!("{code} {reason} {class}"));
    insta::assert_snapshot!(shown.join("\n"), @r#"
    1 failed null
    5 limit null
    6 no_progress null
    4 refused "auth"
    1 failed "rate_limit"
    3 config "usage"
    3 config "usage"
    3 config "usage"
    1 failed null
    1 failed null
    "#);
}

#[test]
fn usage_mistakes_are_explained() {
    let fixture = Fixture::new(&[]);
    let shown = |args: &[&str]| {
        let output = fixture.vex(&["exec"]).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(shown(&["--jsno"]).contains("--json"));
    assert!(shown(&["--permission", "yolo", "x"]).contains("workspace-write"));
    assert!(shown(&["--replay", "../model.jsonl"]).contains("no prompt"));
    assert!(shown(&["--replay", "../model.jsonl", ""]).contains("the prompt is empty"));
    assert!(shown(&["--max-turns", "0", "x"]).contains("--max-turns"));
}

/// Reads events until one of this type.
fn wait_for(child: &mut BufReader<std::process::ChildStdout>, kind: &str) {
    let mut line = String::new();
    while child.read_line(&mut line).unwrap() > 0 {
        if serde_json::from_str::<Value>(&line).unwrap()["type"] == kind {
            return;
        }
        line.clear();
    }
    panic!("no event {kind}");
}

fn start(fixture: &Fixture, prompt: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = fixture
        .replay(&[prompt])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

fn await_file(path: &Path) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match std::fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => assert!(Instant::now() < deadline, "{} never came", path.display()),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn signals_end_the_command_and_the_run() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let command = "trap '' INT TERM; sleep 1000 & echo $! > pid; sleep 1000";
        let fixture = Fixture::new(&[calls(&[call("run_command", json!({"command": command}))])]);
        let (mut child, mut out) = start(&fixture, "go");
        let pid = await_file(&fixture.path("work/pid"));
        let sent = Instant::now();
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let mut tail = Vec::new();
        out.read_to_end(&mut tail).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(sent.elapsed() < Duration::from_secs(2), "{:?}", sent.elapsed());
        let events = events(&tail);
        let end = events.last().unwrap();
        assert_eq!(
            (end["reason"].as_str(), end["ok"].as_bool()),
            (Some("interrupted"), Some(false))
        );
        assert!(
            events.iter().any(|e| e["type"] == "tool_result"),
            "a call keeps its result"
        );
        assert!(!vik_testkit::alive(pid.trim().parse().unwrap()));
    }
}

#[test]
fn signal_ends_a_run_while_the_model_answers() {
    let fixture = Fixture::new(&[json!({"kind": "turn", "text": "late", "delay_ms": 600_000})]);
    let (mut child, mut out) = start(&fixture, "go");
    wait_for(&mut out, "session_start");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    wait_for(&mut out, "end");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn open_stdin_does_not_hang_the_run() {
    let fixture = Fixture::new(&[text_turn("Hello, there was nothing to do.")]);
    let (mut child, mut out) = start(&fixture, "go");
    wait_for(&mut out, "end");
    assert_eq!(child.wait().unwrap().code(), Some(0));

    // It also obeys a signal while it waits for the prompt.
    let (mut child, mut out) = start(&fixture, "-");
    wait_for(&mut out, "session_start");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    wait_for(&mut out, "end");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn closed_stdout_ends_the_run() {
    let fixture = Fixture::new(&[
        calls(&[call(
            "run_command",
            json!({"command": "while ! test -e go; do sleep 0.01; done"}),
        )]),
        calls(&[call("write_file", json!({"path": "more", "content": ""}))]),
        text_turn("done"),
    ]);
    let (mut child, mut out) = start(&fixture, "go");
    wait_for(&mut out, "tool_call");
    drop(out);
    std::fs::write(fixture.path("work/go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!fixture.path("work/more").exists());
}

#[test]
fn help_shows_usage_and_options() {
    let fixture = Fixture::new(&[]);
    let output = fixture
        .vex(&["exec", "--help"])
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap());
}
