//! `vik tracker`: the exit codes and streams of the protocol.

use std::io::Write as _;
use std::process::Stdio;

use crate::support::TestEnv;

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
