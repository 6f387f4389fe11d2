//! Runs and their attempts as text.

use std::fmt::Write as _;
use std::time::Duration;

use vik_api::{AttemptView, LimitView, RunState, RunView};
use vik_base::report::{attempt_cost, clean, one_line, spent, tokens};
use vik_core::duration::Span;

use crate::cli::runs;

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
        tokens(attempt.usage.total()),
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
pub(super) fn took(attempt: &AttemptView) -> String {
    attempt
        .duration_ms
        .map(|ms| format!(" in {}", Span(Duration::from_millis(ms))))
        .unwrap_or_default()
}

/// Formats the cost, its source, and the charge if that differs.
pub(super) fn cost_text(attempt: &AttemptView) -> String {
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
