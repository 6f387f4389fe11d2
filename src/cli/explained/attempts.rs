//! Attempts as text.

use std::fmt::Write as _;
use std::time::Duration;

use vik_api::{AttemptView, LimitView};
use vik_base::report::{attempt_cost, one_line, optional, spent, tokens};
use vik_core::duration::Span;

/// Formats how an attempt ended, and what it took: `attempt 1: failed (agent) in 5m, …`.
pub fn result(attempt: &AttemptView, outcome: &str) -> String {
    let class = optional(" (", attempt.failure_class, ")");
    let turn = optional(", turn ", attempt.turn, "");
    format!(
        "attempt {}{turn}: {outcome}{class}{}, {} tokens, {}",
        attempt.attempt,
        took(attempt),
        tokens(attempt.usage.total()),
        cost_text(attempt)
    )
}

/// Returns what shows how an attempt ended: scripts that ran twice, the proof, and the log.
pub fn evidence(attempt: &AttemptView) -> Vec<String> {
    let mut lines: Vec<_> = attempt
        .hooks_run_twice
        .iter()
        .map(|script| {
            format!(
                "{} ran again: Vik exited before it recorded the first result",
                one_line(script, 40)
            )
        })
        .collect();
    if let Some(failure) = &attempt.hand_over_failure {
        lines.push(format!(
            "the work is done, but not handed over: {}",
            one_line(failure, 400)
        ));
    }
    if let Some(proof) = &attempt.proof {
        lines.push(format!("proof of process exit: {}", one_line(proof, 80)));
    }
    lines.push(if attempt.files_removed {
        "its log was removed (`vik prune`, or `retention.sessions`)".to_owned()
    } else {
        format!("log: {}", attempt.log.display())
    });
    lines
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
