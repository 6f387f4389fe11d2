//! `vik retry`

use std::path::Path;

use clap::Args;
use vik_base::report::{Exit, count, one_line};
use vik_core::ids::StageName;
use vik_core::scheduler::{Command, RetryRequest};

use super::client::{self, ActionOutcome};
use super::completion::stages;
use super::issue_arg::RequiredIssue;
use super::{CliResult, print};

/// `vik retry`
#[derive(Debug, Args)]
#[command(
    after_help = "`vik status` lists parked issues, with their reasons and how to unpark them. If the work of an \
                  issue is done and only its hand-over failed (outputs or `after_run`), only the hand-over is \
                  tried again, at once; --agent runs the agent again instead."
)]
pub struct RetryArgs {
    #[command(flatten)]
    pub issue: RequiredIssue,
    /// Retry only this stage [default: every parked stage]
    #[arg(long, value_name = "NAME", add = stages())]
    pub stage: Option<String>,
    /// Allow at least this many more attempts, regardless of `max_attempts` and `issue.limits.attempts`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: Option<u32>,
    /// Run the agent again although its work is done and only the hand-over failed
    #[arg(long)]
    pub agent: bool,
}

pub fn run(workflow: &Path, args: &RetryArgs) -> CliResult {
    let request = RetryRequest {
        issue: args.issue.id().into(),
        stage: args.stage.clone().map(StageName::new),
        attempts: args.attempts,
        // Only an agent needs attempts.
        agent: args.agent || args.attempts.is_some(),
    };
    let id = one_line(args.issue.id(), 60);
    print(&match client::act(workflow, Command::Retry(request))? {
        ActionOutcome::Nothing(why) => format!("nothing to retry: {why}\n"),
        ActionOutcome::Applied(stages) => {
            let stages = match &args.stage {
                Some(stage) => format!("stage `{}`", one_line(stage, 60)),
                None => count(stages, "stage"),
            };
            let more = match args.attempts {
                None => String::new(),
                Some(more) => format!(", allowing another {}", count(more, "attempt")),
            };
            format!("retrying {stages} of issue {id}{more}; see when it runs with `vik explain {id}`\n")
        }
    });
    Ok(Exit::Done)
}
