//! What issues and attempts changed: before and after a push, after the workspace was removed, and
//! without git.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::places::git;
use crate::support::*;

/// Returns a world whose workspaces are clones of the repository around the workflow, on a branch of
/// their own, and that repository.
fn cloned(prompt: &str) -> (World, PathBuf) {
    let world = World::new(&[("1", "todo")]);
    let source = world.env.work();
    git(
        &source,
        "git init -q -b main .; echo zero > a; git add a; git commit -qm zero",
    );
    let create = format!(
        "git clone -q --no-hardlinks -- {} . && git switch -q --create \"vik/$VIK_ISSUE_ID\"",
        source.display()
    );
    let world = world
        .set("/issue/hooks", json!({"after_create": create}))
        .work("prompt", json!(prompt))
        .attempts(2);
    (world, source)
}

const COMMIT: &str = "git -c user.name=n -c user.email=e commit -q";

fn diff(world: &World, args: &[&str]) -> Value {
    let mut all = vec!["diff", "1", "--json"];
    all.extend(args);
    world.vik(&all).expect(0).json()
}

/// Returns `change path +added -removed` of each file.
fn files(diff: &Value) -> Vec<String> {
    let files = diff["files"].as_array().unwrap().iter();
    files
        .map(|file| {
            let (change, path) = (file["change"].as_str().unwrap(), file["path"].as_str().unwrap());
            format!("{change} {path} +{} -{}", file["added"], file["removed"])
        })
        .collect()
}

fn subjects(diff: &Value) -> Vec<&str> {
    let commits = diff["commits"].as_array().unwrap().iter();
    commits
        .map(|commit| commit["subject"].as_str().unwrap())
        .collect()
}

#[test]
fn diff_is_the_same_before_and_after_push_merge_and_removal() {
    let (world, source) = cloned(&format!(
        "{{% if attempt.number == 1 %}}SCRIPT: run echo one >> a && git add a && {COMMIT} -m one && \
         echo loose > b; exit 1\n\
         {{% else %}}SCRIPT: run echo two >> a && {COMMIT} -am two && git push -q origin HEAD; ok\n{{% endif %}}"
    ));
    let done = world.once().expect(0);
    assert_contains(
        &done.out,
        "result: issue 1 on branch vik/1: `vik diff 1`, `git merge vik/1`",
    );
    let sessions = world.sessions("1");
    let attempts = |note: &Value| {
        let (first, second) = (
            diff(&world, &["--attempt", sessions[0].id()]),
            diff(&world, &["--attempt", sessions[1].id()]),
        );
        assert_eq!(files(&first), ["modified a +1 -0", "added b +1 -0"]);
        assert_eq!(files(&second), ["modified a +1 -0"]);
        assert_eq!(
            second["files"][0]["patch"],
            "@@ -1,2 +1,3 @@\n zero\n one\n+two\n"
        );
        assert_eq!((&first["note"], &second["note"]), (note, note));
        (first, second)
    };
    let (first, second) = attempts(&Value::Null);
    assert_eq!((subjects(&first), subjects(&second)), (vec!["one"], vec!["two"]));
    assert_eq!(second["branch"], "vik/1");
    let base = git(&source, "git rev-parse main");
    let of_issue = || {
        let found = diff(&world, &[]);
        assert_eq!(found["base"], base.trim());
        assert_eq!(found["branch"], "vik/1");
        assert_eq!(subjects(&found), ["one", "two"]);
        found
    };
    let pushed = of_issue();
    assert_eq!(files(&pushed), ["modified a +2 -0", "added b +1 -0"]);
    assert_eq!(pushed["note"], "1 file has changes that are not committed");
    git(&source, "git reset -q --hard; git merge -q vik/1");
    let workspace = world.workspace("1");
    git(&workspace, "git fetch -q");
    assert_eq!(files(&of_issue()), files(&pushed));
    // Without the workspace, the repository of the workflow has the commits.
    std::fs::remove_dir_all(&workspace).unwrap();
    assert_eq!(subjects(&attempts(&Value::Null).1), ["two"]);
    let removed = of_issue();
    assert_eq!(files(&removed), ["modified a +2 -0"]);
    assert!(removed["note"].as_str().unwrap().contains("no longer exists"));
    // Without any repository, the records have the changes.
    std::fs::remove_dir_all(source.join(".git")).unwrap();
    attempts(&Value::Null);
    let recorded = diff(&world, &[]);
    assert_eq!(files(&recorded), files(&pushed));
    assert!(recorded["note"].as_str().unwrap().contains("records"));
    let text = world.vik(&["diff", "--issue", "1", "--stat"]).expect(0).out;
    assert_contains(&text, "A     +1     -0 b\n");
}

