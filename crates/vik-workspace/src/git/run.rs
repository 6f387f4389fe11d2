//! Runs git.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, ExitStatus, Output, Stdio};

use super::GitError;

/// The limit on the entries of a list that git prints: a few trees that name each other can have
/// billions of entries.
const MAX_ENTRIES: usize = 4_000_000;

/// The length limit of an entry, in bytes.
const MAX_ENTRY_BYTES: u64 = 64 * 1024;

/// Runs git and returns its output.
///
/// # Errors
/// Returns an error if git cannot be started, or fails; a failure includes its stderr.
pub fn output(command: &mut Command) -> Result<Output, GitError> {
    let verb = verb_of(command);
    let output = command.output().map_err(|error| could_not_start(&verb, &error))?;
    if output.status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(GitError::Git {
        verb,
        how: format!("failed: {}", vik_base::report::tail_lines(&text, 5)),
    })
}

/// Runs git with the given input on its stdin.
///
/// # Errors
/// Returns an error if git cannot be started, or fails.
pub(super) fn run_with_input(command: &mut Command, input: &[u8]) -> Result<(), GitError> {
    let verb = verb_of(command);
    let mut child = command
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| could_not_start(&verb, &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If git does not read its input, its exit status shows the error.
        let _ = stdin.write_all(input);
    }
    check_status(&verb, child.wait())
}

/// Runs git and passes each entry of its output to a function, without collecting them.
///
/// # Errors
/// Returns an error if git cannot be started, prints too much, or fails.
pub(super) fn entries(
    command: &mut Command,
    separator: u8,
    mut each: impl FnMut(&str),
) -> Result<(), GitError> {
    let verb = verb_of(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| could_not_start(&verb, &error))?;
    let mut read = Ok(());
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = BufReader::new(stdout);
        read = read_entries(&mut stdout, separator, &mut each);
    }
    if read.is_err() {
        let _ = child.kill();
    }
    let status = child.wait();
    read.map_err(|error| GitError::Git {
        verb: verb.clone(),
        how: format!("could not be read: {error}"),
    })?;
    check_status(&verb, status)
}

fn read_entries(stdout: &mut impl io::BufRead, separator: u8, each: &mut impl FnMut(&str)) -> io::Result<()> {
    let mut entry = Vec::new();
    for _ in 0..MAX_ENTRIES {
        entry.clear();
        if stdout.take(MAX_ENTRY_BYTES).read_until(separator, &mut entry)? == 0 {
            return Ok(());
        }
        if entry.pop() != Some(separator) {
            return Err(io::Error::other("an entry is too long"));
        }
        each(&String::from_utf8_lossy(&entry));
    }
    Err(io::Error::other(format!("more than {MAX_ENTRIES} entries")))
}

/// Returns an error if git could not be waited for, or failed.
pub(super) fn check_status(verb: &str, status: io::Result<ExitStatus>) -> Result<(), GitError> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(GitError::Git {
            verb: verb.to_owned(),
            how: format!("ended with {status}"),
        }),
        Err(error) => Err(could_not_start(verb, &error)),
    }
}

pub(super) fn could_not_start(verb: &str, error: &io::Error) -> GitError {
    GitError::Git {
        verb: verb.to_owned(),
        how: format!("could not be started: {error}"),
    }
}

/// Returns the git command among the arguments, after the global options.
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
