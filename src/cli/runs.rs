//! `vik runs`

use std::path::Path;
use std::time::Duration;

use clap::Args;
use vik_api::{RunState, RunView};
use vik_base::report::{Exit, cost_sum, one_line, table, tokens};
use vik_core::duration::Span;
use vik_core::ids::IssueId;

use super::{CliResult, history, print, print_json};

/// `vik runs`
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show only the runs of this issue
    #[arg(long, value_name = "ID")]
    pub issue: Option<String>,
}

/// Lists runs, oldest first.
pub fn run(workflow: &Path, args: &RunsArgs) -> CliResult {
    let issue = args.issue.as_deref().map(IssueId::from);
    let runs = history::runs(
        &history::root(workflow)?,
        history::status(workflow).as_ref(),
        issue.as_ref(),
    )?;
    if args.json {
        print_json(&runs);
    } else if runs.is_empty() {
        print("no runs yet\n");
    } else {
        print(&text(&runs));
    }
    Ok(Exit::Done)
}

fn text(runs: &[RunView]) -> String {
    let rows: Vec<_> = runs
        .iter()
        .map(|run| {
            let usage = run
                .attempts
                .iter()
                .fold(vik_core::outcome::Usage::default(), |sum, a| sum.plus(a.usage));
            let costs = run
                .attempts
                .iter()
                .map(|attempt| (attempt.cost_usd, attempt.cost_source));
            let took: u64 = run
                .attempts
                .iter()
                .filter_map(|attempt| attempt.duration_ms)
                .sum();
            let outcome = run
                .outcome
                .map_or_else(|| "-".to_owned(), |outcome| outcome.to_string());
            [
                one_line(run.issue_id.as_str(), 30),
                run.stage.to_string(),
                state(run.state).to_owned(),
                outcome,
                run.attempts.len().to_string(),
                Span(Duration::from_millis(took)).to_string(),
                tokens(usage.total()),
                cost_sum(costs),
                one_line(&run.issue_title, 50),
            ]
        })
        .collect();
    table(
        [
            "ISSUE", "STAGE", "STATE", "OUTCOME", "TRIES", "TIME", "TOKENS", "COST", "TITLE",
        ],
        &rows,
    )
}

/// Returns the name of a run's state for people.
pub fn state(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Waiting => "waiting",
        RunState::Parked => "parked",
        RunState::Ended => "ended",
    }
}
