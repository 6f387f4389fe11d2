//! `vik report`: what was done in a span of time, and what it cost.

mod markdown;
mod text;

#[cfg(test)]
mod tests;

use std::path::Path;

use jiff::Timestamp;
use vik_store::ledger::Reader;

use super::args::ReportArgs;
use super::{CliResult, history, print, print_json};
use crate::daemon::ledger_failure;
use crate::figures::{self, Window};
use crate::report::{Exit, Failure, stdout_width};

/// Sums up what the ledger knows.
pub fn run(workflow: &Path, args: &ReportArgs) -> CliResult {
    let root = history::root(workflow)?;
    // Nothing else has the figures: where the ledger cannot be read there is no report.
    let fail = |error| ledger_failure(&error);
    let ledger = Reader::open(&root.join("service")).map_err(fail)?;
    let now = Timestamp::now();
    let since = args.since.before(now);
    if since > now {
        return Err(Failure::new(
            Exit::Usage,
            "usage",
            format!("--since {since:.0} is in the future"),
        )
        .hint("give a duration such as `7d`, or a time that has passed"));
    }
    let report = figures::report(ledger.as_ref(), Window::new(since, now, None)).map_err(fail)?;
    if args.json {
        print_json(&report);
    } else if args.markdown {
        print(&markdown::markdown(&report));
    } else {
        print(&text::text(&report, stdout_width()));
    }
    Ok(Exit::Done)
}
