//! The daemon's side of the shim: start it, speak to it, wait for the end of its tree.

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

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::unix::pipe;
use tokio::sync::{Semaphore, mpsc, watch};

pub use self::adopt::AdoptError;
pub use self::command::{CommandRun, Limits, MAX_OUTPUT_FILE_BYTES, ProcError};
pub use self::limit::{keep_files_private, raise_file_limit};
use self::link::Link;
pub use self::lost::{ShimLost, read_exit_record, recover};
use self::pump::{Request, Shim, State, StatusSource};
use crate::identity::{ProcessId, boot_id};
use crate::lock::FileLock;
use crate::spec::{ExitRecord, Mark, SHIM_VERB, ShimSpec};

/// How many shims are started at the same moment. More would only wait for the same cores.
const STARTS_AT_ONCE: usize = 4;

/// Starts shims. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Supervisor {
    program: CString,
    args: Arc<[CString]>,
    environment: Arc<[CString]>,
    gate: Arc<Semaphore>,
}

/// A shim could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A path or argument of the shim itself holds a NUL byte.
    #[error("the shim's command line holds a NUL byte: {0:?}")]
    CommandLine(OsString),
    /// The spec has no JSON form.
    #[error("cannot encode what to start")]
    Encode(#[source] serde_json::Error),
    /// No pipe could be made: most often too many open files.
    #[error("cannot make the pipes of a shim")]
    Pipe(#[source] io::Error),
    /// The shim's program could not be executed.
    #[error("cannot start the shim {}", program.display())]
    Start {
        /// The program that acts as the shim.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// What the shim's standard output is: what [`crate::Output::Inherit`] gives to the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StdoutMode {
    /// `/dev/null`.
    #[default]
    Null,
    /// A pipe to [`Supervised::take_stdout`].
    Pipe,
}

impl Supervisor {
    /// Shims are started as `program args…`.
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
        })
    }

    /// This program as the shim: `vik __shim`.
    ///
    /// On Linux the program is `/proc/self/exe`: the very file that this process runs, even after an upgrade has
    /// replaced or removed it on disk. So the two sides of the pipe always speak the same version.
    pub fn this_program() -> Result<Self, SpawnError> {
        let own = PathBuf::from("/proc/self/exe");
        let program = if own.exists() {
            own
        } else {
            std::env::current_exe().map_err(|source| SpawnError::Start { program: own, source })?
        };
        Self::new(program, [OsString::from(SHIM_VERB)])
    }

    /// Gives every shim this variable in its own environment, and as an argument, which those without privileges may read;
    /// [`crate::sweep`] finds it there. What a shim runs does not get it.
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
        self
    }

    /// Starts one agent and returns when it runs, or when it is known that it will not: then
    /// [`Supervised::agent`] is `None` and [`Supervised::wait`] says why.
    ///
    /// `lock` is held by the shim too, for as long as it lives. Dropping the future, or the last [`Supervised`] and
    /// [`Handle`] of it, stops the agent; only [`Handle::detach`] and the death of this process leave it to the shim's
    /// [`ShimSpec::orphan_grace`].
    pub async fn spawn(
        &self,
        spec: &ShimSpec,
        lock: Option<&FileLock>,
        stdout: StdoutMode,
    ) -> Result<Supervised, SpawnError> {
        self.spawn_noted(spec, lock, stdout, |_| {}).await
    }

    /// As [`spawn`](Self::spawn), and tells who the shim is before it has started anything.
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
        let prepared = start::Prepared::new(lock.map(AsFd::as_fd), stdout)?;
        let this = self.clone();
        // In a task of its own: a caller that gives up must not leave a shim that nobody reaps.
        let starting = tokio::spawn(async move { this.start(prepared, spec, note).await });
        let mut supervised = match starting.await {
            Ok(supervised) => supervised?,
            Err(error) => return Err(self.start_error(io::Error::other(error))),
        };
        supervised.handle.known().await;
        Ok(supervised)
    }

    async fn start(
        &self,
        prepared: start::Prepared,
        spec: ShimSpec,
        note: impl FnOnce(ProcessId),
    ) -> Result<Supervised, SpawnError> {
        let mut line = serde_json::to_vec(&spec).map_err(SpawnError::Encode)?;
        line.push(b'\n');
        let started = self.start_shim(prepared).await?;
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
            spec,
            inbox,
            publish,
        };
        pump::run(task, StatusSource::pipe(line, started.status));
        Ok(Supervised { handle, stdout })
    }
}

/// One running shim with its agent.
#[derive(Debug)]
pub struct Supervised {
    handle: Handle,
    stdout: Option<pipe::Receiver>,
}

impl Supervised {
    /// The shim's process.
    pub fn shim(&self) -> ProcessId {
        self.handle.shim
    }

    /// The agent's process; `None` if it could not be started.
    pub fn agent(&self) -> Option<ProcessId> {
        self.handle.agent()
    }

    /// The agent's standard output, once, with [`StdoutMode::Pipe`].
    pub fn take_stdout(&mut self) -> Option<pipe::Receiver> {
        self.stdout.take()
    }

    /// A second way to speak to the shim, for other tasks.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Begins the stop ladder. Returns at once.
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// Kills the whole tree. Returns at once.
    pub fn kill(&self) {
        self.handle.kill();
    }

    /// Waits until the tree is gone and the shim has ended (its lock is free then). Can be called again.
    pub async fn wait(&self) -> Result<ExitRecord, ShimLost> {
        self.handle.wait().await
    }
}

/// Speaks to a shim; cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle {
    shim: ProcessId,
    requests: mpsc::UnboundedSender<Request>,
    state: watch::Receiver<State>,
}

impl Handle {
    /// The shim's process.
    pub fn shim(&self) -> ProcessId {
        self.shim
    }

    /// The agent's process; `None` if it could not be started.
    pub fn agent(&self) -> Option<ProcessId> {
        self.state.borrow().agent
    }

    /// Begins the stop ladder. Returns at once.
    pub fn stop(&self) {
        // A closed channel: the shim has ended already.
        let _ = self.requests.send(Request::Stop);
    }

    /// Kills the whole tree. Returns at once.
    pub fn kill(&self) {
        let _ = self.requests.send(Request::Kill);
    }

    /// Leaves the shim and its agent alone: the [`ShimSpec::orphan_grace`] begins, within which another daemon may
    /// [adopt](Supervisor::adopt) them. [`wait`](Self::wait) returns when that is done, with
    /// [`ShimLost::detached`](field@ShimLost::detached). A shim that has ended before is not left but gone, and `wait` gives its end.
    pub fn detach(&self) {
        let _ = self.requests.send(Request::Detach);
    }

    /// Returns when the agent runs or the shim has ended.
    async fn known(&mut self) {
        let known = |state: &State| state.agent.is_some() || state.end.is_some();
        let _ = self.state.wait_for(known).await;
    }

    /// Waits until the tree is gone and the shim has ended. Can be called again, by many.
    pub async fn wait(&self) -> Result<ExitRecord, ShimLost> {
        let mut state = self.state.clone();
        let end = match state.wait_for(|state| state.end.is_some()).await {
            Ok(state) => state.end.clone(),
            Err(_) => None,
        };
        end.unwrap_or_else(|| Err(ShimLost::unknown(self.shim, self.agent())))
    }
}
