//! The workflow of an attempt.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use temporalio_common::RetryPolicy;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::workflows::select;
use temporalio_sdk::{
    ActivityCancellationType, ActivityOptions, SyncWorkflowContext, WaitConditionOptions,
    WorkflowCancellationToken, WorkflowContext, WorkflowContextView, WorkflowResult,
};

use super::activities::{AttemptActivities, Command, CommandActivities};
use super::outcome::AttemptOutcome;
use crate::rpc::TAKE_TIMEOUT;

/// An attempt may take any time, but the server wants a limit.
const MAX_ATTEMPT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// How long a worker may take for a command. After that, it is sent again.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

const COMMAND_RETRY: Duration = Duration::from_millis(200);

/// With this an attempt starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStart {
    pub task_queue: String,
    pub command_queue: String,
    pub heartbeat_timeout_ms: u64,
    pub input: String,
}

/// Starts an attempt on its worker, passes commands to it, and has its outcome.
#[workflow]
pub struct AttemptWorkflow {
    start: AttemptStart,
    commands: VecDeque<Command>,
    commands_received: u64,
}

#[workflow_methods]
impl AttemptWorkflow {
    #[init]
    fn new(_ctx: &WorkflowContextView, start: AttemptStart) -> Self {
        Self {
            start,
            commands: VecDeque::new(),
            commands_received: 0,
        }
    }

    #[run(name = "vik_attempt")]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<AttemptOutcome> {
        let (options, input) = ctx.state(|state| (state.attempt(), state.start.input.clone()));
        let mut attempt = ctx.execute_activity(AttemptActivities::attempt, input, options);
        loop {
            let mut commands = ctx.wait_condition_with_options(
                |state| !state.commands.is_empty(),
                WaitConditionOptions::builder()
                    .cancellation_token(WorkflowCancellationToken::new())
                    .build(),
            );
            select! {
                end = attempt => return Ok(AttemptOutcome::of(end)),
                _ = commands => {}
            }
            drop(commands);
            let Some(command) = ctx.state_mut(|state| state.commands.pop_front()) else {
                continue;
            };
            let options = ctx.state(Self::delivery);
            let mut delivered = ctx.execute_activity(CommandActivities::command, command, options);
            select! {
                end = attempt => return Ok(AttemptOutcome::of(end)),
                // It is repeated until it has arrived. If the worker has lost the attempt, that ends.
                _ = delivered => {}
            }
        }
    }

    #[signal(name = "command")]
    pub fn command(&mut self, _ctx: &mut SyncWorkflowContext<Self>, text: String) {
        self.commands_received += 1;
        self.commands.push_back(Command {
            number: self.commands_received,
            text,
        });
    }
}

impl AttemptWorkflow {
    fn attempt(&self) -> ActivityOptions {
        ActivityOptions::with_start_to_close_timeout(MAX_ATTEMPT)
            .activity_id("attempt".to_owned())
            .task_queue(self.start.task_queue.clone())
            .schedule_to_start_timeout(TAKE_TIMEOUT)
            .heartbeat_timeout(Duration::from_millis(self.start.heartbeat_timeout_ms))
            // A cancelled attempt has ended only when its processes have.
            .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
            // The core decides about retries.
            .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
            .build()
    }

    fn delivery(&self) -> ActivityOptions {
        let retry = RetryPolicy::builder()
            .initial_interval(COMMAND_RETRY)
            .maximum_interval(Duration::from_secs(1))
            .build();
        ActivityOptions::with_start_to_close_timeout(COMMAND_TIMEOUT)
            .task_queue(self.start.command_queue.clone())
            .retry_policy(retry)
            // A cancelled attempt is still there, and may need commands.
            .cancellation_token(WorkflowCancellationToken::new())
            .build()
    }
}
