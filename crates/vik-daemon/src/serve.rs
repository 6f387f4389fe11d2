//! The life of a daemon, detached or in the foreground.

mod follow;
mod start;

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use vik_api::{ApiView, HubView};
use vik_base::report::{self, ErrorCode, Exit, Failure, chain};
use vik_control::ControlContext;
use vik_control::http::{Feed, HttpServer, Identify, Keys, Metrics, Reporter, Setup as Http, Standing, Tcp};
use vik_core::changes::Stored;
use vik_core::ids::IssueId;
use vik_orchestrator::service_state;
use vik_orchestrator::signals::Signals;
use vik_orchestrator::{
    CommitFailure, CommitLog, LocalEffects, Observer, OpenFiles, Options, Orchestrator, RunSummary, Setup,
    StatusSources,
};
use vik_session::host::SHIM_MARK;
use vik_store::{AttemptRecord, Ledger};
use vik_workflow::{LoadedWorkflow, Watch};

use super::instance::InstanceInfo;
use super::{Ready, recover};
use crate::engine::{DaemonContext, Engine, Lead};
use crate::logging::{self, Console};
use crate::notify::Notifiers;
use crate::schedule::{self, Schedule};
use crate::webhooks::{self, Webhooks};

use self::follow::{Following, follow, stopped_by_signal};
pub use self::start::{Home, host};
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
    /// `None` uses this machine.
    pub engine: Option<Box<dyn Engine>>,
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
///     engine: None,
/// };
/// let summary = serve(options, None)?;
/// Ok(exit_of(&summary, true).code())
/// # }
/// ```
pub fn serve(mut serve: ServeOptions, mut ready: Option<Ready>) -> Result<RunSummary, Failure> {
    vik_proc::lean_heap();
    let engine = serve.engine.take();
    let started = Daemon::start(&serve, engine);
    let result = started.and_then(|(daemon, engine)| daemon.run(serve, engine, &mut ready));
    if let (Err(failure), Some(ready)) = (&result, ready) {
        ready.failed(failure);
    }
    result
}

/// What a daemon holds while it lives.
struct Daemon {
    home: Home,
    info: InstanceInfo,
    /// The ledger of this machine, if decisions are stored in it.
    ledger: Option<Arc<Ledger>>,
}

