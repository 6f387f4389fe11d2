//! Tests with the real program: what doctor runs, and that it leaves nothing behind.

use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use vik_testkit::{TestEnv, bins, wait_for, wait_for_value};

const LONG: Duration = Duration::from_secs(60);

fn test_env() -> TestEnv {
    let env = TestEnv::new(bins::built("vik", "vik"));
    env.unlink("claude");
    let codex = env.write(
        "bin/codex-program",
        "#!/bin/sh\n[ \"$1\" = --version ] && echo codex-cli 1.2.3\n",
    );
    std::fs::set_permissions(&codex, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    env.link("codex", &codex);
    env
}

fn workflow(pull: &str, hook: &str) -> String {
    format!(
        r#"agents: {{ a: {{ runtime: codex, model: m }} }}
issues:
  pull: {{ command: "{pull}", timeout: 1s }}
issue:
  hooks:
    after_create: |
      {hook}
  stages:
    work:
      when: {{ state: todo }}
      agent: a
      prompt: "Work on {{{{ issue.title }}}}, which {{{{ issue.author }}}} wrote."
"#
    )
}

const ISSUES: &str = r#"echo '[{\"id\":1,\"state\":\"todo\",\"title\":\"T\",\"author\":\"A\"},{\"id\":2}]'"#;

fn doctor(env: &TestEnv, args: &[&str]) -> Output {
    env.vik(["doctor"].iter().chain(args))
        .env("CODEX_API_KEY", "sk-secret")
        .output()
        .unwrap()
}

/// Returns the exit code, and the codes of the checks with findings.
fn result(env: &TestEnv, args: &[&str]) -> (i32, Vec<String>) {
    let output = doctor(env, &[args, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("sk-secret"), "a secret was shown: {text}");
    let json: Value = serde_json::from_str(&text).unwrap();
    let checks = json["checks"].as_array().unwrap().iter();
    let codes = checks
        .filter_map(|check| check["code"].as_str().map(str::to_owned))
        .collect();
    (output.status.code().unwrap(), codes)
}

fn is_empty(env: &TestEnv, folder: &str) -> bool {
    std::fs::read_dir(env.path(folder)).unwrap().next().is_none()
}

#[test]
fn valid_workflow_is_tried_and_leaves_no_files() {
    let env = test_env();
    env.workflow(&workflow(ISSUES, "git clone -- {{ workflow_dir }} ."));
    let output = doctor(&env, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let system = text.split("\nSystem\n").next().unwrap().to_owned();
    let root = std::fs::canonicalize(env.root()).unwrap();
    let filters = vec![
        (root.to_str().unwrap(), "[root]"),
        ("[0-9a-f]{16}", "[hash]"),
        ("in [0-9.]+s", "in [time]"),
    ];
    insta::with_settings!({ filters => filters }, { insta::assert_snapshot!("tried_text", system) });
    assert!(is_empty(&env, "state") && is_empty(&env, "tmp"));
    assert!(!env.path("work/.vik").exists() && !env.path("home/.codex").exists());
    let warnings = ["items_skipped", "closing_ignored"].map(str::to_owned);
    assert_eq!(result(&env, &["--strict"]), (1, warnings.into()));
}

#[test]
fn exit_code_and_error_codes_name_the_failure() {
    let env = test_env();
    let only = |code: &str| vec![code.to_owned()];
    env.workflow(&workflow("exit 3", "true"));
    // The sample issue that replaces the missing issue has no author.
    assert_eq!(
        result(&env, &[]),
        (8, vec!["pull_failed".to_owned(), "template_undefined".to_owned()])
    );
    assert_eq!(result(&env, &["--offline"]), (0, only("template_undefined")));
    let start = Instant::now();
    env.workflow(&workflow("sleep 1000", "true"));
    assert_eq!(result(&env, &[]).1[0], "pull_timed_out");
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "a pull is bounded by its timeout"
    );
    env.workflow(&workflow("echo no list", "true"));
    assert_eq!(result(&env, &[]).1[0], "pull_garbage");
    env.workflow(&workflow(ISSUES, "if true; then"));
    assert_eq!(
        result(&env, &[]),
        (
            1,
            ["items_skipped", "closing_ignored", "shell_syntax"]
                .map(str::to_owned)
                .into()
        )
    );
    env.unlink("codex");
    env.workflow(&workflow(ISSUES, "true").replace("codex", "claude_code"));
    assert_eq!(result(&env, &[]).0, 1);
    env.workflow("agents: 3\n");
    assert_eq!(result(&env, &[]), (3, only("workflow_invalid")));
}

#[test]
fn agent_that_cannot_ask_before_calls_is_reported() {
    let env = test_env();
    let asking = workflow("true", "true").replace(
        "prompt:",
        "approve: { calls: [{ tool: [shell] }] }\n      prompt:",
    );
    env.workflow(&asking);
    assert_eq!(
        result(&env, &["--offline"]),
        (0, vec!["template_undefined".to_owned()])
    );
    env.workflow(&asking.replace("model: m", "model: m, args: { profile: x }"));
    let (exit, codes) = result(&env, &["--offline"]);
    assert_eq!((exit, codes[0].as_str()), (1, "agent_profile"));
}

#[test]
fn interrupt_ends_the_running_pull() {
    let env = test_env();
    env.workflow(&workflow("touch pulling; sleep 1000", "true").replace("1s", "1h"));
    let mut child = env
        .vik(["doctor"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(wait_for(LONG, || env.path("work/pulling").exists()));
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let status = wait_for_value(LONG, || child.try_wait().unwrap()).expect("it ends");
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    assert!(is_empty(&env, "tmp"));
}

#[test]
fn lookup_and_descriptions_are_compared_with_the_pull() {
    let env = test_env();
    let issue = |description: &str| {
        format!(r#"{{\"id\":1,\"state\":\"todo\",\"author\":\"A\",\"description\":\"{description}\"}}"#)
    };
    let other = |description: &str| issue(description).replace(":1,", ":2,");
    let codes = |pulled: [String; 2], shown: &str| {
        let text = workflow(&format!("echo '[{},{}]'", pulled[0], pulled[1]), "true");
        let show = format!("  show: {{ command: \"{shown}\" }}\nissue:\n");
        env.workflow(&text.replacen("issue:\n", &show, 1));
        let (_, mut codes) = result(&env, &[]);
        codes.retain(|code| code.starts_with("show_") || code.starts_with("descriptions_"));
        assert!(!env.path("work/.vik").exists(), "the lookup leaves no files");
        codes
    };
    let echo = |text: String| format!("echo '{text}'");
    assert!(codes([issue("x"), other("")], &echo(issue("x"))).is_empty());
    assert_eq!(
        codes([issue("x"), other("")], &echo(issue("y"))),
        ["show_differs"]
    );
    assert_eq!(codes([issue("x"), other("")], "exit 1"), ["show_failed"]);
    assert_eq!(
        codes([issue(""), other("")], &echo(issue(""))),
        ["descriptions_empty"]
    );
}

#[test]
fn a_repository_without_a_commit_is_an_error() {
    let env = test_env();
    env.workflow(&workflow("echo []", "git clone -- {{ workflow_dir }} ."));
    // Outside of a repository it may be a repository elsewhere that is cloned.
    assert!(!result(&env, &[]).1.contains(&"no_commit".to_owned()));
    let git = |arguments: &[&str]| {
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=A", "-c", "user.email=a@example.org", "-C"])
            .arg(env.work())
            .args(arguments)
            .status();
        assert!(status.unwrap().success());
    };
    git(&["init", "--quiet"]);
    let (code, codes) = result(&env, &[]);
    assert!(code != 0 && codes.contains(&"no_commit".to_owned()), "{codes:?}");
    git(&["add", "workflow.yml"]);
    git(&["commit", "--quiet", "--message", "Add Vik"]);
    assert!(!result(&env, &[]).1.contains(&"no_commit".to_owned()));
}
