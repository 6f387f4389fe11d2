//! Short commands (pull, hooks, prompt commands, verify): each runs under the shim, with a time and
//! a size limit.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep_until};

use super::{Handle, ShimLost, SpawnError, StdoutMode, Supervisor};
use crate::identity::ProcessId;
use crate::lease::Lease;
use crate::lock::FileLock;
use crate::spec::{Cause, ExitRecord, Output, ShimSpec};

/// The most bytes that a short command may add to the files for its output, so that a hook that
/// prints without end does not fill the disk.
pub const MAX_OUTPUT_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// How often the sizes of these files are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The limits of a short command; [`MAX_OUTPUT_FILE_BYTES`] limits what it adds to files.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time after which the command is stopped (by the ladder, with the spec's graces).
    pub timeout: Duration,
    /// The most bytes of standard output; the command is killed if it writes more.
    pub max_bytes: usize,
}

/// The result of a short command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRun {
    /// The exit record, also of a command that could not be started.
    pub exit: ExitRecord,
    /// The standard output, at most `max_bytes`, if the spec sends it to [`Output::Inherit`].
    pub stdout: Vec<u8>,
    /// The command was stopped because its time was up.
    pub timed_out: bool,
    /// The command was killed because it wrote too much.
    pub flooded: bool,
    /// The command was stopped because the caller cancelled it, or its lease was lost
    /// ([`Supervisor::with_lease`]).
    pub cancelled: bool,
}

impl CommandRun {
    /// Returns whether the command ended by itself, within its limits, with exit code 0.
    pub fn is_success(&self) -> bool {
        !self.timed_out && !self.flooded && !self.cancelled && self.exit.is_clean()
    }
}

/// The reason why a short command has no exit record.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// The shim could not be started.
    #[error("cannot run a command")]
    Spawn(#[from] SpawnError),
    #[error("a command was lost")]
    Lost(#[from] ShimLost),
}

impl Supervisor {
    /// Runs a command and waits for the end of its whole tree. When `cancel` completes, the command
    /// is stopped; without a cancellation, pass [`std::future::pending()`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use vik_proc::{Limits, ShimSpec, Supervisor};
    ///
    /// let mut spec = ShimSpec::command("git", "/tmp");
    /// spec.args = vec!["--version".into()];
    /// spec.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    /// let limits = Limits { timeout: Duration::from_secs(10), max_bytes: 64 * 1024 };
    /// // The program that calls this must handle `__shim`, as `vik` does.
    /// let supervisor = Supervisor::this_program()?;
    /// let run = supervisor.output(&spec, limits, std::future::pending()).await?;
    /// assert!(run.is_success() && run.stdout.starts_with(b"git version"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn output(
        &self,
        spec: &ShimSpec,
        limits: Limits,
        cancel: impl Future<Output = ()>,
    ) -> Result<CommandRun, ProcError> {
        self.output_with_callback(spec, None, limits, cancel, |_| {})
            .await
    }

    /// Like [`output`](Self::output). The shim also holds the lock, as long as any process of the
    /// command lives; `note` is called with the shim's identity before the shim has started
    /// anything.
    pub async fn output_with_callback(
        &self,
        spec: &ShimSpec,
        lock: Option<&FileLock>,
        limits: Limits,
        cancel: impl Future<Output = ()>,
        note: impl FnOnce(ProcessId) + Send + 'static,
    ) -> Result<CommandRun, ProcError> {
        let collects = matches!(spec.stdout, Output::Inherit | Output::Stdout);
        let mode = if collects {
            StdoutMode::Pipe
        } else {
            StdoutMode::Null
        };
        let mut cancel = pin!(cancel);
        let deadline = Instant::now() + limits.timeout;
        let mut supervised = self.spawn_noted(spec, lock, mode, note).await?;
        let handle = supervised.handle();
        let mut collector = Collector::new(supervised.take_stdout(), limits.max_bytes);
        let mut files = Files::of(spec);
        let (mut timed_out, mut cancelled) = (false, false);
        let exit = {
            let mut wait = pin!(supervised.wait());
            loop {
                tokio::select! {
                    end = &mut wait => break end?,
                    () = collector.read(&handle), if collector.is_open() => {}
                    () = files.overflow(), if !files.flooded => {
                        files.flooded = true;
                        handle.kill();
                    }
                    () = sleep_until(deadline), if !timed_out && !cancelled => {
                        timed_out = true;
                        handle.stop();
                    }
                    () = &mut cancel, if !timed_out && !cancelled => {
                        cancelled = true;
                        handle.stop();
                    }
                }
            }
        };
        collector.drain();
        // A command that ended by itself at the same moment was not stopped.
        let stopped = exit.cause != Cause::Exited && exit.cause != Cause::SpawnFailed;
        Ok(CommandRun {
            exit,
            stdout: collector.bytes,
            timed_out: timed_out && stopped,
            flooded: collector.flooded || files.flooded,
            cancelled: (cancelled || self.lease.as_ref().is_some_and(Lease::is_lost)) && stopped,
        })
    }
}

/// The files for the output, with their sizes at the start.
struct Files {
    files: Vec<(PathBuf, u64)>,
    flooded: bool,
}

impl Files {
    fn of(spec: &ShimSpec) -> Self {
        let paths = [&spec.stdout, &spec.stderr]
            .into_iter()
            .filter_map(|output| match output {
                Output::Append(path) => Some((path.clone(), size(path))),
                _ => None,
            });
        Self {
            files: paths.collect(),
            flooded: false,
        }
    }

    /// Returns when too much has been added.
    async fn overflow(&self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let grown = |(path, before): &(PathBuf, u64)| size(path).saturating_sub(*before);
            if self.files.iter().map(grown).sum::<u64>() > MAX_OUTPUT_FILE_BYTES {
                return;
            }
        }
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

/// Standard output up to its limit.
struct Collector {
    pipe: Option<pipe::Receiver>,
    bytes: Vec<u8>,
    max_bytes: usize,
    flooded: bool,
}

impl Collector {
    fn new(pipe: Option<pipe::Receiver>, max_bytes: usize) -> Self {
        Self {
            pipe,
            bytes: Vec::new(),
            max_bytes,
            flooded: false,
        }
    }

    fn is_open(&self) -> bool {
        self.pipe.is_some() && !self.flooded
    }

    /// Waits for output and reads what is available. It can be dropped at any await without loss.
    async fn read(&mut self, handle: &Handle) {
        let Some(pipe) = &self.pipe else { return };
        if pipe.readable().await.is_err() {
            self.pipe = None;
            return;
        }
        self.drain();
        if self.flooded {
            // The pipe stays open until the kill takes effect: a broken pipe would look as if the
            // command had ended by itself.
            handle.kill();
        }
    }

    /// Reads what is available now.
    fn drain(&mut self) {
        let mut chunk = [0; 16 * 1024];
        while let Some(pipe) = &self.pipe {
            match pipe.try_read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(length) => {
                    let room = self.max_bytes - self.bytes.len();
                    self.bytes.extend_from_slice(&chunk[..length.min(room)]);
                    if length > room {
                        self.flooded = true;
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}
