//! The guarantees of templates, tested with real shells.

mod commands;
mod fence;
mod places;
mod refusals;
mod strictness;

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the shells of this machine that may be installed as `sh`.
fn shells() -> Vec<&'static str> {
    let found = |shell: &&str| {
        let there = |folder: &str| Path::new(folder).join(shell).exists();
        std::env::var("PATH").unwrap_or_default().split(':').any(there)
    };
    ["sh", "bash", "mksh", "yash", "busybox"]
        .into_iter()
        .filter(found)
        .collect()
}

/// Returns the number of cases of a property that starts processes: few, unless PROPTEST_CASES asks
/// for more.
fn cases(few: u32) -> proptest::test_runner::Config {
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    proptest::test_runner::Config::with_cases(asked.unwrap_or(few))
}

/// Runs a script as Vik does, `sh FILE`, in a folder of its own. Returns whether it succeeded, and
/// its output.
fn run(shell: &str, script: &str, folder: &Path) -> (bool, Vec<u8>) {
    let file = folder.join("script.sh");
    std::fs::write(&file, script).unwrap();
    let output = Command::new(shell)
        .args((shell == "busybox").then_some("sh"))
        .arg(&file)
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", folder)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    (output.status.success(), output.stdout)
}
