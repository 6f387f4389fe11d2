//! `vik prune`: removes old sessions and workspaces.

use serde_json::json;
use vik_proc::FileLock;

use crate::support::*;

#[test]
fn prune_lists_beside_a_daemon_and_removes_nothing() {
    let world = World::new(&[("1", "todo")]);
    world.once().expect(0);
    let daemon = world.daemon();
    let listed = world.vik(&["prune", "--older-than", "0s"]).expect(0).out;
    assert_contains(&listed, "nothing was removed");
    world.vik(&["prune", "--older-than", "0s", "--yes"]).expect(5);
    assert_eq!(world.sessions("1").len(), 1);
    daemon.stop();
}

#[test]
fn prune_lists_old_sessions_before_it_removes_them() {
    let world = World::new(&[("1", "todo")]);
    world.once().expect(0);
    let shown = world.vik(&["prune", "--older-than", "0s"]).expect(0);
    assert_contains(&shown.out, "nothing was removed");
    assert!(world.workspace("1").exists());
    let none = world.vik(&["prune", "--yes", "--json"]).expect(0).json();
    assert_eq!(none["issues"], json!([]));
    // An attempt works in it, in a stage that may run beside another one.
    let locks = world.home().join("service/issues/1.stages");
    std::fs::create_dir(&locks).unwrap();
    let lock = FileLock::try_acquire(&locks.join("plan.lock")).unwrap().unwrap();
    let kept = world.vik(&["prune", "--older-than", "0s", "--yes"]).expect(1);
    assert_contains(&kept.err, "it is in use");
    assert!(world.workspace("1").exists() && !world.sessions("1").is_empty());
    drop(lock);
    // Work that exists nowhere else is kept, with the log of how it came about.
    std::fs::write(world.workspace("1").join("draft"), "a day's work").unwrap();
    let kept = world.vik(&["prune", "--older-than", "0s", "--yes"]).expect(0).out;
    let why = "it contains files and is not a git work tree";
    assert_contains(&kept, why);
    assert_contains(&kept, "of 0 issues");
    assert!(world.workspace("1").join("draft").exists() && !world.sessions("1").is_empty());
    let pruned = world
        .vik(&["prune", "--older-than", "0s", "--yes", "--unsaved"])
        .expect(0);
    assert_contains(&pruned.out, "of 1 issue");
    assert!(!world.workspace("1").exists() && world.sessions("1").is_empty());
    // What the ledger knows is still shown.
    let attempt = &world.vik(&["runs", "--json"]).expect(0).json()[0]["attempts"][0];
    assert_eq!(attempt["outcome"], "succeeded");
    assert_eq!(attempt["files_removed"], true);
    let shown = world.vik(&["show", "1"]).expect(0).out;
    assert_contains(&shown, "1 attempt: 1 succeeded, 0 failed");
    assert_contains(&shown, "its log was removed");
    let missing = world.vik(&["logs", "1"]).expect(8).err;
    assert_contains(&missing, "the files of the issue's sessions were removed");
}
