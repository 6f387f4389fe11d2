//! Runs a program with limits, and ends its whole tree.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{AccessFlags, access};
use vik_base::report::chain;
use vik_proc::{Direct, DirectSpec, Graces, Mark};

use crate::protocol::CallError;

/// The time between two checks of the limits.
const PAUSE: Duration = Duration::from_millis(20);
/// The most bytes of standard error that are kept.
const MAX_STDERR: usize = 64 * 1024;

/// A program to run.
#[derive(Clone, Debug)]
pub(crate) struct Command<'a> {
    /// The path of the program.
    pub(crate) program: &'a Path,
    pub(crate) args: Vec<&'a OsStr>,
    /// The folder to run it in; the current one if there is none.
    pub(crate) folder: Option<&'a Path>,
    /// Variables that the program gets, beside the environment of this process or instead of it.
    pub(crate) with: &'a [(String, String)],
    /// The names of variables that the program does not get.
    pub(crate) without: &'a [&'a str],
    /// The text for standard input.
    pub(crate) input: &'a str,
    /// How long the program may run.
    pub(crate) timeout: Duration,
    /// The most bytes of standard output.
    pub(crate) max_bytes: usize,
}

/// The end of a program that stayed within its limits.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The exit code, 128 + n if signal n ended it.
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    /// The start of standard error.
    pub(crate) stderr: String,
}

/// Why a program has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("cannot start the program")]
    Start(#[source] io::Error),
    #[error("the program did not end within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the program printed more than {0} bytes")]
    Flooded(usize),
}

impl RunError {
    /// Returns the error of a call of this program: only one that took too long may work later.
    pub(crate) fn of_call(self, name: &str) -> CallError {
        let reason = format!("{name}: {}", chain(&self));
        match self {
            Self::TimedOut(_) => CallError::Later {
                reason,
                wait: Duration::ZERO,
            },
            Self::Start(_) | Self::Flooded(_) => CallError::Failed(reason),
        }
    }
}

/// Returns the path of a program. A name without a slash is searched in the absolute folders of
/// `PATH`.
pub(crate) fn find_program(name: &OsStr) -> Option<PathBuf> {
    let is_executable = |file: &PathBuf| file.is_file() && access(file, AccessFlags::X_OK).is_ok();
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(is_executable);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(is_executable)
}

/// Runs a program with the environment of this process. No process of it is alive afterwards, as far
/// as the system permits.
///
/// # Errors
/// When the program cannot be started or exceeds a limit.
pub(crate) fn run(command: &Command<'_>) -> Result<Finished, RunError> {
    let (stdin, input) = io::pipe().map_err(RunError::Start)?;
    let (output, stdout) = io::pipe().map_err(RunError::Start)?;
    let (errors, stderr) = io::pipe().map_err(RunError::Start)?;
    let cwd = match command.folder {
        Some(folder) => folder.to_owned(),
        None => std::env::current_dir().map_err(RunError::Start)?,
    };
    // A name that occurs twice has the first value for some programs, and the last one for others.
    let is_kept = |name: &OsString| {
        command.without.iter().all(|without| name != without)
            && command.with.iter().all(|(given, _)| name != given.as_str())
    };
    let with = command.with.iter();
    let env = std::env::vars_os()
        .filter(|(name, _)| is_kept(name))
        .chain(with.map(|(name, value)| (name.into(), value.into())))
        .collect();
    let spec = DirectSpec {
        program: command.program,
        args: &command.args,
        cwd: &cwd,
        env,
        stdio: [stdin.into(), stdout.into(), stderr.into()],
        fence: None,
        terminal: false,
    };
    let mark = Mark::new("VIK_TRACKER_CALL", uuid::Uuid::now_v7().to_string());
    let mut direct = Direct::spawn(spec, mark).map_err(RunError::Start)?;
    let flooded = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            // A program that does not read its input is no error.
            let _ = File::from(std::os::fd::OwnedFd::from(input)).write_all(command.input.as_bytes());
        });
        let stdout = threads.spawn(|| {
            let mut bytes = Vec::new();
            let _ = (&output)
                .take(command.max_bytes as u64 + 1)
                .read_to_end(&mut bytes);
            flooded.store(bytes.len() > command.max_bytes, Ordering::Release);
            bytes
        });
        let stderr = threads.spawn(|| {
            let mut bytes = Vec::new();
            let _ = (&errors).take(MAX_STDERR as u64).read_to_end(&mut bytes);
            // The remainder is read and dropped, so that the program does not wait.
            let _ = io::copy(&mut &errors, &mut io::sink());
            bytes
        });
        let ended = wait(&mut direct, command.timeout, &flooded);
        // This closes the pipes, so that the readers end.
        direct.end(Graces::short());
        let stdout = stdout.join().unwrap_or_default();
        let stderr = stderr.join().unwrap_or_default();
        match ended {
            _ if flooded.load(Ordering::Acquire) => Err(RunError::Flooded(command.max_bytes)),
            Ok(Some(code)) => Ok(Finished {
                code,
                stdout,
                stderr: String::from_utf8_lossy(&stderr).into_owned(),
            }),
            Ok(None) => Err(RunError::TimedOut(command.timeout)),
            Err(error) => Err(RunError::Start(error)),
        }
    })
}

/// Waits for the exit code; `None` if the time is up or the output too long.
fn wait(direct: &mut Direct, timeout: Duration, flooded: &AtomicBool) -> io::Result<Option<i32>> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(code) = direct.try_code()? {
            return Ok(Some(code));
        }
        if Instant::now() >= deadline || flooded.load(Ordering::Acquire) {
            return Ok(None);
        }
        let pause = PollTimeout::try_from(PAUSE).unwrap_or(PollTimeout::ZERO);
        match direct.ended_fd() {
            Some(fd) => {
                let _ = poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], pause);
            }
            None => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_gets_the_environment_without_some_variables() {
        let env = |with: &[(String, String)], without: &[&str]| {
            let program = find_program(OsStr::new("sh")).unwrap();
            let finished = run(&Command {
                program: &program,
                args: [
                    "-c",
                    "tr '\\0' '\\n' < /proc/$$/environ | grep ^CARGO_PKG_NAME= || echo unset",
                ]
                .map(OsStr::new)
                .into(),
                folder: None,
                with,
                without,
                input: "",
                timeout: Duration::from_secs(60),
                max_bytes: 100,
            });
            String::from_utf8(finished.unwrap().stdout).unwrap()
        };
        assert_eq!(env(&[], &[]), "CARGO_PKG_NAME=vik-tracker\n");
        assert_eq!(env(&[], &["CARGO_PKG_NAME"]), "unset\n");
        let with = [("CARGO_PKG_NAME".to_owned(), "secret".to_owned())];
        assert_eq!(env(&with, &[]), "CARGO_PKG_NAME=secret\n");
    }
}
