//! Starts an agent from a spec.

mod stdio;

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::libc;

use self::stdio::open_stdio;
use super::feed::StdinFeed;
use crate::sandbox::{Fence, OpenedPlaces, Sandbox, SandboxError};
use crate::spec::SpawnFailureKind as Kind;
use crate::spec::{ShimSpec, SpawnFailure, Stdin};
use crate::sys::{self, ChildStep, Image};

#[cfg(target_os = "linux")]
use std::os::unix::net::UnixStream;

#[cfg(target_os = "linux")]
use super::within::{self, Inside, InsideDescriptors};
#[cfg(target_os = "linux")]
use crate::sandbox::{self, Backend, bubblewrap};
#[cfg(target_os = "linux")]
use crate::spec::SHIM_VERB;
#[cfg(target_os = "linux")]
use crate::sys::Gate;

/// An agent that was forked, or the program that starts it.
pub(super) struct Launched {
    pub(super) pid: i32,
    pub(super) evidence: Evidence,
    pub(super) feed: Option<StdinFeed>,
}

/// The evidence that the agent runs.
pub(super) enum Evidence {
    /// The forked process is the agent. End of file means that it runs; bytes are the report of a
    /// failure.
    Exec(File),
    /// The forked process is `bwrap`; the process that it starts inside sends messages.
    #[cfg(target_os = "linux")]
    Inside(Inside),
}

/// The limits that the kernel enforces for a tree.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// The cgroup in which the tree is created.
    pub(super) cgroup: Option<OwnedFd>,
    /// The cgroup of version 1 that the tree enters before anything else.
    pub(super) entrance: Option<OwnedFd>,
    /// The limit on the tasks of the tree's user.
    pub(super) tasks: Option<u64>,
}

/// Forks the agent, within these bounds. `opened` are readable places of its sandbox.
pub(super) fn launch(
    spec: &ShimSpec,
    opened: Option<OpenedPlaces>,
    bounds: Bounds,
) -> Result<Launched, SpawnFailure> {
    #[cfg(target_os = "linux")]
    if let Some(sandbox) = spec
        .sandbox
        .as_ref()
        .filter(|it| it.backend == Backend::Bubblewrap)
    {
        return launch_within(spec, sandbox, bounds);
    }
    let (stdio, feed) = open_stdio(spec)?;
    let mut image = agent(spec, stdio.numbers(), fence(spec, opened)?, gate(spec)?)?;
    (image.tasks, image.entrance) = (bounds.tasks, bounds.entrance);
    let (report, pid) = fork(&image, bounds.cgroup.as_ref())?;
    drop(stdio);
    #[cfg(target_os = "linux")]
    serve(spec, &mut image)?;
    Ok(Launched {
        pid,
        evidence: Evidence::Exec(report),
        feed,
    })
}

