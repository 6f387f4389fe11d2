//! Runs git in an untrusted workspace: nothing that its configuration names is run (hooks,
//! fsmonitor, pager, signing program), and nothing is fetched.

use std::path::Path;
use std::process::{Command, Stdio};

/// Variables that would make git work outside of the workspace.
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
/// Settings that decide what else is run, or the format of the output.
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

/// Returns a git command in this directory, without its subcommand.
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
