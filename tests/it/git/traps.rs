//! Every setting of git that can run a program, set in a workspace, against each verb of `vik git`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use vik_workspace::git::programs::{LEADING_KEYS, PROGRAM_KEYS, fits};

use super::{Clone, has};
use crate::support::assert_contains;

/// Keys whose names suggest a program but that do not run one, with their meaning.
const HARMLESS: &[(&str, &str)] = &[
    ("advice.*", "whether a hint is printed"),
    ("color.pager", "a flag"),
    ("completion.commands", "names for the shell's completion"),
    ("core.fsmonitorHookVersion", "a number"),
    ("diff.guitool", "the name of a tool"),
    ("diff.tool", "the name of a tool"),
    ("diff.*.cachetextconv", "a flag"),
    ("difftool.*", "flags; cmd and path are covered"),
    ("fsmonitor.*", "where git's own monitor listens"),
    ("guitool.*", "texts and flags of git gui; cmd is covered"),
    ("help.browser", "the name of a tool"),
    ("http.*proxy*", "an address, or a file of certificates"),
    ("merge.guitool", "the name of a tool"),
    ("merge.tool", "the name of a tool"),
    ("merge.*.name", "a text"),
    ("merge.*.recursive", "the name of a driver"),
    ("mergetool.*", "flags; cmd and path are covered"),
    ("notes.rewrite.*", "flags"),
    ("rebase.abbreviateCommands", "a flag"),
    ("rebase.rescheduleFailedExec", "a flag"),
    ("receive.updateServerInfo", "a flag"),
    ("remote.*.proxy*", "an address"),
    ("repack.updateServerInfo", "a flag"),
    (
        "sendemail.*",
        "settings of git send-email; its commands are covered",
    ),
    ("uploadpack.*", "what a server allows; its hook is covered"),
    ("uploadpackfilter.*", "what a server allows"),
    ("web.browser", "the name of a tool"),
    ("gitcvs.*", "a server that git starts by its own verb"),
];

/// Parts of a key that suggest a program.
const HINTS: &[&str] = &[
    "askpass",
    "browser",
    "cmd",
    "command",
    "driver",
    "editor",
    "exec",
    "fsmonitor",
    "helper",
    "hook",
    "httpd",
    "mta",
    "pager",
    "program",
    "proxy",
    "receivepack",
    "sendmail",
    "server",
    "shell",
    "smudge",
    "textconv",
    "tool",
    "tunnel",
    "uploadpack",
    "vcs",
];

fn keys_of_this_git() -> Vec<String> {
    let listed = Command::new("git").args(["help", "--config"]).output().unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let is_key = |line: &&str| line.contains('.') && !line.contains(' ') || line.contains("<");
    text.lines().filter(is_key).map(str::to_owned).collect()
}

/// Converts a key such as `filter.<driver>.clean` to the pattern `filter.*.clean`.
fn pattern(key: &str) -> String {
    let mut out = String::new();
    let mut in_name = false;
    for letter in key.chars() {
        match letter {
            '<' => {
                in_name = true;
                out.push('*');
            }
            '>' => in_name = false,
            letter if !in_name => out.push(letter),
            _ => {}
        }
    }
    out.to_ascii_lowercase()
}

fn matches(wild: &str, key: &str) -> bool {
    let mut parts = wild.to_ascii_lowercase();
    let key = key.to_ascii_lowercase();
    let mut at = 0;
    let mut first = true;
    while let Some((part, tail)) = parts.clone().split_once('*') {
        match key[at..].find(part) {
            Some(found) if !first || found == 0 => at += found + part.len(),
            _ => return false,
        }
        first = false;
        parts = tail.to_owned();
    }
    if first {
        key == parts
    } else {
        key[at..].ends_with(&parts)
    }
}

#[test]
fn program_settings_of_the_installed_git_are_all_known() {
    let unknown: Vec<String> = keys_of_this_git()
        .iter()
        .map(|key| pattern(key))
        .filter(|key| HINTS.iter().any(|hint| key.contains(hint)))
        .filter(|key| {
            !PROGRAM_KEYS
                .iter()
                .chain(&LEADING_KEYS)
                .any(|known| fits(known, key) || known == key)
        })
        .filter(|key| !HARMLESS.iter().any(|(known, _)| matches(known, key)))
        .collect();
    assert_eq!(
        unknown,
        Vec::<String>::new(),
        "this git has settings that look like programs and are in no list: add them to `git::programs` or to HARMLESS"
    );
}

