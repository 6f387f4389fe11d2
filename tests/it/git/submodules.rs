//! `vik git submodule update`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::push::private;
use super::{Clone, traps, walk};
use crate::support::assert_contains;

const PATH: &str = "libs/lib";
const REPOSITORY: &str = ".git/modules/libs/lib";
const UPDATE: &[&str] = &["submodule", "update", "--quiet"];
const CLONE: &str = "git -c protocol.file.allow=always clone -q --recurse-submodules {{ workflow_dir }}/up.git . \
                     && git switch -qc vik/1";

/// Returns a clone with the submodule `libs/lib`, which has a submodule `inner`.
fn with_submodule() -> Clone {
    Clone::of(CLONE, add_submodules)
}

fn add_submodules(clone: &Clone) {
    let work = clone.world.env.work();
    for name in ["inner", "lib"] {
        clone.git_in(
            &work,
            &["init", "-q", "--bare", "-b", "main", &format!("{name}.git")],
        );
        clone.git_in(&work, &["clone", "-q", &format!("{name}.git"), name]);
        clone.commit_in(&work.join(name), "file", &format!("{name} one\n"));
        publish(clone, name);
    }
    add(clone, "lib", "inner", "inner");
    add(clone, "seed", "lib", PATH);
}

/// Adds a submodule to a repository by a relative URL, and pushes the commit.
fn add(clone: &Clone, repository: &str, submodule: &str, path: &str) {
    let folder = clone.world.env.work().join(repository);
    let url = format!("../{submodule}.git");
    clone.git_in(&folder, &["submodule", "--quiet", "add", &url, path]);
    clone.git_in(&folder, &["commit", "-qm", "submodule"]);
    publish(clone, repository);
}

fn publish(clone: &Clone, repository: &str) {
    let folder = clone.world.env.work().join(repository);
    clone.git_in(&folder, &["push", "-q", "origin", "HEAD:main"]);
}

/// Commits to `lib` and makes the main branch name that commit, which is then in `origin/main` of
/// the workspace. Returns the commit.
fn move_gitlink(clone: &Clone) -> String {
    let work = clone.world.env.work();
    clone.commit_in(&work.join("lib"), "file", "lib two\n");
    publish(clone, "lib");
    let commit = clone.git_in(&work.join("lib"), &["rev-parse", "HEAD"]);
    name_in_main(clone, &commit);
    commit
}

fn name_in_main(clone: &Clone, commit: &str) {
    let seed = clone.world.env.work().join("seed");
    let entry = format!("160000,{commit},{PATH}");
    clone.git_in(&seed, &["update-index", "--cacheinfo", &entry]);
    clone.git_in(&seed, &["commit", "-qm", "move"]);
    publish(clone, "seed");
    clone.vik(&["fetch", "--quiet"]).expect(0);
    clone.vik(&["reset", "-q", "--hard", "origin/main"]).expect(0);
}

fn file(clone: &Clone) -> String {
    clone.world.workspace_file("1", "libs/lib/file")
}

fn record(clone: &Clone) -> PathBuf {
    let records = walk(&clone.service());
    let is_record = |path: &&PathBuf| path.to_string_lossy().ends_with(".git.json");
    records.iter().find(is_record).unwrap().clone()
}

fn read_record(clone: &Clone) -> Value {
    serde_json::from_slice(&std::fs::read(record(clone)).unwrap()).unwrap()
}

/// Returns the names and contents of all files in a folder.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = walk(folder)
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(path).unwrap_or_default()))
        .collect();
    files.sort();
    files
}

