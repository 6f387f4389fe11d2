//! Runs commands: each in a session of its own, confined by the permission, with a deadline and
//! bounded output; all its processes end with it.

mod background;
mod bounded_output;
mod command_output;
mod confinement;
mod quote;
mod runner;
mod running;
mod server;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tool::Execute;
use super::{RunOutcome, Subject, Tool, ToolContext, ToolError};

pub(crate) use background::BackgroundCommands;
pub(crate) use command_output::CommandOutput;
pub(crate) use quote::quoted;
pub(crate) use runner::{Run, Runner};
pub(crate) use running::{CommandEnd, StopCause};
pub(crate) use server::{ServerPipes, ServerProcess, ServerSpec};

/// The longest time that a model may request, in milliseconds.
const MAX_TIMEOUT_MS: u64 = 30 * 60 * 1000;
/// The default time limit of a command.
const DEFAULT_TIMEOUT_MS: u64 = 2 * 60 * 1000;

#[derive(Deserialize)]
pub(crate) struct RunCommand {
    command: String,
    cwd: Option<PathBuf>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    pty: bool,
}

impl Tool for RunCommand {
    const NAME: &'static str = "run_command";
    const ALIASES: &'static [&'static str] = &[
        "bash",
        "shell",
        "sh",
        "exec",
        "execute",
        "execute_command",
        "run",
        "run_shell_command",
        "terminal",
    ];
    const DESCRIPTION: &'static str = "Run a shell command without stdin; the start and the end of its output come \
                                       back. What it leaves running is stopped, unless background is set: then \
                                       command_output shows what it prints.";
    type Kind = Execute;
    const REQUIRED: &'static [&'static str] = &["command"];
    const ARGUMENTS: &'static [(&'static str, &'static str)] = &[
        ("cmd", "command"),
        ("script", "command"),
        ("code", "command"),
        ("workdir", "cwd"),
        ("working_directory", "cwd"),
        ("directory", "cwd"),
        ("timeout", "timeout_ms"),
        ("run_in_background", "background"),
        ("is_background", "background"),
        ("tty", "pty"),
    ];
    const PATHS: &'static [&'static str] = &["cwd"];

    fn properties() -> Value {
        json!({"command": {"type": "string"},
               "cwd": {"type": "string"},
               "timeout_ms": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT_MS},
               "background": {"type": "boolean"},
               "pty": {"type": "boolean", "description": "give it a terminal"}})
    }

    /// Joins a command given as a list, as some models write it, to a quoted line.
    fn mend(arguments: &mut Map<String, Value>) {
        let Some(Value::Array(args)) = arguments.get("command") else {
            return;
        };
        let args: Option<Vec<&str>> = args.iter().map(Value::as_str).collect();
        let line = match args.as_deref() {
            Some(["bash" | "sh" | "/bin/bash" | "/bin/sh", "-c" | "-lc", line]) => (*line).to_owned(),
            Some(args @ [_, ..]) => args.iter().map(|arg| quoted(arg)).collect::<Vec<_>>().join(" "),
            _ => return,
        };
        arguments.insert("command".to_owned(), line.into());
    }

    fn subject(input: &Value) -> Subject {
        match input["command"].as_str() {
            Some(line) => Subject::Command(line.to_owned()),
            None => Subject::Unknown,
        }
    }

    fn run(self, context: &ToolContext<'_>) -> Result<RunOutcome, ToolError> {
        let cwd = match &self.cwd {
            Some(path) => {
                context.root.place_to_read(path)?.directory(path)?;
                context.root.path().join(path)
            }
            None => context.root.path().to_owned(),
        };
        let run = Run {
            line: &self.command,
            cwd: &cwd,
            timeout: timeout(self.timeout_ms),
            stdin: None,
            terminal: self.pty,
            trusted: false,
        };
        let fail = |error: std::io::Error| ToolError::Failed(format!("cannot run the command: {error}"));
        if !self.background {
            let (kept, ended) = context.runner.run(run, context.interrupt).map_err(fail)?;
            return Ok(report(
                self.command.clone(),
                kept.into_text(self.pty),
                &ended,
                timeout(self.timeout_ms),
            ));
        }
        // Without a timeout it may run as long as vex.
        let deadline = self.timeout_ms.map(|_| Instant::now() + run.timeout);
        let start = || context.runner.start(run);
        let id = context
            .processes
            .take(start, deadline, self.pty, context.interrupt)?;
        Ok(RunOutcome {
            text: format!("[runs in the background as {id}; command_output shows what it prints]\n"),
            command: self.command.clone(),
            exit_code: None,
            is_error: false,
        })
    }
}

fn timeout(asked: Option<u64>) -> Duration {
    Duration::from_millis(asked.unwrap_or(DEFAULT_TIMEOUT_MS).clamp(1, MAX_TIMEOUT_MS))
}

pub(crate) fn report(command: String, printed: String, ended: &CommandEnd, timeout: Duration) -> RunOutcome {
    let mut text = printed;
    let mut note = |note: String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&note);
        text.push('\n');
    };
    match ended.cut {
        None => {}
        Some(StopCause::TimedOut) => note(format!("[stopped after {} ms]", timeout.as_millis())),
        Some(StopCause::Stopped) => note("[stopped: interrupted]".to_owned()),
    }
    if ended.survivors > 0 {
        note(format!(
            "[{} of its processes cannot be stopped]",
            ended.survivors
        ));
    }
    let exit_code = ended.code.filter(|_| ended.cut.is_none());
    RunOutcome {
        text,
        command,
        exit_code,
        is_error: exit_code != Some(0),
    }
}
