//! Runs the author's shell scripts: hooks, `verify`, and the commands in prompts.
//!
//! Each script is a file of its own and runs under the shim, so that no process that it starts
//! outlives it.

pub mod outside;

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use vik_base::report::{self, describe_exit};
use vik_core::retry_later::requested_wait;
use vik_proc::{CommandRun, FileLock, Limits, Output, Sandbox, Stdin};
use vik_template::TemplateError;
use vik_workspace::WorkspaceError;
use vik_workspace::fs::write_private;

use crate::host::Host;
use crate::secrets::masked::{read_tail, read_tail_after};

/// The number of bytes at the end of a hook's output that are shown.
const TAIL_BYTES: u64 = 8 * 1024;

/// The maximum output of a prompt command in bytes.
const PROMPT_COMMAND_BYTES: usize = 1024 * 1024;

const PROMPT_COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

/// A kind of script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Once per creation of an issue workspace.
    AfterCreate,
    /// Moves the issue to the state of `start_state`.
    StartState,
    /// Before the prompt is rendered.
    BeforeRun,
    /// After every end but cancellation.
    AfterRun,
    /// Before an issue workspace is removed.
    BeforeRemove,
    /// After the agent has finished successfully.
    Verify,
}

impl Hook {
    /// Returns the key in the workflow.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AfterCreate => "after_create",
            Self::StartState => "start_state",
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

/// Why a script failed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("cannot render `{name}`")]
    Template {
        name: String,
        source: Box<TemplateError>,
    },
    /// The folder of the issue workspace was replaced: a script must not run in another folder.
    #[error("`{name}` was not run")]
    Folder {
        name: String,
        source: Box<WorkspaceError>,
    },
    #[error("cannot write the script {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot start `{name}`")]
    Start {
        name: String,
        source: Box<vik_proc::ProcError>,
    },
    #[error("`{name}` {how}{}", output_suffix(tail))]
    Failed {
        name: String,
        /// `exited with 3`, `did not end within 30s`, …
        how: String,
        /// The exit code, if it ended on its own and left no process.
        code: Option<i32>,
        /// The end of its output.
        tail: String,
        /// How long it asked to wait before it is tried again, if it did.
        requested_wait: Option<Duration>,
        /// Whether a process of it may still be alive.
        is_unproven: bool,
    },
    #[error("`{name}` was stopped")]
    Cancelled { name: String },
}

fn output_suffix(tail: &str) -> String {
    if tail.is_empty() {
        String::new()
    } else {
        format!("; last output:\n{tail}")
    }
}

/// Where and how a script runs.
#[derive(Clone, Debug)]
pub struct ScriptContext<'a> {
    pub cwd: &'a Path,
    pub env: BTreeMap<String, String>,
    pub attempt: &'a str,
    pub timeout: Duration,
    /// Its restrictions; `None`: all rights of the user.
    pub sandbox: Option<Sandbox>,
    /// Whether it runs code that an agent wrote: its processes must not use the API.
    pub runs_agent_code: bool,
    /// The file of its standard input; `None`: no input.
    pub stdin: Option<&'a Path>,
    /// The lock of the workspace, held until no process of the script is alive, even if the daemon
    /// dies.
    pub lock: Option<&'a FileLock>,
}

/// Runs a rendered script, which errors call `name`. Its output is appended to `log`.
///
/// # Errors
/// When the script cannot be started, fails, or takes too long; the error contains the tail of its
/// output.
pub async fn run(
    host: &Host,
    name: &str,
    script: &str,
    place: ScriptContext<'_>,
    log: &Path,
    cancel: impl Future<Output = ()>,
) -> Result<(), HookError> {
    let file = log.with_extension("sh");
    // Earlier runs of the script have printed the beginning of the log.
    let start = log.metadata().map_or(0, |log| log.len());
    let timeout = place.timeout;
    let outputs = (Output::Append(log.to_owned()), Output::Stdout);
    let run = run_file(host, name, script, place, &file, outputs, cancel).await?;
    let tail = || read_tail_after(log, start, TAIL_BYTES);
    check_run(name.to_owned(), &run, timeout, tail)
}

/// Runs a script from a file of its own.
async fn run_file(
    host: &Host,
    name: &str,
    script: &str,
    place: ScriptContext<'_>,
    file: &Path,
    (stdout, stderr): (Output, Output),
    cancel: impl Future<Output = ()>,
) -> Result<CommandRun, HookError> {
    write_private(file, script.as_bytes()).map_err(|source| HookError::Write {
        path: file.to_owned(),
        source,
    })?;
    let mut spec = host.script(file, place.cwd, place.env, place.attempt);
    spec.sandbox = place.sandbox;
    if let Some(sandbox) = &mut spec.sandbox {
        // The shell opens it itself.
        sandbox.show(file);
    }
    (spec.stdout, spec.stderr) = (stdout, stderr);
    if let Some(file) = place.stdin {
        spec.stdin = Stdin::File(file.to_owned());
    }
    let limits = Limits {
        timeout: place.timeout,
        max_bytes: PROMPT_COMMAND_BYTES,
    };
    let shims = place.runs_agent_code.then(|| host.agent_shims.clone());
    let on_shim = move |shim| shims.iter().for_each(|shims| shims.add([shim]));
    let result = host
        .supervisor
        .output_with_callback(&spec, place.lock, limits, cancel, on_shim)
        .await;
    // The script may contain values of the environment: it is removed, only its output is kept.
    let _ = std::fs::remove_file(file);
    result.map_err(|source| HookError::Start {
        name: name.to_owned(),
        source: Box::new(source),
    })
}

/// Runs a command of a prompt and returns its output, without one trailing newline.
///
/// # Errors
/// When the command cannot be started, fails, takes too long or prints too much.
pub async fn prompt_command(
    host: &Host,
    script: &str,
    mut place: ScriptContext<'_>,
    file: &Path,
    cancel: impl Future<Output = ()>,
) -> Result<String, HookError> {
    let stderr = file.with_extension("stderr");
    let outputs = (Output::Inherit, Output::Append(stderr.clone()));
    let name = format!("exec({})", report::one_line(script, 60));
    place.timeout = PROMPT_COMMAND_TIMEOUT;
    let run = run_file(host, &name, script, place, file, outputs, cancel).await;
    let tail = read_tail(&stderr, TAIL_BYTES);
    let _ = std::fs::remove_file(&stderr);
    let run = run?;
    check_run(name, &run, PROMPT_COMMAND_TIMEOUT, || tail)?;
    let mut text = String::from_utf8_lossy(&run.stdout).into_owned();
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

fn check_run(
    name: String,
    run: &CommandRun,
    timeout: Duration,
    tail: impl FnOnce() -> String,
) -> Result<(), HookError> {
    let mut code = None;
    let how = if run.timed_out {
        format!("did not end within {}", vik_core::duration::Span(timeout))
    } else if run.flooded {
        "printed too much output".to_owned()
    } else if run.cancelled {
        return Err(HookError::Cancelled { name });
    } else if run.exit.code == Some(0) && run.exit.proof.is_proven() {
        return Ok(());
    } else {
        code = run.exit.code.filter(|_| run.exit.proof.is_proven());
        describe_exit(&run.exit)
    };
    let tail = tail();
    Err(HookError::Failed {
        name,
        how,
        requested_wait: requested_wait(code, &tail),
        is_unproven: !run.exit.proof.is_proven(),
        code,
        tail: report::tail_lines(&tail, 20),
    })
}
