//! How requests to the server are repeated, and what their failures mean.

use std::time::Duration;

use serde::Deserialize;
use temporalio_client::errors::{WorkflowInteractionError, WorkflowStartError};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest, Status};
use temporalio_client::{
    Client, NamespacedClient, RetryOptions, RpcOptions, UntypedWorkflow, WorkflowCancelOptions,
    WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowIdConflictPolicy, WorkflowIdReusePolicy,
    WorkflowStartOptions,
};
use temporalio_common::HasWorkflowDefinition;
use temporalio_common::data_converters::{
    ActivitySerializationContext, DataConverter, GenericPayloadConverter, PayloadConversionError,
    SerializationContext, SerializationContextData, TemporalDeserializable, TemporalSerializable,
    WorkflowSerializationContext,
};
use temporalio_common::protos::temporal::api::common::v1::{Payload, WorkflowExecution};
use temporalio_common::protos::temporal::api::enums::v1::HistoryEventFilterType;
use temporalio_common::protos::temporal::api::failure::v1::Failure;
use temporalio_common::protos::temporal::api::workflow::v1::PendingActivityInfo;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    GetWorkflowExecutionHistoryRequest, GetWorkflowExecutionHistoryResponse, ResetStickyTaskQueueRequest,
};

/// How long a hub may take for a step of a workflow before another one gets it. The default of the
/// server is ten seconds, which would be added to a takeover from a frozen hub.
pub(crate) const TASK_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a request to the server may take before it is repeated.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A worker or hub that does not take an attempt or a request within this time is not there.
pub(crate) const TAKE_TIMEOUT: Duration = Duration::from_secs(3);

/// Returns the options of a request that fails at once, or after `timeout`.
pub(crate) fn once(timeout: Duration) -> RpcOptions {
    RpcOptions::builder()
        .timeout(timeout)
        .retry_options(RetryOptions::no_retries())
        .build()
}

/// Returns whether the same request may succeed later.
pub(crate) fn is_temporary(code: Code) -> bool {
    !matches!(
        code,
        Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
            | Code::FailedPrecondition
    )
}

