//! Runs the author's shell scripts: hooks, `verify`, and the commands in prompts.
//!
//! Each runs under the shim as a file of its own, so that nothing it starts outlives it.

pub mod outside;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vik_proc::{ExitRecord, FileLock, Limits, Output, Overrun, ProcessId, Sandbox, Stdin};

use crate::host::Host;
use crate::report;
use crate::secrets::masked;
use crate::template::TemplateError;
use crate::workspace::WorkspaceError;
use crate::workspace::fs as private;
use crate::workspace::fs::write_private;

/// How many bytes of a hook's output are read back to be shown.
const TAIL_BYTES: u64 = 8 * 1024;

/// The most a prompt command may print.
const PROMPT_COMMAND_BYTES: usize = 1024 * 1024;

/// How long a prompt command may take.
const PROMPT_COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// Which script it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Once per creation of an issue workspace.
    AfterCreate,
    /// Before the prompt is rendered.
    BeforeRun,
    /// After every end but cancellation.
    AfterRun,
    /// Before an issue workspace is removed.
    BeforeRemove,
    /// After the agent says it is done.
    Verify,
}

impl Hook {
    /// Its key in the workflow.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AfterCreate => "after_create",
            Self::BeforeRun => "before_run",
            Self::AfterRun => "after_run",
            Self::BeforeRemove => "before_remove",
            Self::Verify => "verify",
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a script did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// Its template could not be rendered.
    #[error("`{name}` could not be rendered")]
    Template {
        /// The hook.
        name: String,
        /// Why.
        source: Box<TemplateError>,
    },
    /// The issue workspace is not what it was: a script must not run in another folder.
    #[error("`{name}` was not run")]
    Folder {
        /// The hook.
        name: String,
        /// Why.
        source: Box<WorkspaceError>,
    },
    /// The script could not be written.
    #[error("cannot write the script {path}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The script could not be started.
    #[error("`{name}` could not be started")]
    Start {
        /// The hook.
        name: String,
        /// Why.
        source: Box<vik_proc::ProcError>,
    },
    /// The script failed.
    #[error("`{name}` {how}{}", shown(tail))]
    Failed {
        /// The hook.
        name: String,
        /// `exited with 3`, `did not end within 30s`, …
        how: String,
        /// With what it exited, where it ended by itself and left nothing.
        code: Option<i32>,
        /// The end of what it printed.
        tail: String,
    },
    /// Vik was asked to stop.
    #[error("`{name}` was stopped")]
    Cancelled {
        /// The hook.
        name: String,
    },
}

fn shown(tail: &str) -> String {
    if tail.is_empty() {
        String::new()
    } else {
        format!("; its output ends:\n{tail}")
    }
}

/// Where and how a script runs.
#[derive(Clone, Debug)]
pub struct Place<'a> {
    /// The folder it runs in.
    pub cwd: &'a Path,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// The attempt it belongs to.
    pub attempt: &'a str,
    /// How long it may take.
    pub timeout: Duration,
    /// What it may do; `None`: whatever the user may.
    pub sandbox: Option<Sandbox>,
    /// Whether it runs what an agent wrote: its processes must not use the API.
    pub runs_agent_code: bool,
    /// What it reads; `None`: nothing.
    pub stdin: Option<&'a Path>,
    /// The lock of the workspace, held until nothing of the script lives, whatever becomes of the daemon.
    pub lock: Option<&'a FileLock>,
}

/// Runs a rendered script, which errors call by `name`. All it prints is kept in `log`.
///
/// # Errors
/// When it cannot be started, fails, or takes too long; with the tail of its output.
pub async fn run(
    host: &Host,
    name: &str,
    script: &str,
    place: Place<'_>,
    log: &Path,
    cancel: impl Future<Output = ()>,
) -> Result<(), HookError> {
    let file = log.with_extension("sh");
    write_private(&file, script.as_bytes()).map_err(|source| HookError::Write {
        path: file.clone(),
        source,
    })?;
    let mut spec = host.script(&file, place.cwd, place.env, place.attempt);
    spec.sandbox = around(place.sandbox, &file);
    spec.stdout = Output::Append(log.to_owned());
    spec.stderr = Output::Stdout;
    if let Some(file) = place.stdin {
        spec.stdin = Stdin::File(file.to_owned());
    }
    let limits = Limits {
        timeout: place.timeout,
        max_bytes: 0,
    };
    let on_shim = note_shim(host, place.runs_agent_code);
    let result = host
        .supervisor
        .output_noted(&spec, place.lock, limits, cancel, on_shim)
        .await;
    // The script may hold values of the environment: it is not kept, its output is.
    let _ = std::fs::remove_file(&file);
    let name = name.to_owned();
    let run = result.map_err(|source| HookError::Start {
        name: name.clone(),
        source: Box::new(source),
    })?;
    let tail = || report::tail_lines(&read_tail(log, TAIL_BYTES), 20);
    judge(name, &run, place.timeout, tail)
}