/// Forks `bwrap`, which starts this program again in its namespaces.
#[cfg(target_os = "linux")]
fn launch_within(spec: &ShimSpec, sandbox: &Sandbox, bounds: Bounds) -> Result<Launched, SpawnFailure> {
    let made = |error: io::Error| os_failure("cannot create the descriptors of its sandbox", &error);
    let program = bubblewrap::find().map_err(|error| no_sandbox(&error))?;
    let (stdio, feed) = open_stdio(spec)?;
    let stdio = stdio.lifted().map_err(made)?;
    // The program is executed by its descriptor, as its path may not exist inside.
    let own = File::open("/proc/self/exe").map_err(made)?;
    let spec_json = serde_json::to_vec(spec).map_err(|error| made(error.into()))?;
    let spec_file = within::nameless(&spec_json).map_err(made)?;
    // The arguments are in a file, so that the process table does not show the hidden paths.
    let walls = bubblewrap::arguments(sandbox).join(OsStr::from_bytes(b"\0"));
    let walls = within::nameless(walls.as_bytes()).map_err(made)?;
    let (ours, theirs) = UnixStream::pair().map_err(made)?;
    let (complaints, complaining) = sys::pipe().map_err(made)?;
    let null = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(made)?;
    let given = InsideDescriptors {
        spec: spec_file.as_raw_fd(),
        messages: theirs.as_raw_fd(),
        stdio: stdio.each_ref().map(AsRawFd::as_raw_fd),
    };
    let passed = [given.spec, given.messages, own.as_raw_fd(), walls.as_raw_fd()];
    let passed = passed.into_iter().chain(given.stdio).collect();
    let given = serde_json::to_string(&given).map_err(|error| made(error.into()))?;
    let mark = spec.mark.as_ref();
    let mark = mark
        .map(|mark| entry(mark.name.as_ref(), mark.value.as_ref()))
        .transpose()?;
    let inside = format!("/proc/self/fd/{}", own.as_raw_fd());
    let args = [
        "bwrap",
        "--args",
        &walls.as_raw_fd().to_string(),
        "--",
        &inside,
        SHIM_VERB,
        within::VERB,
        &given,
    ];
    let args = args.map(|arg| c_string(OsStr::new(arg)));
    // The mark is also an argument, as others may not read the environment of the inside.
    let args = args
        .into_iter()
        .chain(mark.clone().map(Ok))
        .collect::<Result<_, _>>()?;
    let mut image = Image {
        program: c_string(program.as_os_str())?,
        args,
        // The agent's environment could direct the dynamic loader to a folder that agents can
        // write.
        env: mark.into_iter().collect(),
        cwd: c"/".to_owned(),
        stdio: [null.as_raw_fd(), null.as_raw_fd(), complaining.as_raw_fd()],
        tasks: bounds.tasks,
        entrance: bounds.entrance,
        gate: gate(spec)?,
        passed,
        deaf: true,
        ..Image::default()
    };
    let (mut report, pid) = fork(&image, bounds.cgroup.as_ref())?;
    drop((stdio, theirs, complaining, spec_file, walls));
    serve(spec, &mut image)?;
    let mut bytes = Vec::new();
    // The pipe is closed when `bwrap` itself runs.
    let _ = io::Read::read_to_end(&mut report, &mut bytes);
    if let Some((_, errno)) = sys::parse_report(&bytes) {
        let error = io::Error::from_raw_os_error(errno);
        return Err(sandbox_failure(&format!("bubblewrap: {error}")));
    }
    Ok(Launched {
        pid,
        evidence: Evidence::Inside(Inside::new(ours, complaints).map_err(made)?),
        feed,
    })
}

/// Prepares the process image of the agent.
pub(super) fn agent(
    spec: &ShimSpec,
    stdio: [RawFd; 3],
    fence: Option<Fence>,
    gate: GateOf,
) -> Result<Image, SpawnFailure> {
    #[cfg(not(target_os = "linux"))]
    let () = gate;
    Ok(Image {
        program: c_string(resolve(spec)?.as_os_str())?,
        args: std::iter::once(&spec.program)
            .chain(&spec.args)
            .map(|arg| c_string(arg))
            .collect::<Result<_, _>>()?,
        env: environment(spec)?,
        cwd: c_string(spec.cwd.as_os_str())?,
        stdio,
        open_files: spec.open_files,
        umask: spec.umask,
        #[cfg(target_os = "linux")]
        gate,
        fence,
        terminal: matches!(spec.stdin, Stdin::Terminal(_)),
        ..Image::default()
    })
}

/// Forks. Returns the pipe for the report of a failure before `exec`, and the pid.
pub(super) fn fork(image: &Image, cgroup: Option<&OwnedFd>) -> Result<(File, i32), SpawnFailure> {
    let (report, writer) = sys::pipe().map_err(|error| os_failure("cannot create a pipe", &error))?;
    let pid = sys::fork_exec(image, cgroup, &writer).map_err(|error| os_failure("cannot fork", &error))?;
    Ok((report.into(), pid))
}

/// Starts the proxy of a network namespace. Its threads must not exist before the fork.
#[cfg(target_os = "linux")]
fn serve(spec: &ShimSpec, image: &mut Image) -> Result<(), SpawnFailure> {
    if let (Some(gate), Some(sandbox)) = (image.gate.take(), &spec.sandbox)
        // Without listeners the child has failed, and reports that.
        && let Ok(listeners) = gate.listeners()
    {
        let rules = sandbox.hosts().unwrap_or_default().to_vec();
        sandbox::serve(listeners, rules, spec.refusals.clone())
            .map_err(|error| os_failure("cannot create the proxy of its sandbox", &error))?;
    }
    Ok(())
}

