//! The recordings of the example match its sample project: each conversation runs to its end with
//! real tools.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(clippy::needless_pass_by_value, reason = "an output is made for the call")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .canonicalize()
        .unwrap()
}

/// A command without the settings of the user who runs the tests.
fn clean(program: &str, home: &Path, cwd: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(cwd)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home)
        .stdin(Stdio::null());
    command
}

fn ok(output: Output) -> String {
    let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}\n{}",
        text_of(&output.stdout),
        text_of(&output.stderr)
    );
    text_of(&output.stdout)
}

#[test]
fn example_recordings_fit_the_real_tools() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let seed = || {
        ok(clean("sh", home, home)
            .arg(examples().join("seed.sh"))
            .arg("play")
            .output()
            .unwrap())
    };
    seed();
    seed();
    let mut left: Vec<_> = std::fs::read_dir(home.join("play"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["issues", "sample.git"]);

    let mut issues = 0;
    for entry in std::fs::read_dir(home.join("play/issues")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let value = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key))
                .unwrap()
                .trim()
                .to_owned()
        };
        let (id, title) = (value("id:"), value("title:"));
        issues += 1;
        let clone = home.join(format!("clone-{id}"));
        let setup = format!(
            "git clone -q play/sample.git clone-{id} && cd clone-{id} && git config user.name n && \
             git config user.email e@e && git checkout -q -b issue-{id}"
        );
        ok(clean("sh", home, home).arg("-c").arg(setup).output().unwrap());
        for (stage, commits) in [("Implement", 1), ("Review", 0)] {
            let output = clean(env!("CARGO_BIN_EXE_vex"), home, &clone)
                .args([
                    "exec",
                    "--json",
                    "-m",
                    "tally",
                    "--provider",
                    "replay",
                    "--base-url",
                ])
                .arg(examples().join("recordings"))
                .arg(format!("# {stage} issue {id}: {title}\n"))
                .output()
                .unwrap();
            let events = ok(output);
            let end: Value = serde_json::from_str(events.lines().next_back().unwrap()).unwrap();
            assert_eq!(
                end["evidence"]["commits"].as_array().unwrap().len(),
                commits,
                "{stage} {id}: {end}"
            );
            let left = ok(clean("git", home, &clone)
                .args(["status", "--porcelain"])
                .output()
                .unwrap());
            assert_eq!(left, "", "{stage} {id} leaves nothing uncommitted");
            ok(clean("sh", home, &clone).arg("tests/run.sh").output().unwrap());
        }
    }
    assert_eq!(issues, 3);
}
