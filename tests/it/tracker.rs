//! `vik tracker`: the exit codes and streams of the protocol.

mod actions;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;

use crate::support::{TestEnv, World, assert_contains};

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

/// Answers one request with a limit, and returns the head of the request.
fn limit_once(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = String::new();
    for line in BufReader::new(&stream).lines().map(Result::unwrap) {
        if line.is_empty() {
            break;
        }
        head.push_str(&line.to_lowercase());
        head.push('\n');
    }
    let response = "HTTP/1.1 429 Limit\r\nRetry-After: 7\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    stream.write_all(response.as_bytes()).unwrap();
    head
}

#[test]
fn trackers_over_http_take_tokens_from_the_environment_and_name_the_time_to_wait() {
    let env = TestEnv::new(env!("CARGO_BIN_EXE_vik"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/below", listener.local_addr().unwrap());
    let run = |tracker: &str, variables: &[(&str, &str)]| {
        let mut command = env.command("vik");
        command.args(["tracker", tracker, "list", "--all"]);
        for name in [
            "CI_SERVER_URL",
            "CI_PROJECT_PATH",
            "GITLAB_TOKEN",
            "REDMINE_API_KEY",
        ] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied()).output().unwrap()
    };
    for (tracker, variables, path, header) in [
        (
            "redmine",
            [
                ("REDMINE_URL", &*url),
                ("REDMINE_PROJECT", "shop"),
                ("REDMINE_API_KEY", "s3cret-key"),
            ],
            "get /below/projects/shop/issues.json?",
            "x-redmine-api-key: s3cret-key\n",
        ),
        (
            "gitlab",
            [
                ("CI_SERVER_URL", &*url),
                ("CI_PROJECT_PATH", "group/shop"),
                ("GITLAB_TOKEN", "s3cret-key"),
            ],
            "get /below/api/v4/projects/group%2fshop/issues?",
            "private-token: s3cret-key\n",
        ),
    ] {
        let (output, head) = std::thread::scope(|threads| {
            let head = threads.spawn(|| limit_once(&listener));
            (run(tracker, &variables), head.join().unwrap())
        });
        assert!(head.starts_with(path) && head.contains(header), "{head}");
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(75), "{err}");
        assert!(err.lines().any(|line| line == "retry-after: 7"), "{err}");
        assert!(!err.contains("s3cret"), "{err}");
        // Without a token, nothing is sent.
        let output = run(tracker, &variables[..2]);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains(variables[2].0), "{err}");
    }
    let output = run("gitlab", &[("GITLAB_TOKEN", "s3cret-key")]);
    assert_eq!(output.status.code(), Some(2));
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
    assert_contains(&err, "there is no terminal to ask");
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
    assert_contains(&refused.err, "issues: {tracker: github}");
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
    let missing = r#"case $* in *issues*) printf 'HTTP/2.0 404 Not Found\n\r\n{}'; exit 1 ;; esac
        printf 'HTTP/2.0 200 OK\n\r\n{}'"#;
    assert_eq!(github(missing, &["show", "7"]).0, 66);
}
