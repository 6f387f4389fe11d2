//! The life of a daemon, detached or in front of a person.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::mpsc;
use vik_core::workflow::Workflow;
use vik_proc::{FileLock, Mark, ProcessId, Supervisor};

use super::Ready;
use super::instance::{Instance, InstanceInfo};
use super::recover;
use super::signals::Signals;
use super::state::{self, ServiceState};
use crate::control::ControlServer;
use crate::host::{Host, SHIM_MARK, own_environment};
use crate::logging::{self, Console};
use crate::orchestrator::{Closing, Observer, Options, Orchestrator};
use crate::report::{Exit, Failure, chain};
use crate::workspace::{self, Layout};

/// How long file accesses that are still under way may hold up the end.
const LAST_READS: std::time::Duration = std::time::Duration::from_secs(1);

/// How often old logs are looked for.
const RETENTION_EVERY: std::time::Duration = std::time::Duration::from_secs(6 * 3600);

/// What a daemon is to do.
pub struct ServeOptions {
    /// The workflow file, absolute.
    pub workflow_path: PathBuf,
    /// The workflow.
    pub workflow: Arc<Workflow>,
    /// How long, and what.
    pub options: Options,
    /// What a person sees of the logs.
    pub console: Console,
    /// Who is told what happens.
    pub observer: Box<dyn Observer>,
}

/// Runs a daemon to its end.
///
/// `ready` is told when it can be asked, or why it cannot.
///
/// # Errors
/// When it could not begin.
pub fn serve(serve: ServeOptions, ready: Option<Ready>) -> Result<Closing, Failure> {
    vik_proc::lean_heap();
    match Daemon::begin(&serve) {
        Ok(daemon) => daemon.run(serve, ready),
        Err(failure) => {
            if let Some(ready) = ready {
                ready.failed(&failure);
            }
            Err(failure)
        }
    }
}

/// Everything that a daemon holds for its life.
struct Daemon {
    instance: Instance,
    /// The instance's, and the home's: whoever looks for its state elsewhere must not run beside it either.
    _locks: [FileLock; 2],
    host: Arc<Host>,
    state: ServiceState,
    info: InstanceInfo,
}

/// The surroundings for a workflow, without becoming its daemon.
///
/// # Errors
/// When the home cannot be told or made.
pub fn host(workflow_path: &Path, workflow: &Workflow, instance: &Instance) -> Result<Host, Failure> {
    let failure = |what: &str, error: &dyn std::error::Error| Failure::failed("home", what, error);
    let layout = Layout::resolve(workflow_path, &workflow.workspace_root)
        .map_err(|error| failure("cannot tell where this workflow keeps its files", &error))?;
    let vik =
        std::env::current_exe().map_err(|error| failure("cannot tell where Vik's own program is", &error))?;
    let supervisor =
        Supervisor::this_program().map_err(|error| failure("cannot prepare the shim", &error))?;
    let supervisor = supervisor.mark_shims(&Mark::new(SHIM_MARK, instance.name()));
    Ok(Host {
        workflow_path: workflow_path.to_owned(),
        workflow_dir: workflow_path.parent().unwrap_or(Path::new("/")).to_owned(),
        layout,
        environment: own_environment(),
        supervisor,
        instance: instance.name(),
        vik,
    })
}

impl Daemon {
    fn begin(serve: &ServeOptions) -> Result<Self, Failure> {
        vik_proc::keep_files_private();
        let instance = Instance::of(&serve.workflow_path)?;
        let lock = instance.acquire()?;
        let mut host = host(&serve.workflow_path, &serve.workflow, &instance)?;
        let io = |what: String, error: &std::io::Error| {
            Failure::failed("home", what, error)
                .hint("check that the folder is writable and the disk not full")
        };
        host.layout.create().map_err(|error| {
            Failure::failed("home", "cannot make the folders of this workflow", &error)
                .hint("check that the folder is writable and the disk not full")
        })?;
        let home_lock = lock_home(&host.layout)?;
        workspace::sweep(&host.layout).map_err(|error| {
            Failure::failed("home", "cannot clean up what an earlier removal left", &error)
        })?;
        logging::init(&host.layout.logs_dir(), serve.console).map_err(|error| {
            io(
                format!("cannot write logs in {}", host.layout.logs_dir().display()),
                &error,
            )
        })?;
        let now = Timestamp::now();
        let process = ProcessId::current();
        let state = ServiceState {
            schema: 1,
            state: "running".to_owned(),
            pid: process.pid,
            started_at: now,
            since: now,
            workflow_path: serve.workflow_path.to_string_lossy().into_owned(),
        };
        state::write(&host.layout.state_file(), &state).map_err(|error| {
            io(
                format!("cannot write {}", host.layout.state_file().display()),
                &error,
            )
        })?;
        let info = InstanceInfo {
            schema: 1,
            process,
            boot_id: vik_proc::identity::boot_id(),
            started_at: now,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            workflow_path: serve.workflow_path.clone(),
            root: host.layout.root().to_owned(),
            socket: instance.dir().socket(),
            options: serve.options.words(),
            ended_at: None,
        };
        Ok(Self {
            instance,
            _locks: [lock, home_lock],
            host: Arc::new(host),
            state,
            info,
        })
    }

