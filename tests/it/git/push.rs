//! Pushes: to which repository, and over what.

use super::*;

#[test]
fn push_sends_to_the_remote_recorded_after_create() {
    let clone = Clone::new();
    let head = clone.commit("b", "two\n");
    clone.vik(&["push", "--quiet"]).expect(0);
    assert_eq!(clone.pushed("vik/1").as_ref(), Some(&head));
    // The workspace has the pushed commit as a remote-tracking ref, so that removing it loses no
    // work.
    assert_eq!(clone.git(&["rev-parse", "refs/remotes/origin/vik/1"]), head);
    assert_eq!(clone.git(&["rev-list", "--all", "--not", "--remotes"]), "");
    // Whatever branch the agent is on, `push` sends the recorded one, or the one that the hook
    // names.
    clone.git(&["switch", "-qc", "main2"]);
    let next = clone.commit("c", "three\n");
    clone.vik(&["push", "--quiet"]).expect(0);
    assert_eq!(clone.pushed("vik/1").as_ref(), Some(&next));
    assert_eq!(clone.pushed("main2"), None);
    clone.vik(&["push", "--quiet", "--branch", "other"]).expect(0);
    assert_eq!(clone.pushed("other"), Some(next));
}

#[test]
fn push_with_lease_replaces_only_known_commits() {
    let clone = Clone::new();
    clone.commit("b", "two\n");
    clone.vik(&["push", "--quiet", "--force-with-lease"]).expect(0);
    clone.git(&["commit", "-q", "--amend", "-m", "again"]);
    let amended = clone.git(&["rev-parse", "HEAD"]);
    clone.vik(&["push", "--quiet"]).expect(1);
    clone.vik(&["push", "--quiet", "--force-with-lease"]).expect(0);
    assert_eq!(clone.pushed("vik/1"), Some(amended));
    // Another person pushes; an agent that moves its own remote-tracking ref changes nothing.
    let seed = clone.world.env.work().join("seed");
    clone.git_in(&seed, &["fetch", "-q"]);
    clone.git_in(&seed, &["switch", "-q", "vik/1"]);
    clone.commit_in(&seed, "theirs", "theirs\n");
    clone.git_in(&seed, &["push", "-q", "origin", "HEAD"]);
    let theirs = clone.pushed("vik/1").unwrap();
    clone.git(&["commit", "-q", "--amend", "-m", "third"]);
    clone.git(&["fetch", "-q"]);
    clone.write(".git/refs/remotes/origin/vik/1", &format!("{theirs}\n"));
    let done = clone.refused(&["push", "--quiet", "--force-with-lease"], "git_stale");
    assert_contains(&done.err, "has commits that are missing in this workspace");
    assert_eq!(clone.pushed("vik/1"), Some(theirs.clone()));
    // After a merge these commits are not lost.
    clone.git(&["merge", "-q", "-m", "merge", &theirs]);
    clone.vik(&["push", "--quiet", "--force-with-lease"]).expect(0);
    assert_eq!(clone.pushed("vik/1"), Some(clone.git(&["rev-parse", "HEAD"])));
}

#[test]
fn push_and_fetch_refuse_another_url() {
    for (key, value) in [
        ("remote.origin.url", "/elsewhere"),
        ("remote.origin.pushurl", "ext::touch x"),
    ] {
        let clone = Clone::new();
        clone.commit("b", "two\n");
        clone.git(&["config", key, value]);
        let done = clone.refused(&["push"], "git_unsafe");
        assert_contains(&done.err, "names another URL for the remote `origin`");
        assert_eq!(clone.pushed("vik/1"), None);
        clone.refused(&["fetch"], "git_unsafe");
    }
    // A remote that the agent added is not accepted.
    let clone = Clone::new();
    clone.git(&["remote", "add", "mine", "/elsewhere"]);
    let done = clone.refused(&["push", "mine"], "git_no_remote");
    assert_contains(&done.err, "known remotes: origin");
}

/// Creates a repository of the user that the agent must not publish, with a secret in it, and
/// returns its path and commit.
pub(super) fn private(clone: &Clone) -> (PathBuf, String) {
    let folder = clone.world.env.work().join("private");
    clone.git_in(&clone.world.env.work(), &["init", "-q", "private"]);
    clone.commit_in(&folder, "secret", "TOP SECRET of a customer\n");
    let commit = clone.git_in(&folder, &["rev-parse", "HEAD"]);
    (folder, commit)
}

fn publishes(clone: &Clone, commit: &str) -> bool {
    clone.try_git(&clone.up(), &["cat-file", "-e", commit]).0 == Some(0)
}

