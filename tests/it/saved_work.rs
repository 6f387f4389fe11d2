//! Durable workspaces: their work is saved to the remote, and continues under another root.

use std::path::PathBuf;

use serde_json::json;
use vik_base::failpoint::DURABLE_POINTS;
use vik_core::decision_kind::DecisionKind;

use crate::places::{git, world};
use crate::reconcile::decided;
use crate::support::*;

/// What the agent does first, and what it reports about the work of an earlier attempt.
const SCRIPT: &str = "git symbolic-ref HEAD > ~/.cache/own; git log --format=%s >> ~/.cache/own; \
    git status --porcelain >> ~/.cache/own; test -e three || { git switch -q -c vik/agent; \
    echo 1 > one; git add one; git commit -qm one; echo 2 > two; git add two; echo 2 >> two; \
    echo 3 > three; git rm -q --cached zero; }";

const RESTORED: &str = "refs/heads/vik/agent\none\nzero\nAM two\nD  zero\n?? three\n?? zero\n";

/// Returns a world whose workspaces are clones of the bare repository `up.git`.
fn durable(script: &str) -> (World, PathBuf) {
    let world = world(script);
    let up = world.env.work().join("up.git");
    git(
        &world.env.work(),
        "git init -q --bare -b main up.git; git clone -q up.git seed 2> /dev/null; cd seed; echo 0 > zero; \
         git add zero; git commit -qm zero; git push -q origin HEAD:main",
    );
    let world = world
        .set("/agents/a/sandbox/write", json!(["~/.cache"]))
        .set("/workspace/durable", json!(true))
        .set(
            "/issue/hooks",
            json!({"after_create": "git clone -q {{ workflow_dir }}/up.git . && git switch -qc vik/1"}),
        );
    (world, up)
}

fn refs(up: &std::path::Path) -> String {
    git(up, "git for-each-ref --format='%(refname)' refs/vik")
}

/// Lets the issue start again on what is another machine: it has neither ledger nor workspaces.
fn move_to_another_machine(world: &World, name: &str) {
    let home = world.env.work().join("home");
    std::fs::rename(&home, world.env.work().join(name)).unwrap();
    world.tracker.move_to("1", "todo");
}

fn seen(world: &World) -> String {
    std::fs::read_to_string(world.env.home().join(".cache/own")).unwrap()
}

fn notes(world: &World) -> String {
    let sessions = world.sessions("1");
    sessions.last().unwrap().text(".jsonl")
}

#[test]
fn durable_workspace_continues_under_another_root() {
    let (world, up) = durable(SCRIPT);
    world.once().expect(0);
    assert_eq!(refs(&up), "refs/vik/local/1\n");
    let head = git(&world.workspace("1"), "git rev-parse HEAD");
    let line = format!("saved the workspace to refs/vik/local/1: commit {}", head.trim());
    assert_contains(notes(&world), &line);

    move_to_another_machine(&world, "first");
    world.once().expect(0);
    assert_eq!(seen(&world), RESTORED);
    let line = format!(
        "restored the workspace from refs/vik/local/1: commit {}",
        head.trim()
    );
    assert_contains(notes(&world), &line);
}

#[test]
fn work_of_a_failed_attempt_is_saved() {
    let (world, _up) = durable(&format!("{SCRIPT}; false"));
    world.once().expect(1);
    move_to_another_machine(&world, "first");
    world.once().expect(1);
    assert_eq!(seen(&world), RESTORED);
}

#[test]
fn crash_at_any_point_loses_no_saved_work() {
    for point in DURABLE_POINTS {
        let (world, _up) = durable(&format!("{SCRIPT}; echo x >> four"));
        world.once().expect(0);
        move_to_another_machine(&world, "first");
        world.kill_once_at(point);
        world.once().expect(0);
        let restored = RESTORED.replace("?? three", "?? four\n?? three");
        assert_eq!(seen(&world), restored, "{point}");
        move_to_another_machine(&world, "second");
        world.once().expect(0);
        assert_eq!(seen(&world), restored, "{point}");
        assert_eq!(world.workspace_file("1", "four"), "x\nx\nx\n", "{point}");
    }
}

