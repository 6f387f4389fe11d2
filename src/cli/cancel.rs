//! `vik cancel`

use std::path::Path;

use clap::Args;
use vik_base::report::{Exit, one_line};
use vik_core::scheduler::Command;

use super::client::{self, ActionOutcome};
use super::issue_arg::RequiredIssue;
use super::{CliResult, print};

/// `vik cancel`
#[derive(Debug, Args)]
#[command(
    after_help = "Agents get time to exit before they are killed. The stage stays parked until the issue \
                        changes or `vik retry` is run."
)]
pub struct CancelArgs {
    #[command(flatten)]
    pub issue: RequiredIssue,
}

/// Stops the agents of an issue and parks it.
pub fn run(workflow: &Path, args: &CancelArgs) -> CliResult {
    let command = Command::Cancel(args.issue.id().into());
    let id = one_line(args.issue.id(), 60);
    print(&match client::act(workflow, command)? {
        ActionOutcome::Nothing(why) => format!("nothing to do: {why}\n"),
        ActionOutcome::Applied(_) => format!(
            "cancelled issue {id}: its attempts are stopped, and it stays parked until it changes or `vik \
             retry {id}` is run\n"
        ),
    });
    Ok(Exit::Done)
}
