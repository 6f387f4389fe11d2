//! The seam between a daemon and what it runs on: where its decisions are stored, and where its
//! attempts run.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use vik_base::report::{ErrorCode, Failure};
use vik_control::http::{ForwardedRequests, RemoteSessions, Standing};
use vik_core::changes::Stored;
use vik_core::ids::IssueId;
use vik_core::worker::Workers;
use vik_orchestrator::{CommitLog, History, LocalWorkspaces, OpenFiles, Task, WorkspaceEffects};
use vik_session::host::Host;
use vik_store::Ledger;
use vik_workflow::LoadedWorkflow;

/// Stores decisions and runs attempts: on this machine, or on several.
pub trait Engine: Send {
    /// Returns the host of this process, as other hubs know it; `None` if no other process can lead.
    fn host(&self) -> Option<&str>;

    /// Waits until this process may decide, which may take for ever.
    ///
    /// # Errors
    /// When it never can.
    fn lead(self: Box<Self>, daemon: DaemonContext) -> Task<Result<Lead, Failure>>;
}

/// The daemon that uses an engine.
pub struct DaemonContext {
    pub host: Arc<Host>,
    pub loaded: LoadedWorkflow,
    /// How long agents on this machine live without a daemon if the workflow does not set it.
    pub orphan_grace: Duration,
    pub open_files: OpenFiles,
    /// The daemon ends when no work is left.
    pub once: bool,
    /// Receives the way to the hub that leads, once this process follows it.
    pub standing: watch::Sender<Standing>,
    /// Executes the requests that other hubs pass on.
    pub forwarded: ForwardedRequests,
}

/// What the loop of a daemon uses from the time on when it may decide.
pub struct Lead {
    /// The state from which it starts.
    pub stored: Stored,
    pub commit_log: Box<dyn CommitLog>,
    pub history: Arc<dyn History>,
    pub workspaces: Box<dyn WorkspaceEffects>,
    /// The issues that have a workspace, on any machine, as far as is known.
    pub issues_with_workspace: Vec<IssueId>,
    /// Reads the files of attempts on workers; `None` if attempts run on this machine.
    pub remote_sessions: Option<Arc<dyn RemoteSessions>>,
    /// The workers that attempts run on; `None` if they run on this machine.
    pub workers: Option<watch::Receiver<Workers>>,
    /// Lets another process decide. It is awaited after the loop has ended.
    pub release: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Uses the ledger and the workspaces of this machine.
pub(crate) struct LocalEngine {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) stored: Stored,
}

impl Engine for LocalEngine {
    fn host(&self) -> Option<&str> {
        None
    }

    fn lead(self: Box<Self>, daemon: DaemonContext) -> Task<Result<Lead, Failure>> {
        let DaemonContext {
            host,
            loaded,
            orphan_grace,
            open_files,
            ..
        } = daemon;
        let issues_with_workspace = match vik_workspace::list(&host.layout) {
            Ok(issues) => issues,
            Err(error) => {
                let message = "cannot list the workspaces of the issues";
                let failure = Failure::failed(ErrorCode::Daemon, message, &error);
                return Box::pin(std::future::ready(Err(failure)));
            }
        };
        let lead = Lead {
            stored: self.stored,
            commit_log: Box::new(Arc::clone(&self.ledger)),
            history: self.ledger,
            workspaces: Box::new(LocalWorkspaces::new(host, &loaded, orphan_grace, open_files)),
            issues_with_workspace,
            remote_sessions: None,
            workers: None,
            release: Box::pin(std::future::ready(())),
        };
        Box::pin(std::future::ready(Ok(lead)))
    }
}
