//! What `vik doctor` finds out about a server. Nothing is written to it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::IntoRequest;
use temporalio_client::{Client, UntypedWorkflow, WorkflowDescribeOptions};
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeNamespaceRequest, GetClusterInfoRequest,
};
use tokio::time::{Instant, sleep, timeout};
use vik_core::worker::{Presence, Revision, Worker, Workers};

use crate::names::Queue;
use crate::rpc::{REQUEST_TIMEOUT, once};
use crate::workers::{self, ANNOUNCE_TIMEOUT};

/// How long the facts that need a running hub may take.
const HUB_TIMEOUT: Duration = Duration::from_secs(5);

/// The time between two looks at the heartbeats of the hub that leads.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A server, and what runs on the queue.
#[derive(Clone, Debug)]
pub struct Examination {
    /// The version of the server; `None` if it does not give it.
    pub server_version: Option<String>,
    /// How long the namespace keeps what has ended; `None` if it does not give it.
    pub retention: Option<Duration>,
    /// How much the clock of this machine is ahead of that of the server; `None` if no hub leads, whose
    /// heartbeats show it.
    pub clock_offset: Option<SignedDuration>,
    /// `None` if no hub answers.
    pub workers: Option<Workers>,
}

/// Examines the server of a queue for a process of this revision.
pub async fn examine(client: &Client, queue: &Queue, namespace: &str, own: Revision) -> Examination {
    let (server_version, retention, clock_offset, workers) = tokio::join!(
        server_version(client.clone()),
        retention(client.clone(), namespace),
        timeout(HUB_TIMEOUT, clock_offset(client, queue)),
        timeout(HUB_TIMEOUT, present_workers(client, queue, own)),
    );
    Examination {
        server_version,
        retention,
        clock_offset: clock_offset.ok().flatten(),
        workers: workers.ok().flatten(),
    }
}

async fn server_version(mut client: Client) -> Option<String> {
    let request = GetClusterInfoRequest::default().into_request();
    let response = WorkflowService::get_cluster_info(&mut client, request)
        .await
        .ok()?;
    Some(response.into_inner().server_version).filter(|version| !version.is_empty())
}

async fn retention(mut client: Client, namespace: &str) -> Option<Duration> {
    let request = DescribeNamespaceRequest {
        namespace: namespace.to_owned(),
        ..DescribeNamespaceRequest::default()
    };
    let response = WorkflowService::describe_namespace(&mut client, request.into_request())
        .await
        .ok()?;
    let retention = response.into_inner().config?.workflow_execution_retention_ttl?;
    Duration::try_from(retention).ok()
}

/// Waits for the next heartbeat of the hub that leads, whose time the server notes.
async fn clock_offset(client: &Client, queue: &Queue) -> Option<SignedDuration> {
    let first = last_heartbeat(client, queue).await?;
    let deadline = Instant::now() + HUB_TIMEOUT;
    while Instant::now() < deadline {
        sleep(POLL_INTERVAL).await;
        let last = last_heartbeat(client, queue).await?;
        if last != first {
            return Some(Timestamp::now().duration_since(last));
        }
    }
    None
}

async fn last_heartbeat(client: &Client, queue: &Queue) -> Option<Timestamp> {
    let options = WorkflowDescribeOptions::builder()
        .rpc_options(once(REQUEST_TIMEOUT))
        .build();
    let handle = client.get_workflow_handle::<UntypedWorkflow>(queue.hub());
    let described = handle.describe(options).await.ok()?.into_raw();
    let time = described
        .pending_activities
        .into_iter()
        .find_map(|activity| activity.last_heartbeat_time)?;
    Timestamp::new(time.seconds, time.nanos).ok()
}

async fn present_workers(client: &Client, queue: &Queue, own: Revision) -> Option<Workers> {
    let table = workers::Workers::new(client.clone(), queue.clone())
        .table()
        .await
        .ok()?;
    let oldest = Timestamp::now() - SignedDuration::try_from(ANNOUNCE_TIMEOUT).ok()?;
    let workers = table.rows.into_values().map(|row| {
        // The clock of the server may be another one, but by less than the timeout, or doctor warns.
        let is_old = row.last_ms < u64::try_from(oldest.as_millisecond()).unwrap_or(0);
        match is_old {
            true => Worker {
                presence: Presence::Lost,
                ..row.worker
            },
            false => row.worker,
        }
    });
    Some(Workers::new(own, workers))
}
