//! The workflows of the log: its segments, and the index that has the number of the first one.
#![allow(
    clippy::needless_pass_by_value,
    reason = "the macros of the SDK pass inputs by value"
)]

use serde::{Deserialize, Serialize};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ChildWorkflowOptions, ContinueAsNewOptions, ParentClosePolicy, SignalWorkflowOptions,
    SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowIdReusePolicy, WorkflowResult,
};

use super::segment::{Accepted, Append, Limits, Refusal, Segment, SegmentStart};
use crate::names;
use crate::rpc::TASK_TIMEOUT;

/// The names of the updates in histories.
pub(super) const APPEND: &str = "append";
pub(super) const TAKE_TERM: &str = "take_term";

type Validation = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A segment of the log. A sealed one starts the next, and stays open until it is closed.
#[workflow]
pub struct SegmentWorkflow {
    segment: Segment,
    is_closed: bool,
}

#[workflow_methods]
impl SegmentWorkflow {
    #[init]
    fn new(_ctx: &WorkflowContextView, start: SegmentStart) -> Self {
        Self {
            segment: Segment::new(start),
            is_closed: false,
        }
    }

    #[run(name = "vik_log_segment")]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        ctx.wait_condition(|state| state.segment.is_sealed() || state.is_closed)
            .await?;
        if ctx.state(|state| state.segment.is_sealed()) {
            let next = ctx.state(|state| state.segment.next());
            let number = next.number;
            let started = start_segment(ctx.workflow_id(), number);
            // Nothing but this workflow starts the next segment, so that a hub that was frozen for
            // long cannot start one that was closed and deleted.
            if let Err(error) = ctx
                .start_child_workflow(SegmentWorkflow::run, next, started)
                .await
            {
                tracing::error!(%error, number, "cannot start a segment of the log");
            }
        }
        ctx.wait_condition(|state| state.is_closed).await?;
        Ok(())
    }

    #[update_validator(append)]
    fn check_append(&self, _ctx: &WorkflowContextView, append: &Append) -> Validation {
        validation(self.segment.check_append(append))
    }

    #[update(name = "append")]
    pub fn append(&mut self, _ctx: &mut SyncWorkflowContext<Self>, append: Append) -> Accepted {
        self.segment.append(&append)
    }

    #[update_validator(take_term)]
    fn check_term(&self, _ctx: &WorkflowContextView, _input: &()) -> Validation {
        validation(self.segment.check_term())
    }

    #[update(name = "take_term")]
    pub fn take_term(&mut self, _ctx: &mut SyncWorkflowContext<Self>, _input: ()) -> Accepted {
        self.segment.take_term()
    }

    #[signal(name = "close")]
    pub fn close(&mut self, _ctx: &mut SyncWorkflowContext<Self>, _input: ()) {
        self.is_closed = true;
    }
}

fn start_segment(beside: &str, number: u64) -> ChildWorkflowOptions {
    ChildWorkflowOptions::builder()
        .workflow_id(names::sibling_segment(beside, number))
        .parent_close_policy(ParentClosePolicy::Abandon)
        .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
        .task_timeout(TASK_TIMEOUT)
        .build()
}

/// Returns a refusal as the message of a failure, from which the client reads it.
fn validation(result: Result<(), Refusal>) -> Validation {
    result.map_err(|refusal| {
        serde_json::to_string(&refusal)
            .unwrap_or_else(|_| refusal.to_string())
            .into()
    })
}

/// Where the log starts for a reader that has nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The first segment that is needed.
    pub first: u64,
    /// The size of all segments before the first one, in bytes.
    pub bytes: u64,
}

/// With this the index starts: a new log, or the same one in a new history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IndexStart {
    New(Limits),
    Continued { index: Index, limits: Limits },
}

/// The index of a log. It starts the first segment, and closes those that are no longer needed.
#[workflow]
pub struct IndexWorkflow {
    start: IndexStart,
    limits: Limits,
    index: Index,
    /// The first segment that is not closed.
    first_open: u64,
}

#[workflow_methods]
impl IndexWorkflow {
    #[init]
    fn new(_ctx: &WorkflowContextView, start: IndexStart) -> Self {
        let (index, limits) = match start {
            IndexStart::New(limits) => (Index { first: 1, bytes: 0 }, limits),
            IndexStart::Continued { index, limits } => (index, limits),
        };
        Self {
            start,
            limits,
            index,
            first_open: index.first,
        }
    }

    #[run(name = "vik_log_index")]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        if let IndexStart::New(limits) = ctx.state(|state| state.start) {
            let first = SegmentStart::first(ctx.run_id(), limits);
            let options = start_segment(ctx.workflow_id(), first.number);
            ctx.start_child_workflow(SegmentWorkflow::run, first, options)
                .await?;
        }
        loop {
            ctx.wait_condition(|state| state.first_open < state.index.first)
                .await?;
            let number = ctx.state(|state| state.first_open);
            let segment = names::sibling_segment(ctx.workflow_id(), number);
            let close = ctx.external_workflow(segment, None).signal(
                SegmentWorkflow::close,
                (),
                SignalWorkflowOptions::default(),
            );
            // A segment that is no longer there needs no end.
            if let Err(error) = close.await {
                tracing::debug!(%error, number, "cannot close a segment of the log");
            }
            ctx.state_mut(|state| state.first_open += 1);
            let is_settled = ctx.state(|state| state.first_open == state.index.first);
            let (index, limits) = ctx.state(|state| (state.index, state.limits));
            if is_settled && ctx.history_length() > limits.index_events {
                let start = IndexStart::Continued { index, limits };
                ctx.continue_as_new(start, ContinueAsNewOptions::default())?;
            }
        }
    }

    #[update_validator(compacted)]
    fn check_compacted(&self, _ctx: &WorkflowContextView, index: &Index) -> Validation {
        if index.first < self.index.first {
            return Err("the log was compacted further".into());
        }
        Ok(())
    }

    /// Moves the start of the log to a segment that starts with the full state.
    #[update(name = "compacted")]
    pub fn compacted(&mut self, _ctx: &mut SyncWorkflowContext<Self>, index: Index) -> Index {
        self.index = index;
        index
    }

    #[query(name = "index")]
    pub fn index(&self, _ctx: &WorkflowContextView) -> Index {
        self.index
    }
}