/// Converts the report of a failed child.
pub(super) fn failure(spec: &ShimSpec, step: ChildStep, errno: i32) -> SpawnFailure {
    let error = io::Error::from_raw_os_error(errno);
    match step {
        ChildStep::Prepare => os_failure("cannot prepare the process", &error),
        ChildStep::Confine => sandbox_failure(&error.to_string()),
        ChildStep::Cwd => failed(
            Kind::BadCwd,
            format!("cannot enter {}: {error}", spec.cwd.display()),
        ),
        ChildStep::Exec => {
            let program = Path::new(&spec.program).display();
            match errno {
                libc::ENOENT if resolve(spec).is_ok_and(|path| spec.cwd.join(path).exists()) => failed(
                    Kind::InterpreterNotFound,
                    format!("cannot execute {program}: its interpreter does not exist"),
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

#[cfg(target_os = "linux")]
type GateOf = Option<Gate>;
#[cfg(not(target_os = "linux"))]
type GateOf = ();

#[cfg(not(target_os = "linux"))]
fn gate(_: &ShimSpec) -> Result<GateOf, SpawnFailure> {
    Ok(())
}

/// Creates the network namespace for a sandbox with a list of hosts.
#[cfg(target_os = "linux")]
fn gate(spec: &ShimSpec) -> Result<GateOf, SpawnFailure> {
    let ports = spec.sandbox.as_ref().and_then(Sandbox::ports);
    let gate = ports.map(Gate::new).transpose();
    gate.map_err(|error| sandbox_failure(&error.to_string()))
}

/// Creates the rules of the sandbox, before the fork, and closes the opened places. The child
/// reports a failure to enforce them.
fn fence(spec: &ShimSpec, opened: Option<OpenedPlaces>) -> Result<Option<Fence>, SpawnFailure> {
    let sandbox = spec.sandbox.as_ref();
    let fence = sandbox.map(|sandbox| sandbox.rules(opened.as_ref())).transpose();
    drop(opened);
    fence.map_err(|error| no_sandbox(&error))
}

pub(super) fn no_sandbox(error: &SandboxError) -> SpawnFailure {
    let why = std::error::Error::source(error).map(|why| format!(": {why}"));
    sandbox_failure(&format!("{error}{}", why.unwrap_or_default()))
}

pub(super) fn sandbox_failure(why: &str) -> SpawnFailure {
    failed(Kind::NoSandbox, format!("cannot set up its sandbox: {why}"))
}

fn failed(kind: Kind, message: String) -> SpawnFailure {
    SpawnFailure { kind, message }
}

pub(super) fn os_failure(context: &str, error: &io::Error) -> SpawnFailure {
    let kind = match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) => Kind::NoResources,
        _ => Kind::Other,
    };
    failed(kind, format!("{context}: {error}"))
}

fn c_string(text: &OsStr) -> Result<CString, SpawnFailure> {
    CString::new(text.as_bytes()).map_err(|_| {
        failed(
            Kind::Other,
            format!("{:?} contains a NUL byte", text.to_string_lossy()),
        )
    })
}

fn entry(name: &OsStr, value: &OsStr) -> Result<CString, SpawnFailure> {
    let mut entry = OsString::with_capacity(name.len() + value.len() + 1);
    entry.push(name);
    entry.push("=");
    entry.push(value);
    CString::new(entry.into_vec()).map_err(|_| {
        failed(
            Kind::Other,
            format!("the variable {:?} contains a NUL byte", name.to_string_lossy()),
        )
    })
}

fn environment(spec: &ShimSpec) -> Result<Vec<CString>, SpawnFailure> {
    let mark = spec.mark.as_ref();
    spec.env
        .iter()
        .filter(|(name, _)| mark.is_none_or(|mark| name != mark.name.as_str()))
        .map(|(name, value)| entry(name, value))
        .chain(mark.map(|mark| entry(mark.name.as_ref(), mark.value.as_ref())))
        .collect()
}

/// Returns the path to execute. A name without a slash is searched in the absolute folders of the
/// spec's own `PATH`.
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
            format!("cannot execute {program}: the file on PATH is not executable"),
        ));
    }
    Err(failed(
        Kind::NotFound,
        format!("cannot execute {program}: not found on PATH"),
    ))
}