    fn run(mut self, serve: ServeOptions, mut ready: Option<Ready>) -> Result<Closing, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(8)
            .enable_all()
            .build()
            .map_err(|error| Failure::failed("runtime", "cannot start", &error));
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(failure) => {
                if let Some(ready) = ready {
                    ready.failed(&failure);
                }
                return Err(failure);
            }
        };
        let result = runtime.block_on(self.live(serve, &mut ready));
        // A read from a disk that does not answer must not hold up the end.
        runtime.shutdown_timeout(LAST_READS);
        if let (Err(failure), Some(ready)) = (&result, ready) {
            ready.failed(failure);
        }
        self.state.state = "stopped".to_owned();
        self.state.since = Timestamp::now();
        if let Err(error) = state::write(&self.host.layout.state_file(), &self.state) {
            tracing::error!(%error, "cannot write state.json");
        }
        self.instance.close();
        tracing::info!("ended");
        result
    }

    async fn live(&mut self, serve: ServeOptions, ready: &mut Option<Ready>) -> Result<Closing, Failure> {
        let fail = |what: &str, error: &std::io::Error| Failure::failed("daemon", what, error);
        let signals = Signals::listen().map_err(|error| fail("cannot listen to signals", &error))?;
        // Agents of the same user must not read its environment, nor open its files by /proc.
        vik_proc::shield();
        vik_proc::raise_file_limit();
        vik_proc::adopt_orphans();
        let (asks, receiver) = mpsc::channel(64);
        let orchestrator = Orchestrator::new(
            Arc::clone(&self.host),
            serve.workflow.clone(),
            serve.options,
            serve.observer,
        );
        let shims = orchestrator.shims();
        let refuse = Arc::new(move |peer: i32| {
            let shims = shims.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // Who is gone already cannot be told from an agent.
            vik_proc::descends_from(peer, &shims) != Some(false)
        });
        let socket = self.instance.dir().socket();
        let _server = ControlServer::listen(&socket, asks, refuse)
            .map_err(|error| fail(&format!("cannot listen at {}", socket.display()), &error))?;
        self.instance
            .announce(&self.info)
            .map_err(|error| fail("cannot write instance.json", &error))?;
        tracing::info!(version = self.info.version, workflow = %serve.workflow_path.display(), "ready");
        if let Some(ready) = ready.take() {
            let log = self.host.layout.logs_dir().join("daemon.stderr.log");
            ready.ready(&log).map_err(|error| fail("cannot detach", &error))?;
        }
        let retention = tokio::spawn(retain(self.host.layout.logs_dir(), serve.workflow.retention_days));
        let orphans = tokio::spawn(vik_proc::tend_orphans());
        let (sessions, boot) = (self.host.layout.sessions_dir(), self.info.started_at);
        tokio::task::spawn_blocking(move || match recover::end_cut_off_logs(&sessions, boot) {
            Ok(0) => {}
            Ok(count) => tracing::warn!(count, "ended the logs of attempts whose daemon died"),
            Err(error) => tracing::warn!(error = chain(&error), "cannot look for logs that were cut off"),
        });
        let closing = orchestrator.run(signals, receiver).await;
        retention.abort();
        orphans.abort();
        Ok(closing)
    }
}

fn lock_home(layout: &Layout) -> Result<FileLock, Failure> {
    let path = layout.service_dir().join("daemon.lock");
    match FileLock::try_acquire(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(Failure::new(
            Exit::AlreadyRunning,
            "already_running",
            format!("another daemon uses {} already", layout.root().display()),
        )
        .hint("it was started with another XDG_STATE_HOME or HOME; stop it from there")),
        Err(error) => Err(Failure::failed(
            "home",
            format!("cannot lock {}", path.display()),
            &error,
        )),
    }
}

async fn retain(logs: PathBuf, days: u32) {
    loop {
        match logging::retain(&logs, days) {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "old logs removed"),
            Err(error) => tracing::warn!(%error, "cannot look for old logs"),
        }
        tokio::time::sleep(RETENTION_EVERY).await;
    }
}

/// Shims of agents that run now, shared with the control socket.
pub type Shims = Arc<Mutex<Vec<ProcessId>>>;

/// How a daemon that ended by itself exits when nobody waits for a summary.
pub fn exit_of(closing: &Closing, once: bool) -> Exit {
    // A daemon that was told to end did what it should; an interrupt at a terminal is one.
    let told = closing.stopped && !closing.interrupted;
    if told && !once { Exit::Done } else { closing.exit() }
}
