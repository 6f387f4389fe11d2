//! `vik show ISSUE`: the attempts of one issue, in order.

use std::path::Path;
use std::time::Duration;

use vik_core::duration::Span;

use super::args::ShowArgs;
use super::{Done, history, print, print_json, runs};
use crate::report::{Exit, Failure, clean, cost, one_line, tokens};

/// Shows one issue's runs and attempts.
pub fn run(workflow: &Path, args: &ShowArgs) -> Done {
    let past = history::read(&history::root(workflow)?)?;
    let mut found = history::runs(&past, history::status(workflow).as_ref());
    found.retain(|run| run.issue_id.as_str() == args.issue);
    if found.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            "unknown_issue",
            format!("no run of issue `{}` is known", one_line(&args.issue, 60)),
        )
        .hint("`vik runs` lists all"));
    }
    if args.json {
        print_json(&found);
        return Ok(Exit::Done);
    }
    let mut out = String::new();
    for run in &found {
        out.push_str(&format!(
            "{} {} ({})  {}\n",
            one_line(run.issue_id.as_str(), 60),
            run.stage,
            runs::state(run.state),
            one_line(&run.issue_title, 80)
        ));
        for attempt in &run.attempts {
            let outcome = attempt
                .outcome
                .map_or_else(|| "running".to_owned(), |outcome| outcome.to_string());
            let class = attempt
                .failure_class
                .map(|class| format!(" ({class})"))
                .unwrap_or_default();
            let took = attempt
                .duration_ms
                .map(|ms| format!(" in {}", Span(Duration::from_millis(ms))))
                .unwrap_or_default();
            out.push_str(&format!(
                "  {:.0} attempt {}: {outcome}{class}{took}, {} tokens, {}\n",
                attempt.started_at,
                attempt.attempt,
                tokens(attempt.usage),
                cost(attempt.cost_usd)
            ));
            if let Some(reason) = &attempt.reason {
                out.push_str(&format!(
                    "    {}\n",
                    clean(reason.trim_end()).replace('\n', "\n    ")
                ));
            }
            out.push_str(&format!("    log: {}\n", attempt.log.display()));
        }
    }
    print(&out);
    Ok(Exit::Done)
}
