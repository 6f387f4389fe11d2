//! Linked work trees as workspaces: no commit is lost or taken over twice, whatever is killed,
//! stopped or refused.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use serde_json::json;
use vik_base::failpoint::WORK_TREE_POINTS;

use crate::places::{git, world};
use crate::support::*;

/// Returns a world whose agent runs `script` in a linked work tree of the repository `main`, and
/// that repository; `add` holds the arguments that create the work tree.
fn linked(script: &str, add: &str) -> (World, PathBuf) {
    let world = world(script);
    let main = world.env.path("main");
    git(
        world.env.root(),
        "git init -q -b main main; cd main; git commit -q --allow-empty -m zero",
    );
    let world = with_tree_of(world, &main, add);
    (world, main)
}

fn with_tree_of(world: World, main: &Path, add: &str) -> World {
    let create = format!("git -C {} worktree add -q {add} \"$PWD\"", main.display());
    world.set("/issue/hooks", json!({"after_create": create}))
}

/// Returns the subjects of the commits of a branch, the newest first.
fn subjects(folder: &Path, name: &str) -> String {
    git(folder, &format!("git log --format=%s {name}")).replace('\n', " ")
}

/// Checks that nothing of the separate repository is left, and that the main repository is intact.
#[track_caller]
fn assert_taken_over(world: &World, main: &Path) {
    git(main, "git fsck --strict");
    assert_eq!(git(main, "git for-each-ref refs/vik"), "");
    assert_eq!(git(main, "ls .git/worktrees/*").matches("vik\n").count(), 0);
    assert!(!world.home().join("service/issues/1.worktree").exists());
}

#[test]
fn crash_at_any_point_loses_and_doubles_no_commit() {
    for point in WORK_TREE_POINTS {
        let script = "echo ran >> runs; echo 1 > one; git add one; git commit -qm one; git checkout -q -b extra; \
            echo 2 > two; git add two; git commit -qm two";
        let (world, main) = linked(script, "-b vik/1");
        world.kill_once_at(point);
        world.once().expect(0);
        world.session("1").expect("succeeded", None);
        assert_eq!(world.workspace_file("1", "runs"), "ran\n", "{point}");
        assert_eq!(subjects(&main, "vik/1"), "one zero ", "{point}");
        assert_eq!(subjects(&main, "extra"), "two one zero ", "{point}");
        let workspace = world.workspace("1");
        assert_eq!(git(&workspace, "git branch --show-current"), "extra\n", "{point}");
        assert_eq!(git(&workspace, "git status --short -uno"), "", "{point}");
        assert_taken_over(&world, &main);
    }
}

#[test]
fn branch_transferred_in_part_is_completed_on_retry() {
    let script = "if [ -e first ]; then git branch -q -D zzz; echo 2 > two; else touch first; \
        git branch -q -D zzz/x; git branch zzz; echo 1 > one; fi; \
        git add -A; git commit -qm work";
    let (world, main) = linked(script, "-b vik/1");
    // A branch `zzz` can exist neither in the repository nor in `refs/vik`.
    git(&main, "git branch zzz/x; git update-ref refs/vik/zzz/x main");
    let world = world.attempts(2);
    world.once().expect(0);
    let first = world.sessions("1")[0].expect("failed", Some("agent"));
    assert_contains(first["reason"].as_str().unwrap(), "update-ref");
    assert_eq!(subjects(&main, "vik/1"), "work work zero ");
    git(&main, "git branch -D zzz/x; git update-ref -d refs/vik/zzz/x");
    assert_taken_over(&world, &main);
}

#[test]
fn detached_work_tree_is_intact_after_a_failure() {
    let script = "echo x >> file; git add file; git commit -qm work; \
        [ -e first ] || echo /nowhere >> $(git rev-parse --git-path objects)/info/alternates; touch first";
    let (world, main) = linked(script, "--detach");
    let seen = world.env.path("seen");
    let see = format!("git log -1 --format=%s >> {}", seen.display());
    let moves = world.on_success("done");
    let world = world
        .work("hooks", json!({"before_run": see, "after_run": moves}))
        .attempts(2);
    world.once().expect(0);
    let first = world.sessions("1")[0].expect("failed", Some("agent"));
    assert_contains(first["reason"].as_str().unwrap(), "other repositories");
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "zero\nzero\n");
    assert_eq!(subjects(&world.workspace("1"), "HEAD"), "work work zero ");
    assert_taken_over(&world, &main);
}

