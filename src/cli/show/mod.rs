//! `vik show ISSUE`: prints the history of one issue in order of time.

mod timeline;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use vik_api::{AttemptView, LimitView, RunState, RunView};
use vik_base::report::ledger_failure;
use vik_base::report::{Exit, Failure, attempt_cost, clean, one_line, spent, stdout_width, tokens};
use vik_core::duration::Span;
use vik_core::ids::IssueId;
use vik_workflow::absolute;

use self::timeline::{TimelineInput, timeline};
use super::args::ShowArgs;
use super::{CliResult, explain, history, print, print_json, runs};

/// The maximum number of decisions, which is more than the ledger keeps of one issue.
const MAX_DECISIONS: u32 = 2000;

/// Shows the history of one issue.
pub fn run(workflow: &Path, args: &ShowArgs) -> CliResult {
    let issue = args.issue.as_str().into();
    if args.json {
        print_json(&known_runs(workflow, &issue)?);
        return Ok(Exit::Done);
    }
    let explained = explain::explain(&absolute(workflow), &issue)?;
    let (mut decisions, mut agents) = (Vec::new(), HashMap::new());
    if let Some(ledger) = history::ledger(&history::root(workflow)?) {
        let failure = |error| ledger_failure(&error);
        decisions = ledger.decisions(Some(&issue), MAX_DECISIONS).map_err(failure)?;
        decisions.reverse();
        let attempts = ledger.attempts(Some(&issue), u32::MAX).map_err(failure)?;
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
    let found = history::runs(
        &history::root(workflow)?,
        history::status(workflow).as_ref(),
        Some(issue),
    )?;
    if found.is_empty() {
        return Err(Failure::new(
            Exit::NotFound,
            "unknown_issue",
            format!("no runs of issue `{}` found", one_line(issue.as_str(), 60)),
        )
        .hint("`vik runs` lists all runs; `vik explain` shows why an issue does not run"));
    }
    Ok(found)
}

/// Formats runs with their attempts, for people.
pub fn text(found: &[RunView]) -> String {
    let mut out = String::new();
    for run in found {
        let _ = writeln!(
            out,
            "{} {} ({})  {}",
            one_line(run.issue_id.as_str(), 60),
            run.stage,
            runs::state(run.state),
            one_line(&run.issue_title, 80)
        );
        for attempt in &run.attempts {
            out.push_str(&attempt_text(attempt, run.state));
        }
    }
    out
}

fn attempt_text(attempt: &AttemptView, run: RunState) -> String {
    let outcome = match attempt.outcome {
        Some(outcome) => outcome.to_string(),
        None if run == RunState::Running => "running".to_owned(),
        None => "not ended yet".to_owned(),
    };
    let class = attempt
        .failure_class
        .map(|class| format!(" ({class})"))
        .unwrap_or_default();
    let mut out = format!(
        "  {:.0} attempt {}: {outcome}{class}{}, {} tokens, {}\n",
        attempt.started_at,
        attempt.attempt,
        took(attempt),
        tokens(attempt.usage),
        cost_text(attempt)
    );
    if let Some(reason) = &attempt.reason {
        let _ = writeln!(out, "    {}", clean(reason.trim_end()).replace('\n', "\n    "));
    }
    if let Some(before) = &attempt.resumed_from {
        let _ = writeln!(out, "    resumed the conversation of {before}");
    }
    for script in &attempt.hooks_run_twice {
        let _ = writeln!(
            out,
            "    {} ran again: Vik exited before it recorded the first result",
            one_line(script, 40)
        );
    }
    if let Some(proof) = &attempt.proof {
        let _ = writeln!(out, "    proof of process exit: {}", one_line(proof, 80));
    }
    let _ = writeln!(out, "    log: {}", attempt.log.display());
    out
}

/// Formats the duration as ` in 5m`, if it is known.
fn took(attempt: &AttemptView) -> String {
    attempt
        .duration_ms
        .map(|ms| format!(" in {}", Span(Duration::from_millis(ms))))
        .unwrap_or_default()
}

/// Formats the cost, its source, and the charge if that differs.
fn cost_text(attempt: &AttemptView) -> String {
    let mut text = attempt_cost(attempt.cost_usd, attempt.cost_source);
    let reported_tokens = attempt.usage.total();
    if let Some(charged) = attempt.charged
        && (charged.tokens != reported_tokens
            || (charged.cost_usd - attempt.cost_usd.unwrap_or(0.0)).abs() > 1e-5)
    {
        let _ = write!(text, "; charged {}", spent(&charged, &LimitView::default()));
    }
    text
}
