//! `vik git`: git in the workspace of an issue, without any of the settings of the workspace.

mod forged;
mod hooks;
mod push;
mod submodules;
mod traps;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::*;

/// An issue whose workspace is a clone of a repository with one commit, on a branch of its own.
struct Clone {
    world: World,
}

impl Clone {
    fn new() -> Self {
        Self::made_by("git clone -q {{ workflow_dir }}/up.git . && git switch -qc vik/1")
    }

    fn made_by(after_create: &str) -> Self {
        Self::of(after_create, |_| {})
    }

    /// Creates the clone. `prepare` changes the repository before that.
    fn of(after_create: &str, prepare: impl Fn(&Self)) -> Self {
        let world = World::new(&[("1", "todo")])
            .set("/issue/hooks", json!({"after_create": after_create}))
            .script("ok");
        let clone = Self { world };
        let work = clone.world.env.work();
        clone.git_in(&work, &["init", "-q", "--bare", "-b", "main", "up.git"]);
        clone.git_in(&work, &["clone", "-q", "up.git", "seed"]);
        clone.commit_in(&work.join("seed"), "a", "one\n");
        clone.git_in(&work.join("seed"), &["push", "-q", "origin", "HEAD:main"]);
        prepare(&clone);
        clone.world.once().expect(0);
        clone
    }

    fn path(&self) -> PathBuf {
        self.world.workspace("1")
    }

    /// Returns the folder with the service files of Vik.
    fn service(&self) -> PathBuf {
        let root = self.path().parent().unwrap().parent().unwrap().to_owned();
        assert!(root.join("service").is_dir());
        root.join("service")
    }

    fn up(&self) -> PathBuf {
        self.world.env.work().join("up.git")
    }

    /// Runs git in the workspace as an agent would.
    fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.path(), args)
    }

    #[track_caller]
    fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let (code, text) = self.try_git(folder, args);
        assert_eq!(code, Some(0), "git {args:?}: {text}");
        text.trim().to_owned()
    }

    fn try_git(&self, folder: &Path, args: &[&str]) -> (Option<i32>, String) {
        let done = self
            .world
            .env
            .command("git")
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
            .output()
            .unwrap();
        let text = [done.stdout, done.stderr].concat();
        (done.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    fn commit_in(&self, folder: &Path, file: &str, text: &str) {
        std::fs::write(folder.join(file), text).unwrap();
        self.git_in(folder, &["add", "-A"]);
        self.git_in(folder, &["commit", "-qm", text]);
    }

    fn commit(&self, file: &str, text: &str) -> String {
        self.commit_in(&self.path(), file, text);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Runs `vik git` as a hook does.
    fn vik(&self, args: &[&str]) -> Done {
        let all: Vec<&str> = ["git", "--issue", "1"].iter().chain(args).copied().collect();
        self.world.vik(&all)
    }

    fn pushed(&self, branch: &str) -> Option<String> {
        let (code, text) = self.try_git(&self.up(), &["rev-parse", "--verify", "-q", branch]);
        (code == Some(0)).then(|| text.trim().to_owned())
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[track_caller]
    fn refused(&self, args: &[&str], code: &str) -> Done {
        let done = self.vik(args).expect(1);
        let views = walk(&self.service()).into_iter().filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("git-")
        });
        assert_eq!(
            views.collect::<Vec<_>>(),
            Vec::<PathBuf>::new(),
            "nothing of it is left"
        );
        let headings = match code {
            "git" => &["the git command failed", "git failed with"][..],
            "git_no_record" => &[
                "has no record of the git repository",
                "submodules not updated, because they did not exist",
            ],
            "git_no_submodule" => &["neither is nor contains a submodule"],
            "git_no_remote" => &["no remote `"],
            "git_stale" => &["has commits that are missing in this workspace"],
            "git_unsafe" => &[
                "the repository of this workspace is not safe to use",
                "the remote is a repository inside the workspaces",
            ],
            "git_unusable" => &["git cannot run safely on this system"],
            code => panic!("{code} has no heading here"),
        };
        let is_refused = headings.iter().any(|heading| done.err.contains(heading));
        assert!(is_refused, "{code}: {}", done.err);
        done
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        }
    }
    found
}

