//! Helpers of the steps.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::exit;
use crate::lang::Step;

/// Why a script stops.
pub(crate) enum Stop {
    Exit(i32),
    Fail(i32, String),
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::Fail(exit::BAD_SCRIPT, reason)
    }
}

impl From<std::io::Error> for Stop {
    fn from(e: std::io::Error) -> Self {
        Self::Fail(exit::STEP, e.to_string())
    }
}

/// The result of a step.
pub(crate) type StepResult = Result<(), Stop>;

pub(crate) fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null());
    shell
}

pub(crate) fn missing_args(usage: &str) -> Stop {
    Stop::Fail(exit::BAD_SCRIPT, format!("needs {usage}"))
}

pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, Stop> {
    text.trim()
        .parse()
        .map_err(|_| Stop::Fail(exit::BAD_SCRIPT, format!("{text:?} is no fitting number")))
}

/// Returns the first argument, which is required, and the text after it.
pub(crate) fn first_and_text(step: &Step, usage: &str) -> Result<(String, String), Stop> {
    let (args, text) = step.split(1);
    let first = args.into_iter().next().ok_or_else(|| missing_args(usage))?;
    Ok((first, text))
}

pub(crate) fn two_numbers(step: &Step, second: usize) -> Result<(u64, usize), Stop> {
    let args = step.args();
    let first = args.first().ok_or_else(|| missing_args("N [BYTES]"))?;
    Ok((number(first)?, args.get(1).map_or(Ok(second), |arg| number(arg))?))
}

/// Returns the HTTP status before a text, if there is one, and the text.
pub(crate) fn status_and_text(step: &Step, default: u16) -> (u16, String) {
    let (args, text) = step.split(1);
    match args.first().and_then(|arg| arg.parse().ok()) {
        Some(status) => (status, text),
        None => (default, step.text()),
    }
}

pub(crate) fn print(bytes: &[u8]) -> StepResult {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Prints `count` pieces in writes of about 64 KiB.
pub(crate) fn print_pieces(
    count: u64,
    to_stdout: bool,
    mut piece: impl FnMut(&mut Vec<u8>, u64),
) -> StepResult {
    let mut chunk = Vec::with_capacity(80 * 1024);
    for number in 0..count {
        piece(&mut chunk, number);
        if chunk.len() >= 64 * 1024 || number + 1 == count {
            if to_stdout {
                print(&chunk)?;
            } else {
                std::io::stderr().write_all(&chunk)?;
            }
            chunk.clear();
        }
    }
    Ok(())
}

pub(crate) fn write_file(path: &Path, bytes: &[u8], append: bool) -> StepResult {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(append).write(true).truncate(!append);
    let written = options.open(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|e| Stop::Fail(exit::STEP, format!("{}: {e}", path.display())))
}

/// Returns the target of each open descriptor, one per line: `FD TARGET`.
pub(crate) fn open_fds() -> Result<String, Stop> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let Ok(target) = std::fs::read_link(entry.path()) else {
            continue;
        };
        // The descriptor of this listing.
        if !target.ends_with(format!("{}/fd", std::process::id())) {
            lines.push(format!(
                "{} {}\n",
                entry.file_name().to_string_lossy(),
                target.display()
            ));
        }
    }
    lines.sort();
    Ok(lines.concat())
}
