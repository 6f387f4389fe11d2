//! `vik runs`

use std::path::Path;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use vik_api::{RunState, RunView};
use vik_base::report::{
    ErrorCode, Exit, Failure, columns, cost_sum, date_time, fitted_table, one_line, optional, shared_offset,
    stdout_width, tokens,
};
use vik_control::PointInTime;
use vik_control::history::selected;
use vik_core::duration::Span;
use vik_core::ids::{AgentName, IssueId, StageName};
use vik_core::outcome::{Outcome, Usage};
use vik_store::ledger::{Reader, RunFilter};

use super::completion::{agents, stages};
use super::history;
use super::issue_arg::OptionalIssue;
use super::{CliResult, print, print_json};

/// `vik runs`
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub issue: OptionalIssue,
    /// Show only the runs of this stage
    #[arg(long, value_name = "NAME", add = stages())]
    pub stage: Option<String>,
    /// Show only runs with an attempt of this agent
    #[arg(long, value_name = "NAME", add = agents())]
    pub agent: Option<String>,
    /// Show only runs whose last attempt has one of these outcomes
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',', value_parser = outcomes())]
    pub outcome: Vec<Outcome>,
    /// Show only runs that started at or after this time: `24h`, `1w`, `yesterday`, `2026-03-01` or a timestamp
    #[arg(long, value_name = "WHEN")]
    pub since: Option<PointInTime>,
    /// Show only runs that started before this time
    #[arg(long, value_name = "WHEN")]
    pub until: Option<PointInTime>,
    /// Show only runs of issues with this text in their id or title
    #[arg(long, value_name = "TEXT")]
    pub search: Option<String>,
    /// Show only the latest N runs; 0 shows all of them [default: 100; with --json or --issue: all]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

/// Narrower terminals have only the most important columns.
const WIDE: usize = 110;

/// The number of runs that a table shows.
const LIMIT: usize = 100;

fn outcomes() -> impl TypedValueParser<Value = Outcome> {
    PossibleValuesParser::new(Outcome::ALL.iter().map(|outcome| outcome.as_str()))
        .try_map(|name| Outcome::from_name(&name).ok_or("unknown outcome"))
}

impl RunsArgs {
    fn filter(&self) -> RunFilter {
        let now = Timestamp::now();
        let time = |time: Option<PointInTime>| time.map(|time| time.before(now));
        RunFilter {
            issue: self.issue.id().map(IssueId::from),
            stage: self.stage.as_deref().map(StageName::from),
            agent: self.agent.as_deref().map(AgentName::from),
            outcomes: self.outcome.clone(),
            since: time(self.since),
            until: time(self.until),
            text: self.search.clone(),
            before: None,
        }
    }
}

/// Lists runs, oldest first.
pub fn run(workflow: &Path, args: &RunsArgs) -> CliResult {
    let default = if args.json || args.issue.id().is_some() {
        0
    } else {
        LIMIT
    };
    let limit = args.limit.unwrap_or(default);
    let filter = args.filter();
    let layout = history::layout(workflow)?;
    // Only the ledger knows all runs and their titles.
    let ledger = Reader::open(&layout.root().join("service"))?;
    let status = history::status(workflow);
    let (mut runs, has_more) = match &ledger {
        None => (Vec::new(), false),
        Some(ledger) => {
            let max = if limit == 0 { usize::MAX } else { limit };
            selected(&layout, ledger, status.as_ref(), &filter, max)?
        }
    };
    if runs.is_empty()
        && let Some(issue) = &filter.issue
    {
        require_known(ledger.as_ref(), issue)?;
    }
    runs.reverse();
    if args.json {
        print_json(&runs);
    } else if runs.is_empty() && filter == RunFilter::default() {
        print("no runs yet\n");
    } else if runs.is_empty() {
        print("no runs match\n");
    } else {
        print(&text(&runs, stdout_width()));
        if has_more {
            print("\nearlier runs are not shown; `--limit 0` shows all\n");
        }
    }
    Ok(Exit::Done)
}

/// Returns an error if the ledger does not contain an issue.
fn require_known(ledger: Option<&Reader>, issue: &IssueId) -> Result<(), Failure> {
    let known = ledger.map(|ledger| ledger.recall(std::slice::from_ref(issue)));
    let known = known.transpose()?;
    if known.is_some_and(|known| !known.is_empty()) {
        return Ok(());
    }
    let message = format!("no runs of issue `{}` found", one_line(issue.as_str(), 60));
    Err(Failure::new(Exit::NotFound, ErrorCode::UnknownIssue, message).hint("`vik runs` lists all runs"))
}

/// Formats runs as a table, which has fewer columns on a narrow terminal.
fn text(runs: &[RunView], width: usize) -> String {
    let offset = shared_offset(runs.iter().filter_map(started_at));
    let (started, time): (_, fn(Timestamp) -> String) = match offset {
        Some(offset) => (format!("STARTED ({offset})"), minute),
        None => ("STARTED".to_owned(), date_time),
    };
    let rows: Vec<_> = runs.iter().map(|run| row(run, time)).collect();
    let header = [
        "ISSUE", "STAGE", "STATE", "OUTCOME", &started, "ATTEMPTS", "TIME", "TOKENS", "COST", "TITLE",
    ];
    if width < WIDE {
        let names = ["ISSUE", "STAGE", "STATE", "OUTCOME", &started, "TITLE"];
        return fitted_table(width, names, &columns(names, header, &rows));
    }
    fitted_table(width, header, &rows)
}

/// Returns when the first attempt of a run started.
fn started_at(run: &RunView) -> Option<Timestamp> {
    run.attempts.first().map(|attempt| attempt.started_at)
}

/// Formats a time to the minute, for a column with the offset in its heading.
fn minute(at: Timestamp) -> String {
    date_time(at).chars().take("2026-03-01 12:00".len()).collect()
}

fn row(run: &RunView, time: fn(Timestamp) -> String) -> [String; 10] {
    let attempts = run.attempts.iter();
    let usage = attempts
        .clone()
        .fold(Usage::default(), |sum, a| sum.plus(a.usage));
    let costs = attempts
        .clone()
        .map(|attempt| (attempt.cost_usd, attempt.cost_source));
    let took: u64 = attempts.filter_map(|attempt| attempt.duration_ms).sum();
    let outcome = run
        .outcome
        .map_or_else(|| "-".to_owned(), |outcome| outcome.to_string());
    let turn = run.attempts.last().and_then(|attempt| attempt.turn);
    let turn = optional(" (turn ", turn, ")");
    [
        one_line(run.issue_id.as_str(), 30),
        run.stage.to_string(),
        state(run.state).to_owned(),
        outcome + &turn,
        started_at(run).map_or_else(|| "-".to_owned(), time),
        run.attempts.len().to_string(),
        Span(Duration::from_millis(took)).to_string(),
        tokens(usage.total()),
        cost_sum(costs),
        one_line(&run.issue_title, 50),
    ]
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