#[test]
fn work_trees_of_one_repository_are_isolated() {
    let script = "echo $VIK_ISSUE_ID > one; git add one; git commit -qm one; git commit -q --amend -m two; \
        git checkout -q -b side; echo 3 > staged; git add staged; touch ~/.cache/$VIK_ISSUE_ID; \
        until [ -e ~/.cache/1 ] && [ -e ~/.cache/2 ]; do sleep 0.01; done";
    let (world, main) = linked(script, "-b vik/{{ issue.id }}");
    world.tracker.add("2", "Two", "todo");
    let world = world
        .set("/agents/a/sandbox/write", json!(["~/.cache"]))
        .set("/loop", json!({"max_issue_concurrency": 2}));
    world.once().expect(0);
    for issue in ["1", "2"] {
        assert_eq!(subjects(&main, &format!("vik/{issue}")), "two zero ");
        let workspace = world.workspace(issue);
        assert_eq!(git(&workspace, "git diff --cached --name-only"), "staged\n");
        assert_eq!(git(&workspace, "git log -1 --format=%s HEAD@{2}"), "one\n");
        // Both agents created the branch: one has the name, and the work tree of the other is at
        // its own commit.
        assert_eq!(git(&workspace, "git show HEAD:one"), format!("{issue}\n"));
    }
    assert_eq!(
        git(&main, "git for-each-ref --format='%(refname)' refs/vik"),
        "refs/vik/side\n"
    );
    git(&main, "git update-ref -d refs/vik/side");
    assert_taken_over(&world, &main);
}

#[test]
fn repository_on_another_file_system_works() {
    let other = Path::new("/dev/shm");
    let device = |path: &Path| path.metadata().map(|facts| facts.dev()).ok();
    if device(other).is_none_or(|other| Some(other) == device(Path::new("/var/tmp"))) {
        return;
    }
    let folder = tempfile::tempdir_in(other).unwrap();
    let main = folder.path().join("main");
    git(
        folder.path(),
        "git init -q -b main main; cd main; git commit -q --allow-empty -m zero",
    );
    let world = world("echo 1 > one; git add one; git commit -qm one");
    let world = with_tree_of(world, &main, "-b vik/1");
    world.once().expect(0);
    assert_eq!(subjects(&main, "vik/1"), "one zero ");
    assert_taken_over(&world, &main);
}

#[test]
fn hanging_git_blocks_no_stop_and_its_work_is_recovered() {
    for kills in [false, true] {
        let script = "echo x >> file; git add file; git commit -qm work";
        let (world, main) = linked(script, "-b vik/1");
        let (hang, hangs) = (world.env.path("hang"), world.env.path("hangs"));
        let path = std::env::var_os("PATH").unwrap();
        let real = std::env::split_paths(&path).map(|folder| folder.join("git"));
        let real = real.into_iter().find(|git| git.is_file()).unwrap();
        let wrapper = format!(
            "#!/bin/sh\ncase \"$*\" in *pack-objects*) if [ -e {} ]; then touch {}; exec sleep 1000; fi;; esac\nexec {} \"$@\"\n",
            hang.display(),
            hangs.display(),
            real.display()
        );
        world.env.write("wrapper", &wrapper);
        let wrapper = world.env.path("wrapper");
        std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
        world.env.link("git", &wrapper);
        std::fs::write(&hang, "").unwrap();
        let daemon = world.start(&["run"]);
        eventually("git hangs", || hangs.exists());
        if kills {
            daemon.signal(Signal::SIGTERM);
            daemon.signal(Signal::SIGINT);
            daemon.done();
        } else {
            world.vik(&["cancel", "1"]).expect(0);
            eventually("it is cancelled", || {
                world.session("1").of_kind("ended").len() == 1
            });
            daemon.stop();
        }
        world.session("1").expect("cancelled", None);
        assert_eq!(subjects(&main, "vik/1"), "zero ");
        std::fs::remove_file(&hang).unwrap();
        let daemon = world.daemon();
        world.vik(&["retry", "1"]);
        world.wait_for_state("1", "done");
        daemon.stop();
        assert_eq!(subjects(&main, "vik/1"), "work work zero ", "{kills}");
        assert_taken_over(&world, &main);
    }
}
