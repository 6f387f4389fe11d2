//! From a spec to a running agent.

use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc;

use super::feed::Feed;
#[cfg(target_os = "linux")]
use crate::sandbox;
use crate::sandbox::{Fence, Sandbox};
use crate::spec::{Output, ShimSpec, SpawnFailure, SpawnFailureKind as Kind, Stdin};
#[cfg(target_os = "linux")]
use crate::sys::Gate;
use crate::sys::{self, ChildStep, Image};

/// An agent that was forked; whether its `exec` succeeds is read from `report`.
pub(super) struct Launched {
    pub(super) pid: i32,
    /// End of file means that the agent runs; bytes mean that it could not be started.
    pub(super) report: OwnedFd,
    pub(super) feed: Option<Feed>,
}

/// Forks the agent, into this cgroup where the kernel can.
pub(super) fn launch(spec: &ShimSpec, cgroup: Option<&OwnedFd>) -> Result<Launched, SpawnFailure> {
    let program = resolve(spec)?;
    let (stdin, feed) = open_stdin(&spec.stdin)?;
    let (stdout, stdout_fd) = open_output(&spec.stdout, 1, 1)?;
    let (stderr, stderr_fd) = open_output(&spec.stderr, 2, stdout_fd)?;
    #[allow(unused_mut, reason = "only Linux takes the gate out of it")]
    let mut image = Image {
        program: c_string(program.as_os_str())?,
        args: std::iter::once(&spec.program)
            .chain(&spec.args)
            .map(|arg| c_string(arg))
            .collect::<Result<_, _>>()?,
        env: environment(spec)?,
        cwd: c_string(spec.cwd.as_os_str())?,
        stdio: [stdin.as_raw_fd(), stdout_fd, stderr_fd],
        open_files: spec.open_files,
        umask: spec.umask,
        #[cfg(target_os = "linux")]
        gate: gate(spec)?,
        fence: fence(spec)?,
    };
    let (report, report_writer) = sys::pipe().map_err(|error| os_failure("cannot make a pipe", &error))?;
    let pid =
        sys::fork_exec(&image, cgroup, &report_writer).map_err(|error| os_failure("cannot fork", &error))?;
    drop((stdin, stdout, stderr, report_writer));
    #[cfg(target_os = "linux")]
    if let (Some(gate), Some(sandbox)) = (image.gate.take(), &spec.sandbox) {
        // Without listeners the child has failed, and reports it; threads are made after the fork only.
        if let Ok(listeners) = gate.listeners() {
            let rules = sandbox.hosts().unwrap_or_default().to_vec();
            sandbox::serve(listeners, rules, spec.refusals.clone())
                .map_err(|error| os_failure("cannot make the proxy of its sandbox", &error))?;
        }
    }
    Ok(Launched { pid, report, feed })
}

/// What a report of the child means.
pub(super) fn failure(spec: &ShimSpec, step: ChildStep, errno: i32) -> SpawnFailure {
    let error = io::Error::from_raw_os_error(errno);
    match step {
        ChildStep::Prepare => os_failure("cannot prepare the process", &error),
        ChildStep::Confine => failed(Kind::NoSandbox, format!("its sandbox cannot be put up: {error}")),
        ChildStep::Cwd => failed(
            Kind::BadCwd,
            format!("cannot enter {}: {error}", spec.cwd.display()),
        ),
        ChildStep::Exec => {
            let program = Path::new(&spec.program).display();
            match errno {
                libc::ENOENT if resolve(spec).is_ok_and(|path| spec.cwd.join(path).exists()) => failed(
                    Kind::InterpreterNotFound,
                    format!("cannot execute {program}: the interpreter that it names is not there"),
                ),
                libc::ENOENT | libc::ENOTDIR => {
                    failed(Kind::NotFound, format!("cannot execute {program}: {error}"))
                }
                libc::EACCES | libc::EPERM => failed(
                    Kind::PermissionDenied,
                    format!("cannot execute {program}: {error}"),
                ),
                libc::ENOEXEC => failed(Kind::NotExecutable, format!("cannot execute {program}: {error}")),
                libc::E2BIG => failed(Kind::TooBig, format!("cannot execute {program}: {error}")),
                _ => os_failure(&format!("cannot execute {program}"), &error),
            }
        }
    }
}

/// The way into a network of its own, where only listed hosts may be reached.
#[cfg(target_os = "linux")]
fn gate(spec: &ShimSpec) -> Result<Option<Gate>, SpawnFailure> {
    let ports = spec.sandbox.as_ref().and_then(Sandbox::ports);
    let gate = ports.map(Gate::new).transpose();
    gate.map_err(|error| failed(Kind::NoSandbox, format!("its sandbox cannot be put up: {error}")))
}