impl Daemon {
    fn run(
        mut self,
        serve: ServeOptions,
        engine: Box<dyn Engine>,
        ready: &mut Option<Ready>,
    ) -> Result<RunSummary, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(8)
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(ErrorCode::Runtime, "cannot start", &error))?;
        let result = runtime.block_on(self.run_async(serve, engine, ready));
        // A read from a disk that does not answer must not delay the end.
        runtime.shutdown_timeout(LAST_READS);
        // No process of the daemon may outlive its lock.
        self.home.host.supervisor.close();
        if let Err(error) = service_state::enter(&self.home.host.layout.state_file(), "stopped", None) {
            tracing::error!(%error, "cannot write state.json");
        }
        // No other owner is left.
        let closed = self
            .ledger
            .and_then(Arc::into_inner)
            .map_or(Ok(()), Ledger::close);
        if let Err(error) = closed {
            tracing::error!(error = chain(&error), "cannot close the ledger");
        }
        // After a failure, the record stays open, so that the daemon counts as dead.
        if result.is_ok() {
            self.home.instance.close();
        }
        tracing::info!("ended");
        result
    }

    async fn run_async(
        &mut self,
        serve: ServeOptions,
        engine: Box<dyn Engine>,
        ready: &mut Option<Ready>,
    ) -> Result<RunSummary, Failure> {
        let fail = |message: &str, error: &std::io::Error| Failure::failed(ErrorCode::Daemon, message, error);
        let mut signals = Signals::listen().map_err(|error| fail("cannot listen to signals", &error))?;
        // Agents of the same user must not read the daemon's environment, nor open its files
        // through /proc.
        vik_proc::set_non_dumpable();
        let open_files = OpenFiles::new(vik_proc::raise_file_limit());
        vik_proc::adopt_orphans();
        let (asks, mut receiver) = mpsc::channel(64);
        let orphan_grace = if ready.is_some() {
            DETACHED_GRACE
        } else {
            Duration::ZERO
        };
        let watch =
            Watch::start(serve.loaded.clone()).map_err(|error| fail("cannot watch the workflow", &error))?;
        // With `--once`, only the options of the command line open ports.
        let has_triggers = !serve.options.once;
        let http = &serve.loaded.workflow.http;
        let address = http.address(serve.listen.port, serve.listen.bind);
        let address = address.filter(|_| has_triggers || serve.listen.port.is_some());
        let tcp = address.map(listen).transpose()?;
        let keys = Arc::new(match &tcp {
            Some(_) => Keys::load(&self.home.instance.dir().api_token())
                .map_err(|error| Failure::failed(ErrorCode::ApiToken, "no token for the HTTP API", &error))?,
            None => Keys::closed(),
        });
        let api = tcp.as_ref().map(Tcp::view);
        let (feed, metrics) = (Feed::default(), Metrics::default());
        // The shims of an earlier daemon may still run, with their agents.
        let inherited = vik_proc::sweep(SHIM_MARK, &self.home.host.instance, &[]);
        self.home.host.agent_shims.add(inherited);
        let (shims, layout) = (self.home.host.agent_shims.clone(), self.home.host.layout.clone());
        let hub_host = engine.host().map(str::to_owned);
        let hub_instance = hub_host.as_ref().map(|_| self.home.host.instance.clone());
        let agents = Arc::new(move || {
            let mut agents = shims.alive();
            agents.extend(vik_session::taken_over::session_shims(&layout));
            // Workers may run on the machine of a hub.
            if let Some(instance) = &hub_instance {
                agents.extend(vik_proc::sweep_others(SHIM_MARK, instance));
            }
            agents
        });
        let agents_for_tcp = Arc::clone(&agents);
        // A process that has exited cannot be distinguished from an agent.
        let refuse = Arc::new(move |peer: i32| vik_proc::descends_from(peer, &agents()) != Some(false));
        let identify: Identify =
            Arc::new(move |peer, local| vik_proc::tcp_peer(peer, local, &agents_for_tcp()));
        let (standing, standings) = watch::channel(match hub_host {
            Some(_) => Standing::Connecting,
            None => Standing::alone(),
        });
        let http = HttpServer::start(Http {
            layout: self.home.host.layout.clone(),
            supervisor: self.home.host.supervisor.clone(),
            standing: standings.clone(),
            host: hub_host.as_deref().unwrap_or_default().into(),
            asks: asks.clone(),
            feed: feed.clone(),
            metrics: metrics.clone(),
            keys,
            names: serve.loaded.workflow.http.names.clone(),
            identify,
            tcp,
            max_clients: open_files.max_clients(),
        })
        .map_err(|error| fail("cannot serve HTTP", &error))?;
        let context = ControlContext {
            asks: asks.clone(),
            refuse,
            http: http.sockets(),
        };
        let lead = engine.lead(DaemonContext {
            host: Arc::clone(&self.home.host),
            loaded: serve.loaded.clone(),
            orphan_grace,
            open_files,
            once: serve.options.once,
            standing: standing.clone(),
            forwarded: http.forwarded(),
        });
        // One that may have to follow accepts requests at once.
        let server = match hub_host {
            Some(_) => Some(self.open(context.clone(), api.as_ref(), serve.on_listening)?),
            None => None,
        };
        let own_status = self.following_status(hub_host.as_deref());
        let led = tokio::select! {
            lead = lead => lead.map(Following::Leads),
            ended = follow(&mut receiver, own_status) => Ok(Following::Ended(ended)),
            failed = self.ready_to_follow(standings, ready) => Err(failed),
            interrupted = signals.stopped() => Ok(Following::Ended(stopped_by_signal(interrupted))),
        };
        let Lead {
            stored,
            commit_log,
            history,
            workspaces: workspace_effects,
            issues_with_workspace: workspaces,
            remote_sessions,
            workers,
            release,
        } = match led {
            Ok(Following::Leads(lead)) => lead,
            Ok(Following::Ended(summary)) => {
                if let Some(server) = server {
                    server.close().await;
                }
                return Ok(*summary);
            }
            Err(failure) => {
                // A hub that has not led left nothing to recover.
                if server.is_some() {
                    self.home.instance.close();
                }
                return Err(failure);
            }
        };
        let stored = with_workspaces(stored, &*commit_log, &workspaces).await?;
        let notifiers = Notifiers::new(Arc::clone(&serve.loaded.workflow));
        let observer: Box<dyn Observer> = Box::new(notifiers.watcher(serve.observer));
        #[cfg(feature = "otlp")]
        let (traces, observer) = self.with_traces(observer)?;
        let hooks = serve.loaded.workflow.webhooks.listen.filter(|_| has_triggers);
        let hooks = hooks.map(listen_to_webhooks).transpose()?;
        let (workflow, workflows) = watch::channel(Arc::clone(&serve.loaded.workflow));
        let observer = Box::new(Reporter::new(feed.clone(), metrics.clone(), observer));
        let host = Arc::clone(&self.home.host);
        let effects = LocalEffects::new(host, history, &serve.loaded, workspace_effects, observer);
        let orchestrator = Orchestrator::new(Setup {
            workflow,
            loaded_at: serve.loaded.loaded_at,
            watch: Some(watch),
            options: serve.options,
            effects: Box::new(effects),
            commit_log,
            stored,
            workspaces,
            open_files,
            workers,
            status: StatusSources {
                workflow_path: self.home.host.workflow_path.clone(),
                home: self.home.host.layout.home().to_owned(),
                ledger: self.home.host.layout.ledger_file(),
                api: api.clone(),
                notify: notifiers.health(),
                webhooks: hooks.as_ref().map(Tcp::view),
                hub: hub_host.map(|host| HubView {
                    leader: Some(host),
                    follower: None,
                }),
            },
        });
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
            host: Arc::clone(&self.home.host),
            workflows,
            asks: asks.clone(),
        };
        let server = match server {
            Some(server) => server,
            None => self.open(context, api.as_ref(), serve.on_listening)?,
        };
        self.ready(ready)?;
        standing.send_replace(Standing::Leading { remote_sessions });
        let retention = tokio::spawn(retain(
            self.home.host.layout.logs_dir(),
            serve.loaded.workflow.retention_days,
        ));
        let orphans = tokio::spawn(vik_proc::reap_orphans_forever());
        let (sessions, boot) = (self.home.host.layout.sessions_dir(), self.info.started_at);
        let inherited: HashSet<_> = orchestrator.inherited().collect();
        tokio::task::spawn_blocking(move || {
            end_cut_off_logs(&sessions, boot, |record| inherited.contains(&record.session_id));
        });
        let notifier_task = notifiers.run(Arc::clone(&self.home.host), orchestrator.parked());
        let schedule = has_triggers.then(|| Schedule::start(schedule));
        let summary = orchestrator.run(signals, receiver).await;
        release.await;
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
            Some(failure @ (CommitFailure::Superseded | CommitFailure::Log(_))) => Err(stopped(failure)),
            Some(CommitFailure::Storage(error)) => Err(Failure::failed(
                ErrorCode::Ledger,
                "Vik has stopped: it can no longer store its decisions",
                error,
            )
            .hint(error.cause.hint().unwrap_or(report::LEDGER_HINT))),
        }
    }

    /// Adds traces to an observer, if the environment configures them.
    #[cfg(feature = "otlp")]
    fn with_traces(
        &self,
        observer: Box<dyn Observer>,
    ) -> Result<(Option<crate::otel::Traces>, Box<dyn Observer>), Failure> {
        let traces = crate::otel::Traces::start(self.home.host.layout.clone(), self.home.instance.name())
            .map_err(|error| Failure::new(Exit::Failed, ErrorCode::Traces, error).hint(TRACES_HINT))?;
        let observer = match &traces {
            Some(traces) => traces.observe(observer),
            None => observer,
        };
        Ok((traces, observer))
    }
}