/// Returns what is called with the shim of a script before the script runs.
fn note_shim(host: &Host, runs_agent_code: bool) -> impl FnOnce(ProcessId) + Send + 'static {
    let shims = runs_agent_code.then(|| host.agent_shims.clone());
    move |shim| {
        if let Some(shims) = shims {
            shims.add([shim]);
        }
    }
}

/// The sandbox of a script, which its shell opens by itself.
fn around(sandbox: Option<Sandbox>, script: &Path) -> Option<Sandbox> {
    sandbox.map(|mut sandbox| {
        sandbox.show(script);
        sandbox
    })
}

/// Runs a command of a prompt and gives what it printed, without one trailing newline.
///
/// # Errors
/// When it cannot be started, fails, takes too long or prints too much.
pub async fn prompt_command(
    host: &Host,
    script: &str,
    place: Place<'_>,
    file: &Path,
    cancel: impl Future<Output = ()>,
) -> Result<String, HookError> {
    write_private(file, script.as_bytes()).map_err(|source| HookError::Write {
        path: file.to_owned(),
        source,
    })?;
    let stderr = file.with_extension("stderr");
    let mut spec = host.script(file, place.cwd, place.env, place.attempt);
    spec.sandbox = around(place.sandbox, file);
    spec.stderr = Output::Append(stderr.clone());
    let limits = Limits {
        timeout: PROMPT_COMMAND_TIMEOUT,
        max_bytes: PROMPT_COMMAND_BYTES,
    };
    let on_shim = note_shim(host, place.runs_agent_code);
    let result = host
        .supervisor
        .output_noted(&spec, place.lock, limits, cancel, on_shim)
        .await;
    let tail = report::tail_lines(&read_tail(&stderr, TAIL_BYTES), 20);
    let _ = (std::fs::remove_file(file), std::fs::remove_file(&stderr));
    let name = format!("exec({})", report::one_line(script, 60));
    let run = result.map_err(|source| HookError::Start {
        name: name.clone(),
        source: Box::new(source),
    })?;
    judge(name, &run, PROMPT_COMMAND_TIMEOUT, || tail)?;
    let mut text = String::from_utf8_lossy(&run.stdout).into_owned();
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

fn judge(
    name: String,
    run: &vik_proc::CommandRun,
    timeout: Duration,
    tail: impl FnOnce() -> String,
) -> Result<(), HookError> {
    let mut code = None;
    let how = if run.timed_out {
        format!("did not end within {}", vik_core::duration::Span(timeout))
    } else if run.flooded {
        "printed too much".to_owned()
    } else if run.cancelled {
        return Err(HookError::Cancelled { name });
    } else if run.exit.code == Some(0) && run.exit.proof.is_proven() {
        return Ok(());
    } else {
        code = run.exit.code.filter(|_| run.exit.proof.is_proven());
        how_ended(&run.exit)
    };
    Err(HookError::Failed {
        name,
        how,
        code,
        tail: tail(),
    })
}

/// How a process ended, in words that follow its name.
pub fn how_ended(exit: &ExitRecord) -> String {
    if let Some(failure) = &exit.spawn_error {
        return format!("could not be started: {}", failure.message);
    }
    if let Some(overrun) = &exit.overrun {
        return used_too_much(overrun);
    }
    if !exit.proof.is_proven() {
        return "left processes that could not be ended".to_owned();
    }
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

/// Why a tree was killed, in words that follow its name.
pub fn used_too_much(overrun: &Overrun) -> String {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    match *overrun {
        Overrun::Memory { used, limit } => format!(
            "used {} MiB of memory and was killed: its sandbox allows {} MiB (`sandbox.memory`)",
            mib(used),
            mib(limit)
        ),
        Overrun::Processes { used, limit } => {
            format!("had {used} processes and was killed: its sandbox allows {limit} (`sandbox.pids`)")
        }
        Overrun::Tasks { used, limit } => format!(
            "had {used} processes and threads and was killed: {limit} are allowed here (`sandbox.pids`, and what this \
             system can spare)"
        ),
        Overrun::Disk { used, limit } => format!(
            "took {} MiB of a disk and was killed: its sandbox allows {} MiB (`sandbox.disk`)",
            mib(used),
            mib(limit)
        ),
        Overrun::Space { used, free } => format!(
            "took {} MiB of a disk that has only {} MiB left, and was killed before it was full",
            mib(used),
            mib(free)
        ),
        Overrun::Files { used, limit } => {
            format!(
                "made {used} files and was killed: its sandbox allows {limit}, half of what a disk had room for"
            )
        }
    }
}

/// The end of a file as text, without its secrets; empty when there is none.
pub fn read_tail(path: &Path, bytes: u64) -> String {
    use std::io::{Seek, SeekFrom};
    let read = || -> io::Result<String> {
        let mut file = private::open(path)?;
        let size = file.seek(SeekFrom::End(0))?;
        masked::read(&mut file, size.saturating_sub(bytes)..size)
    };
    read().unwrap_or_default()
}
