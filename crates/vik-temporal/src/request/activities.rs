//! The activity of a recipient: it answers requests.

use std::sync::Arc;

use futures::future::BoxFuture;
use temporalio_client::NamespacedClient;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use vik_proc::BootTime;

use super::error::{Answer, RequestError};
use super::workflow::RequestInput;
use crate::lease::{HeartbeatResult, Heartbeats};
use crate::rpc::check_result;

/// A request as its recipient has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// The id of its workflow.
    pub id: String,
    pub body: String,
}

/// Answers the requests to this process.
pub trait Responder: Send + Sync + 'static {
    /// Answers a request, or refuses it with a message for the caller.
    ///
    /// The future is dropped when the caller has cancelled the request, when its limit has passed,
    /// when the connection to the server is lost for longer than its lease, and when this process
    /// stops. Work that must not stop halfway needs a task of its own.
    fn respond(&self, request: ReceivedRequest) -> BoxFuture<'static, Result<String, String>>;
}

/// The responder of a process that answers none.
#[derive(Clone, Copy, Debug)]
pub struct NoRequests;

impl Responder for NoRequests {
    fn respond(&self, _: ReceivedRequest) -> BoxFuture<'static, Result<String, String>> {
        let refused = Err("this version of Vik answers no requests of other machines".to_owned());
        Box::pin(std::future::ready(refused))
    }
}

/// Answers the requests that other processes send.
pub struct RequestActivities {
    responder: Arc<dyn Responder>,
    /// Requests are answered there, and not on the thread that polls.
    runtime: Handle,
}

impl RequestActivities {
    pub(super) fn new(responder: Arc<dyn Responder>, runtime: Handle) -> Self {
        Self { responder, runtime }
    }
}

#[activities]
impl RequestActivities {
    /// Answers a request, as long as its caller waits.
    #[activity(name = "vik_request")]
    pub async fn request(
        self: Arc<Self>,
        ctx: ActivityContext,
        input: RequestInput,
    ) -> Result<Answer, ActivityError> {
        let heartbeats = Heartbeats::new(ctx.clone());
        // Nothing starts without a lease: the caller may have given up.
        let until = match heartbeats.send("").await {
            HeartbeatResult::Confirmed {
                cancel_requested: true,
                ..
            } => return Ok(Err(RequestError::Cancelled)),
            HeartbeatResult::Confirmed { until, .. } => until,
            HeartbeatResult::NotHeld | HeartbeatResult::Unanswered => return Ok(Err(RequestError::Lost)),
        };
        let request = ReceivedRequest {
            id: ctx.info().workflow_id.clone().unwrap_or_default(),
            body: input.body,
        };
        let mut running = JoinSet::new();
        let responder = self.responder.clone();
        running.spawn_on(async move { responder.respond(request).await }, &self.runtime);
        let answer = tokio::select! {
            response = running.join_next() => match response {
                Some(Ok(response)) => response.map_err(RequestError::Refused),
                // The message of a panic may contain data, and is in the log of this process.
                _ => Err(RequestError::Failed("the recipient panicked".to_owned())),
            },
            reason = keep_lease(&heartbeats, &ctx, until) => Err(reason),
        };
        // The caller has the answer when nothing runs any more.
        running.shutdown().await;
        let client = ctx.client();
        let checked = check_result(client.data_converter(), &answer).await;
        Ok(checked.map_err(RequestError::InvalidAnswer).and(answer))
    }
}

/// Renews the lease, and returns why the request must not continue.
async fn keep_lease(heartbeats: &Heartbeats, ctx: &ActivityContext, mut until: BootTime) -> RequestError {
    loop {
        let is_stopping = tokio::select! {
            () = tokio::time::sleep(heartbeats.interval().min(until.remaining())) => false,
            // It is cancelled, has ended for the server, or this process stops.
            () = ctx.cancelled() => true,
        };
        let renewed = tokio::time::timeout(until.remaining(), heartbeats.send("")).await;
        match renewed {
            Ok(HeartbeatResult::Confirmed {
                cancel_requested: true,
                ..
            }) => return RequestError::Cancelled,
            Ok(HeartbeatResult::Confirmed { until: renewed, .. }) if !is_stopping => until = renewed,
            Ok(HeartbeatResult::Unanswered) if !is_stopping => {}
            _ => return RequestError::Lost,
        }
    }
}