/// Creates a program that records that it ran. Returns the program and the file with its records.
pub fn spring(clone: &Clone) -> (PathBuf, PathBuf) {
    let trace = clone.world.env.work().join("sprung");
    let text = format!(
        "#!/bin/sh\necho \"$0 $*\" >> {}\ntimeout 1 cat 2>/dev/null\n",
        trace.display()
    );
    let spring = clone.world.env.write("spring", text);
    std::fs::set_permissions(&spring, std::fs::Permissions::from_mode(0o755)).unwrap();
    (spring, trace)
}

/// Sets everything in a folder of the workspace that could run `spring`. `git_dir` is the path of
/// its repository from the workspace.
pub fn set(clone: &Clone, folder: &str, git_dir: &str, spring: &Path) {
    let command = spring.display().to_string();
    let files = clone.path().join(folder);
    let git = |args: &[&str]| drop(clone.try_git(&files, args));
    let in_git_dir = |name: &str| format!("{git_dir}/{name}");
    let in_folder = |name: &str| format!("{folder}/{name}");
    let other_hooks = clone.path().join(in_git_dir("other-hooks"));
    for key in PROGRAM_KEYS {
        // Subsections that git reads: a driver of attributes, the remote, formats of signatures.
        let names: &[&str] = match key {
            "pager.*" => &["status", "log", "diff", "show", "push", "fetch"],
            "alias.*" => &["push", "status", "reset", "clean", "lfs"],
            key if key.starts_with("remote.") => &["origin"],
            key if key.starts_with("gpg.") => &["ssh", "openpgp", "x509"],
            key if key.starts_with("credential.*") => &["https://localhost"],
            _ => &["trap"],
        };
        for name in names {
            let value = match key {
                "submodule.*.update" | "alias.*" => format!("!{command}"),
                "core.hookspath" | "init.templatedir" => continue,
                _ => command.clone(),
            };
            git(&["config", &key.replace('*', name), &value]);
        }
    }
    for (key, value) in [
        ("protocol.allow", "always"),
        ("protocol.ext.allow", "always"),
        ("submodule.recurse", "true"),
        ("push.recurseSubmodules", "on-demand"),
        ("push.gpgSign", "if-asked"),
        ("log.showSignature", "true"),
        ("core.hooksPath", &other_hooks.display().to_string()),
        ("core.untrackedCache", "true"),
        ("extensions.worktreeConfig", "true"),
        ("merge.tool", "trap"),
        ("status.submoduleSummary", "true"),
        ("diff.submodule", "diff"),
    ] {
        git(&["config", key, value]);
    }
    git(&["config", &format!("url.ext::{command} .pushInsteadOf"), "/"]);
    git(&["config", &format!("url.ext::{command} .insteadOf"), "/"]);
    clone.write(
        &in_git_dir("config.worktree"),
        &format!("[core]\n\tfsmonitor = {command}\n"),
    );
    clone.write(
        &in_git_dir("more"),
        &format!("[core]\n\tfsmonitor = {command}\n\tsshCommand = {command}\n"),
    );
    git(&["config", "include.path", "more"]);
    git(&["config", "includeIf.gitdir:/.path", "more"]);
    for file in [in_git_dir("info/attributes"), in_folder(".gitattributes")] {
        clone.write(&file, "* filter=trap diff=trap merge=trap\n");
    }
    clone.write(
        &in_folder(".lfsconfig"),
        &format!("[lfs]\n\turl = file://{command}\n[lfs \"customtransfer.x\"]\n\tpath = {command}\n"),
    );
    let hooks = [
        "pre-push",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "pre-auto-gc",
        "fsmonitor-watchman",
        "update",
        "pre-receive",
        "post-update",
        "post-rewrite",
        "proc-receive",
        "push-to-checkout",
        "pre-commit",
    ];
    for folder in ["hooks", "other-hooks"] {
        for hook in hooks {
            let name = in_git_dir(&format!("{folder}/{hook}"));
            clone.write(&name, &format!("#!/bin/sh\nexec {command}\n"));
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(clone.path().join(name), mode).unwrap();
        }
    }
    // Programs that a search in the current folder would find.
    for name in ["git", "sh", "ssh", "git-lfs", "tr"] {
        std::fs::copy(spring, files.join(name)).unwrap();
    }
    clone.write(&in_folder("a"), "changed\n");
}

