//! `vik runs`

use std::path::Path;
use std::time::Duration;

use clap::Args;
use vik_api::{RunState, RunView};
use vik_base::report::{Exit, cost_sum, one_line, table, tokens};
use vik_core::duration::Span;
use vik_core::ids::IssueId;

use super::history::{self, Selection};
use super::{CliResult, print, print_json};

/// `vik runs`
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Show only the runs of this issue
    #[arg(long, value_name = "ID")]
    pub issue: Option<String>,
    /// Show only the latest N runs; 0 shows all of them [default: 100; with --json or --issue: all]
    #[arg(long, value_name = "N")]
    pub limit: Option<u32>,
}

/// The number of runs that a table shows.
const LIMIT: u32 = 100;

/// Lists runs, oldest first.
pub fn run(workflow: &Path, args: &RunsArgs) -> CliResult {
    let issue = args.issue.as_deref().map(IssueId::from);
    let default = if args.json || issue.is_some() { 0 } else { LIMIT };
    let limit = args.limit.unwrap_or(default);
    let selection = match (&issue, limit) {
        (Some(issue), _) => Selection::Issue(issue),
        (None, 0) => Selection::All,
        (None, limit) => Selection::Latest(limit),
    };
    let layout = history::layout(workflow)?;
    let ledger = history::ledger(layout.root());
    let status = history::status(workflow);
    let (mut runs, mut has_more) = history::runs(&layout, ledger.as_ref(), status.as_ref(), selection)?;
    // Not every selection is limited when it is read.
    if limit > 0 && runs.len() > limit as usize {
        runs.drain(..runs.len() - limit as usize);
        has_more = true;
    }
    if args.json {
        print_json(&runs);
    } else if runs.is_empty() {
        print("no runs yet\n");
    } else {
        print(&text(&runs));
        if has_more {
            print(
                "\nearlier runs are not shown; `--limit 0` shows all, and `--issue ID` those of one issue\n",
            );
        }
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
        RunState::HandingOver => "handing over",
        RunState::Parked => "parked",
        RunState::Ended => "ended",
    }
}
