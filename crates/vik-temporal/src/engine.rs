//! The engine of a hub: it waits until it leads, and has the loop store its decisions in the shared
//! log and run its attempts on workers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use temporalio_client::{Client, Connection};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;
use vik_base::failpoint;
use vik_base::report::{ErrorCode, Exit, Failure};
use vik_control::http::Standing;
use vik_core::worker::{Revision, WorkerName};
use vik_core::workflow::{Temporal, Workflow};
use vik_daemon::engine::{DaemonContext, Engine, Lead};
use vik_orchestrator::Task;
use vik_session::host::Host;
use vik_store::ledger::{LedgerError, Reader};

use crate::attempt::Attempts;
use crate::connect::{self, Secret};
use crate::examination::{self, Examination};
use crate::forward::RemoteLeader;
use crate::hub::Hub;
use crate::lead::{Leadership, lead_timeout};
use crate::log::{Limits, Log};
use crate::names::{Queue, host_in};
use crate::outputs::{HubResponder, OutputService, SharedBooks};
use crate::peer::{Peers, WorkerRequest};
use crate::remote_folders::{RemoteFolders, WorkerSessions};
use crate::remote_workspaces::RemoteWorkspaces;
use crate::request::Requests;
use crate::settings;
use crate::shared_ledger::{CompactionLimits, FollowingLedger, ImportError, SharedLedgerError, import};
use crate::worker_list::WorkerList;
use crate::workers::Workers;

/// How long the server may be missing when a process starts.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the API key is read again.
const API_KEY_INTERVAL: Duration = Duration::from_secs(10);

/// How long a hub that ends when no work is left waits for a first worker, which may be starting too.
const FIRST_WORKER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long outputs may delay the end of a hub.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a worker may take to answer that it drains.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a hub that has decisions of its own waits until it leads. If it does not, another one leads.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the server may take to give the lead to another hub.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// Many machines, on a Temporal server.
#[derive(Clone, Debug)]
pub struct TemporalEngine {
    temporal: Temporal,
    identity: String,
    pub(crate) queue: Queue,
    patience: Duration,
}

impl TemporalEngine {
    /// Creates the engine of a workflow, as a process that presents itself as `identity` uses it.
    ///
    /// # Errors
    /// When the queue cannot be used.
    pub fn new(temporal: Temporal, identity: String) -> Result<Self, Failure> {
        let queue = Queue::new(temporal.task_queue.as_str());
        let queue = queue.map_err(|error| failed("cannot use the task queue of the workflow", &error))?;
        Ok(Self {
            temporal,
            identity,
            queue,
            patience: PATIENCE,
        })
    }

    /// Waits for the server for as long as it takes: for a process that has been connected before.
    #[must_use]
    pub fn wait_for_server(self) -> Self {
        Self {
            patience: Duration::MAX,
            ..self
        }
    }

    /// Returns the address of the server and the name of the queue, as the workflow has them.
    pub fn place(&self) -> (&str, &str) {
        (self.temporal.address.as_str(), self.temporal.task_queue.as_str())
    }

    /// Connects once, with a folder for what the commands of secrets print to stderr, and examines the
    /// server for a process of this revision.
    ///
    /// # Errors
    /// When there is no connection, with the reason.
    pub async fn examine(
        &self,
        workflow: &Workflow,
        host: &Host,
        folder: &Path,
        own: Revision,
    ) -> Result<Examination, Failure> {
        let settings = settings::resolve(&self.temporal, workflow, host, folder, &self.identity).await?;
        let client = connect::connect(&settings, Duration::ZERO)
            .await
            .map_err(|error| failed("cannot use the Temporal server", &error))?;
        Ok(examination::examine(&client, &self.queue, &self.temporal.namespace, own).await)
    }

