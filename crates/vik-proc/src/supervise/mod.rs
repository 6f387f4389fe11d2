//! The daemon's side of the shim: starts it, sends commands to it, waits for the end of its tree.

mod adopt;
mod command;
mod limit;
#[expect(clippy::disallowed_methods, reason = "opens files of Vik's own")]
mod link;
#[expect(clippy::disallowed_methods, reason = "opens files of Vik's own")]
mod lost;
mod pump;
pub(crate) mod shims;
#[expect(clippy::disallowed_methods, reason = "opens /dev/null")]
mod start;
#[cfg(target_os = "linux")]
mod template;

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

pub use self::adopt::AdoptError;
pub use self::command::{CommandRun, Limits, MAX_OUTPUT_FILE_BYTES, ProcError};
pub use self::limit::{highest_file_limit, keep_files_private, raise_file_limit};
use self::link::Link;
pub use self::lost::{ShimLost, read_exit_record, recover};
use self::pump::{Request, Shim, State, StatusSource};
use crate::boot_time::BootTime;
use crate::identity::{ProcessId, boot_id};
use crate::lease::Lease;
use crate::lock::FileLock;
use crate::spec::{ExitRecord, Mark, SHIM_VERB, ShimSpec};

/// How many shims are started at the same time. More would only compete for the same cores.
const STARTS_AT_ONCE: usize = 4;

/// Starts shims. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Supervisor {
    program: CString,
    args: Arc<[CString]>,
    environment: Arc<[CString]>,
    gate: Arc<Semaphore>,
    lease: Option<Lease>,
    #[cfg(target_os = "linux")]
    template: Arc<template::TemplateSlot>,
}