/// A change of an agent to its repository, with a private repository and one of its commits.
type Attack<'a> = &'a dyn Fn(&Clone, &Path, &str);

#[test]
fn reset_uses_the_fetched_commit_despite_agent_changes() {
    let clone = Clone::new();
    let origin = clone.git(&["rev-parse", "origin/main"]);
    clone.commit("b", "two\n");
    // Hidden from git: a changed file, a moved ref, a wrong index, ignored leftovers.
    clone.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    // Git resolves each of these names first.
    for shadow in [
        "refs/origin/main",
        "refs/tags/origin/main",
        "refs/heads/origin/main",
    ] {
        clone.git(&["update-ref", shadow, "HEAD"]);
    }
    clone.write("a", "changed\n");
    clone.git(&["update-index", "--assume-unchanged", "a"]);
    clone.write("left", "over");
    clone.write(".git/info/exclude", "*\n");
    clone.write(".git/index.lock", "");
    clone
        .vik(&["reset", "--quiet", "--hard", "origin/main"])
        .expect(0);
    clone.vik(&["clean", "-fdq"]).expect(0);
    assert_eq!(clone.world.workspace_file("1", "a"), "one\n");
    assert!(!clone.path().join("b").exists() && !clone.path().join("left").exists());
    assert_eq!(clone.git(&["rev-parse", "HEAD"]), origin);
    assert_eq!(clone.git(&["symbolic-ref", "HEAD"]), "refs/heads/vik/1");
    std::fs::remove_file(clone.path().join(".git/info/exclude")).unwrap();
    assert_eq!(clone.git(&["status", "--porcelain"]), "");
    assert_eq!(clone.vik(&["status", "--porcelain"]).expect(0).out, "");
    // The previous commit can still be found.
    assert!(clone.git(&["show", "ORIG_HEAD:b"]).contains("two"));
}

#[test]
fn fetch_updates_the_remote_branches_of_the_workspace() {
    let clone = Clone::new();
    let seed = clone.world.env.work().join("seed");
    clone.commit_in(&seed, "new", "new\n");
    clone.git_in(&seed, &["push", "-q", "origin", "HEAD:main"]);
    clone.vik(&["fetch", "--quiet"]).expect(0);
    let head = clone.git_in(&seed, &["rev-parse", "HEAD"]);
    assert_eq!(clone.git(&["rev-parse", "origin/main"]), head);
    clone.git(&["fsck", "--connectivity-only"]);
    clone.vik(&["reset", "-q", "--hard", "origin/main"]).expect(0);
    assert_eq!(clone.world.workspace_file("1", "new"), "new\n");
    let log = clone.vik(&["log", "--format=%s", "-n", "1"]).expect(0);
    assert_eq!(log.out, "new\n");
}

#[test]
fn linked_work_tree_moves_only_the_branch_of_its_issue() {
    let clone = Clone::made_by("git -C {{ workflow_dir }}/seed worktree add -q -b vik/1 \"$PWD\"");
    let head = clone.commit("b", "two\n");
    clone.vik(&["push", "--quiet"]).expect(0);
    assert_eq!(clone.pushed("vik/1"), Some(head.clone()));
    clone.vik(&["reset", "-q", "--hard", "origin/main"]).expect(0);
    assert!(!clone.path().join("b").exists());
    // The branches belong to the repository of the user: only the branch of the issue is moved or
    // sent.
    let main = clone.git(&["rev-parse", "main"]);
    clone.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
    clone.refused(&["reset", "--hard", &head], "git_unsafe");
    clone.refused(&["push", "--force"], "git_unsafe");
    assert_eq!(clone.git(&["rev-parse", "main"]), main);
    clone.git(&["symbolic-ref", "HEAD", "refs/heads/vik/1"]);
    // The agent can write to its own folder, and points it to a repository of its own.
    clone.git_in(&clone.path(), &["init", "-q", "--bare", "evil"]);
    let own = clone.git(&["rev-parse", "--git-dir"]);
    std::fs::write(
        Path::new(&own).join("commondir"),
        clone.path().join("evil").display().to_string(),
    )
    .unwrap();
    let done = clone.refused(&["push", "--force"], "git_unsafe");
    assert_contains(&done.err, "no longer points to");
    clone.refused(&["reset", "--hard"], "git_unsafe");
}