#[test]
fn update_checks_out_the_submodule_commit_of_head() {
    let clone = with_submodule();
    let sub = clone.path().join(PATH);
    let first = clone.git_in(&sub, &["rev-parse", "HEAD"]);
    // Leftovers of an agent: a branch with a commit, an uncommitted change that git does not see, a
    // new file.
    clone.git_in(&sub, &["switch", "-qc", "mine"]);
    clone.commit_in(&sub, "agent", "agent\n");
    let mine = clone.git_in(&sub, &["rev-parse", "HEAD"]);
    std::fs::write(sub.join("file"), "changed\n").unwrap();
    clone.git_in(&sub, &["update-index", "--assume-unchanged", "file"]);
    std::fs::write(sub.join("untracked"), "").unwrap();

    let second = move_gitlink(&clone);
    assert_eq!(file(&clone), "changed\n", "a reset moves no submodule");
    let done = clone.vik(&["submodule", "update", "--init"]).expect(0);
    assert_eq!(
        done.out,
        format!("Submodule path 'libs/lib': checked out '{second}'\n")
    );
    assert_eq!(file(&clone), "lib two\n");
    assert!(!sub.join("agent").exists());
    assert_eq!(clone.git_in(&sub, &["rev-parse", "HEAD"]), second);
    assert_eq!(
        clone.git_in(&sub, &["rev-parse", "mine", "ORIG_HEAD"]),
        format!("{mine}\n{mine}")
    );
    assert_eq!(clone.git_in(&sub, &["rev-parse", "origin/main"]), second);
    assert_eq!(
        clone.try_git(&sub, &["symbolic-ref", "-q", "HEAD"]).0,
        Some(1),
        "detached"
    );
    assert_eq!(clone.git_in(&sub, &["status", "--porcelain"]), "?? untracked");
    assert_eq!(
        clone.git(&["status", "--porcelain", "--ignore-submodules=untracked"]),
        ""
    );
    clone.git_in(&sub, &["fsck", "--connectivity-only"]);

    // A commit that exists locally needs no remote.
    std::fs::rename(
        clone.world.env.work().join("lib.git"),
        clone.world.env.work().join("away.git"),
    )
    .unwrap();
    clone.vik(&["reset", "-q", "--hard", "HEAD~1"]).expect(0);
    clone.vik(UPDATE).expect(0);
    assert_eq!(file(&clone), "lib one\n");
    assert_eq!(clone.git_in(&sub, &["rev-parse", "HEAD"]), first);
}

#[test]
fn commit_outside_any_branch_is_fetched_by_id() {
    let clone = with_submodule();
    let lib = clone.world.env.work().join("lib");
    clone.commit_in(&lib, "file", "lib of a pull request\n");
    clone.git_in(&lib, &["push", "-q", "origin", "HEAD:refs/pull/1/head"]);
    let commit = clone.git_in(&lib, &["rev-parse", "HEAD"]);
    name_in_main(&clone, &commit);
    clone.vik(UPDATE).expect(0);
    assert_eq!(file(&clone), "lib of a pull request\n");
    // A commit that the remote does not have.
    clone.commit_in(&lib, "file", "never pushed\n");
    let commit = clone.git_in(&lib, &["rev-parse", "HEAD"]);
    name_in_main(&clone, &commit);
    let done = clone.refused(UPDATE, "git");
    assert_contains(&done.err, "cannot update the submodule `libs/lib`");
    assert_contains(&done.err, format!("push {commit} to the remote of the submodule"));
}

#[test]
fn nested_submodules_are_updated_on_request() {
    let clone = with_submodule();
    let inner = clone.path().join("libs/lib/inner/file");
    std::fs::write(&inner, "changed\n").unwrap();
    clone.vik(UPDATE).expect(0);
    assert_eq!(std::fs::read_to_string(&inner).unwrap(), "changed\n");
    let done = clone
        .vik(&["submodule", "update", "--recursive", "libs/"])
        .expect(0);
    assert_contains(&done.out, "'libs/lib/inner'");
    assert_eq!(std::fs::read_to_string(&inner).unwrap(), "inner one\n");
    let done = clone.refused(&["submodule", "update", "other"], "git_no_submodule");
    assert_contains(&done.err, "error: `other` neither is nor contains a submodule");
}

#[test]
fn removed_submodule_is_restored_by_update() {
    for removal in [
        &["rm", "-qf", PATH][..],
        &["submodule", "--quiet", "deinit", "-f", PATH],
    ] {
        let clone = with_submodule();
        clone.git(removal);
        clone.vik(&["reset", "-q", "--hard", "origin/main"]).expect(0);
        assert!(!clone.path().join("libs/lib/file").exists());
        clone.vik(UPDATE).expect(0);
        assert_eq!(file(&clone), "lib one\n");
        assert_eq!(
            clone.git_in(&clone.path().join(PATH), &["status", "--porcelain"]),
            ""
        );
    }
}