    /// Asks a worker to take no more attempts, and to end when those that run have ended. Commands of
    /// secrets write to `folder` what they print to stderr.
    ///
    /// # Errors
    /// When there is no connection, or the worker does not respond.
    pub async fn drain(
        &self,
        workflow: &Workflow,
        host: &Host,
        folder: &Path,
        worker: &WorkerName,
    ) -> Result<(), Failure> {
        let settings = settings::resolve(&self.temporal, workflow, host, folder, &self.identity).await?;
        let client = connect::connect(&settings, Duration::ZERO)
            .await
            .map_err(|error| failed("cannot use the Temporal server", &error))?;
        let peers = Peers::new(Requests::new(client, self.queue.clone()));
        let drained = peers.ask(worker, &WorkerRequest::Drain, DRAIN_TIMEOUT).await;
        drained.map_err(|reason| Failure::new(Exit::Failed, ErrorCode::Engine, reason))
    }

    /// Returns after how much silence an attempt is lost.
    pub(crate) fn heartbeat_timeout(&self) -> Duration {
        self.temporal.heartbeat.0
    }

    /// Connects to the server, with the secrets of this machine. While the server does not answer, it
    /// is tried again. The connection follows changes of the API key until the second part of the
    /// result is dropped.
    ///
    /// # Errors
    /// When there is no connection, with the reason.
    pub(crate) async fn connect(
        &self,
        workflow: &Arc<Workflow>,
        host: &Arc<Host>,
    ) -> Result<(Client, Option<AbortOnDropHandle<()>>), Failure> {
        let folder = host.layout.service_dir();
        let settings = settings::resolve(&self.temporal, workflow, host, &folder, &self.identity).await?;
        let client = connect::connect(&settings, self.patience)
            .await
            .map_err(|error| failed("cannot use the Temporal server", &error))?;
        let refreshing = settings.api_key.map(|key| {
            let (workflow, host) = (Arc::clone(workflow), Arc::clone(host));
            let refreshing = refresh_api_key(
                client.connection().clone(),
                self.temporal.clone(),
                workflow,
                host,
                key,
            );
            AbortOnDropHandle::new(tokio::spawn(refreshing))
        });
        Ok((client, refreshing))
    }

    async fn wait_and_lead(self, daemon: DaemonContext) -> Result<Lead, Failure> {
        let (client, refreshing) = self.connect(&daemon.loaded.workflow, &daemon.host).await?;
        let heartbeat_timeout = self.heartbeat_timeout();
        let log = Log::open(client.clone(), self.queue.clone(), Limits::default())
            .await
            .map_err(|error| failed("cannot open the shared log", &error))?;
        let responder = Arc::new(HubResponder::new(daemon.forwarded));
        let lead_timeout = lead_timeout(heartbeat_timeout);
        let hub = Hub::start(
            client.clone(),
            &self.queue,
            lead_timeout,
            Arc::clone(&responder) as _,
        )
        .await
        .map_err(|error| failed("cannot take work of the Temporal server", &error))?;
        let mut leadership = hub.leadership.clone();
        let (stop, stopped) = oneshot::channel();
        let hub = tokio::spawn(keep(hub, stopped));
        let service_dir = daemon.host.layout.service_dir();
        let copy_failed = |error| failed("cannot copy the shared log", &error);
        let mut ledger = open_ledger(log, &service_dir, &mut leadership)
            .await
            .map_err(copy_failed)?;
        let leading_hub = RemoteLeader::new(client.clone(), self.queue.clone());
        daemon
            .standing
            .send_replace(Standing::Following(Arc::new(leading_hub)));
        tracing::info!("following: another hub may lead");
        tokio::select! {
            error = ledger.follow() => return Err(copy_failed(error)),
            () = leadership.acquired() => {}
        }
        failpoint::reach("lead_given");
        let lease = leadership.lease();
        let lead = ledger.lead(leadership, CompactionLimits::default());
        let (ledger, stored) = lead.await.map_err(copy_failed)?;
        failpoint::reach("lead_taken");
        let books = SharedBooks {
            ledger: ledger.clone(),
            service_dir: service_dir.clone(),
        };
        let service = OutputService::new(&daemon.host, lease, Box::new(books));
        responder.lead(service.clone());
        tracing::info!("leading");
        let revision = Revision {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            workflow_digest: daemon.loaded.digest(),
        };
        let table = Workers::new(client.clone(), self.queue.clone());
        let (list, mut workers) = WorkerList::start(table, revision)
            .await
            .map_err(|error| failed("cannot read the table of workers", &error))?;
        if daemon.once {
            let first = workers.wait_for(|workers| workers.ready().next().is_some());
            let _ = tokio::time::timeout(FIRST_WORKER_TIMEOUT, first).await;
        }
        let peers = Peers::new(Requests::new(client.clone(), self.queue.clone()));
        let folders = RemoteFolders::new(peers.clone(), workers.clone(), service_dir.clone());
        let remote_sessions = WorkerSessions {
            peers,
            runtime: tokio::runtime::Handle::current(),
        };
        let workspaces = RemoteWorkspaces::new(
            Attempts::new(client, self.queue),
            Arc::clone(&daemon.host),
            &daemon.loaded,
            heartbeat_timeout,
            (list, folders),
            service.clone(),
        );
        let issues_with_workspace = match Reader::open(&service_dir).map_err(Failure::from)? {
            Some(reader) => reader.issues_on_workers()?,
            None => Vec::new(),
        };
        Ok(Lead {
            issues_with_workspace,
            remote_sessions: Some(Arc::new(remote_sessions)),
            stored,
            history: Arc::clone(&ledger.copy) as _,
            commit_log: Box::new(ledger),
            workspaces: Box::new(workspaces),
            workers: Some(workers),
            release: Box::pin(async move {
                // A command that is cut off may need a person.
                let _ = tokio::time::timeout(OUTPUT_TIMEOUT, service.close()).await;
                drop(stop);
                // It logs its errors. Without the server, it may take long, and nothing depends on it.
                let _ = tokio::time::timeout(RELEASE_TIMEOUT, hub).await;
                drop(refreshing);
            }),
        })
    }
}

