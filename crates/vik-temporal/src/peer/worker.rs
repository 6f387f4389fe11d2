//! Answers the requests of hubs on a worker.

use std::future::pending;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::{JoinError, spawn_blocking};
use vik_base::report::chain;
use vik_control::http::SessionReader;
use vik_orchestrator::{Inventory, Removal, remove_expired_files, remove_workspace};
use vik_session::host::Host;
use vik_session::taken_over;

use super::WorkerRequest;
use crate::request::{ReceivedRequest, Responder};
use crate::worker_workflow::WorkflowReceiver;

/// Answers requests about the workspaces and sessions of this machine.
#[derive(Clone, Debug)]
pub(crate) struct WorkerResponder {
    host: Arc<Host>,
    workflow: WorkflowReceiver,
    sessions: Arc<SessionReader>,
    drain: Arc<Notify>,
}

impl WorkerResponder {
    pub(crate) fn new(host: Arc<Host>, workflow: WorkflowReceiver, drain: Arc<Notify>) -> Self {
        let sessions = SessionReader::new(host.layout.clone(), host.supervisor.clone());
        Self {
            host,
            workflow,
            sessions: Arc::new(sessions),
            drain,
        }
    }

    async fn answer(self, request: WorkerRequest) -> Result<String, String> {
        let host = self.host;
        let workflow = Arc::clone(&self.workflow.borrow());
        match request {
            WorkerRequest::RemoveWorkspace { workflow_digest, .. } if workflow_digest != workflow.digest => {
                json(&Removal::Kept(
                    "its workflow file is not that of the hub".to_owned(),
                ))
            }
            WorkerRequest::RemoveWorkspace { issue, cause, .. } => {
                json(&remove_workspace(&host, &workflow.loaded.workflow, &issue, cause, pending()).await)
            }
            WorkerRequest::RecordChanges { issue, hold } => {
                let record = move || taken_over::record_changes(&host.layout, &issue, &hold);
                json(
                    &spawn_blocking(record)
                        .await
                        .map_err(|error| bug(&error))?
                        .map_err(|error| chain(&error))?,
                )
            }
            WorkerRequest::Inventory { before } => {
                let list = move || Inventory::of(&host.layout, before);
                json(&spawn_blocking(list).await.map_err(|error| bug(&error))?)
            }
            WorkerRequest::RemoveExpired { expired, before } => {
                json(&remove_expired_files(&host, &expired, before).await?)
            }
            WorkerRequest::Drain => {
                self.drain.notify_one();
                json(&())
            }
            WorkerRequest::ReadSession(request) => self.sessions.answer(request).await,
        }
    }
}

impl Responder for WorkerResponder {
    fn respond(&self, request: ReceivedRequest) -> BoxFuture<'static, Result<String, String>> {
        let responder = self.clone();
        async move {
            let parsed = serde_json::from_str::<WorkerRequest>(&request.body);
            let parsed = parsed.map_err(|error| format!("the request cannot be read: {error}"))?;
            // A removal does not stop halfway because its caller has left.
            tokio::spawn(responder.answer(parsed))
                .await
                .map_err(|error| bug(&error))?
        }
        .boxed()
    }
}

fn json<T: Serialize>(answer: &T) -> Result<String, String> {
    serde_json::to_string(answer).map_err(|error| error.to_string())
}

fn bug(error: &JoinError) -> String {
    format!("bug in Vik: {error}")
}