#[test]
fn submodule_settings_run_no_program() {
    let clone = with_submodule();
    let second = move_gitlink(&clone);
    let (spring, trace) = traps::spring(&clone);
    traps::set(&clone, ".", ".git", &spring);
    traps::set(&clone, PATH, REPOSITORY, &spring);
    let command = format!("!{}", spring.display());
    clone.git(&["config", "submodule.libs/lib.update", &command]);
    let sub = clone.path().join(PATH);
    let outside = clone.world.env.work().join("outside");
    std::fs::create_dir(&outside).unwrap();
    clone.git_in(&sub, &["config", "core.worktree", &outside.display().to_string()]);

    let done = clone.vik(&["submodule", "update", "--recursive"]);
    let sprung = std::fs::read_to_string(&trace).unwrap_or_default();
    assert_eq!(sprung, "", "{}{}", done.out, done.err);
    let done = done.expect(0);
    assert_contains(&done.out, &second);
    assert_eq!(file(&clone), "lib two\n");
    assert_eq!(contents(&outside), [], "core.worktree of the agent's");

    // Proves that the traps work: plain git triggers them.
    clone.git_in(&sub, &["config", "--unset", "core.worktree"]);
    std::fs::write(sub.join("file"), "changed\n").unwrap();
    clone.try_git(&clone.path(), &["submodule", "update", "--force"]);
    assert!(
        trace.exists(),
        "plain git springs no trap: this test shows nothing"
    );
    for args in [&["fetch"][..], &["reset", "--hard"], &["checkout", "HEAD~1"]] {
        let _ = std::fs::remove_file(&trace);
        std::fs::write(sub.join("file"), "changed again\n").unwrap();
        clone.try_git(&sub, args);
        assert!(trace.exists(), "git {args:?} in the submodule springs no trap");
    }
}

/// A filter of the user is not used where its program is a file of the workspace, inside or outside
/// of the submodule.
#[test]
fn submodule_filter_from_the_workspace_is_refused() {
    let clone = with_submodule();
    let config = clone.world.env.home().join(".gitconfig");
    let mut text = std::fs::read_to_string(&config).unwrap_or_default();
    let smudge = clone.path().join("smudge");
    text.push_str(&format!("\n[filter \"up\"]\n\tsmudge = {}\n", smudge.display()));
    std::fs::write(&config, text).unwrap();
    let done = clone.refused(UPDATE, "git_unusable");
    assert_contains(&done.err, "filter.up.smudge");
}

/// A change of an agent to a submodule, with another repository of the user.
type Attack<'a> = &'a dyn Fn(&Clone, &Path);

