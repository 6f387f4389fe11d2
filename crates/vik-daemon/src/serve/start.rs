//! The start of a daemon: its locks, logs and ledger.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use vik_base::report::{ErrorCode, Exit, Failure, chain};
use vik_core::changes::Stored;
use vik_core::worker::WorkerName;
use vik_core::workflow::Workflow;
use vik_orchestrator::service_state::{self, ServiceState};
use vik_proc::{FileLock, Mark, ProcessId, Supervisor};
use vik_session::host::{AgentShims, Environment, Host, SHIM_MARK, own_environment};
use vik_session::{sandbox, secrets};
use vik_store::Ledger;
use vik_store::ledger::{self, Health, LedgerError};
use vik_workflow::LoadedWorkflow;
use vik_workspace::Layout;

use super::{Daemon, ServeOptions, end_cut_off_logs};
use crate::engine::{Engine, LocalEngine};
use crate::instance::{Instance, InstanceInfo, acquire_with_wait};
use crate::logging::{self, Console};

const WRITABLE_HINT: &str = "check that the folder is writable and the disk is not full";

/// Returns the host of a workflow, without becoming its daemon.
///
/// # Errors
/// When the home cannot be determined or created.
pub fn host(workflow_path: &Path, workflow: &Workflow, instance: &Instance) -> Result<Host, Failure> {
    let layout = layout(workflow_path, workflow)?;
    host_in(layout, workflow_path, workflow, instance)
}

fn layout(workflow_path: &Path, workflow: &Workflow) -> Result<Layout, Failure> {
    Layout::resolve(workflow_path, &workflow.workspace_root).map_err(|error| {
        Failure::failed(
            ErrorCode::Home,
            "cannot determine the folder of this workflow's files",
            &error,
        )
    })
}

fn host_in(
    layout: Layout,
    workflow_path: &Path,
    workflow: &Workflow,
    instance: &Instance,
) -> Result<Host, Failure> {
    let failure =
        |message: &str, error: &dyn std::error::Error| Failure::failed(ErrorCode::Home, message, error);
    let vik = std::env::current_exe()
        .map_err(|error| failure("cannot determine the path of Vik's executable", &error))?;
    let supervisor =
        Supervisor::this_program().map_err(|error| failure("cannot prepare the shim", &error))?;
    let supervisor = supervisor.mark_shims(&Mark::new(SHIM_MARK, instance.name()));
    let environment = Environment::from(own_environment());
    secrets::protect_secrets(&environment, workflow);
    Ok(Host {
        workflow_path: workflow_path.to_owned(),
        workflow_dir: workflow_path.parent().unwrap_or(Path::new("/")).to_owned(),
        layout,
        environment,
        supervisor,
        instance: instance.name(),
        vik,
        agent_shims: AgentShims::default(),
    })
}

/// The home of a workflow, which one process at a time uses: its locks, folders and logs.
pub struct Home {
    pub instance: Instance,
    /// The locks of the instance and of the home: a process that uses another state folder must not
    /// run beside this one either.
    _locks: [FileLock; 2],
    pub host: Arc<Host>,
}

impl Home {
    /// Takes the locks of a daemon, creates the folders, and starts to write logs.
    ///
    /// # Errors
    /// When another process uses the home, or it cannot be written.
    pub fn open(loaded: &LoadedWorkflow, console: Console) -> Result<Self, Failure> {
        Self::open_as(None, loaded, console)
    }

    /// As [`Home::open`], for a worker, which has a home of its own.
    ///
    /// # Errors
    /// When another process uses the home, or it cannot be written.
    pub fn open_worker(
        name: &WorkerName,
        loaded: &LoadedWorkflow,
        console: Console,
    ) -> Result<Self, Failure> {
        Self::open_as(Some(name), loaded, console)
    }

    fn open_as(
        worker: Option<&WorkerName>,
        loaded: &LoadedWorkflow,
        console: Console,
    ) -> Result<Self, Failure> {
        vik_proc::keep_files_private();
        let weakness = sandbox::check(&loaded.workflow)?;
        let layout = layout(&loaded.path, &loaded.workflow)?;
        let (instance, layout) = match worker {
            None => (Instance::of(&loaded.path)?, layout),
            Some(name) => (Instance::of_worker(&loaded.path, name)?, layout.of_worker(name)),
        };
        let lock = instance
            .acquire()
            .map_err(|failure| match (failure.exit, worker) {
                (Exit::AlreadyRunning, Some(name)) => already_running(name),
                _ => failure,
            })?;
        let mut host = host_in(layout, &loaded.path, &loaded.workflow, &instance)?;
        host.layout.create().map_err(|error| {
            Failure::failed(
                ErrorCode::Home,
                "cannot create the folders of this workflow",
                &error,
            )
            .hint(WRITABLE_HINT)
        })?;
        let home_lock = lock_home(&host.layout)?;
        logging::init(&host.layout.logs_dir(), console, loaded.workflow.log_format).map_err(|error| {
            let logs = host.layout.logs_dir();
            not_writable(format!("cannot write logs in {}", logs.display()), &error)
        })?;
        if let Some(weakness) = weakness {
            tracing::warn!(hint = weakness.hint(), "{}", weakness.description());
        }
        Ok(Self {
            instance,
            _locks: [lock, home_lock],
            host: Arc::new(host),
        })
    }