/// The sandbox as this system upholds it, made before the fork.
fn fence(spec: &ShimSpec) -> Result<Option<Fence>, SpawnFailure> {
    let fence = spec.sandbox.as_ref().map(Sandbox::fence).transpose();
    fence.map_err(|error| {
        let why = std::error::Error::source(&error).map(|why| format!(": {why}"));
        let why = why.unwrap_or_default();
        failed(
            Kind::NoSandbox,
            format!("its sandbox cannot be put up: {error}{why}"),
        )
    })
}

fn failed(kind: Kind, message: String) -> SpawnFailure {
    SpawnFailure { kind, message }
}

fn os_failure(what: &str, error: &io::Error) -> SpawnFailure {
    let kind = match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) => Kind::NoResources,
        _ => Kind::Other,
    };
    failed(kind, format!("{what}: {error}"))
}

fn c_string(text: &OsStr) -> Result<CString, SpawnFailure> {
    CString::new(text.as_bytes()).map_err(|_| {
        failed(
            Kind::Other,
            format!("{:?} holds a NUL byte", text.to_string_lossy()),
        )
    })
}

fn environment(spec: &ShimSpec) -> Result<Vec<CString>, SpawnFailure> {
    let entry = |name: &OsStr, value: &OsStr| {
        let mut entry = OsString::with_capacity(name.len() + value.len() + 1);
        entry.push(name);
        entry.push("=");
        entry.push(value);
        CString::new(entry.into_vec()).map_err(|_| {
            failed(
                Kind::Other,
                format!("the variable {:?} holds a NUL byte", name.to_string_lossy()),
            )
        })
    };
    let mark = spec.mark.as_ref();
    spec.env
        .iter()
        .filter(|(name, _)| mark.is_none_or(|mark| name != mark.name.as_str()))
        .map(|(name, value)| entry(name, value))
        .chain(mark.map(|mark| entry(mark.name.as_ref(), mark.value.as_ref())))
        .collect()
}

/// The path to execute. A name without a slash is looked up in the absolute folders of the spec's own `PATH`.
fn resolve(spec: &ShimSpec) -> Result<PathBuf, SpawnFailure> {
    let program = Path::new(&spec.program);
    if spec.program.as_bytes().contains(&b'/') {
        return Ok(program.to_owned());
    }
    let path = spec
        .env
        .iter()
        .rev()
        .find(|(name, _)| name == "PATH")
        .map(|(_, value)| value.as_os_str());
    let mut denied = false;
    for folder in std::env::split_paths(path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"))) {
        let candidate = folder.join(program);
        if !folder.is_absolute() || spec.program.is_empty() {
            continue;
        }
        match fs::metadata(&candidate) {
            Ok(facts) if facts.is_file() && facts.permissions().mode() & 0o111 != 0 => return Ok(candidate),
            Ok(facts) => denied |= facts.is_file(),
            Err(_) => {}
        }
    }
    let program = program.display();
    if denied {
        return Err(failed(
            Kind::PermissionDenied,
            format!("cannot execute {program}: it is on PATH without the right to execute it"),
        ));
    }
    Err(failed(
        Kind::NotFound,
        format!("cannot execute {program}: not found on PATH"),
    ))
}

fn open_stdin(stdin: &Stdin) -> Result<(OwnedFd, Option<Feed>), SpawnFailure> {
    match stdin {
        Stdin::Null => match fs::File::open("/dev/null") {
            Ok(null) => Ok((null.into(), None)),
            Err(error) => Err(failed(Kind::BadStdin, format!("cannot open /dev/null: {error}"))),
        },
        Stdin::File(path) => fed(path, Feed::open(path)),
        Stdin::Follow(path) => fed(path, Feed::follow(path)),
    }
}

fn fed(path: &Path, feed: io::Result<(OwnedFd, Feed)>) -> Result<(OwnedFd, Option<Feed>), SpawnFailure> {
    feed.map(|(read, feed)| (read, Some(feed)))
        .map_err(|error| failed(Kind::BadStdin, format!("cannot read {}: {error}", path.display())))
}

/// The open file, if one had to be opened, and the descriptor to use.
fn open_output(
    output: &Output,
    inherited: RawFd,
    stdout: RawFd,
) -> Result<(Option<OwnedFd>, RawFd), SpawnFailure> {
    let mut options = fs::OpenOptions::new();
    let path = match output {
        Output::Inherit => return Ok((None, inherited)),
        Output::Stdout => return Ok((None, stdout)),
        Output::Null => {
            options.write(true);
            Path::new("/dev/null")
        }
        Output::Append(path) => {
            options
                .append(true)
                .create(true)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NOCTTY);
            path
        }
    };
    match options.open(path) {
        Ok(file) => {
            let fd = file.as_raw_fd();
            Ok((Some(file.into()), fd))
        }
        Err(error) => Err(failed(
            Kind::BadOutput,
            format!("cannot open {}: {error}", path.display()),
        )),
    }
}
