//! The workflow of a request.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use temporalio_common::RetryPolicy;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{ActivityCancellationType, ActivityOptions, WorkflowContext, WorkflowResult};

use super::activities::RequestActivities;
use super::error::{Answer, answer_of};
use crate::rpc::TAKE_TIMEOUT;

/// A recipient that sends no heartbeat for this time is lost. It sees a cancellation within a quarter
/// of it.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(6);

/// The input of the workflow, and of its activity too: a body that could be sent can be passed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestInput {
    pub task_queue: String,
    pub limit_ms: u64,
    pub body: String,
}

/// Passes a request to its recipient, and has the answer.
#[workflow]
#[derive(Default)]
pub struct RequestWorkflow;

#[workflow_methods]
impl RequestWorkflow {
    #[run(name = "vik_request")]
    pub async fn run(ctx: &mut WorkflowContext<Self>, input: RequestInput) -> WorkflowResult<Answer> {
        let options = ActivityOptions::with_start_to_close_timeout(Duration::from_millis(input.limit_ms))
            .task_queue(input.task_queue.clone())
            .schedule_to_start_timeout(TAKE_TIMEOUT)
            .heartbeat_timeout(HEARTBEAT_TIMEOUT)
            // The answer follows when the recipient has stopped.
            .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
            // At most once.
            .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
            .build();
        let answer = ctx.execute_activity(RequestActivities::request, input, options);
        Ok(answer_of(answer.await))
    }
}
