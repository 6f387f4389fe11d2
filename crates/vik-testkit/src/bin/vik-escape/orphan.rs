//! A process that stays behind, to act later: after the end of the agent, before `after_run`,
//! before the workspace is removed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use vik_testkit::wait_for;

use crate::{Plan, files, report};

/// The argument that makes this program the process that stays behind.
pub(crate) const STAY: &str = "stay";
/// The file with its id, in the workspace.
const PID: &str = "left-behind";

/// Starts it: not as a child of this process, in a session of its own, without an environment that
/// identifies it.
pub(crate) fn leave() {
    let (Ok(own), Some(plan)) = (std::env::current_exe(), std::env::var_os("ESCAPE_PLAN")) else {
        return;
    };
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "setsid \"$1\" \"$2\" &", "sh"])
        .arg(own)
        .arg(STAY);
    shell.env_clear().env("ESCAPE_PLAN", plan);
    let null = Stdio::null;
    let _ = shell.stdin(null()).stdout(null()).stderr(null()).status();
    let is_there = wait_for(Duration::from_secs(10), || Path::new(PID).exists());
    println!(
        "note: a process is {}left behind",
        if is_there { "" } else { "not " }
    );
}

/// Tries for a minute to put a link in place of the workspace.
pub(crate) fn stay(plan: &Plan) {
    let _ = fs::write("left-behind.new", std::process::id().to_string());
    let _ = fs::rename("left-behind.new", PID);
    let swapped = wait_for(Duration::from_secs(60), || files::swap(plan).is_ok());
    if swapped {
        report(
            "swap the workspace afterwards",
            fs::write(plan.outside.join("swapped"), "x").map_err(crate::text),
        );
    }
}
