//! Runs the short commands that doctor needs and removes their files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};
use tokio_util::sync::CancellationToken;
use vik_base::report::{describe_exit, one_line, tail_lines};
use vik_core::workflow::{SandboxPolicy, Workflow};
use vik_proc::{CommandRun, Limits, Mark, Output, ProcError, Reads, Sandbox, ShimSpec};
use vik_session::host::{ATTEMPT_MARK, AgentShims, Environment, Host, os_env, own_environment};
use vik_session::sandbox::{ConfineError, SandboxSubject, confine};
use vik_session::secrets::masked::read_tail;
use vik_session::secrets::protect_secrets;
use vik_workspace::Layout;
use vik_workspace::fs::{create_private_dir_all, write_private};

/// How long a program may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of a program's version output.
const MAX_VERSION_BYTES: usize = 64 * 1024;
/// The delay after which a message shows what `doctor` waits for.
const SLOW: Duration = Duration::from_secs(2);

/// A temporary folder that is removed when it is dropped.
#[derive(Debug)]
pub(in crate::cli) struct Scratch(PathBuf);

impl Scratch {
    pub(in crate::cli) fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("vik-doctor-{}", uuid::Uuid::now_v7()));
        create_private_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(in crate::cli) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure is ignored: the folder is in the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a host whose own files, workspaces and temporary folders are in the scratch folder.
pub(super) fn scratch_host(host: &Host, workflow: &Workflow, scratch: &Scratch) -> Host {
    let environment = Environment::from(own_environment());
    protect_secrets(&environment, workflow);
    let root = scratch.path().join("probe/workflows/probe");
    Host {
        workflow_path: host.workflow_path.clone(),
        workflow_dir: host.workflow_dir.clone(),
        layout: Layout::at(&host.workflow_path, &root),
        environment,
        supervisor: host.supervisor.clone(),
        instance: host.instance.clone(),
        vik: host.vik.clone(),
        agent_shims: AgentShims::default(),
    }
}

/// Returns the sandbox of a program in the folders of [`scratch_host`], which does not see the files
/// of the workflow itself either.
///
/// # Errors
/// Those of [`confine`].
pub(super) fn sandbox_of(
    (host, scratch_host): (&Host, &Host),
    policy: Option<&SandboxPolicy>,
    subject: SandboxSubject<'_>,
    env: &mut BTreeMap<String, String>,
) -> Result<Option<Sandbox>, ConfineError> {
    let Some(policy) = policy else {
        return Ok(None);
    };
    let mut sandbox = confine(scratch_host, policy, subject, env)?;
    if let Reads::AllBut { hidden, .. } = &mut sandbox.read {
        hidden.push(host.layout.home().join("workflows"));
    }
    Ok(Some(sandbox))
}

/// Finds the program with this name on a PATH, as the shim does. A path is returned unchanged if it
/// is executable.
pub(in crate::cli) fn find(name: &str, path: &str) -> Option<PathBuf> {
    let is_executable = |file: &Path| file.is_file() && access(file, AccessFlags::X_OK).is_ok();
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| is_executable(file));
    }
    let folders = path
        .split(':')
        .map(Path::new)
        .filter(|folder| folder.is_absolute());
    folders
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

/// The reasons why a program printed no version.
#[derive(Debug)]
pub(super) enum NoVersion {
    Cancelled,
    /// It exceeded the timeout.
    TimedOut,
    /// It failed. The text continues a sentence after the program's name.
    Failed(String),
    Silent,
}

/// Runs a program with its version option under the shim. Returns the first line of its output.
pub(super) async fn version(
    host: &Host,
    scratch: &Scratch,
    program: &Path,
    args: Vec<OsString>,
    env: BTreeMap<String, String>,
    cancel: &CancellationToken,
) -> Result<String, NoVersion> {
    let (run, stderr) = run(host, scratch, program, args, env, cancel).await;
    let run = run
        .map_err(|error| NoVersion::Failed(format!("could not run: {}", vik_base::report::chain(&error))))?;
    if run.cancelled {
        return Err(NoVersion::Cancelled);
    }
    if run.timed_out {
        return Err(NoVersion::TimedOut);
    }
    if run.exit.code != Some(0) {
        let message = one_line(&stderr, 200);
        let message = if message.is_empty() {
            message
        } else {
            format!("; stderr: {message}")
        };
        return Err(NoVersion::Failed(format!(
            "{}{message}",
            describe_exit(&run.exit)
        )));
    }
    let output = String::from_utf8_lossy(&run.stdout);
    match output.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => Ok(one_line(line, 80)),
        None => Err(NoVersion::Silent),
    }
}

/// Runs a short command under the shim. Returns its result, and the end of its stderr.
async fn run(
    host: &Host,
    scratch: &Scratch,
    program: &Path,
    args: Vec<OsString>,
    env: BTreeMap<String, String>,
    cancel: &CancellationToken,
) -> (Result<CommandRun, ProcError>, String) {
    let id = uuid::Uuid::now_v7();
    let stderr = scratch.path().join(format!("{id}.stderr"));
    let mut spec = ShimSpec::command(program, scratch.path());
    spec.args = args;
    spec.env = os_env(env);
    spec.mark = Some(Mark::new(ATTEMPT_MARK, format!("doctor-{id}")));
    spec.stderr = Output::Append(stderr.clone());
    let limits = Limits {
        timeout: VERSION_TIMEOUT,
        max_bytes: MAX_VERSION_BYTES,
    };
    let run = host.supervisor.output(&spec, limits, cancel.cancelled()).await;
    (run, tail_lines(&read_tail(&stderr, 4096), 3))
}

/// Returns the shell's message about a script with a syntax error. The script is not run.
pub(super) async fn shell_syntax(
    host: &Host,
    scratch: &Scratch,
    script: &str,
    cancel: &CancellationToken,
) -> Option<String> {
    let id = uuid::Uuid::now_v7();
    let file = scratch.path().join(format!("{id}.sh"));
    // If the script cannot be written, there is no finding.
    write_private(&file, script.as_bytes()).ok()?;
    let args = vec!["-n".into(), file.clone().into()];
    let (run, stderr) = run(host, scratch, Path::new("sh"), args, host.command_env(), cancel).await;
    let run = run.ok()?;
    let message = stderr.replace(&*file.to_string_lossy(), "script");
    let refused = !run.cancelled && !run.timed_out && run.exit.code.is_some_and(|code| code != 0);
    refused.then(|| one_line(&message, 200))
}

/// Waits for a future and prints a message if that takes long.
pub(super) async fn with_progress_message<T>(description: &str, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        () = tokio::time::sleep(SLOW) => {}
    }
    // A failed write loses nothing important.
    let _ = writeln!(io::stderr().lock(), "waiting for {description} …");
    work.await
}
