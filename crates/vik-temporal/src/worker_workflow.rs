//! The workflow of a worker, which follows its files as that of the hub does.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::watch;
use vik_session::host::Host;
use vik_session::{sandbox, secrets};
use vik_workflow::{LoadedWorkflow, Reload, Watch};

/// A workflow in force, with its digest.
#[derive(Debug)]
pub(crate) struct WorkerWorkflow {
    pub(crate) loaded: LoadedWorkflow,
    pub(crate) digest: String,
}

/// Receives the workflow in force. What has started keeps the one it started with.
pub(crate) type WorkflowReceiver = watch::Receiver<Arc<WorkerWorkflow>>;

impl WorkerWorkflow {
    pub(crate) fn new(loaded: LoadedWorkflow) -> Self {
        Self {
            digest: loaded.digest(),
            loaded,
        }
    }
}

/// Puts edited workflows in force. An invalid edit changes nothing.
pub(crate) async fn follow_edits(
    mut files: Watch,
    host: &Host,
    workflow: &watch::Sender<Arc<WorkerWorkflow>>,
) -> Infallible {
    loop {
        match files.next().await {
            Reload::Unchanged => {}
            Reload::Bad(rejected) => {
                for finding in rejected.findings {
                    tracing::error!(finding, "the edited workflow is not valid");
                }
            }
            Reload::Good { loaded, edits, .. } => match sandbox::check(&loaded.workflow) {
                Ok(_) => {
                    // The secrets must be known before the new workflow starts anything.
                    secrets::protect_secrets(&host.environment, &loaded.workflow);
                    for edit in edits {
                        tracing::info!(%edit, "workflow reloaded");
                    }
                    workflow.send_replace(Arc::new(WorkerWorkflow::new(*loaded)));
                }
                Err(failure) => {
                    tracing::error!(?failure, "the agents of the edited workflow cannot run");
                }
            },
        }
    }
}
