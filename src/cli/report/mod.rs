//! `vik report`: prints the work of a time span and its cost.

mod markdown;
mod text;

#[cfg(test)]
mod tests;

use std::path::Path;

use clap::Args;
use jiff::Timestamp;
use vik_base::report::{ErrorCode, Exit, Failure, date_time, stdout_width};
use vik_control::PointInTime;
use vik_control::figures::{self, Window};
use vik_store::ledger::Reader;

use super::{CliResult, history, print_result};

/// `vik report`
#[derive(Debug, Args)]
#[command(
    after_help = "The report covers the attempts that started in this period. It reads the ledger and needs no daemon. Days are UTC."
)]
pub struct ReportArgs {
    /// Start of the period: a duration (`24h`, `1w`), day (`yesterday`, `2026-03-01`) or time (`2026-03-01T12:00:00Z`)
    #[arg(long, value_name = "WHEN", default_value = "7d")]
    pub since: PointInTime,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown
    #[arg(long)]
    pub markdown: bool,
}

/// Prints the sums of the ledger's records.
pub fn run(workflow: &Path, args: &ReportArgs) -> CliResult {
    let root = history::root(workflow)?;
    // Only the ledger has these figures: without it there is no report.
    let ledger = Reader::open(&root.join("service"))?;
    let now = Timestamp::now();
    let since = args.since.before(now);
    if since > now {
        return Err(Failure::new(
            Exit::Usage,
            ErrorCode::Usage,
            format!("--since {} is in the future", date_time(since)),
        )
        .hint("use a duration such as `7d`, or a time in the past"));
    }
    let report = figures::report(ledger.as_ref(), Window::new(since, now, None))?;
    print_result(args.json, &report, || match args.markdown {
        true => markdown::markdown(&report),
        false => text::text(&report, stdout_width()),
    })
}
