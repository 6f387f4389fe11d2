//! Starts commands with the common setup of a run: hidden variables and confinement.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use vik_proc::Fence;

use super::bounded_output::BoundedOutput;
use super::confinement::Confinement;
use super::running::{CommandEnd, CommandSpec, RunningCommand};
use crate::interrupt::Interrupt;
use crate::tools::{Policy, Root};

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

    /// Returns the variables hidden from commands.
    pub(super) fn hidden(&self) -> &[OsString] {
        &self.hidden
    }

    /// Returns the sandbox of a command; programs of the user have none.
    ///
    /// # Errors
    /// When a sandbox is required and unavailable.
    pub(super) fn fence(&self, trusted: bool) -> std::io::Result<Option<&Fence>> {
        match self.confinement.fence() {
            _ if trusted => Ok(None),
            Ok(fence) => Ok(fence),
            Err(why) if self.required => Err(std::io::Error::other(format!(
                "a sandbox is required, and there is none: {why}"
            ))),
            Err(_) => Ok(None),
        }
    }

    pub(super) fn start(&self, run: Run<'_>) -> std::io::Result<RunningCommand> {
        RunningCommand::start(CommandSpec {
            line: run.line,
            cwd: run.cwd,
            hidden: &self.hidden,
            fence: self.fence(run.trusted)?,
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
