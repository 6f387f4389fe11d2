//! A server of the run: a program that talks through its pipes until the run ends, with the
//! confinement and the environment of commands.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vik_proc::{Direct, DirectSpec, Graces, Mark};

use super::runner::Runner;
use super::running::{KILL_GRACE, MARK, POLL_INTERVAL, TERM_GRACE, environment};

/// How long a server may take to end by itself once its input is closed.
const END_GRACE: Duration = Duration::from_millis(250);

/// The program of a server, and how it is started.
pub(crate) struct ServerSpec<'a> {
    /// A path, or a name that is searched in `PATH`.
    pub(crate) program: &'a str,
    pub(crate) args: &'a [String],
    pub(crate) cwd: &'a Path,
    /// Variables beside those of all commands.
    pub(crate) env: &'a [(String, String)],
}

/// The pipes of a server, seen from this process.
pub(crate) struct ServerPipes {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// A running server. Dropping it kills all its processes.
pub(crate) struct ServerProcess(Direct);

impl Runner {
    /// Starts a server.
    ///
    /// # Errors
    /// When the program cannot be found, started or confined.
    pub(crate) fn start_server(&self, spec: &ServerSpec<'_>) -> io::Result<(ServerProcess, ServerPipes)> {
        let mut env = environment(self.hidden());
        for (name, value) in spec.env {
            env.retain(|(known, _)| known.to_str() != Some(name));
            env.push((name.into(), value.into()));
        }
        let program = find_program(spec.program, spec.cwd, &env)?;
        let (stdin, to_server) = io::pipe()?;
        let (from_server, stdout) = io::pipe()?;
        let (errors, stderr) = io::pipe()?;
        let args: Vec<&OsStr> = spec.args.iter().map(OsStr::new).collect();
        let direct = Direct::spawn(
            DirectSpec {
                program: &program,
                args: &args,
                cwd: spec.cwd,
                env,
                stdio: [stdin.into(), stdout.into(), stderr.into()],
                fence: self.fence(false)?,
                terminal: false,
            },
            Mark::new(MARK, uuid::Uuid::now_v7().to_string()),
        )?;
        let pipes = ServerPipes {
            stdin: to_server.into(),
            stdout: from_server.into(),
            stderr: errors.into(),
        };
        Ok((ServerProcess(direct), pipes))
    }
}

impl ServerProcess {
    /// Returns how it ended, or `None` while it runs.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.0.try_code().ok().flatten()
    }

    /// Ends servers whose pipes are closed: each gets a moment to end by itself, then SIGTERM, then
    /// SIGKILL. Returns when no process of them lives, or none can be ended.
    pub(crate) fn end_all(mut servers: Vec<Self>) {
        let until = Instant::now() + END_GRACE;
        while Instant::now() < until {
            servers.retain_mut(|server| server.exit_code().is_none() || !server.0.has_exited());
            if servers.is_empty() {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        for server in &mut servers {
            server.0.start_ending(Graces {
                int: Duration::ZERO,
                term: TERM_GRACE,
                leftover: TERM_GRACE,
                kill: KILL_GRACE,
            });
        }
        while !servers.is_empty() {
            servers.retain_mut(|server| server.0.step().is_none());
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns the path of a program: as given if it contains a slash, else the first in `PATH`.
fn find_program(name: &str, cwd: &Path, env: &[(OsString, OsString)]) -> io::Result<PathBuf> {
    if name.contains('/') {
        return Ok(cwd.join(name));
    }
    let path = env.iter().find(|(variable, _)| variable == "PATH");
    let folders = path
        .map(|(_, value)| std::env::split_paths(value))
        .into_iter()
        .flatten();
    folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok() && path.is_file())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("there is no program `{name}` in PATH"),
            )
        })
}
