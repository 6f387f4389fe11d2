//! Git settings and hooks that run programs: traps for any git that runs in this workspace later,
//! outside of the sandbox.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::Plan;

const KEYS: &[&str] = &[
    "filter.trap.clean",
    "filter.trap.smudge",
    "filter.trap.process",
    "diff.trap.textconv",
    "diff.trap.command",
    "diff.external",
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.alternateRefsCommand",
    "core.sshCommand",
    "credential.helper",
    "gpg.program",
];

const HOOKS: &[&str] = &[
    "post-index-change",
    "pre-commit",
    "reference-transaction",
    "post-checkout",
    "fsmonitor-watchman",
];

/// Sets the traps. This is not reported as an attempt, because it is allowed; no trap may run
/// outside.
pub(crate) fn set_traps(plan: &Plan) {
    let spring = format!("touch {}; cat", plan.outside.join("sprung-by-git").display());
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=n", "-c", "user.email=a@b.c"])
            .args(args);
        let done = git
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        done.is_ok_and(|status| status.success())
    };
    // A repository with a commit, so that git has something to do.
    let mut set = git(&["init", "-q"]);
    set &=
        fs::write("tracked", "one\n").is_ok() && git(&["add", "tracked"]) && git(&["commit", "-qm", "one"]);
    for key in KEYS {
        set &= git(&["config", key, &spring]);
    }
    let folder = ".git/hooks-of-its-own";
    set &= fs::create_dir_all(folder).is_ok() && git(&["config", "core.hooksPath", folder]);
    for hook in HOOKS {
        for folder in [folder, ".git/hooks"] {
            let hook = format!("{folder}/{hook}");
            let text = format!("#!/bin/sh\n{spring}\n");
            set &= fs::write(&hook, text).is_ok();
            set &= fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).is_ok();
        }
    }
    set &= fs::create_dir_all(".git/info").is_ok();
    set &= fs::write(".git/info/attributes", "* filter=trap diff=trap\n").is_ok();
    // Content that git must read again.
    set &= fs::write("tracked", "two\n").is_ok();
    println!("note: traps for git are {}set", if set { "" } else { "not " });
}
