//! The life of a daemon, detached or in the foreground.

mod start;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use vik_api::ApiView;
use vik_base::report::{self, ErrorCode, Exit, Failure, chain};
use vik_control::http::{Feed, HttpServer, Identify, Keys, Metrics, Reporter, Setup as Http, Tcp};
use vik_control::{ControlContext, ControlServer};
use vik_core::changes::Stored;
use vik_core::ids::IssueId;
use vik_orchestrator::service_state;
use vik_orchestrator::signals::Signals;
use vik_orchestrator::{
    CommitFailure, LocalEffects, LocalWorkspaces, Observer, OpenFiles, Options, Orchestrator, RunSummary,
    Setup, StatusSources,
};
use vik_proc::FileLock;
use vik_session::host::{Host, SHIM_MARK};
use vik_store::{AttemptRecord, Ledger};
use vik_workflow::{LoadedWorkflow, Watch};

use super::instance::{Instance, InstanceInfo};
use super::{Ready, recover};
use crate::logging::{self, Console};
use crate::notify::Notifiers;
use crate::schedule::{self, Schedule};
use crate::webhooks::{self, Webhooks};

pub use self::start::host;
pub(crate) use self::start::{lock_home, open_ledger};

/// How long pending file accesses may delay the end.
const LAST_READS: Duration = Duration::from_secs(1);

/// How long the agents of a detached daemon live without one, if the workflow does not set it.
/// Those of a daemon in the foreground end with it.
const DETACHED_GRACE: Duration = Duration::from_secs(600);

/// How long undelivered notifications may delay the end of a daemon that was asked to stop.
const NOTIFY_TIMEOUT_STOPPED: Duration = Duration::from_secs(2);

/// How long undelivered notifications may delay the end of a daemon that has nothing left to do.
const NOTIFY_TIMEOUT_IDLE: Duration = Duration::from_secs(15);

/// The interval at which old logs are removed.
const RETENTION_EVERY: Duration = Duration::from_secs(6 * 3600);

/// The options of a daemon.
pub struct ServeOptions {
    pub loaded: LoadedWorkflow,
    /// How long it runs, and what it may start.
    pub options: Options,
    /// Which logs a person sees.
    pub console: Console,
    /// Receives the progress events.
    pub observer: Box<dyn Observer>,
    /// The options of the TCP address of the HTTP API, which replace those of the workflow.
    pub listen: ListenOptions,
    /// Called with the actual address of the HTTP API.
    pub on_listening: fn(&ApiView),
}

/// `--port` and `--bind-address`, which replace `http.port` and `http.bind` of the workflow.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListenOptions {
    pub port: Option<u16>,
    pub bind: Option<IpAddr>,
}

impl ListenOptions {
    /// Returns the arguments of `vik run`.
    pub fn to_args(self) -> Vec<String> {
        let port = self.port.map(|port| format!("--port={port}"));
        let bind = self.bind.map(|address| format!("--bind-address={address}"));
        port.into_iter().chain(bind).collect()
    }
}

/// Runs a daemon to its end.
///
/// `ready` is notified when the daemon accepts requests, or why it cannot start.
///
/// # Errors
/// When it could not start.
///
/// # Examples
///
/// ```no_run
/// # fn example(loaded: vik_workflow::LoadedWorkflow) -> Result<u8, vik_base::report::Failure> {
/// use vik_daemon::logging::Console;
/// use vik_daemon::{ServeOptions, exit_of, serve};
/// use vik_orchestrator::{Options, Silent};
///
/// let options = ServeOptions {
///     loaded,
///     options: Options { once: true, ..Options::default() },
///     console: Console::Off,
///     observer: Box::new(Silent),
///     listen: Default::default(),
///     on_listening: |_| {},
/// };
/// let summary = serve(options, None)?;
/// Ok(exit_of(&summary, true).code())
/// # }
/// ```
pub fn serve(serve: ServeOptions, mut ready: Option<Ready>) -> Result<RunSummary, Failure> {
    vik_proc::lean_heap();
    let result = Daemon::start(&serve).and_then(|daemon| daemon.run(serve, &mut ready));
    if let (Err(failure), Some(ready)) = (&result, ready) {
        ready.failed(failure);
    }
    result
}