/// Starts a workflow. While the server does not answer, the request is repeated.
///
/// # Errors
///
/// Returns an error if a workflow with this id runs, or was started before and `reuse` does not allow
/// another one, if the input is too large, or if the server refuses it.
pub(crate) async fn start_once<W>(
    client: &Client,
    workflow: impl Fn() -> W,
    input: W::Input,
    reuse: WorkflowIdReusePolicy,
    mut options: WorkflowStartOptions,
) -> Result<(), WorkflowStartError>
where
    W: HasWorkflowDefinition,
    W::Input: Clone + Send,
{
    options.id_conflict_policy = WorkflowIdConflictPolicy::Fail;
    options.id_reuse_policy = reuse;
    options.task_timeout = Some(TASK_TIMEOUT);
    options.rpc_options = once(REQUEST_TIMEOUT);
    let mut backoff = Backoff::default();
    let mut is_repeated = false;
    loop {
        let started = client.start_workflow(workflow(), input.clone(), options.clone());
        match started.await {
            Ok(_) => return Ok(()),
            // The first request may have arrived although its answer was lost.
            Err(WorkflowStartError::AlreadyStarted { .. }) if is_repeated => return Ok(()),
            Err(WorkflowStartError::Rpc(status)) if is_temporary(status.code()) => {
                is_repeated = true;
                backoff.pause().await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Requests the cancellation of a workflow. While the server does not answer, the request is
/// repeated.
///
/// # Errors
///
/// Returns an error if the workflow has ended, or if the server refuses the request.
pub(crate) async fn cancel_workflow(client: &Client, id: &str) -> Result<(), WorkflowInteractionError> {
    let handle = client.get_workflow_handle::<UntypedWorkflow>(id);
    let mut backoff = Backoff::default();
    loop {
        let options = WorkflowCancelOptions::builder()
            .rpc_options(once(REQUEST_TIMEOUT))
            .build();
        match handle.cancel(options).await {
            Err(WorkflowInteractionError::Rpc(status)) if is_temporary(status.code()) => {
                backoff.pause().await;
            }
            result => return result,
        }
    }
}

/// Lets any hub make the next step of a workflow, or answer a query. Otherwise it waits for the hub that
/// made the last step, for a second.
pub(crate) async fn forget_last_hub(client: &Client, workflow_id: String) {
    let mut client = client.clone();
    let request = ResetStickyTaskQueueRequest {
        namespace: client.namespace(),
        execution: Some(WorkflowExecution {
            workflow_id,
            run_id: String::new(),
        }),
    };
    let reset = WorkflowService::reset_sticky_task_queue(&mut client, request.into_request()).await;
    if let Err(status) = reset {
        // It only takes longer.
        tracing::debug!(%status, "cannot release a workflow from its last hub");
    }
}

/// Reads a page of the history of a workflow; the first one if `page` is empty. Until there is a new
/// event, the server waits with its answer.
///
/// # Errors
///
/// Returns the status of the server.
pub(crate) async fn history_page(
    client: &Client,
    workflow_id: String,
    page: Vec<u8>,
) -> Result<GetWorkflowExecutionHistoryResponse, Status> {
    let mut client = client.clone();
    let request = GetWorkflowExecutionHistoryRequest {
        namespace: client.namespace(),
        execution: Some(WorkflowExecution {
            workflow_id,
            run_id: String::new(),
        }),
        next_page_token: page,
        wait_new_event: true,
        history_event_filter_type: HistoryEventFilterType::AllEvent.into(),
        skip_archival: true,
        ..GetWorkflowExecutionHistoryRequest::default()
    };
    let response = WorkflowService::get_workflow_execution_history(&mut client, request.into_request());
    Ok(response.await?.into_inner())
}

/// The latest heartbeat of an activity.
pub(crate) struct LastHeartbeat {
    pub(crate) details: String,
    /// The name of the process that sent it.
    pub(crate) identity: String,
}

/// Returns the latest heartbeat of an activity, by the type of the activity, or `None` if it does not
/// run or has sent none.
///
/// # Errors
///
/// Returns an error if there is no such workflow, if the server does not answer, or if the details
/// cannot be read.
pub(crate) async fn last_heartbeat(
    client: &Client,
    workflow_id: &str,
    activity_type: &str,
) -> Result<Option<LastHeartbeat>, WorkflowInteractionError> {
    let options = WorkflowDescribeOptions::builder()
        .rpc_options(once(REQUEST_TIMEOUT))
        .build();
    let handle = client.get_workflow_handle::<UntypedWorkflow>(workflow_id);
    let described = handle.describe(options).await?.into_raw();
    let is_wanted = |activity: &PendingActivityInfo| {
        let kind = activity.activity_type.as_ref();
        kind.is_some_and(|kind| kind.name == activity_type)
    };
    let activity = described.pending_activities.into_iter().find(is_wanted);
    let Some(activity) = activity else {
        return Ok(None);
    };
    let details = activity.heartbeat_details;
    let Some(details) = details.and_then(|details| details.payloads.into_iter().next()) else {
        return Ok(None);
    };
    // The codec was applied by the SDK.
    let converter = client.data_converter().payload_converter();
    let data = SerializationContextData::Workflow(WorkflowSerializationContext::new());
    let context = SerializationContext::new(&data, converter);
    Ok(Some(LastHeartbeat {
        details: converter.from_payload(&context, details)?,
        identity: activity.last_worker_identity,
    }))
}

/// Returns whether a workflow runs. While the server does not answer, the request is repeated.
///
/// # Errors
///
/// Returns an error if there is no such workflow, or if the server refuses the request.
pub(crate) async fn is_running(client: &Client, id: &str) -> Result<bool, WorkflowInteractionError> {
    let handle = client.get_workflow_handle::<UntypedWorkflow>(id);
    let mut backoff = Backoff::default();
    loop {
        let options = WorkflowDescribeOptions::builder()
            .rpc_options(once(REQUEST_TIMEOUT))
            .build();
        match handle.describe(options).await {
            Err(WorkflowInteractionError::Rpc(status)) if is_temporary(status.code()) => {
                backoff.pause().await;
            }
            described => return Ok(described?.status() == WorkflowExecutionStatus::Running),
        }
    }
}

/// Checks that an activity can send its result. Otherwise the server would never have one.
///
/// # Errors
///
/// Returns the reason if the result is too large, or cannot be encoded.
pub(crate) async fn check_result<T>(converter: &DataConverter, result: &T) -> Result<(), String>
where
    T: TemporalSerializable + 'static,
{
    let context = SerializationContextData::Activity(ActivitySerializationContext::new());
    let encoded = converter.to_payload(&context, result).await;
    encoded.map(drop).map_err(|error| payload_reason(&error))
}

/// Returns why a payload cannot be sent or read.
pub(crate) fn payload_reason(error: &PayloadConversionError) -> String {
    match error {
        PayloadConversionError::EncodingError(cause) => cause.to_string(),
        error => error.to_string(),
    }
}

/// Returns the message of a failure. The server has it only as a payload.
pub(crate) async fn failure_message(client: &Client, failure: &Failure) -> String {
    #[derive(Deserialize)]
    struct Attributes {
        message: String,
    }
    let attributes = decode::<Attributes>(client, failure.encoded_attributes.clone()).await;
    attributes.map_or_else(|_| failure.message.clone(), |attributes| attributes.message)
}

/// Decodes the only value of payloads that a client or a workflow has sent.
pub(crate) async fn decode<T>(
    client: &Client,
    payloads: impl IntoIterator<Item = Payload>,
) -> Result<T, PayloadConversionError>
where
    T: TemporalDeserializable + 'static,
{
    let context = SerializationContextData::Workflow(WorkflowSerializationContext::new());
    let payloads = payloads.into_iter().collect();
    client.data_converter().from_payloads(&context, payloads).await
}

/// The pauses between repeated requests: short at first, then up to a second.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    repetitions: u32,
}

impl Backoff {
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.next()).await;
    }

    fn next(&mut self) -> Duration {
        let pause = Duration::from_millis(20) * 2_u32.pow(self.repetitions.min(6));
        self.repetitions += 1;
        pause.min(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Codec, MAX_PLAIN_BYTES};
    use crate::connect::data_converter;

    #[tokio::test]
    async fn check_result_gives_the_size_that_is_too_large() {
        let converter = data_converter(Codec::default());
        let large = "x".repeat(MAX_PLAIN_BYTES);
        assert_eq!(check_result(&converter, &large[1_000..].to_owned()).await, Ok(()));
        let reason = check_result(&converter, &large).await.unwrap_err();
        assert!(reason.ends_with("the maximum is 16777216"), "{reason}");
    }

    #[test]
    fn backoff_grows_to_a_second() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.next(), Duration::from_millis(20));
        assert_eq!(backoff.next(), Duration::from_millis(40));
        for _ in 0..100 {
            assert!(backoff.next() <= Duration::from_secs(1));
        }
        assert_eq!(backoff.next(), Duration::from_secs(1));
    }
}
