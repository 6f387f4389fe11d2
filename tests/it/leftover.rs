//! Checks whether a workspace may be removed without losing work.

use std::path::{Path, PathBuf};
use std::process::Command;

use vik_proc::{SHIM_VERB, Supervisor};
use vik_workspace::{UnsavedWork, unsaved_work};

use crate::support::*;

/// A repository with one pushed commit, and the folder in which git may inspect it.
struct Repo {
    world: World,
    path: PathBuf,
}

impl Repo {
    fn new() -> Self {
        let world = World::new(&[]);
        let repo = Self {
            path: world.env.work().join("ws"),
            world,
        };
        let work = repo.world.env.work();
        repo.git_in(&work, &["init", "-q", "--bare", "up.git"]);
        repo.git_in(&work, &["clone", "-q", "up.git", "ws"]);
        repo.write("a", "one\n");
        repo.write(".gitignore", "*.log\n");
        repo.git(&["add", "."]);
        repo.git(&["commit", "-qm", "one"]);
        repo.git(&["push", "-q", "origin", "HEAD"]);
        repo
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path.join(name), text).unwrap();
    }

    fn git(&self, args: &[&str]) {
        self.git_in(&self.path, args);
    }

    fn git_in(&self, folder: &Path, args: &[&str]) {
        let done = Command::new("git")
            .args([
                "-c",
                "protocol.file.allow=always",
                "-c",
                "user.name=n",
                "-c",
                "user.email=a@b.c",
            ])
            .args(args)
            .current_dir(folder)
            .env("HOME", self.world.env.path("home"))
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    fn left(&self) -> UnsavedWork {
        self.left_in(&self.path)
    }

    fn left_in(&self, folder: &Path) -> UnsavedWork {
        let scratch = self.world.env.path("scratch");
        let supervisor = Supervisor::new(env!("CARGO_BIN_EXE_vik"), [SHIM_VERB.into()]).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let left = runtime.block_on(unsaved_work(&supervisor, folder, &scratch));
        assert_eq!(
            list(&scratch),
            Vec::<PathBuf>::new(),
            "nothing of the look is left"
        );
        left
    }
}

#[test]
fn pushed_work_is_not_unsaved() {
    let repo = Repo::new();
    assert_eq!(repo.left(), UnsavedWork::Nothing);
    repo.write("x.log", "ignored");
    assert_eq!(repo.left(), UnsavedWork::Nothing, "an ignored file is no work");
    repo.git(&["pack-refs", "--all"]);
    repo.git(&["gc", "-q"]);
    assert_eq!(repo.left(), UnsavedWork::Nothing, "packed as well as loose");
}

#[test]
fn files_without_a_repository_count_as_unsaved() {
    let repo = Repo::new();
    let folder = repo.world.env.work().join("plain");
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(repo.left_in(&folder), UnsavedWork::Nothing);
    std::fs::write(folder.join("a"), "").unwrap();
    assert_eq!(repo.left_in(&folder), UnsavedWork::Files);
}

#[test]
fn uncommitted_changes_are_kept() {
    let change = |change: &dyn Fn(&Repo)| {
        let repo = Repo::new();
        change(&repo);
        repo.left()
    };
    assert_eq!(change(&|repo| repo.write("a", "two\n")), UnsavedWork::Uncommitted);
    assert_eq!(change(&|repo| repo.write("new", "")), UnsavedWork::Uncommitted);
    let staged = change(&|repo| {
        repo.write("new", "");
        repo.git(&["add", "new"]);
    });
    assert_eq!(staged, UnsavedWork::Uncommitted);
    let nested = change(&|repo| repo.git(&["init", "-q", "nested"]));
    assert_eq!(nested, UnsavedWork::Uncommitted);
}