/// What a daemon holds while it lives.
struct Daemon {
    instance: Instance,
    /// The locks of the instance and of the home: a daemon that uses another state folder must not
    /// run beside this one either.
    _locks: [FileLock; 2],
    host: Arc<Host>,
    info: InstanceInfo,
    ledger: Arc<Ledger>,
    /// The state from the ledger, until the orchestrator takes it.
    stored: Stored,
}

impl Daemon {
    fn run(mut self, serve: ServeOptions, ready: &mut Option<Ready>) -> Result<RunSummary, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(8)
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(ErrorCode::Runtime, "cannot start", &error))?;
        let result = runtime.block_on(self.run_async(serve, ready));
        // A read from a disk that does not answer must not delay the end.
        runtime.shutdown_timeout(LAST_READS);
        // No process of the daemon may outlive its lock.
        self.host.supervisor.close();
        if let Err(error) = service_state::enter(&self.host.layout.state_file(), "stopped", None) {
            tracing::error!(%error, "cannot write state.json");
        }
        // No other owner is left.
        let closed = Arc::into_inner(self.ledger).map_or(Ok(()), Ledger::close);
        if let Err(error) = closed {
            tracing::error!(error = chain(&error), "cannot close the ledger");
        }
        // After a failure, the record stays open, so that the daemon counts as dead.
        if result.is_ok() {
            self.instance.close();
        }
        tracing::info!("ended");
        result
    }

    async fn run_async(
        &mut self,
        serve: ServeOptions,
        ready: &mut Option<Ready>,
    ) -> Result<RunSummary, Failure> {
        let fail = |message: &str, error: &std::io::Error| Failure::failed(ErrorCode::Daemon, message, error);
        let signals = Signals::listen().map_err(|error| fail("cannot listen to signals", &error))?;
        // Agents of the same user must not read the daemon's environment, nor open its files
        // through /proc.
        vik_proc::set_non_dumpable();
        let open_files = OpenFiles::new(vik_proc::raise_file_limit());
        vik_proc::adopt_orphans();
        let (asks, receiver) = mpsc::channel(64);
        let orphan_grace = if ready.is_some() {
            DETACHED_GRACE
        } else {
            Duration::ZERO
        };
        let watch =
            Watch::start(serve.loaded.clone()).map_err(|error| fail("cannot watch the workflow", &error))?;
        let workspaces = vik_workspace::list(&self.host.layout)
            .map_err(|error| fail("cannot list the workspaces of the issues", &error))?;
        let stored = self.stored_with(&workspaces).await?;
        // With `--once`, only the options of the command line open ports.
        let has_triggers = !serve.options.once;
        let http = &serve.loaded.workflow.http;
        let address = http.address(serve.listen.port, serve.listen.bind);
        let address = address.filter(|_| has_triggers || serve.listen.port.is_some());
        let tcp = address.map(listen).transpose()?;
        let keys = Arc::new(match &tcp {
            Some(_) => Keys::load(&self.instance.dir().api_token())
                .map_err(|error| Failure::failed(ErrorCode::ApiToken, "no token for the HTTP API", &error))?,
            None => Keys::closed(),
        });
        let api = tcp.as_ref().map(Tcp::view);
        let (feed, metrics) = (Feed::default(), Metrics::default());
        let notifiers = Notifiers::new(Arc::clone(&serve.loaded.workflow));
        let observer: Box<dyn Observer> = Box::new(notifiers.watcher(serve.observer));
        #[cfg(feature = "otlp")]
        let (traces, observer) = self.with_traces(observer)?;
        let hooks = serve.loaded.workflow.webhooks.listen.filter(|_| has_triggers);
        let hooks = hooks.map(listen_to_webhooks).transpose()?;
        let (workflow, workflows) = watch::channel(Arc::clone(&serve.loaded.workflow));
        let observer = Box::new(Reporter::new(feed.clone(), metrics.clone(), observer));
        let (host, ledger) = (Arc::clone(&self.host), Arc::clone(&self.ledger));
        let local = LocalWorkspaces::new(Arc::clone(&host), &serve.loaded, orphan_grace, open_files);
        let effects = LocalEffects::new(host, ledger, &serve.loaded, Box::new(local), observer);
        let orchestrator = Orchestrator::new(Setup {
            workflow,
            loaded_at: serve.loaded.loaded_at,
            watch: Some(watch),
            options: serve.options,
            effects: Box::new(effects),
            commit_log: Box::new(Arc::clone(&self.ledger)),
            stored,
            workspaces,
            open_files,
            workers: None,
            status: StatusSources {
                workflow_path: self.host.workflow_path.clone(),
                home: self.host.layout.home().to_owned(),
                ledger: self.host.layout.ledger_file(),
                api: api.clone(),
                notify: notifiers.health(),
                webhooks: hooks.as_ref().map(Tcp::view),
            },
        });
        // The shims of an earlier daemon may still run, with their agents.
        let inherited = vik_proc::sweep(SHIM_MARK, &self.host.instance, &[]);
        self.host.agent_shims.add(inherited);
        let (shims, layout) = (self.host.agent_shims.clone(), self.host.layout.clone());
        let agents = Arc::new(move || {
            let mut agents = shims.alive();
            agents.extend(vik_session::taken_over::session_shims(&layout));
            agents
        });
        let agents_for_tcp = Arc::clone(&agents);
        // A process that has exited cannot be distinguished from an agent.
        let refuse = Arc::new(move |peer: i32| vik_proc::descends_from(peer, &agents()) != Some(false));
        let identify: Identify =
            Arc::new(move |peer, local| vik_proc::tcp_peer(peer, local, &agents_for_tcp()));
        let socket = self.instance.dir().socket();
        let http = HttpServer::start(Http {
            layout: self.host.layout.clone(),
            supervisor: self.host.supervisor.clone(),
            asks: asks.clone(),
            feed,
            metrics: metrics.clone(),
            keys,
            names: http.names.clone(),
            identify,
            tcp,
            max_clients: open_files.max_clients(),
        })
        .map_err(|error| fail("cannot serve HTTP", &error))?;
        let webhooks = hooks
            .map(|tcp| {
                tracing::info!(address = %tcp.address(), "listening for webhooks");
                Webhooks::start(webhooks::Setup {
                    tcp,
                    workflows: workflows.clone(),
                    asks: asks.clone(),
                    metrics,
                })
            })
            .transpose()
            .map_err(|error| fail("cannot listen for webhooks", &error))?;
        let schedule = schedule::Setup {
            host: Arc::clone(&self.host),
            workflows,
            asks: asks.clone(),
        };
        let context = ControlContext {
            asks,
            refuse,
            http: http.sockets(),
        };
        let server = ControlServer::listen(&socket, context)
            .map_err(|error| fail(&format!("cannot listen at {}", socket.display()), &error))?;
        self.instance
            .announce(&self.info)
            .map_err(|error| fail("cannot write instance.json", &error))?;
        tracing::info!(version = self.info.version, workflow = %serve.loaded.path.display(), "ready");
        if let Some(api) = &api {
            tracing::info!(address = api.address, "serving HTTP");
            (serve.on_listening)(api);
        }
        if let Some(ready) = ready.take() {
            let log = self.host.layout.logs_dir().join("daemon.stderr.log");
            ready.ready(&log).map_err(|error| fail("cannot detach", &error))?;
        }
        let retention = tokio::spawn(retain(
            self.host.layout.logs_dir(),
            serve.loaded.workflow.retention_days,
        ));
        let orphans = tokio::spawn(vik_proc::reap_orphans_forever());
        let (sessions, boot) = (self.host.layout.sessions_dir(), self.info.started_at);
        let inherited: HashSet<_> = orchestrator.inherited().collect();
        tokio::task::spawn_blocking(move || {
            end_cut_off_logs(&sessions, boot, |record| inherited.contains(&record.session_id));
        });
        let notifier_task = notifiers.run(Arc::clone(&self.host), orchestrator.parked());
        let schedule = has_triggers.then(|| Schedule::start(schedule));
        let summary = orchestrator.run(signals, receiver).await;
        #[cfg(feature = "otlp")]
        if let Some(traces) = traces {
            tokio::task::block_in_place(|| traces.shutdown());
        }
        drop(webhooks);
        if let Some(schedule) = schedule {
            schedule.close().await;
        }
        server.close().await;
        let timeout = if summary.stopped {
            NOTIFY_TIMEOUT_STOPPED
        } else {
            NOTIFY_TIMEOUT_IDLE
        };
        notifier_task.end(timeout).await;
        drop(http);
        retention.abort();
        orphans.abort();
        match &summary.broken {
            None => Ok(summary),
            Some(superseded @ CommitFailure::Superseded) => {
                Err(Failure::failed(ErrorCode::Ledger, "Vik has stopped", superseded))
            }
            Some(CommitFailure::Storage(error)) => Err(Failure::failed(
                ErrorCode::Ledger,
                "Vik has stopped: it can no longer store its decisions",
                error,
            )
            .hint(error.cause.hint().unwrap_or(report::LEDGER_HINT))),
        }
    }

    /// Returns the state from the ledger, with the issues that have a workspace.
    async fn stored_with(&mut self, workspaces: &[IssueId]) -> Result<Stored, Failure> {
        let mut stored = std::mem::take(&mut self.stored);
        let known: HashSet<_> = stored
            .machines
            .iter()
            .map(|machine| &machine.issue().id)
            .collect();
        let others = workspaces.iter().filter(|issue| !known.contains(issue));
        let others = self.ledger.recall(others.cloned().collect()).await;
        stored
            .machines
            .extend(others.map_err(|error| Failure::from(&*error.cause))?);
        Ok(stored)
    }

    /// Adds traces to an observer, if the environment configures them.
    #[cfg(feature = "otlp")]
    fn with_traces(
        &self,
        observer: Box<dyn Observer>,
    ) -> Result<(Option<crate::otel::Traces>, Box<dyn Observer>), Failure> {
        let traces = crate::otel::Traces::start(self.host.layout.clone(), self.instance.name())
            .map_err(|error| Failure::new(Exit::Failed, ErrorCode::Traces, error).hint(TRACES_HINT))?;
        let observer = match &traces {
            Some(traces) => traces.observe(observer),
            None => observer,
        };
        Ok((traces, observer))
    }
}

