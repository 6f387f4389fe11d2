//! `vik show ISSUE`: prints the history of one issue in order of time.

mod timeline;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use vik_api::RunView;
use vik_base::report::{ErrorCode, Exit, Failure, one_line, stdout_width};
use vik_core::ids::IssueId;
use vik_workflow::absolute;

use self::timeline::{TimelineInput, timeline};
use super::history;
use super::issue_arg::RequiredIssue;
use super::{CliResult, explained, print, print_json};

/// `vik show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub issue: RequiredIssue,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The maximum number of decisions, which is more than the ledger keeps of one issue.
const MAX_DECISIONS: u32 = 2000;

/// Shows the history of one issue.
pub fn run(workflow: &Path, args: &ShowArgs) -> CliResult {
    let issue = args.issue.id().into();
    if args.json {
        print_json(&known_runs(workflow, &issue)?);
        return Ok(Exit::Done);
    }
    let explained = explained::load(&absolute(workflow), &issue)?;
    let (mut decisions, mut agents) = (Vec::new(), HashMap::new());
    if let Some(ledger) = history::ledger(&history::root(workflow)?) {
        decisions = ledger.decisions(Some(&issue), MAX_DECISIONS)?;
        decisions.reverse();
        let attempts = ledger.attempts(Some(&issue), u32::MAX)?;
        let agent_of = |attempt: vik_store::ledger::StoredAttempt| {
            (attempt.started.attempt_id.to_string(), attempt.started.agent)
        };
        agents = attempts.into_iter().map(agent_of).collect();
    }
    let life = TimelineInput {
        explained: &explained,
        decisions: &decisions,
        agents: &agents,
        max_decisions: usize::try_from(MAX_DECISIONS).unwrap_or(usize::MAX),
    };
    print(&timeline(&life, Timestamp::now(), stdout_width()));
    Ok(Exit::Done)
}

fn known_runs(workflow: &Path, issue: &IssueId) -> Result<Vec<RunView>, Failure> {
    let layout = history::layout(workflow)?;
    let ledger = history::ledger(layout.root());
    let status = history::status(workflow);
    let found = history::runs(&layout, ledger.as_ref(), status.as_ref(), issue)?;
    if found.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            ErrorCode::UnknownIssue,
            format!("no runs of issue `{}` found", one_line(issue.as_str(), 60)),
        )
        .hint("`vik runs` lists all runs; `vik explain` shows why an issue does not run"));
    }
    Ok(found)
}