#[test]
fn push_publishes_no_other_repository() {
    let attacks: [(&str, Attack<'_>); 8] = [
        ("a file in place of .git", &|clone, private, _| {
            std::fs::rename(clone.path().join(".git"), clone.path().join("git")).unwrap();
            clone.write(".git", &format!("gitdir: {}/.git\n", private.display()));
        }),
        ("a link in place of .git", &|clone, private, _| {
            std::fs::rename(clone.path().join(".git"), clone.path().join("git")).unwrap();
            std::os::unix::fs::symlink(private.join(".git"), clone.path().join(".git")).unwrap();
        }),
        ("commondir", &|clone, private, _| {
            clone.write(".git/commondir", &format!("{}/.git\n", private.display()));
        }),
        ("alternates", &|clone, private, commit| {
            clone.write(
                ".git/objects/info/alternates",
                &format!("{}/.git/objects\n", private.display()),
            );
            clone.write(".git/refs/heads/vik/1", &format!("{commit}\n"));
        }),
        ("a link in place of objects", &|clone, private, commit| {
            std::fs::remove_dir_all(clone.path().join(".git/objects")).unwrap();
            std::os::unix::fs::symlink(private.join(".git/objects"), clone.path().join(".git/objects"))
                .unwrap();
            clone.write(".git/refs/heads/vik/1", &format!("{commit}\n"));
        }),
        ("links among the objects", &|clone, private, commit| {
            for folder in list(&private.join(".git/objects")) {
                let link = clone
                    .path()
                    .join(".git/objects")
                    .join(folder.file_name().unwrap());
                if !link.exists() {
                    std::os::unix::fs::symlink(&folder, link).unwrap();
                }
            }
            clone.write(".git/refs/heads/vik/1", &format!("{commit}\n"));
        }),
        ("a link to an object", &|clone, private, commit| {
            let objects = walk(&private.join(".git/objects"))
                .into_iter()
                .filter(|path| path.is_file());
            for object in objects {
                let name = object.strip_prefix(private).unwrap();
                let link = clone.path().join(name);
                std::fs::create_dir_all(link.parent().unwrap()).unwrap();
                let _ = std::os::unix::fs::symlink(&object, link);
            }
            clone.write(".git/refs/heads/vik/1", &format!("{commit}\n"));
        }),
        (
            "a linked work tree that does not know this one",
            &|clone, private, _| {
                clone.git_in(private, &["worktree", "add", "-q", "--detach", "../forged"]);
                let dot_git = clone.world.env.work().join("forged/.git");
                std::fs::rename(clone.path().join(".git"), clone.path().join("git")).unwrap();
                std::fs::copy(dot_git, clone.path().join(".git")).unwrap();
            },
        ),
    ];
    for (name, attack) in attacks {
        let clone = Clone::new();
        let (private, commit) = private(&clone);
        attack(&clone, &private, &commit);
        for args in [
            &["push", "--force"][..],
            &["push", "--force", "--branch", "x"],
            &["reset", "--hard"],
        ] {
            let done = clone.refused(args, "git_unsafe");
            assert!(!done.err.contains("TOP SECRET"), "{name}: {}", done.err);
        }
        assert!(!publishes(&clone, &commit), "{name}");
        assert!(!clone.path().join("secret").exists(), "{name}");
    }
    // Proves that the trap works: the former recipe of the page on outputs publishes the
    // repository.
    let clone = Clone::new();
    let (private, commit) = private(&clone);
    attacks[0].1(&clone, &private, &commit);
    let clean = clone.world.env.work().join("clean");
    clone.git_in(&clone.world.env.work(), &["init", "-q", "--bare", "clean"]);
    clone.git_in(
        &clean,
        &["fetch", "-q", &clone.path().display().to_string(), "HEAD"],
    );
    clone.git_in(
        &clean,
        &[
            "push",
            "-q",
            &clone.up().display().to_string(),
            "FETCH_HEAD:refs/heads/x",
        ],
    );
    assert!(publishes(&clone, &commit));
}

#[test]
fn push_writes_no_refs_into_another_repository() {
    let clone = Clone::new();
    let (private, _) = private(&clone);
    let before = clone.git_in(&private, &["for-each-ref"]);
    std::fs::remove_dir_all(clone.path().join(".git/refs/remotes")).unwrap();
    std::os::unix::fs::symlink(private.join(".git/refs"), clone.path().join(".git/refs/remotes")).unwrap();
    clone.commit("b", "two\n");
    // The commit is sent, and nothing is written where the link leads.
    let done = clone.vik(&["push", "--quiet"]);
    assert_eq!(clone.git_in(&private, &["for-each-ref"]), before, "{}", done.err);
    assert!(!private.join(".git/refs/origin").exists());
}