fn listen(address: SocketAddr) -> Result<Tcp, Failure> {
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "serving HTTP to other machines without encryption");
    }
    Tcp::bind(address).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrNotAvailable => {
                "this machine does not have the address; correct `--bind-address` or `http.bind`"
            }
            std::io::ErrorKind::PermissionDenied => "choose a port of 1024 or above",
            _ => "another program may be using the port; `--port 0` selects a free one, also instead of `http.port`",
        };
        Failure::failed(ErrorCode::Listen, format!("cannot listen at {address}"), &error).hint(hint)
    })
}

fn listen_to_webhooks(address: SocketAddr) -> Result<Tcp, Failure> {
    Tcp::bind(address).map_err(|error| {
        Failure::failed(
            ErrorCode::Listen,
            format!("cannot listen for webhooks at {address}"),
            &error,
        )
        .hint("another program may be using the port; change `webhooks.listen` in the workflow")
    })
}

/// Ends the logs of attempts that will not be recovered.
fn end_cut_off_logs(sessions: &Path, boot: Timestamp, is_recovered: impl Fn(&AttemptRecord) -> bool) {
    match recover::end_cut_off_logs(sessions, boot, is_recovered) {
        Ok(0) => {}
        Ok(count) => tracing::warn!(count, "completed the logs of attempts whose daemon died"),
        Err(error) => tracing::warn!(error = chain(&error), "cannot search for incomplete logs"),
    }
}

/// The hint for invalid variables of OpenTelemetry.
#[cfg(feature = "otlp")]
const TRACES_HINT: &str = "check the variables that start with OTEL_EXPORTER_OTLP_";

async fn retain(logs: PathBuf, days: u32) {
    loop {
        match logging::retain(&logs, days) {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "old logs removed"),
            Err(error) => tracing::warn!(%error, "cannot search for old logs"),
        }
        tokio::time::sleep(RETENTION_EVERY).await;
    }
}

/// Returns the exit code of a daemon whose summary nobody waits for.
pub fn exit_of(summary: &RunSummary, once: bool) -> Exit {
    // A daemon that was asked to end has done its work, unless a terminal interrupted it.
    let was_requested = (summary.stopped || summary.drained) && !summary.interrupted;
    if was_requested && !once {
        Exit::Done
    } else {
        summary.exit()
    }
}