const VERBS: &[&[&str]] = &[
    &["push", "--quiet"],
    &["push", "--force-with-lease"],
    &["push", "--force"],
    &["fetch"],
    &["status"],
    &["log", "-p", "--show-signature"],
    &["diff"],
    &["show"],
    &["rev-parse", "HEAD"],
    &["reset", "--hard", "origin/main"],
    &["reset", "--hard"],
    &["clean", "-fd"],
    &["clean", "-fdx"],
    &["submodule", "update", "--recursive"],
];

#[test]
fn workspace_settings_run_no_program() {
    let clone = Clone::new();
    // A submodule, whose settings the agent controls, too.
    clone.git(&[
        "submodule",
        "--quiet",
        "add",
        &clone.up().display().to_string(),
        "sub",
    ]);
    clone.git(&["commit", "-qm", "sub"]);
    clone.commit("b", "two\n");
    let (spring, trace) = spring(&clone);
    set(&clone, ".", ".git", &spring);
    let sub = clone.path().join("sub");
    clone.try_git(&sub, &["config", "core.fsmonitor", &spring.display().to_string()]);
    clone.try_git(
        &sub,
        &["config", "filter.trap.clean", &spring.display().to_string()],
    );
    std::fs::write(sub.join(".gitattributes"), "* filter=trap\n").unwrap();

    for verb in VERBS {
        let done = clone.vik(verb);
        let sprung = std::fs::read_to_string(&trace).unwrap_or_default();
        assert_eq!(
            sprung, "",
            "vik git {verb:?} ran a program of the workspace ({}, {})",
            done.out, done.err
        );
        assert_eq!(done.code, 0, "vik git {verb:?}: {}", done.err);
        clone.write("a", "changed again\n");
    }
    assert!(clone.pushed("vik/1").is_some());

    // Proves that the traps work: plain git triggers them, each by a setting, a hook, a filter and
    // a URL.
    clone.write(".gitattributes", "* filter=trap diff=trap\n");
    for args in [
        &["status"][..],
        &["push", "origin", "HEAD"],
        &["-c", "core.hooksPath=/dev/null", "push", "origin", "HEAD"],
        &["reset", "--hard", "HEAD"],
        &["diff"],
        &["fetch"],
    ] {
        let _ = std::fs::remove_file(&trace);
        clone.write("a", "changed once more\n");
        clone.try_git(&clone.path(), args);
        assert!(
            trace.exists(),
            "git {args:?} springs no trap: this test shows nothing"
        );
    }
}

#[test]
fn lfs_works_and_ignores_a_server_set_by_the_workspace() {
    if !has("git-lfs") {
        println!("skipped: there is no git-lfs");
        return;
    }
    let clone = Clone::new();
    let home = clone.world.env.home();
    clone.git(&["lfs", "install", "--skip-repo"]);
    clone.git(&["lfs", "track", "*.big"]);
    let content = "large\n".repeat(1000);
    clone.commit("x.big", &content);
    assert!(
        clone
            .git(&["show", "HEAD:x.big"])
            .starts_with("version https://git-lfs")
    );
    // A server of the agent, in the file that Git LFS reads from the work tree.
    let elsewhere = clone.world.env.work().join("elsewhere.git");
    clone.git_in(
        &clone.world.env.work(),
        &["init", "-q", "--bare", "elsewhere.git"],
    );
    clone.write(
        ".lfsconfig",
        &format!("[lfs]\n\turl = file://{}\n", elsewhere.display()),
    );
    clone.vik(&["push", "--quiet"]).expect(0);
    assert!(
        clone.up().join("lfs/objects").is_dir(),
        "the file went to the server of the clone"
    );
    assert!(!elsewhere.join("lfs/objects").exists());
    // A reset writes the file itself, also when only the server has it.
    std::fs::remove_file(clone.path().join("x.big")).unwrap();
    std::fs::remove_dir_all(clone.path().join(".git/lfs")).unwrap();
    clone.vik(&["reset", "-q", "--hard"]).expect(0);
    assert_eq!(clone.world.workspace_file("1", "x.big"), content);
    // A link among the objects gives no access to a file of the user.
    std::fs::write(home.join("key"), &content).unwrap();
    let object = super::walk(&clone.path().join(".git/lfs/objects"))
        .into_iter()
        .find(|path| path.is_file());
    let object = object.expect("the workspace keeps what was fetched");
    std::fs::remove_file(&object).unwrap();
    std::os::unix::fs::symlink(home.join("key"), &object).unwrap();
    let done = clone.refused(&["reset", "--hard"], "git_unsafe");
    assert_contains(&done.err, "is a link");
}