#[test]
fn unpushed_commits_are_kept() {
    let commit = |args: &[&[&str]]| {
        let repo = Repo::new();
        for args in args {
            repo.git(args);
        }
        repo.left()
    };
    let made: &[&str] = &["commit", "-q", "--allow-empty", "-m", "two"];
    assert_eq!(commit(&[made]), UnsavedWork::Unpushed);
    assert_eq!(
        commit(&[made, &["push", "-q", "origin", "HEAD"]]),
        UnsavedWork::Nothing
    );
    // On a branch that is not checked out, on no branch, and in the stash.
    assert_eq!(
        commit(&[&["checkout", "-qb", "other"], made, &["checkout", "-q", "-"]]),
        UnsavedWork::Unpushed
    );
    assert_eq!(
        commit(&[&["checkout", "-q", "--detach"], made]),
        UnsavedWork::Unpushed
    );
    let repo = Repo::new();
    repo.write("a", "two\n");
    repo.git(&["stash", "-q"]);
    assert_eq!(repo.left(), UnsavedWork::Unpushed);
    // Without a remote nothing is pushed; without a commit there is nothing to push.
    let alone = repo.world.env.work().join("alone");
    repo.git_in(&repo.world.env.work(), &["init", "-q", "alone"]);
    assert_eq!(repo.left_in(&alone), UnsavedWork::Nothing);
    repo.git_in(&alone, made);
    assert_eq!(repo.left_in(&alone), UnsavedWork::Unpushed);
}

#[test]
fn linked_work_tree_counts_only_its_own_commits() {
    let repo = Repo::new();
    let linked = repo.world.env.work().join("linked");
    repo.git(&["worktree", "add", "-q", "--detach", "../linked"]);
    // A commit of the repository around it, not of this work tree.
    repo.git(&["commit", "-q", "--allow-empty", "-m", "elsewhere"]);
    assert_eq!(repo.left_in(&linked), UnsavedWork::Nothing);
    repo.git_in(&linked, &["commit", "-q", "--allow-empty", "-m", "own"]);
    assert_eq!(repo.left_in(&linked), UnsavedWork::Unpushed);
    std::fs::write(linked.join("new"), "").unwrap();
    assert_eq!(repo.left_in(&linked), UnsavedWork::Uncommitted);
}

#[test]
fn submodules_count_as_unsaved_work() {
    let repo = Repo::new();
    repo.git(&["submodule", "--quiet", "add", "../up.git", "sub"]);
    repo.git(&["commit", "-qm", "sub"]);
    repo.git(&["push", "-q", "origin", "HEAD"]);
    assert_eq!(repo.left(), UnsavedWork::Submodules);
}

#[test]
fn inspection_runs_no_program_of_the_repository() {
    let repo = Repo::new();
    let trap = repo.world.env.work().join("sprung");
    let spring = format!("touch {}; cat", trap.display());
    for (key, value) in [
        ("filter.evil.clean", spring.as_str()),
        ("filter.evil.smudge", &spring),
        ("filter.evil.process", &spring),
        ("diff.evil.textconv", &spring),
        ("diff.evil.command", &spring),
        ("diff.external", &spring),
        ("core.fsmonitor", &spring),
        ("core.pager", &spring),
        ("core.alternateRefsCommand", &spring),
        ("core.sshCommand", &spring),
        ("core.hooksPath", "hooks"),
    ] {
        repo.git(&["config", key, value]);
    }
    repo.write(".git/info/attributes", "* filter=evil diff=evil\n");
    for hook in [
        "post-index-change",
        "pre-commit",
        "reference-transaction",
        "post-checkout",
    ] {
        let hook = repo.path.join(".git/hooks").join(hook);
        std::fs::write(&hook, format!("#!/bin/sh\n{spring}\n")).unwrap();
        std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    // Content that git has to read again, because its timestamps prove nothing.
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    std::fs::File::options()
        .append(true)
        .open(repo.path.join("a"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert_eq!(repo.left(), UnsavedWork::Nothing);
    repo.write("a", "two\n");
    assert_eq!(repo.left(), UnsavedWork::Uncommitted);
    assert!(!trap.exists(), "a program of the repository was run");
}

#[test]
fn unreadable_repository_is_kept() {
    let repo = Repo::new();
    let text = std::fs::read_to_string(repo.path.join(".git/HEAD")).unwrap();
    std::fs::remove_file(repo.path.join(".git/HEAD")).unwrap();
    nix::unistd::mkfifo(&repo.path.join(".git/HEAD"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(
        matches!(repo.left(), UnsavedWork::Unknown(_)),
        "a pipe is not waited for"
    );
    std::fs::remove_file(repo.path.join(".git/HEAD")).unwrap();
    repo.write(".git/HEAD", &text);
    repo.write(".git/index", "garbage");
    assert!(matches!(repo.left(), UnsavedWork::Unknown(_)));
}
