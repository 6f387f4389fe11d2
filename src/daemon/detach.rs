//! `run -d`: starts the daemon in a session of its own and waits until it is ready.
//!
//! The child says how its start went in one line on its standard output, a pipe to the parent, and then lets go of it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use vik_api::ErrorBody;

use crate::report::{Exit, Failure};

/// How the start of a detached daemon went.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StartResult {
    Ready {
        pid: i32,
    },
    Failed {
        exit: u8,
        error: ErrorBody,
        text: String,
    },
}

/// The child's end: to be told once.
#[derive(Debug)]
pub struct Ready(());

/// Starts this program again with these arguments as a detached daemon, and waits for its word. Returns its pid.
///
/// # Errors
/// With the daemon's own error when it could not become ready.
pub fn detach(args: &[OsString]) -> Result<i32, Failure> {
    let fail = |error: &io::Error| Failure::failed("detach", "cannot start the daemon", error);
    let program = std::env::current_exe().map_err(|error| fail(&error))?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| fail(&error))?;
    let mut word = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut word).map_err(|error| fail(&error))?;
    }
    match serde_json::from_str(&word) {
        Ok(StartResult::Ready { pid }) => Ok(pid),
        Ok(StartResult::Failed { exit, error, text }) => {
            let _ = child.wait();
            Err(Failure::passed_on(exit, error, text))
        }
        Err(_) => {
            let how = child.wait().map(|status| status.to_string()).unwrap_or_default();
            Err(Failure::new(Exit::Bug, "detach", "the daemon ended before it was ready").cause(how))
        }
    }
}

impl Ready {
    /// Enters a session of its own, so that the end of the terminal is not the end of the daemon.
    pub fn enter() -> Self {
        // It fails only for a process that leads a group already, and then there is nothing to leave.
        let _ = nix::unistd::setsid();
        Self(())
    }

    /// Tells that the daemon is ready, and lets go of the parent: what is printed from here on goes to `log`.
    pub fn ready(self, log: &Path) -> io::Result<()> {
        let pid = i32::try_from(std::process::id()).unwrap_or_default();
        #[expect(clippy::disallowed_methods, reason = "Vik's own log")]
        let file = OpenOptions::new().create(true).append(true).open(log)?;
        write_result(&StartResult::Ready { pid })?;
        nix::unistd::dup2_stdout(&file)?;
        nix::unistd::dup2_stderr(&file)?;
        Ok(())
    }

    /// Tells why it is not.
    pub fn failed(self, failure: &Failure) {
        let word = StartResult::Failed {
            exit: failure.exit.code(),
            error: failure.body(),
            text: failure.text(false),
        };
        // The parent may be gone; then nobody asks any more.
        let _ = write_result(&word);
    }
}

fn write_result(word: &StartResult) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, word)?;
    stdout.flush()
}
