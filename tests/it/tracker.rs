//! `vik tracker`: the exit codes and streams of the protocol.

mod actions;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;

use crate::support::{TestEnv, World};

/// Runs `vik tracker files` with standard input. Returns exit code, stdout and stderr.
fn files(env: &TestEnv, args: &[&str], input: &str) -> (i32, String, String) {
    let mut child = env
        .command("vik")
        .args(["tracker", "files"])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn files_answer_on_stdout_with_the_exit_codes_of_the_protocol() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_vik"));
    std::fs::create_dir(env.work().join("issues")).unwrap();
    let create = |input: &str| files(&env, &["create", "--key", "k"], input);
    let (code, out, _) = create(r#"{"title": "First", "body": "-"}"#);
    assert_eq!((code, &*out), (0, "{\"id\":\"1\",\"created\":true}\n"));
    let (code, out, _) = create(r#"{"title": "First", "body": "-"}"#);
    assert_eq!((code, &*out), (0, "{\"id\":\"1\",\"created\":false}\n"));
    let (code, out, err) = files(&env, &["show", "2"], "");
    assert_eq!((code, &*out), (66, ""), "{err}");
    assert!(err.starts_with("error: no issue \"2\" in"), "{err}");
    let (code, out, _) = create("{}");
    assert_eq!((code, &*out), (2, ""));
    assert_eq!(files(&env, &["show", "--", "-1"], "").0, 2);
    assert_eq!(files(&env, &["pull_request", "status", "vik/1"], "").0, 2);
    std::fs::remove_dir_all(env.work().join("issues")).unwrap();
    assert_eq!(files(&env, &["list"], "").0, 1);
}

#[test]
fn test_refuses_to_change_an_issue_without_a_permission() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_vik"));
    std::fs::create_dir(env.work().join("issues")).unwrap();
    let test = |args: &[&str]| {
        let mut command = env.command("vik");
        command.args(["tracker", "test"]).args(args);
        let output = command
            .args(["vik", "tracker", "files"])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, _, err) = test(&["--create"]);
    assert_eq!(code, 2);
    assert!(err.contains("there is no terminal to ask"), "{err}");
    assert!(crate::support::list(&env.work().join("issues")).is_empty());
    assert_eq!(test(&["--yes"]).0, 2);
    assert_eq!(test(&["--issue", "-1", "--yes"]).0, 2);

    let (code, out, err) = test(&["--create", "--yes"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(
        out.ends_with("\n`files` with issue 1: 12 passed, 1 skipped\n"),
        "{out}"
    );
    let (code, out, _) = test(&["--issue", "9", "--yes", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["passed"]), (1, &serde_json::json!(false)));
}

#[test]
fn workflow_names_a_tracker_instead_of_commands() {
    let hostile = "it's $(touch owned)";
    let world = World::new(&[("1", "todo"), (hostile, "todo")]);
    let file = world.tracker.path().display().to_string();
    let tracker = json!({"tracker": {"command": ["vik-fake-tracker", file]}, "pull": {"idle_sec": "100ms"}});
    let world = world.set("/issues", tracker);
    world.once().expect(0);
    for id in ["1", hostile] {
        assert_eq!(world.tracker.state(id).as_deref(), Some("done"), "{id}");
    }
    assert!(!world.env.work().join("owned").exists());
    let none = world.set("/issues", json!({"pull": {"idle_sec": 1}}));
    let refused = none.once().expect(3);
    assert!(
        refused.err.contains("issues: {tracker: github}"),
        "{}",
        refused.err
    );
}

#[test]
fn github_waits_as_long_as_it_is_asked_to() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_vik"));
    let github = |script: &str, args: &[&str]| {
        let gh = env.write("gh", format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(&gh, std::fs::Permissions::from_mode(0o755)).unwrap();
        env.link("gh", &gh);
        let mut command = env.command("vik");
        let output = command
            .args(["tracker", "github", "--repo", "o/r"])
            .args(args)
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().unwrap(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, out, err) = github(
        r"printf 'HTTP/2.0 429 Too Many Requests\nRetry-After: 17\r\n\r\n{}'; exit 1",
        &["list"],
    );
    assert_eq!((code, &*out), (75, ""));
    assert!(err.lines().any(|line| line == "retry-after: 17"), "{err}");
    let (code, out, _) = github(
        r#"printf 'HTTP/2.0 200 OK\n\r\n{"number": 7, "state": "open"}'"#,
        &["show", "7"],
    );
    let issue: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &issue["id"], &issue["state"]),
        (0, &json!("7"), &json!("none"))
    );
    let (code, _, _) = github(r"printf 'HTTP/2.0 404 Not Found\n\r\n{}'; exit 1", &["show", "7"]);
    assert_eq!(code, 66);
}