    /// Removes what an earlier process left in the middle of its work.
    ///
    /// # Errors
    /// When a removal that was under way cannot be completed.
    pub fn sweep(&self) -> Result<(), Failure> {
        let layout = &self.host.layout;
        vik_workspace::sweep(layout).map_err(|error| {
            Failure::failed(
                ErrorCode::Home,
                "cannot clean up after an earlier removal",
                &error,
            )
        })?;
        if let Err(error) = vik_session::provenance::sweep(layout) {
            // The remaining files only take up space.
            tracing::warn!(error = chain(&error), "cannot remove unused contents of files");
        }
        Ok(())
    }
}

fn already_running(worker: &WorkerName) -> Failure {
    Failure::new(
        Exit::AlreadyRunning,
        ErrorCode::AlreadyRunning,
        format!("the worker `{worker}` is already running for this workflow"),
    )
    .hint("give another worker on this machine another `--name`")
}

fn not_writable(message: String, error: &std::io::Error) -> Failure {
    Failure::failed(ErrorCode::Home, message, error).hint(WRITABLE_HINT)
}

impl Daemon {
    /// Opens the home of a daemon, and the ledger of this machine unless there is an `engine`.
    pub(super) fn start(
        serve: &ServeOptions,
        engine: Option<Box<dyn Engine>>,
    ) -> Result<(Self, Box<dyn Engine>), Failure> {
        let home = Home::open(&serve.loaded, serve.console)?;
        let layout = &home.host.layout;
        // The ledger is opened before anything is changed: without it nothing can be stored, so
        // nothing may be done.
        let (engine, ledger) = match engine {
            Some(engine) => (engine, None),
            None => {
                let (ledger, stored) = open_ledger(layout)?;
                let ledger = Arc::new(ledger);
                let engine = LocalEngine {
                    ledger: Arc::clone(&ledger),
                    stored,
                };
                (Box::new(engine) as Box<dyn Engine>, Some(ledger))
            }
        };
        home.sweep()?;
        let now = Timestamp::now();
        let process = ProcessId::current();
        let state = ServiceState {
            schema: 1,
            state: "running".to_owned(),
            pid: process.pid,
            started_at: now,
            since: now,
            workflow_path: serve.loaded.path.to_string_lossy().into_owned(),
            error: None,
        };
        let state_file = layout.state_file();
        service_state::write(&state_file, &state)
            .map_err(|error| not_writable(format!("cannot write {}", state_file.display()), &error))?;
        let info = InstanceInfo {
            schema: 1,
            process,
            boot_id: vik_proc::identity::boot_id(),
            started_at: now,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            workflow_path: serve.loaded.path.clone(),
            root: layout.root().to_owned(),
            socket: home.instance.dir().socket(),
            options: run_args(serve, ledger.is_none()),
            ended_at: None,
        };
        Ok((Self { home, info, ledger }, engine))
    }
}

/// Returns the arguments of this `run`, for a restart.
fn run_args(serve: &ServeOptions, is_hub: bool) -> Vec<String> {
    let mut args = serve.options.to_args();
    args.extend(serve.listen.to_args());
    args.extend(is_hub.then(|| "--role=hub".to_owned()));
    args
}

/// Opens the ledger. If there is none, as in a folder of a version without one, the new ledger
/// starts with the usage of recorded attempts.
pub(crate) fn open_ledger(layout: &Layout) -> Result<(Ledger, Stored), LedgerError> {
    let service = layout.service_dir();
    if !layout.ledger_file().exists() && matches!(ledger::check(&service), Health::Missing) {
        // Attempts of such a version cannot be recovered. If only the ledger is missing, attempts
        // may still be running.
        end_cut_off_logs(&layout.sessions_dir(), Timestamp::now(), |record| {
            record.kept.is_some()
        });
        let found = ledger::repair(&service, &layout.sessions_dir())?;
        if found.attempts > 0 {
            tracing::info!(
                issues = found.issues,
                attempts = found.attempts,
                "the new ledger includes earlier attempts"
            );
        }
    }
    Ledger::open(&service)
}

/// Takes the lock of the folders of a workflow, which no other daemon may use.
pub(crate) fn lock_home(layout: &Layout) -> Result<FileLock, Failure> {
    let path = layout.service_dir().join("daemon.lock");
    match acquire_with_wait(&path, || false) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(Failure::new(
            Exit::AlreadyRunning,
            ErrorCode::AlreadyRunning,
            format!("another daemon is already using {}", layout.root().display()),
        )
        .hint("it was started with another XDG_STATE_HOME or HOME; stop it with the same environment")),
        Err(error) => {
            Err(
                Failure::failed(ErrorCode::Home, format!("cannot lock {}", path.display()), &error)
                    .hint(WRITABLE_HINT),
            )
        }
    }
}