#[test]
fn submodule_that_leads_elsewhere_is_refused() {
    let aside = |clone: &Clone, path: &str| {
        std::fs::rename(clone.path().join(path), clone.path().join("aside")).unwrap();
    };
    let attacks: [(&str, Attack<'_>); 12] = [
        (".git names another repository", &|clone, private| {
            clone.write("libs/lib/.git", &format!("gitdir: {}/.git\n", private.display()));
        }),
        (".git names another submodule", &|clone, _| {
            let inner = clone.path().join(REPOSITORY).join("modules/inner");
            clone.write("libs/lib/.git", &format!("gitdir: {}\n", inner.display()));
        }),
        (".git is a repository of the agent's", &|clone, _| {
            aside(clone, "libs/lib/.git");
            clone.git_in(&clone.path().join(PATH), &["init", "-q"]);
        }),
        (".git is a link", &|clone, private| {
            aside(clone, "libs/lib/.git");
            symlink(private.join(".git"), clone.path().join("libs/lib/.git")).unwrap();
        }),
        ("the submodule is a link", &|clone, private| {
            aside(clone, PATH);
            symlink(private, clone.path().join(PATH)).unwrap();
        }),
        ("the submodule is a link, and .git gone", &|clone, private| {
            aside(clone, PATH);
            std::fs::create_dir(private.join("files")).unwrap();
            symlink(private.join("files"), clone.path().join(PATH)).unwrap();
        }),
        ("the folder above is a link", &|clone, private| {
            aside(clone, "libs");
            std::fs::create_dir(private.join("lib")).unwrap();
            symlink(private, clone.path().join("libs")).unwrap();
        }),
        ("the repository is a link", &|clone, private| {
            aside(clone, REPOSITORY);
            symlink(private.join(".git"), clone.path().join(REPOSITORY)).unwrap();
        }),
        ("the folder above the repository is a link", &|clone, private| {
            let modules = clone.path().join(".git/modules");
            copy(&modules, &private.join("modules"));
            aside(clone, ".git/modules");
            symlink(private.join("modules"), modules).unwrap();
        }),
        ("the repository and .git are gone", &|clone, _| {
            std::fs::remove_file(clone.path().join("libs/lib/.git")).unwrap();
            aside(clone, REPOSITORY);
        }),
        ("the objects are a link", &|clone, private| {
            let objects = clone.path().join(REPOSITORY).join("objects");
            std::fs::rename(&objects, clone.path().join("aside")).unwrap();
            symlink(private.join(".git/objects"), objects).unwrap();
        }),
        ("alternates", &|clone, private| {
            let text = format!("{}/.git/objects\n", private.display());
            clone.write(&format!("{REPOSITORY}/objects/info/alternates"), &text);
        }),
    ];
    let clone = with_submodule();
    move_gitlink(&clone);
    let (private, _) = private(&clone);
    let intact = clone.world.env.work().join("intact");
    copy(&clone.path(), &intact);
    for (name, attack) in attacks {
        std::fs::remove_dir_all(clone.path()).unwrap();
        copy(&intact, &clone.path());
        attack(&clone, &private);
        let before = (contents(&private), contents(&clone.path()));
        let done = clone.refused(UPDATE, "git_unsafe");
        assert!(
            done.err.contains("cannot update the submodule `libs/lib`"),
            "{name}: {}",
            done.err
        );
        assert!(
            done.err.contains("hint: remove the workspace"),
            "{name}: {}",
            done.err
        );
        assert_eq!(contents(&private), before.0, "{name}");
        assert!(
            contents(&clone.path()) == before.1,
            "{name}: the workspace was changed"
        );
    }
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(done.success());
}

#[test]
fn submodule_is_fetched_only_from_the_recorded_url() {
    let clone = with_submodule();
    let work = clone.world.env.work();
    let recorded = read_record(&clone);
    let url = &recorded["repository"]["submodules"][PATH]["repository"]["remotes"]["origin"]["url"];
    assert_eq!(url, &work.join("lib.git").display().to_string(), "absolute");
    move_gitlink(&clone);
    clone.git_in(
        &clone.path().join(PATH),
        &["config", "remote.origin.url", "/elsewhere"],
    );
    let done = clone.refused(UPDATE, "git_unsafe");
    assert_contains(&done.err, "names another URL for the remote `origin`");
    assert_contains(&done.err, "`libs/lib`");
    assert_eq!(file(&clone), "lib one\n");
    // A remote inside the workspaces is a repository of an agent.
    let clone = Clone::of(
        &format!("{CLONE} && git -C libs/lib remote set-url origin \"$PWD\""),
        add_submodules,
    );
    move_gitlink(&clone);
    let done = clone.refused(UPDATE, "git_unsafe");
    assert_contains(&done.err, "inside the workspaces");
}

#[test]
fn submodule_without_a_record_is_left_unchanged() {
    let clone = with_submodule();
    add(&clone, "seed", "inner", "later");
    let second = move_gitlink(&clone);
    let done = clone.vik(&["submodule", "update"]).expect(0);
    assert!(done.out.contains(&second), "the others are updated: {}", done.out);
    assert_contains(&done.err, "note: submodules not updated");
    assert_contains(&done.err, "`after_create`: later\n");
    assert_contains(&done.err, "hint: remove the workspace");
    assert!(!clone.path().join("later/file").exists());
    let done = clone.refused(&["submodule", "update", "later"], "git_no_record");
    assert_contains(&done.err, "error: submodules not updated");

    // Recording the URL of the workspace again keeps the records of submodules.
    let url = clone.up().display().to_string();
    clone
        .vik(&["record", "--url", &url, "--branch", "vik/1", "--force"])
        .expect(0);
    std::fs::write(clone.path().join("libs/lib/file"), "changed\n").unwrap();
    clone.vik(UPDATE).expect(0);
    assert_eq!(file(&clone), "lib two\n");

    // A record of an older Vik has no submodules.
    let mut saved = read_record(&clone);
    saved["repository"]
        .as_object_mut()
        .unwrap()
        .remove("submodules")
        .unwrap();
    std::fs::write(record(&clone), saved.to_string()).unwrap();
    let done = clone.vik(UPDATE).expect(0);
    assert_contains(&done.err, "`after_create`: later, libs/lib\n");
    clone.vik(&["push", "--quiet"]).expect(0);
    clone.vik(&["fetch", "--quiet"]).expect(0);
}