#[test]
fn remote_that_is_missing_delays_the_hand_over() {
    let (world, up) = durable("cat > prompt; echo ran >> runs");
    let moved = up.with_file_name("moved.git");
    let before = format!("mv {} {}", up.display(), moved.display());
    let world = world.work("hooks/before_run", json!(before)).work(
        "hand_over",
        json!({"initial_backoff": "200ms", "max_backoff": "200ms", "max_tries": 50}),
    );
    let daemon = world.daemon();
    eventually("the hand-over has failed", || {
        decided(&world, "1", &DecisionKind::HandOverFailed)
    });
    assert_eq!(world.tracker.state("1").as_deref(), Some("todo"));
    let explained = world.explained("1").to_string();
    assert_contains(&explained, "cannot save the workspace");
    std::fs::rename(&moved, &up).unwrap();
    world.wait_for_state("1", "done");
    daemon.stop();
    world.session("1").expect("succeeded", None);
    assert_eq!(world.workspace_file("1", "runs"), "ran\n");
    assert_eq!(refs(&up), "refs/vik/local/1\n");
}

#[test]
fn workspace_without_a_repository_is_refused_before_the_agent() {
    let (world, _up) = durable("touch ran");
    let world = world.set("/issue/hooks", json!({"after_create": "touch made"}));
    let done = world.once().expect(1);
    assert_contains(&done.out, "parked (hook)");
    let reason = world.session("1").expect("failed", Some("hook"))["reason"].to_string();
    assert_contains(&reason, "was not a git repository when `after_create` finished");
    assert!(!world.workspace("1").join("ran").exists());
}

#[test]
fn hostile_remote_and_branch_of_an_agent_have_no_effect() {
    let script = "git config remote.origin.url ext::touch; git config core.fsmonitor 'touch ~/.cache/ran'; \
        git switch -qc -- '-x' 2> /dev/null || git symbolic-ref HEAD 'refs/heads/--x'; echo 1 > one";
    let (world, up) = durable(script);
    let world = world.work("hand_over", json!({"max_tries": 1}));
    world.once().expect(0);
    assert_eq!(refs(&up), "refs/vik/local/1\n");
    assert!(!world.env.home().join(".cache/ran").exists());
    assert_eq!(
        git(&up, "git for-each-ref --format='%(refname)' refs/heads"),
        "refs/heads/main\n"
    );
}

#[test]
fn saved_work_is_removed_with_the_workspace() {
    let (world, up) = durable("echo 1 > one");
    let world = world
        .set("/issue/terminal_states", json!(["done"]))
        .set("/issue/remove_workspace", json!("always"));
    let daemon = world.daemon();
    eventually("the workspace is removed", || {
        world.tracker.state("1").as_deref() == Some("done") && !world.workspace("1").exists()
    });
    daemon.stop();
    assert_eq!(refs(&up), "");
}

#[test]
fn push_of_a_hook_is_refused_once_a_newer_attempt_holds_the_issue() {
    let (world, up) = durable("git commit -q --allow-empty -m work");
    let push = world.env.work().join("push");
    let moves = world.on_success("done");
    let world = world.work(
        "hooks",
        json!({"after_run": format!("vik git push -q && vik git push -q --force && touch {}\n{moves}", push.display())}),
    );
    world.once().expect(0);
    assert!(push.exists());
    let pushed = git(&up, "git rev-parse vik/1");
    // A hook of an attempt that was frozen while the issue went on elsewhere.
    git(&world.workspace("1"), "git commit -q --allow-empty -m late");
    for args in [
        &["push"][..],
        &["push", "--force"],
        &["push", "--force-with-lease"],
    ] {
        let mut command = world.env.vik(&[&["git", "--issue", "1"], args].concat());
        command
            .env("VIK_FENCING_NUMBER", "1")
            .env("VIK_DURABLE_QUEUE", "local");
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_contains(&text, "a newer attempt holds the issue");
        assert_eq!(output.status.code(), Some(1));
    }
    assert_eq!(git(&up, "git rev-parse vik/1"), pushed);
}

#[test]
fn workspace_that_is_not_durable_saves_nothing() {
    let (world, up) = durable(SCRIPT);
    let world = world.set("/workspace/durable", json!(false));
    world.once().expect(0);
    assert_eq!(refs(&up), "");
    let notes: Vec<_> = list(&world.home().join("service/issues"))
        .into_iter()
        .filter(|path| path.to_string_lossy().ends_with(".durable.json"))
        .collect();
    assert_eq!(notes, Vec::<PathBuf>::new());
}
