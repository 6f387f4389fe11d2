//! `run -d`: starts the daemon in a session of its own and waits until it is ready.
//!
//! The child writes the result of its start in one line to its standard output, a pipe to the
//! parent, and then redirects its output.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use vik_api::ErrorBody;
use vik_base::report::{ErrorCode, Exit, Failure};

/// The result of the start of a detached daemon.
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

/// The child's side, to be used once.
#[derive(Debug)]
pub struct Ready(());

/// Starts this program again with these arguments as a detached daemon, and waits for its result.
/// Returns its pid.
///
/// # Errors
/// With the daemon's own error when it did not become ready.
pub fn detach(args: &[OsString]) -> Result<i32, Failure> {
    let fail = |error: &io::Error| Failure::failed(ErrorCode::Detach, "cannot start the daemon", error);
    let program = std::env::current_exe().map_err(|error| fail(&error))?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| fail(&error))?;
    let mut line = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut line).map_err(|error| fail(&error))?;
    }
    match serde_json::from_str(&line) {
        Ok(StartResult::Ready { pid }) => Ok(pid),
        Ok(StartResult::Failed { exit, error, text }) => {
            let _ = child.wait();
            Err(Failure::forwarded(exit, error, text))
        }
        Err(_) => {
            let how = child.wait().map(|status| status.to_string()).unwrap_or_default();
            Err(Failure::new(
                Exit::Bug,
                ErrorCode::Detach,
                "the daemon exited before it was ready",
            )
            .cause(how))
        }
    }
}

impl Ready {
    /// Enters a session of its own, so that the daemon survives the terminal.
    pub fn enter() -> Self {
        // It fails only for a process that already leads a group, which needs no new session.
        let _ = nix::unistd::setsid();
        Self(())
    }

    /// Reports that the daemon is ready, and separates from the parent: later output goes to `log`.
    pub fn ready(self, log: &Path) -> io::Result<()> {
        let pid = i32::try_from(std::process::id()).unwrap_or_default();
        #[expect(clippy::disallowed_methods, reason = "Vik's own log")]
        let file = OpenOptions::new().create(true).append(true).open(log)?;
        write_result(&StartResult::Ready { pid })?;
        nix::unistd::dup2_stdout(&file)?;
        nix::unistd::dup2_stderr(&file)?;
        Ok(())
    }

    /// Reports why the daemon is not ready.
    pub fn failed(self, failure: &Failure) {
        let result = StartResult::Failed {
            exit: failure.exit.code(),
            error: failure.body(),
            text: failure.text(false),
        };
        // The parent may have exited.
        let _ = write_result(&result);
    }
}

fn write_result(result: &StartResult) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, result)?;
    stdout.flush()
}