#[test]
fn user_settings_apply_and_git_hooks_do_not_run() {
    let clone = Clone::new();
    clone.commit("b", "two\n");
    let config = clone.world.env.home().join(".gitconfig");
    let before = std::fs::read_to_string(&config).unwrap_or_default();
    // The user has moved the repository and configured the new place; hooks are searched in the
    // work tree.
    let moved = clone.world.env.work().join("moved.git");
    std::fs::rename(clone.up(), &moved).unwrap();
    let text = format!(
        "{before}\n[url \"{}\"]\n\tinsteadOf = {}\n[core]\n\thooksPath = .hooks\n[submodule]\n\trecurse = true\n",
        moved.display(),
        clone.up().display()
    );
    std::fs::write(&config, &text).unwrap();
    clone.write(".hooks/pre-push", "#!/bin/sh\ntouch \"$HOME/sprung\"\n");
    clone.write(
        ".hooks/reference-transaction",
        "#!/bin/sh\ntouch \"$HOME/sprung\"\n",
    );
    for hook in ["pre-push", "reference-transaction"] {
        let hook = clone.path().join(".hooks").join(hook);
        std::fs::set_permissions(hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    clone.vik(&["push", "--quiet"]).expect(0);
    clone.vik(&["reset", "-q", "--hard"]).expect(0);
    assert!(!clone.world.env.home().join("sprung").exists());
    std::fs::rename(&moved, clone.up()).unwrap();
    assert!(clone.pushed("vik/1").is_some());
    // A filter of the user works, except where its program is a file of the workspace.
    std::fs::write(
        &config,
        format!("{before}\n[filter \"up\"]\n\tsmudge = tr a-z A-Z\n\tclean = tr A-Z a-z\n"),
    )
    .unwrap();
    clone.commit(".gitattributes", "*.up filter=up\n");
    clone.write("x.up", "loud\n");
    clone.git(&["add", "-A"]);
    clone.git(&["commit", "-qm", "up"]);
    std::fs::remove_file(clone.path().join("x.up")).unwrap();
    clone.vik(&["reset", "-q", "--hard"]).expect(0);
    assert_eq!(clone.world.workspace_file("1", "x.up"), "LOUD\n");
    std::fs::write(
        &config,
        format!("{before}\n[filter \"up\"]\n\tsmudge = ./smudge.sh\n"),
    )
    .unwrap();
    let done = clone.refused(&["reset", "-q", "--hard"], "git_unusable");
    assert_contains(&done.err, "filter.up.smudge");
}

#[test]
fn workspace_without_a_record_is_refused_until_recorded() {
    let clone = Clone::new();
    let head = clone.commit("b", "two\n");
    let records = walk(&clone.service());
    let record = records
        .iter()
        .find(|path| path.to_string_lossy().ends_with(".git.json"))
        .unwrap();
    std::fs::remove_file(record).unwrap();
    let done = clone.refused(&["push"], "git_no_record");
    assert_contains(&done.err, "vik git --issue 1 record --url URL");
    let url = clone.up().display().to_string();
    clone
        .vik(&["record", "--url", &url, "--branch", "vik/1"])
        .expect(0);
    clone.vik(&["record", "--url", &url]).expect(0);
    clone.vik(&["record", "--url", "/other"]).expect(1);
    clone.vik(&["push", "--quiet"]).expect(0);
    assert_eq!(clone.pushed("vik/1"), Some(head));
}

#[test]
fn unsafe_operations_are_refused_with_a_reason() {
    let clone = Clone::new();
    let done = clone.vik(&["gc"]).expect(2);
    assert_contains(&done.err, "unknown command `gc` of `vik git`");
    // A remote among the workspaces is a repository of an agent.
    let clone = Clone::made_by(
        "git init -q --bare up && git clone -q {{ workflow_dir }}/up.git . 2>/dev/null; git remote set-url origin up 2>/dev/null || { git init -q . && git remote add origin ./up; }",
    );
    clone.commit("b", "two\n");
    let done = clone.refused(&["push", "--branch", "x"], "git_unsafe");
    assert_contains(&done.err, "inside the workspaces");
}

fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .unwrap();
    found.status.success()
}
