//! git as vex runs it. The workspace is not to be trusted: nothing runs that its configuration names - no hooks, no
//! fsmonitor, no pager, no signing program - and nothing is fetched.

use std::path::Path;
use std::process::{Command, Stdio};

/// Variables by which git would work elsewhere than in the workspace.
const ELSEWHERE: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
    "GIT_EXTERNAL_DIFF",
];
/// Settings that decide what else is run, or how the output looks.
const SETTINGS: [&str; 12] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "color.ui=false",
    "log.showSignature=false",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "status.submoduleSummary=false",
    "status.relativePaths=true",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// A git command in this directory, its subcommand still missing.
pub(crate) fn command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("--no-pager");
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    for name in ELSEWHERE {
        command.env_remove(name);
    }
    command
        .current_dir(dir)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_LITERAL_PATHSPECS", "1")
        .env("GIT_EDITOR", "true")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command
}
