//! Repair tasks on real code: the answers of the model are recorded, the tools are real, and the
//! results are judged by checks hidden from the agent. See `corpus/README.md`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

macro_rules! tasks {
    ($($test:ident $folder:literal,)*) => {
        const FOLDERS: &[&str] = &[$($folder),*];
        $(#[test] fn $test() { solve($folder); })*
    };
}

tasks! {
    colorama "colorama",
    fnv "fnv",
    heck "heck",
    httpdate "httpdate",
    itsdangerous "itsdangerous",
    jsonpointer "jsonpointer",
    percent_encoding "percent-encoding",
    roff "roff",
    shlex "shlex",
    strsim "strsim",
    xmltodict "xmltodict",
}

#[test]
fn corpus_tasks_are_complete() {
    let folders = std::fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap());
    let folders: BTreeSet<_> = folders
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    assert_eq!(folders, FOLDERS.iter().map(ToString::to_string).collect());
    for folder in FOLDERS {
        let tree = std::fs::read_dir(corpus().join(folder).join("tree")).unwrap();
        let licensed = tree
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .any(|name| name.starts_with("LICENSE"));
        assert!(licensed, "{folder} has no licence");
    }
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The folders of the real rustc and python3 before the others: shims need the home of the user.
static PATH: LazyLock<OsString> = LazyLock::new(|| {
    let text_of = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        PathBuf::from(ok(&output).trim())
    };
    let rustc = text_of("rustc", &["--print", "sysroot"]).join("bin");
    let python = text_of("python3", &["-c", "import sys; print(sys.executable)"]);
    let path = std::env::var_os("PATH").unwrap();
    let first = [rustc, python.parent().unwrap().to_owned()];
    std::env::join_paths(first.into_iter().chain(std::env::split_paths(&path))).unwrap()
});

/// A command without the settings of the user who runs the tests.
fn clean(program: &str, home: &Path, cwd: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(cwd)
        .env_clear()
        .env("PATH", &*PATH)
        .env("HOME", home)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    command
}

fn ok(output: &Output) -> String {
    let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}\n{}",
        text_of(&output.stdout),
        text_of(&output.stderr)
    );
    text_of(&output.stdout)
}

fn solve(folder: &str) {
    let task = corpus().join(folder);
    let dir = tempfile::tempdir().unwrap();
    let (home, work) = (dir.path(), dir.path().join("work"));
    let sh = |script: &str, cwd: &Path| clean("sh", home, cwd).args(["-euc", script]).output().unwrap();
    let copy = clean("cp", home, home)
        .arg("-r")
        .arg(task.join("tree"))
        .arg(&work)
        .output()
        .unwrap();
    ok(&copy);
    ok(&sh(
        "git init -q; git config user.name n; git config user.email e@e; git add .; git commit -qm 'As it is'",
        &work,
    ));
    let check = || {
        clean("sh", home, &work)
            .arg(task.join("check.sh"))
            .output()
            .unwrap()
    };
    assert!(!check().status.success(), "there is nothing to repair");

    let output = clean(env!("CARGO_BIN_EXE_vex"), home, &work)
        .args(["exec", "--json", "--provider", "replay", "--replay"])
        .arg(task.join("recording.jsonl"))
        .arg(std::fs::read_to_string(task.join("task.md")).unwrap())
        .output()
        .unwrap();
    let events = ok(&output);
    let end: Value = serde_json::from_str(events.lines().next_back().unwrap()).unwrap();
    assert_eq!(end["reason"], "done", "{end}");

    ok(&check());
    // The reported changes are the real ones.
    let changed = ok(&sh(
        "git diff --name-only HEAD~$(($(git rev-list --count HEAD) - 1)); git ls-files -o",
        &work,
    ));
    let changed: BTreeSet<&str> = changed.lines().collect();
    let reported = end["evidence"]["files_changed"].as_array().unwrap();
    let reported: BTreeSet<&str> = reported.iter().map(|path| path.as_str().unwrap()).collect();
    assert_eq!(reported, changed, "{end}");
}
