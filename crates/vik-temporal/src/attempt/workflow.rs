//! The workflow of an attempt.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use temporalio_common::RetryPolicy;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{ActivityCancellationType, ActivityOptions, WorkflowContext, WorkflowResult};

use super::activities::AttemptActivities;
use super::outcome::AttemptOutcome;
use crate::rpc::TAKE_TIMEOUT;

/// An attempt may take any time, but the server wants a limit.
const MAX_ATTEMPT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// With this an attempt starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStart {
    pub task_queue: String,
    pub heartbeat_timeout_ms: u64,
    pub input: String,
}

/// Starts an attempt on its worker, and has its outcome. It takes nothing else, so that its history
/// has the same length however long the attempt takes: a new history cannot take over an activity.
#[workflow]
#[derive(Default)]
pub struct AttemptWorkflow;

#[workflow_methods]
impl AttemptWorkflow {
    #[run(name = "vik_attempt")]
    pub async fn run(ctx: &mut WorkflowContext<Self>, start: AttemptStart) -> WorkflowResult<AttemptOutcome> {
        let options = ActivityOptions::with_start_to_close_timeout(MAX_ATTEMPT)
            .activity_id("attempt".to_owned())
            .task_queue(start.task_queue)
            .schedule_to_start_timeout(TAKE_TIMEOUT)
            .heartbeat_timeout(Duration::from_millis(start.heartbeat_timeout_ms))
            // A cancelled attempt has ended only when its processes have.
            .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
            // The core decides about retries.
            .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
            .build();
        let attempt = ctx.execute_activity(AttemptActivities::attempt, start.input, options);
        Ok(AttemptOutcome::of(attempt.await))
    }
}
