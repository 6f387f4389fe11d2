//! `vik explain ISSUE`: why an issue runs, why it does not, and when it runs next.

mod text;

#[cfg(test)]
mod tests;

use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use vik_base::report::stdout_width;
use vik_workflow::absolute;

use super::issue_arg::RequiredIssue;
use super::{CliResult, explained, print_result};

/// `vik explain`
#[derive(Debug, Args)]
#[command(after_help = "The answer comes from the running daemon or, without one, from the ledger.")]
pub struct ExplainArgs {
    #[command(flatten)]
    pub issue: RequiredIssue,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(workflow: &Path, args: &ExplainArgs) -> CliResult {
    let explained = explained::load(&absolute(workflow), &args.issue.id().into())?;
    print_result(args.json, &explained, || {
        text::text(&explained, Timestamp::now(), stdout_width())
    })
}
