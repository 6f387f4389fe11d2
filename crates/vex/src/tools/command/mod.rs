//! Runs commands: each in a session of its own, confined by the permission, with a deadline and
//! bounded output; all its processes end with it.

mod background;
mod bounded_output;
mod confinement;
mod running;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tool::Execute;
use super::{Policy, Root, RunOutcome, Subject, Tool, ToolContext, ToolError};
use crate::interrupt::Interrupt;

pub(crate) use background::{BackgroundCommands, CommandOutput};
pub(crate) use bounded_output::BoundedOutput;
pub(crate) use confinement::Confinement;
pub(crate) use running::{CommandEnd, StopCause};
use running::{CommandSpec, RunningCommand};

/// The longest time that a model may request, in milliseconds.
const MAX_TIMEOUT_MS: u64 = 30 * 60 * 1000;
/// The default time limit of a command.
const DEFAULT_TIMEOUT_MS: u64 = 2 * 60 * 1000;

/// The keys of the built-in providers, which are hidden from commands.
const KEYS: [&str; 5] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "VEX_API_KEY",
];

/// The common setup of all commands of a run.
pub(crate) struct Runner {
    confinement: Confinement,
    hidden: Vec<OsString>,
    required: bool,
}

/// One run of a command.
pub(crate) struct Run<'a> {
    pub(crate) line: &'a str,
    pub(crate) cwd: &'a Path,
    pub(crate) timeout: Duration,
    /// The stdin; empty if absent.
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) terminal: bool,
    /// Whether it is one of the user's programs: it is not confined, and its standard error is not
    /// part of its output.
    pub(crate) trusted: bool,
}

impl Runner {
    pub(crate) fn new(root: &Root, policy: &Policy) -> Self {
        let shown = |name: &str| !policy.pass_env.iter().any(|passed| passed == name);
        let hidden = KEYS
            .into_iter()
            .chain(policy.hide_env.iter().map(String::as_str))
            .filter(|name| shown(name));
        Self {
            confinement: Confinement::new(policy.permission, root.path(), &policy.sandbox_write),
            hidden: hidden.map(OsString::from).collect(),
            required: policy.sandbox_required,
        }
    }

    pub(crate) fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    fn start(&self, run: Run<'_>) -> std::io::Result<RunningCommand> {
        let fence = match self.confinement.fence() {
            _ if run.trusted => None,
            Ok(fence) => fence,
            Err(why) if self.required => {
                return Err(std::io::Error::other(format!(
                    "a sandbox is required, and there is none: {why}"
                )));
            }
            Err(_) => None,
        };
        RunningCommand::start(CommandSpec {
            line: run.line,
            cwd: run.cwd,
            hidden: &self.hidden,
            fence,
            stdin: run.stdin,
            terminal: run.terminal,
            errors: !run.trusted,
        })
    }

    /// Runs a command and waits for the end of its whole process tree.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn run(
        &self,
        run: Run<'_>,
        interrupt: &Interrupt,
    ) -> std::io::Result<(BoundedOutput, CommandEnd)> {
        let (woken, wake) = std::io::pipe()?;
        let wake = OwnedFd::from(wake);
        let deadline = Instant::now() + run.timeout;
        let _listening = interrupt.listen(move || _ = nix::unistd::write(&wake, b"x"));
        let mut kept = BoundedOutput::default();
        let ended = self
            .start(run)?
            .watch(Some(deadline), woken.as_fd(), &mut |bytes| kept.push(bytes));
        Ok((kept, ended))
    }
}

#[derive(Deserialize)]
pub(crate) struct RunCommand {
    command: String,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
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

/// Quotes an argument for the shell.
pub(super) fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        return arg.to_owned();
    }
    format!("'{}'", arg.replace('\'', r"'\''"))
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
