//! Runs git: bounded, interruptible, and without the filters in the repository's settings.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::git;
use crate::interrupt::Interrupt;
use crate::tools::{ToolContext, ToolError};

/// The time limit of git.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum output, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The output of git.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) ok: bool,
    pub(super) text: String,
    pub(super) error: String,
}

impl GitOutput {
    /// Returns the output if git succeeded, else its error.
    pub(super) fn text(self) -> Result<String, ToolError> {
        if self.ok {
            return Ok(self.text);
        }
        let receiver = if self.error.trim().is_empty() {
            &self.text
        } else {
            &self.error
        };
        Err(ToolError::Failed(receiver.trim().to_owned()))
    }
}

/// git in the workspace.
pub(super) struct Git<'a> {
    dir: &'a Path,
    interrupt: &'a Interrupt,
    filters: Vec<String>,
}

enum GitMessage {
    Output(Vec<u8>),
    Error(Vec<u8>),
    Interrupted,
}

impl<'a> Git<'a> {
    pub(super) fn new(context: &ToolContext<'a>) -> Result<Self, ToolError> {
        let mut git = Self {
            dir: context.root.path(),
            interrupt: context.interrupt,
            filters: Vec::new(),
        };
        let names = git.run(&[
            "config",
            "--null",
            "--name-only",
            "--get-regexp",
            r"^filter\..*\.(clean|smudge|process)$",
        ])?;
        for name in names.text.split('\0') {
            let filter = name
                .strip_prefix("filter.")
                .and_then(|tail| tail.rsplit_once('.'));
            if let Some((filter, _)) = filter
                && !git.filters.iter().any(|known| known == filter)
            {
                git.filters.push(filter.to_owned());
            }
        }
        Ok(git)
    }

    /// Returns the filters in the settings; none of them is run.
    pub(super) fn filters(&self) -> &[String] {
        &self.filters
    }

    /// Runs git to its end.
    pub(super) fn run<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Result<GitOutput, ToolError> {
        self.run_with(args, Vec::new())
    }

    /// Runs git with this stdin.
    pub(super) fn run_with<S: AsRef<std::ffi::OsStr>>(
        &self,
        args: &[S],
        input: Vec<u8>,
    ) -> Result<GitOutput, ToolError> {
        let failed = |error: std::io::Error| ToolError::Failed(format!("cannot run git: {error}"));
        let mut command = git::command(self.dir);
        // As pairs in the environment, since a name may contain any character.
        let given: usize = std::env::var("GIT_CONFIG_COUNT")
            .ok()
            .and_then(|count| count.parse().ok())
            .unwrap_or(0);
        let mut count = given;
        for filter in &self.filters {
            for (key, value) in [
                ("clean", ""),
                ("smudge", ""),
                ("process", ""),
                ("required", "false"),
            ] {
                command
                    .env(
                        format!("GIT_CONFIG_KEY_{count}"),
                        format!("filter.{filter}.{key}"),
                    )
                    .env(format!("GIT_CONFIG_VALUE_{count}"), value);
                count += 1;
            }
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let outcome = self.watch(&mut child, input);
        if outcome.is_err() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(failed)?;
        let (text, error, cut) = outcome?;
        Ok(GitOutput {
            // If the output is cut off, git ends by the closed pipe.
            ok: status.success() || cut,
            text,
            error,
        })
    }

    fn watch(&self, child: &mut Child, input: Vec<u8>) -> Result<(String, String, bool), ToolError> {
        let (sender, receiver) = channel();
        let interrupt_sender = sender.clone();
        let _listening = self
            .interrupt
            .listen(move || drop(interrupt_sender.send(GitMessage::Interrupted)));
        if let Some(mut stdin) = child.stdin.take() {
            std::thread::spawn(move || stdin.write_all(&input));
        }
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let error_sender = sender.clone();
        std::thread::spawn(move || sender.send(GitMessage::Output(bytes(out))));
        std::thread::spawn(move || error_sender.send(GitMessage::Error(bytes(err))));
        let deadline = Instant::now() + TIMEOUT;
        let (mut output, mut error) = (None, None);
        while output.is_none() || error.is_none() {
            match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(GitMessage::Output(bytes)) => output = Some(bytes),
                Ok(GitMessage::Error(bytes)) => error = Some(bytes),
                Ok(GitMessage::Interrupted) => return Err(ToolError::Failed("interrupted".to_owned())),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(ToolError::Failed(format!(
                        "git was stopped after {} s",
                        TIMEOUT.as_secs()
                    )));
                }
            }
        }
        let (output, error) = (output.unwrap_or_default(), error.unwrap_or_default());
        let cut = output.len() as u64 == MAX_BYTES;
        Ok((
            String::from_utf8_lossy(&output).into_owned(),
            String::from_utf8_lossy(&error).into_owned(),
            cut,
        ))
    }
}

fn bytes(from: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        let _ = from.take(MAX_BYTES).read_to_end(&mut bytes);
    }
    bytes
}
