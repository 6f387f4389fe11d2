//! Formats small pieces of text for people.

use std::io::IsTerminal;
use std::time::Duration;

use vik_api::{LimitView, SpendView};
use vik_core::duration::Span;
use vik_core::outcome::CostSource;
use vik_text::{cost, cost_text, count_short, one_line, short};

/// Returns whether a stream gets colours: it is a terminal, and `NO_COLOR` is not set.
pub fn colored(stream: &impl IsTerminal) -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !unwanted && stream.is_terminal()
}

/// Returns a text in a style of the terminal, an SGR code such as `1;31`, if it is to have colours.
pub fn paint(color: bool, style: &str, text: &str) -> String {
    match color {
        true => format!("\x1b[{style}m{text}\x1b[0m"),
        false => text.to_owned(),
    }
}

/// Returns a code in snake case as people read it: `attempts used up`.
pub fn label(code: &str) -> String {
    one_line(code, 60).replace('_', " ")
}

/// Returns the last `count` lines of a text.
pub fn tail_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Formats the cost of several attempts with estimates apart, or a dash if it is unknown.
pub fn cost_sum(costs: impl IntoIterator<Item = (Option<f64>, CostSource)>) -> String {
    let (mut total, mut estimated) = (None, 0.0);
    for (usd, source) in costs {
        let Some(usd) = usd else { continue };
        *total.get_or_insert(0.0) += usd;
        if source == CostSource::Estimate {
            estimated += usd;
        }
    }
    cost_text(total, estimated)
}

/// Formats spending with estimates apart, or a dash if no cost is known.
pub fn spent_cost(spent: &SpendView) -> String {
    cost_text(
        (spent.cost_usd > 0.0).then_some(spent.cost_usd),
        spent.estimated_usd,
    )
}

/// Formats spending, with its limit if there is one.
pub fn spent(spent: &SpendView, limit: &LimitView) -> String {
    let mut tokens = match limit.tokens {
        None => count_short(spent.tokens, "token"),
        Some(max) => format!("{} of {}", short(spent.tokens), count_short(max, "token")),
    };
    if spent.estimated_tokens > 0 {
        tokens.push_str(&format!(" ({} estimated)", short(spent.estimated_tokens)));
    }
    let breakdown = cost_text(Some(spent.cost_usd), spent.estimated_usd);
    match limit.usd {
        None => format!("{tokens}, {breakdown}"),
        Some(max) => {
            let (all, max) = (cost(Some(spent.cost_usd)), cost(Some(max)));
            let breakdown = if breakdown == all {
                String::new()
            } else {
                format!(" ({breakdown})")
            };
            format!("{tokens}, {all} of {max}{breakdown}")
        }
    }
}

/// Formats a duration after the text `before`, as in ` for 5m`. Returns an empty text for less than
/// a second.
pub fn elapsed_suffix(before: &str, since: jiff::Timestamp, now: jiff::Timestamp) -> String {
    match now.duration_since(since).as_secs() {
        ..=0 => String::new(),
        _ => format!("{before}{}", ago(since, now)),
    }
}

/// Formats a past time, as in `5m ago` or `just now`.
pub fn when(then: jiff::Timestamp, now: jiff::Timestamp) -> String {
    match now.duration_since(then).as_secs() {
        ..=0 => "just now".to_owned(),
        _ => format!("{} ago", ago(then, now)),
    }
}

/// Formats a future time, as in `in 5m` or `now`.
pub fn until(then: jiff::Timestamp, now: jiff::Timestamp) -> String {
    match then.duration_since(now).as_secs() {
        ..=0 => "now".to_owned(),
        _ => format!("in {}", ago(now, then)),
    }
}

/// Formats the time since `then` as a duration.
pub fn ago(then: jiff::Timestamp, now: jiff::Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0).unsigned_abs();
    Span(Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_costs_keep_estimates_apart() {
        use CostSource::{Estimate, None as Unknown, Price, Reported};
        let sum = |costs: &[(Option<f64>, CostSource)]| cost_sum(costs.iter().copied());
        assert_eq!(sum(&[(None, Unknown), (None, Unknown)]), "-");
        assert_eq!(sum(&[(Some(1.0), Reported), (Some(0.2), Price)]), "$1.20");
        assert_eq!(
            sum(&[(Some(1.2), Reported), (Some(0.5), Estimate), (None, Unknown)]),
            "$1.20 + ~$0.50 estimated"
        );
        let day = SpendView {
            tokens: 150_000,
            cost_usd: 1.7,
            estimated_tokens: 100_000,
            estimated_usd: 0.5,
        };
        let limit = LimitView {
            tokens: None,
            usd: Some(5.0),
        };
        assert_eq!(
            spent(&day, &limit),
            "150.0k tokens (100.0k estimated), $1.70 of $5.00 ($1.20 + ~$0.50 estimated)"
        );
        assert_eq!(
            spent(&day, &LimitView::default()),
            "150.0k tokens (100.0k estimated), $1.20 + ~$0.50 estimated"
        );
    }

    #[test]
    fn times_of_less_than_a_second_have_no_figure() {
        let then: jiff::Timestamp = "2026-03-04T10:00:00Z".parse().unwrap();
        let (soon, later) = (
            then + jiff::SignedDuration::from_millis(900),
            then + jiff::SignedDuration::from_mins(5),
        );
        assert_eq!(
            (
                elapsed_suffix(" for ", then, soon),
                elapsed_suffix(" for ", then, later)
            ),
            (String::new(), " for 5m".into())
        );
        assert_eq!(
            (when(then, soon), when(then, later)),
            ("just now".into(), "5m ago".into())
        );
        assert_eq!(
            (until(soon, then), until(later, then)),
            ("now".into(), "in 5m".into())
        );
        assert_eq!(when(later, then), "just now", "a clock that was set back");
    }
}