/// Adds the machines of the issues that have a workspace on this machine.
async fn with_workspaces(
    mut stored: Stored,
    log: &dyn CommitLog,
    workspaces: &[IssueId],
) -> Result<Stored, Failure> {
    let known: HashSet<_> = stored
        .machines
        .iter()
        .map(|machine| &machine.issue().id)
        .collect();
    let others = workspaces.iter().filter(|issue| !known.contains(issue));
    let others = log.recall(others.cloned().collect()).await;
    stored.machines.extend(others.map_err(unreadable)?);
    Ok(stored)
}

fn unreadable(failure: CommitFailure) -> Failure {
    match failure {
        CommitFailure::Storage(error) => Failure::from(&*error.cause),
        failure => stopped(&failure),
    }
}

/// Returns the failure of a daemon whose decisions the log refuses.
fn stopped(failure: &CommitFailure) -> Failure {
    let code = match failure {
        CommitFailure::Superseded => ErrorCode::Superseded,
        CommitFailure::Log(_) | CommitFailure::Storage(_) => ErrorCode::Engine,
    };
    Failure::failed(code, "Vik has stopped", failure)
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

/// Ends the logs of attempts that started before `boot` in a folder of sessions, and that will not be
/// recovered. Blocks.
pub fn end_cut_off_logs(sessions: &Path, boot: Timestamp, is_recovered: impl Fn(&AttemptRecord) -> bool) {
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
