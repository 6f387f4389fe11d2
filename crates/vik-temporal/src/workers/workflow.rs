//! The workflow that holds the table.

use std::time::UNIX_EPOCH;

use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ContinueAsNewOptions, SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult,
};
use vik_core::worker::WorkerName;

use super::table::{Row, Table};

/// After so many announcements, a short history replaces the long one.
const MAX_ANNOUNCEMENTS: u32 = 500;

/// Holds the table of workers.
#[workflow]
pub struct WorkersWorkflow {
    table: Table,
    announcements: u32,
}

#[workflow_methods]
impl WorkersWorkflow {
    #[init]
    fn new(_ctx: &WorkflowContextView, table: Table) -> Self {
        Self {
            table,
            announcements: 0,
        }
    }

    #[run(name = "vik_workers")]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<()> {
        ctx.wait_condition(|state| state.announcements >= MAX_ANNOUNCEMENTS)
            .await?;
        let table = ctx.state(|state| state.table.clone());
        ctx.continue_as_new(table, ContinueAsNewOptions::default())?;
        Ok(())
    }

    /// Adds the worker. One of a newer version may announce what this version cannot read. It is left
    /// out: as an error, it would stop the table for all workers.
    #[signal(name = "announce")]
    pub fn announce(&mut self, ctx: &mut SyncWorkflowContext<Self>, announcement: serde_json::Value) {
        let now = ctx
            .workflow_time()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let now_ms = now.and_then(|now| u64::try_from(now.as_millis()).ok());
        if let Ok(worker) = serde_json::from_value(announcement) {
            self.table.announce(worker, now_ms.unwrap_or(0));
        }
        self.announcements += 1;
    }

    #[query(name = "table")]
    pub fn table(&self, _ctx: &WorkflowContextView) -> Table {
        self.table.clone()
    }

    #[query(name = "row")]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the macro passes the input of a query by value"
    )]
    pub fn row(&self, _ctx: &WorkflowContextView, name: WorkerName) -> Option<Row> {
        self.table.rows.get(&name).cloned()
    }
}
