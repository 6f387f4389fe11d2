//! `vik pause`

use std::path::Path;

use clap::Args;
use vik_base::report::{Exit, one_line};
use vik_core::ids::IssueId;
use vik_core::scheduler::Command;

use super::client::{self, ActionOutcome};
use super::issue_arg::OptionalIssue;
use super::{CliResult, print};

/// `vik pause`
#[derive(Debug, Args)]
#[command(after_help = "A pause remains in force across restarts of the daemon, until `vik resume`.")]
pub struct PauseArgs {
    #[command(flatten)]
    pub issue: OptionalIssue,
}

/// Pauses one issue, or all work.
pub fn run(workflow: &Path, args: &PauseArgs) -> CliResult {
    let command = Command::Pause(args.issue.id().map(IssueId::from));
    let result = client::act(workflow, command)?;
    print(&match (result, args.issue.id()) {
        (ActionOutcome::Nothing(why), _) => format!("nothing to do: {why}\n"),
        (ActionOutcome::Applied(_), None) => {
            "paused: no new attempts start; resume with `vik resume`\n".to_owned()
        }
        (ActionOutcome::Applied(_), Some(id)) => {
            let id = one_line(id, 60);
            format!("paused issue {id}: no new attempts start; resume with `vik resume {id}`\n")
        }
    });
    Ok(Exit::Done)
}
