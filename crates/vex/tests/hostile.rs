//! Unusual workspaces: each row is a workspace, the calls of a recorded model with the expectations
//! of their real results, and conditions on the workspace afterwards.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic, too")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "`json!` values are made for the call"
)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// A call that succeeds, with these texts in its result.
fn good(tool: &str, input: Value, expected: &[&str]) -> Value {
    json!({"tool": tool, "input": input, "expect": {"is_error": false, "contains": expected}})
}

/// A call that fails, with these texts in its result.
fn bad(tool: &str, input: Value, expected: &[&str]) -> Value {
    json!({"tool": tool, "input": input, "expect": {"is_error": true, "contains": expected}})
}

fn run(command: &str) -> Value {
    json!({"tool": "run_command", "input": {"command": command}, "expect": {"exit_code": 0}})
}

fn command(program: &str, home: &Path, cwd: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(cwd)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    command
}

fn ok(output: Output, step: &str) {
    assert!(
        output.status.success(),
        "{step}: {}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Creates a workspace with a script, makes one call per turn, and checks the workspace with a
/// script.
fn play(setup: &str, calls: &[Value], afterwards: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (home, work) = (dir.path(), dir.path().join("work"));
    std::fs::create_dir(&work).unwrap();
    let sh = |script: &str| {
        command("sh", home, &work)
            .args(["-euc", script])
            .output()
            .unwrap()
    };
    ok(sh(setup), setup);
    let mut lines = vec![
        json!({"kind": "recording", "version": 1}),
        json!({"kind": "conversation", "name": "only"}),
    ];
    for call in calls {
        lines.push(json!({"kind": "turn", "tool_calls": [call]}));
    }
    lines.push(json!({"kind": "turn", "text": "That is what there was to do, and it is done."}));
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(home.join("model.jsonl"), lines.join("\n")).unwrap();
    let output = command(env!("CARGO_BIN_EXE_vex"), home, &work)
        .args([
            "exec",
            "--json",
            "--provider",
            "replay",
            "--replay",
            "../model.jsonl",
            "go",
        ])
        .output()
        .unwrap();
    ok(output, "vex");
    ok(sh(afterwards), afterwards);
}

#[test]
fn file_changed_since_its_read_is_refused() {
    let edit = json!({"path": "a", "old": "one", "new": "two"});
    play(
        "echo one >a",
        &[
            good("read_file", json!({"path": "a"}), &["one"]),
            run("echo one more >a"),
            bad("edit_file", edit.clone(), &["changed"]),
            bad("write_file", json!({"path": "a", "content": "x"}), &["changed"]),
            bad(
                "apply_patch",
                json!({"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one more\n+x\n"}),
                &["changed"],
            ),
            good("read_file", json!({"path": "a"}), &["one more"]),
            good("edit_file", edit, &[]),
            run("rm a"),
            bad(
                "edit_file",
                json!({"path": "a", "old": "two", "new": "three"}),
                &["a"],
            ),
        ],
        "test ! -e a",
    );
}

#[test]
fn patch_with_wrong_context_changes_nothing() {
    let patch =
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n--- a/b\n+++ b/b\n@@ -1,2 +1,2 @@\n 1\n-9\n+nine\n";
    let other = "*** Begin Patch\n*** Update File: a\n@@\n-7\n-9\n+x\n*** End Patch\n";
    play(
        "seq 9 >a; seq 9 >b",
        &[
            bad("apply_patch", json!({"patch": patch}), &["b"]),
            bad("apply_patch", json!({"patch": other}), &["a"]),
            bad("apply_patch", json!({"patch": "no patch at all"}), &[]),
            bad(
                "apply_patch",
                json!({"patch": "--- a/no\n+++ b/no\n@@ -1 +1 @@\n-1\n+2\n"}),
                &["no"],
            ),
            // The right lines at a wrong number are found.
            good(
                "apply_patch",
                json!({"patch": "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 5\n-6\n+six\n 7\n"}),
                &[],
            ),
        ],
        "test \"$(sed -n 6p a)\" = six; seq 9 | cmp - b; test \"$(wc -l <a)\" = 9",
    );
}

#[test]
fn lines_that_end_in_carriage_returns_keep_them() {
    play(
        r"printf 'one\r\ntwo\r\nthree\r\n' >a; printf '\357\273\277x\r\n' >b",
        &[
            good("read_file", json!({"path": "a"}), &["two"]),
            good(
                "edit_file",
                json!({"path": "a", "old": "one\ntwo", "new": "1\n2"}),
                &[],
            ),
            good(
                "apply_patch",
                json!({"patch": "--- a/a\n+++ b/a\n@@ -2,2 +2,3 @@\n 2\n-three\n+3\n+4\n"}),
                &[],
            ),
            good("edit_file", json!({"path": "b", "old": "x", "new": "y"}), &[]),
        ],
        r"printf '1\r\n2\r\n3\r\n4\r\n' | cmp - a; printf '\357\273\277y\r\n' | cmp - b",
    );
}

#[test]
fn huge_files_are_read_in_pages_and_never_replaced() {
    let many = "x\n".repeat(3000);
    play(
        "seq 2000000 >big; printf '%s' \"$(head -c 300000 /dev/zero | tr '\\0' y)\" >long",
        &[
            good("read_file", json!({"path": "big"}), &["offset"]),
            good(
                "read_file",
                json!({"path": "big", "offset": 1_999_999}),
                &["2000000"],
            ),
            good("read_file", json!({"path": "long"}), &["yyy"]),
            good(
                "search_files",
                json!({"pattern": "^1234567$", "path": "big"}),
                &["1234567"],
            ),
            good("search_files", json!({"pattern": "."}), &["big"]),
            bad("write_file", json!({"path": "big", "content": many}), &[]),
            good("write_file", json!({"path": "new", "content": many}), &[]),
            good(
                "run_command",
                json!({"command": "cat big"}),
                &["1\n2\n", "2000000"],
            ),
        ],
        "seq 2000000 | cmp - big; test \"$(wc -l <new)\" = 3000",
    );
}

#[test]
fn binary_file_is_not_overwritten() {
    play(
        r"printf 'a\0b\nword\n' >bin; printf '\211PNG\r\n\032\n\0' >p.png; printf 'caf\351\n' >latin; mkfifo pipe; : >empty; cp bin saved",
        &[
            good("search_files", json!({"pattern": "word"}), &[]),
            bad("write_file", json!({"path": "bin", "content": "x"}), &[]),
            bad("write_file", json!({"path": "p.png", "content": "x"}), &[]),
            bad("read_file", json!({"path": "pipe"}), &["pipe"]),
            bad("write_file", json!({"path": "pipe", "content": "x"}), &["pipe"]),
            good("read_file", json!({"path": "empty"}), &[]),
            good("list_dir", json!({}), &["bin", "pipe"]),
        ],
        r"cmp bin saved; printf 'caf\351\n' | cmp - latin",
    );
}

#[test]
fn paths_of_any_letters() {
    play(
        "git init -q; mkdir -p 'dir with space/日本'; echo a >'dir with space/日本/ä ö.txt'; echo b >'-n'; echo c >\"it's\"",
        &[
            good(
                "glob_files",
                json!({"pattern": "**/*.txt"}),
                &["dir with space/日本/ä ö.txt"],
            ),
            good(
                "read_file",
                json!({"path": "dir with space/日本/ä ö.txt"}),
                &["a"],
            ),
            good(
                "edit_file",
                json!({"path": "dir with space/日本/ä ö.txt", "old": "a", "new": "é"}),
                &[],
            ),
            good(
                "write_file",
                json!({"path": "neu/Ünïcode 🦀.md", "content": "x\n"}),
                &[],
            ),
            good("edit_file", json!({"path": "-n", "old": "b", "new": "B"}), &[]),
            good(
                "apply_patch",
                json!({"patch": "*** Begin Patch\n*** Update File: it's\n@@\n-c\n+C\n*** End Patch\n"}),
                &[],
            ),
            good("git_status", json!({}), &["neu"]),
            good("search_files", json!({"pattern": "é"}), &["ä ö.txt"]),
            bad("read_file", json!({"path": "no\u{0}thing"}), &[]),
        ],
        "test \"$(cat 'dir with space/日本/ä ö.txt')\" = é; test -f 'neu/Ünïcode 🦀.md'; test \"$(cat -- -n)\" = B; test \"$(cat \"it's\")\" = C",
    );
}

#[test]
fn links_never_lead_outside() {
    play(
        "echo secret >../outside; ln -s ../outside out; ln -s .. up; ln -s real in; echo text >real; ln -s loop loop; ln -s nowhere gone",
        &[
            bad(
                "write_file",
                json!({"path": ".git/config", "content": "x"}),
                &["git"],
            ),
            bad("read_file", json!({"path": "out"}), &["outside"]),
            bad("write_file", json!({"path": "out", "content": "x"}), &["outside"]),
            bad(
                "edit_file",
                json!({"path": "up/outside", "old": "secret", "new": "x"}),
                &["outside"],
            ),
            bad(
                "write_file",
                json!({"path": "up/new", "content": "x"}),
                &["outside"],
            ),
            bad(
                "apply_patch",
                json!({"patch": "*** Begin Patch\n*** Add File: up/new\n+x\n*** End Patch\n"}),
                &["outside"],
            ),
            bad("read_file", json!({"path": "../outside"}), &["outside"]),
            bad("read_file", json!({"path": "loop"}), &["loop"]),
            good("search_files", json!({"pattern": "secret"}), &[]),
            good("read_file", json!({"path": "in"}), &["text"]),
            good(
                "edit_file",
                json!({"path": "in", "old": "text", "new": "other"}),
                &[],
            ),
        ],
        "test \"$(cat ../outside)\" = secret; test ! -e ../new; test -L in; test \"$(cat real)\" = other; test ! -e nowhere",
    );
}

#[test]
fn read_only_file_is_unchanged() {
    play(
        "echo one >a; chmod 444 a; echo '#!/bin/sh' >run; chmod 755 run",
        &[
            good("read_file", json!({"path": "a"}), &["one"]),
            bad(
                "edit_file",
                json!({"path": "a", "old": "one", "new": "two"}),
                &["read-only"],
            ),
            bad(
                "write_file",
                json!({"path": "a", "content": "two"}),
                &["read-only"],
            ),
            bad(
                "apply_patch",
                json!({"patch": "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+two\n"}),
                &["read-only"],
            ),
            good(
                "edit_file",
                json!({"path": "run", "old": "sh", "new": "bash"}),
                &[],
            ),
        ],
        "test \"$(cat a)\" = one; test -x run",
    );
}

#[test]
fn merge_conflict_is_seen_and_resolved() {
    play(
        "git init -q -b main; git config user.name n; git config user.email e@e; printf 'a\\nb\\nc\\n' >f; git add .; \
         git commit -qm base; git checkout -qb other; printf 'a\\nother\\nc\\n' >f; git commit -qam other; \
         git checkout -q main; printf 'a\\nmain\\nc\\n' >f; git commit -qam main; git merge -q other >/dev/null || true",
        &[
            good("git_status", json!({}), &["f"]),
            good("read_file", json!({"path": "f"}), &["<<<<<<<", ">>>>>>>"]),
            bad(
                "edit_file",
                json!({"path": "f", "old": "a\nb\nc", "new": "x"}),
                &[],
            ),
            good(
                "edit_file",
                json!({"path": "f", "old": "<<<<<<< HEAD\nmain\n=======\nother\n>>>>>>> other\n", "new": "main and other\n"}),
                &[],
            ),
            good("git_commit", json!({"message": "Merge other", "all": true}), &[]),
        ],
        "test \"$(sed -n 2p f)\" = 'main and other'; git rev-parse -q --verify HEAD^2 >/dev/null; test -z \"$(git status --porcelain)\"",
    );
}

#[test]
fn end_of_a_file_is_kept() {
    play(
        "printf 'one\\ntwo' >a; printf 'x\\n\\n\\n' >b",
        &[
            good("edit_file", json!({"path": "a", "old": "one", "new": "1"}), &[]),
            good(
                "apply_patch",
                json!({"patch": "--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n"}),
                &[],
            ),
            bad("edit_file", json!({"path": "b", "old": "\n", "new": "-"}), &[]),
            bad("edit_file", json!({"path": "b", "old": "", "new": "-"}), &[]),
            bad("edit_file", json!({"path": "b", "old": "y", "new": "y"}), &[]),
        ],
        "printf '1\\ntwo' | cmp - a; printf 'y\\n\\n\\n' | cmp - b",
    );
}
