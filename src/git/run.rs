//! Running git.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use super::GitError;

/// Runs git and returns what it prints.
///
/// # Errors
/// When it cannot be started, or fails; with what it printed on stderr.
pub fn output(command: &mut Command) -> Result<Output, GitError> {
    let verb = verb_of(command);
    let output = command.output().map_err(|error| could_not_start(&verb, &error))?;
    if output.status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(GitError::Git {
        verb,
        how: format!("failed: {}", crate::report::tail_lines(&text, 5)),
    })
}

/// Runs git with this on its stdin.
///
/// # Errors
/// When it cannot be started, or fails.
pub(super) fn feed(command: &mut Command, input: &[u8]) -> Result<(), GitError> {
    let verb = verb_of(command);
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| could_not_start(&verb, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that does not read says why by its end.
        let _ = stdin.write_all(input);
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(GitError::Git {
            verb,
            how: format!("ended with {status}"),
        }),
        Err(error) => Err(could_not_start(&verb, &error)),
    }
}

pub(super) fn could_not_start(verb: &str, error: &std::io::Error) -> GitError {
    GitError::Git {
        verb: verb.to_owned(),
        how: format!("could not be started: {error}"),
    }
}

/// The verb among the arguments, after the options of git itself.
fn verb_of(command: &Command) -> String {
    let mut args = command.get_args().map(OsStr::to_string_lossy);
    while let Some(arg) = args.next() {
        match &*arg {
            "-c" => drop(args.next()),
            "--no-pager" => {}
            verb => return verb.to_owned(),
        }
    }
    String::new()
}