/// The reason why a shim could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A path or argument of the shim itself contains a NUL byte.
    #[error("the shim's command line contains a NUL byte: {0:?}")]
    CommandLine(OsString),
    /// The spec cannot be encoded as JSON.
    #[error("cannot encode the command to start")]
    Encode(#[source] serde_json::Error),
    /// No pipe could be created: usually there are too many open files.
    #[error("cannot create the pipes of a shim")]
    Pipe(#[source] io::Error),
    /// The shim's program could not be executed.
    #[error("cannot start the shim {}", program.display())]
    Start {
        /// The program that acts as the shim.
        program: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

/// The standard output of the shim, which the agent gets with [`crate::Output::Inherit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StdoutMode {
    #[default]
    Null,
    /// A pipe to [`Supervised::take_stdout`].
    Pipe,
}

impl Supervisor {
    /// Creates a supervisor that starts shims as `program args…`.
    pub fn new(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, SpawnError> {
        let c_string = |text: OsString| {
            let copy = text.clone();
            CString::new(text.into_vec()).map_err(|_| SpawnError::CommandLine(copy))
        };
        let program = program.into().into_os_string();
        let name = PathBuf::from(&program).file_name().unwrap_or(&program).to_owned();
        let args = std::iter::once(name)
            .chain(args)
            .map(c_string)
            .collect::<Result<_, _>>()?;
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok())
            .collect();
        Ok(Self {
            program: c_string(program)?,
            args,
            environment,
            gate: Arc::new(Semaphore::new(STARTS_AT_ONCE)),
            lease: None,
            #[cfg(target_os = "linux")]
            template: Arc::default(),
        })
    }

    /// Creates a supervisor that starts this program as the shim: `vik __shim`.
    ///
    /// On Linux the program is `/proc/self/exe`: the file that this process runs, even after an
    /// upgrade has replaced or removed it on disk. So both sides of the pipe always have the same
    /// version.
    pub fn this_program() -> Result<Self, SpawnError> {
        let own = PathBuf::from("/proc/self/exe");
        let program = if own.exists() {
            own
        } else {
            std::env::current_exe().map_err(|source| SpawnError::Start { program: own, source })?
        };
        Self::new(program, [OsString::from(SHIM_VERB)])
    }

    /// Gives every shim this variable in its own environment, and as an argument, which
    /// unprivileged processes can read; [`crate::sweep`] finds it there. The agents of the shims do
    /// not get it.
    #[must_use]
    pub fn mark_shims(mut self, mark: &Mark) -> Self {
        let prefix = format!("{}=", mark.name);
        let kept = self
            .environment
            .iter()
            .filter(|entry| !entry.as_bytes().starts_with(prefix.as_bytes()));
        let own = CString::new(format!("{prefix}{}", mark.value)).ok();
        self.environment = kept.cloned().chain(own.clone()).collect();
        let others = self
            .args
            .iter()
            .filter(|arg| !arg.as_bytes().starts_with(prefix.as_bytes()));
        self.args = others.cloned().chain(own).collect();
        // A template that is running does not have it.
        #[cfg(target_os = "linux")]
        {
            self.template = Arc::default();
        }
        self
    }

    /// Returns a supervisor that starts and adopts shims under a lease: it passes on each renewal for
    /// as long as a shim lives, and kills the tree when the lease is lost. [`ShimSpec::lease`] is set
    /// by it.
    #[must_use]
    pub fn with_lease(&self, lease: Lease) -> Self {
        Self {
            lease: Some(lease),
            ..self.clone()
        }
    }

    /// Ends the process from which shims are forked, and waits until it has exited. The next start
    /// works without it.
    pub fn close(&self) {
        #[cfg(target_os = "linux")]
        self.template.end();
    }

    /// Starts one agent. Returns when it runs, or when it is certain that it will not:
    /// [`Supervised::agent`] is then `None`, and [`Supervised::wait`] returns the reason.
    ///
    /// The shim also holds `lock` for as long as it lives. Dropping the future, or the last
    /// [`Supervised`] and [`Handle`] of the agent, stops it; only [`Handle::detach`] and the death
    /// of this process leave it to the shim's [`ShimSpec::orphan_grace`].
    pub async fn spawn(
        &self,
        spec: &ShimSpec,
        lock: Option<&FileLock>,
        stdout: StdoutMode,
    ) -> Result<Supervised, SpawnError> {
        self.spawn_noted(spec, lock, stdout, |_| {}).await
    }

    /// Like [`spawn`](Self::spawn), and calls `note` with the shim's identity before the shim has
    /// started anything.
    pub async fn spawn_noted(
        &self,
        spec: &ShimSpec,
        lock: Option<&FileLock>,
        stdout: StdoutMode,
        note: impl FnOnce(ProcessId) + Send + 'static,
    ) -> Result<Supervised, SpawnError> {
        let mut spec = spec.clone();
        spec.open_files = spec.open_files.or_else(limit::original);
        spec.umask = spec.umask.or_else(limit::original_umask);
        // The pipes are created when it is its turn, because a waiting start must not use up the
        // descriptors of others.
        let turn = Arc::clone(&self.gate).acquire_owned().await.ok();
        let prepared = start::Prepared::new(&spec, lock.map(AsFd::as_fd), stdout)?;
        let this = self.clone();
        // The start runs in a task of its own, so that a caller that drops the future does not
        // leave an unreaped shim.
        let starting = tokio::spawn(async move { this.start(prepared, turn, spec, note).await });
        let mut supervised = match starting.await {
            Ok(supervised) => supervised?,
            Err(error) => return Err(self.start_error(io::Error::other(error))),
        };
        supervised.handle.wait_until_known().await;
        Ok(supervised)
    }

    async fn start(
        &self,
        prepared: start::Prepared,
        turn: Option<OwnedSemaphorePermit>,
        mut spec: ShimSpec,
        note: impl FnOnce(ProcessId),
    ) -> Result<Supervised, SpawnError> {
        spec.lease = self.lease.as_ref().map(Lease::end).or(spec.lease);
        let mut line = serde_json::to_vec(&spec).map_err(SpawnError::Encode)?;
        line.push(b'\n');
        let started = self.start_shim(prepared).await?;
        drop(turn);
        note(started.shim);
        let (requests, inbox) = mpsc::unbounded_channel();
        let (publish, state) = watch::channel(State::default());
        let handle = Handle {
            shim: started.shim,
            requests,
            state,
        };
        let stdout = started.stdout;
        let task = Shim {
            id: started.shim,
            boot_id: boot_id(),
            reaps: true,
            started: true,
            link: Some(Link::Pipe(started.lifeline)),
            spec: spec.into_recovery(),
            lease: self.lease.clone(),
            inbox,
            publish,
        };
        pump::run(task, StatusSource::pipe(line, started.status));
        Ok(Supervised { handle, stdout })
    }
}

#[derive(Debug)]
pub struct Supervised {
    handle: Handle,
    stdout: Option<pipe::Receiver>,
}

impl Supervised {
    /// Returns the shim's process.
    pub fn shim(&self) -> ProcessId {
        self.handle.shim
    }

    /// Returns the agent's process; `None` if it could not be started.
    pub fn agent(&self) -> Option<ProcessId> {
        self.handle.agent()
    }

    /// Takes the agent's standard output, with [`StdoutMode::Pipe`].
    pub fn take_stdout(&mut self) -> Option<pipe::Receiver> {
        self.stdout.take()
    }

    /// Returns a second handle to the shim, for other tasks.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Starts the stop ladder. Returns at once.
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// Kills the whole tree. Returns at once.
    pub fn kill(&self) {
        self.handle.kill();
    }

    /// Waits until the tree has ended and the shim has exited (its lock is then free). Can be
    /// called repeatedly.
    pub async fn wait(&self) -> Result<ExitRecord, ShimLost> {
        self.handle.wait().await
    }
}

/// A handle to a shim; cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    shim: ProcessId,
    requests: mpsc::UnboundedSender<Request>,
    state: watch::Receiver<State>,
}

impl Handle {
    /// Returns the shim's process.
    pub fn shim(&self) -> ProcessId {
        self.shim
    }

    /// Returns the agent's process; `None` if it could not be started.
    pub fn agent(&self) -> Option<ProcessId> {
        self.state.borrow().agent
    }

    /// Starts the stop ladder. Returns at once.
    pub fn stop(&self) {
        // A closed channel means that the shim has ended already.
        let _ = self.requests.send(Request::Stop);
    }

    /// Kills the whole tree. Returns at once.
    pub fn kill(&self) {
        let _ = self.requests.send(Request::Kill);
    }

    /// Replaces the end of the [`ShimSpec::lease`], with at most one hour from now. Returns at once.
    ///
    /// It has no effect if the agent has no lease, or if the shim reads it after the lease has
    /// ended: [`wait`](Self::wait) then returns [`crate::Cause::LeaseLost`].
    pub fn renew(&self, end: BootTime) {
        let _ = self.requests.send(Request::Renew(end));
    }

    /// Leaves the shim and its agent alone: the [`ShimSpec::orphan_grace`] starts, during which
    /// another daemon may [adopt](Supervisor::adopt) them. [`wait`](Self::wait) then returns
    /// [`ShimLost::detached`](field@ShimLost::detached). If the shim has ended before, it cannot be
    /// left, and `wait` returns its result.
    pub fn detach(&self) {
        let _ = self.requests.send(Request::Detach);
    }

    /// Waits until the agent runs or the shim has ended.
    async fn wait_until_known(&mut self) {
        let known = |state: &State| state.agent.is_some() || state.end.is_some();
        let _ = self.state.wait_for(known).await;
    }

    /// Waits until the tree has ended and the shim has exited. Can be called repeatedly, by several
    /// tasks.
    pub async fn wait(&self) -> Result<ExitRecord, ShimLost> {
        let mut state = self.state.clone();
        let end = match state.wait_for(|state| state.end.is_some()).await {
            Ok(state) => state.end.clone(),
            Err(_) => None,
        };
        end.unwrap_or_else(|| Err(ShimLost::unknown(self.shim, self.agent())))
    }
}