impl Engine for TemporalEngine {
    fn host(&self) -> Option<&str> {
        Some(host_in(&self.identity))
    }

    fn lead(self: Box<Self>, daemon: DaemonContext) -> Task<Result<Lead, Failure>> {
        Box::pin(self.wait_and_lead(daemon))
    }
}

/// Opens the ledger of this machine as a copy of the log. If this machine has worked alone so far, its
/// decisions become the start of the log, as soon as this hub leads.
async fn open_ledger(
    log: Log,
    service_dir: &Path,
    leadership: &mut Leadership,
) -> Result<FollowingLedger, SharedLedgerError> {
    match FollowingLedger::open(log.clone(), service_dir).await {
        Err(SharedLedgerError::Ledger(LedgerError::OwnDecisions { .. })) => {}
        opened => return opened,
    }
    let acquired = tokio::time::timeout(IMPORT_TIMEOUT, leadership.acquired()).await;
    acquired.map_err(|_| ImportError::OtherHub)?;
    import(&log, service_dir, CompactionLimits::default().max_part_bytes).await?;
    FollowingLedger::open(log, service_dir).await
}

/// Passes each new value of the API key to the connection, so that keys can be rotated.
async fn refresh_api_key(
    connection: Connection,
    temporal: Temporal,
    workflow: Arc<Workflow>,
    host: Arc<Host>,
    mut present: Secret<String>,
) {
    let folder = host.layout.service_dir();
    loop {
        tokio::time::sleep(API_KEY_INTERVAL).await;
        match settings::api_key(&temporal, &workflow, &host, &folder).await {
            Ok(Some(key)) if key != present => {
                connection.set_api_key(Some(key.0.clone()));
                present = key;
                tracing::info!("the API key of the Temporal server has changed");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the API key is not read again"),
        }
    }
}

/// Keeps the hub at work until it is to stop.
async fn keep(mut hub: Hub, stopped: oneshot::Receiver<()>) {
    let ended = tokio::select! {
        ended = hub.ended() => ended,
        _ = stopped => hub.stop().await,
    };
    if let Err(error) = ended {
        // It leads no longer, which ends the loop.
        tracing::error!(%error, "the hub takes no more work");
    }
}

fn failed(message: &str, error: &dyn std::error::Error) -> Failure {
    Failure::failed(ErrorCode::Engine, message, error)
}
