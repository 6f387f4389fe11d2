//! `vik resume`

use std::path::Path;

use clap::Args;
use vik_base::report::{Exit, one_line};
use vik_core::ids::IssueId;
use vik_core::scheduler::Command;

use super::client::{self, ActionOutcome};
use super::issue_arg::OptionalIssue;
use super::{CliResult, print};

/// `vik resume`
#[derive(Debug, Args)]
#[command(after_help = "A pause of all issues and a pause of one issue are independent of each other.")]
pub struct ResumeArgs {
    #[command(flatten)]
    pub issue: OptionalIssue,
}

/// Ends the pause of one issue, or of all work.
pub fn run(workflow: &Path, args: &ResumeArgs) -> CliResult {
    let command = Command::Resume(args.issue.id().map(IssueId::from));
    let result = client::act(workflow, command)?;
    print(&match (result, args.issue.id()) {
        (ActionOutcome::Nothing(why), _) => format!("nothing to do: {why}\n"),
        (ActionOutcome::Applied(_), None) => "resumed\n".to_owned(),
        (ActionOutcome::Applied(_), Some(id)) => format!("resumed issue {}\n", one_line(id, 60)),
    });
    Ok(Exit::Done)
}