/// Returns a world in which an agent has run a command, the repository around the workflow, and the
/// diff of the issue.
fn ran(command: &str) -> (World, PathBuf, Value) {
    let (world, source) = cloned(&format!("SCRIPT: run {command}; ok"));
    world.once().expect(0);
    let found = diff(&world, &[]);
    (world, source, found)
}

fn note(diff: &Value) -> &str {
    diff["note"].as_str().unwrap()
}

#[test]
fn diff_shows_commits_that_the_work_tree_hides() {
    let (_world, _, found) = ran(&format!(
        "echo evil >> a && echo evil > b && git add a b && {COMMIT} -m evil && echo zero > a && rm b && \
         echo new > c && git config core.worktree /tmp"
    ));
    let expected = ["modified a +1 -0", "added b +1 -0", "added c +1 -0"];
    assert_eq!(files(&found), expected);
    assert_eq!(
        note(&found),
        "3 files have changes that are not committed, of which 2 also changed in commits: only those changes \
         are shown"
    );
}

#[test]
fn diff_compares_with_the_recorded_start_if_the_default_branch_was_moved() {
    let (_world, source, found) = ran(&format!(
        "git checkout -q --orphan other && echo evil > b && git add b && {COMMIT} -m evil && \
         git update-ref refs/remotes/origin/HEAD HEAD"
    ));
    assert_eq!(found["base"], git(&source, "git rev-parse main").trim());
    assert_eq!(files(&found), ["added b +1 -0"]);
    assert_eq!(subjects(&found), ["evil"]);
    assert!(note(&found).contains("not in the branch"), "{found}");
}

#[test]
fn diff_gives_each_file_its_own_patch() {
    let (_world, _, found) = ran(&format!(
        "rm a && ln -s target a && echo x > 'b \"ü' && echo y > c && git add . && {COMMIT} -m all"
    ));
    let patches = found["files"].as_array().unwrap().iter();
    let patches: Vec<_> = patches
        .map(|file| (file["path"].as_str().unwrap(), file["patch"].as_str().unwrap()))
        .collect();
    let link = "@@ -1 +0,0 @@\n-zero\n@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n";
    let added = |line: &str| format!("@@ -0,0 +1 @@\n+{line}\n");
    assert_eq!(patches, [("a", link), ("b \"ü", &added("x")), ("c", &added("y"))]);
}

#[test]
fn diff_has_the_branch_despite_a_nested_empty_repository() {
    let (_world, _, found) = ran(&format!(
        "echo one >> a && {COMMIT} -am one && git init -q nested && echo loose > b"
    ));
    assert_eq!(files(&found), ["modified a +1 -0", "added b +1 -0"]);
    assert_eq!(subjects(&found), ["one"]);
    assert_eq!(
        note(&found),
        "some new files could not be read; 1 file has changes that are not committed"
    );
}

#[test]
fn diff_writes_nothing_into_the_objects_of_the_workspace() {
    let (world, _, found) = ran("echo loose > b");
    assert_eq!(files(&found), ["added b +1 -0"]);
    // The folder of the empty object.
    let objects = world.workspace("1").join(".git/objects/e6");
    let _ = std::fs::remove_dir_all(&objects);
    let outside = world.env.work().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, &objects).unwrap();
    assert_eq!(files(&diff(&world, &[])), ["added b +1 -0"]);
    assert!(std::fs::read_dir(&outside).unwrap().next().is_none());
}

#[test]
fn diff_without_git_and_of_a_running_attempt_are_from_snapshots() {
    let world = World::new(&[("1", "todo")]).work(
        "prompt",
        json!("SCRIPT: run echo one > work && sh ../../../../../wait.sh; ok"),
    );
    let wait = world.env.work().join("wait.sh");
    let script = "cd \"$(dirname \"$0\")\"; touch written; until [ -e go ]; do sleep 0.05; done";
    std::fs::write(wait, script).unwrap();
    let daemon = world.daemon();
    let written = world.env.work().join("written");
    eventually("the agent has written", || written.exists());
    let session = world.session("1");
    for args in [&["--attempt", &session.id()[..20]][..], &[]] {
        let found = diff(&world, args);
        assert_eq!(files(&found), ["added work +1 -0"], "{found}");
        assert_eq!(found["base"], Value::Null);
    }
    std::fs::write(world.env.work().join("go"), "").unwrap();
    world.wait_for_state("1", "done");
    daemon.stop().expect(0);
    assert_eq!(files(&diff(&world, &[])), ["added work +1 -0"]);
    world.vik(&["diff", "none"]).expect(8);
    world.vik(&["diff", "1", "--attempt", "none"]).expect(8);
}
