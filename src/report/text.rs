//! Small pieces of text for people.

use std::borrow::Cow;
use std::time::Duration;

use vik_api::{LimitView, SpendView, cost_text};
use vik_core::duration::Span;
use vik_core::outcome::{CostSource, Usage};
use vik_core::visible::visible;

/// Text from outside, made safe for a terminal: what it would obey, and what hides or turns text, is shown. Newlines stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    match visible(text) {
        Cow::Owned(text) if text.contains('\r') => Cow::Owned(text.replace("\r\n", "\n")),
        Cow::Borrowed(text) if text.contains('\r') => Cow::Owned(text.replace("\r\n", "\n")),
        text => text,
    }
}

/// The same on one line, cut to `width` characters.
pub fn one_line(text: &str, width: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let flat = clean(&flat);
    if flat.chars().count() <= width {
        return flat.into_owned();
    }
    let mut cut: String = flat.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// The last `count` lines of a text.
pub fn tail_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// A cost, or a dash where none is known.
pub fn cost(usd: Option<f64>) -> String {
    cost_text(usd, 0.0)
}

/// The cost of one attempt, with where it comes from; a dash where none is known.
pub fn attempt_cost(usd: Option<f64>, source: CostSource) -> String {
    match source {
        CostSource::Estimate => cost_text(usd, usd.unwrap_or_default()),
        CostSource::Price => format!("{} (price)", cost(usd)),
        CostSource::None | CostSource::Reported => cost(usd),
    }
}

/// The cost of several attempts, estimates apart; a dash where none is known.
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

/// What was spent, estimates apart; a dash where no cost is known.
pub fn spent_cost(spent: &SpendView) -> String {
    cost_text(
        (spent.cost_usd > 0.0).then_some(spent.cost_usd),
        spent.estimated_usd,
    )
}

/// Tokens, short: `12.3k`; a dash for none.
pub fn tokens(usage: Usage) -> String {
    match usage.total() {
        0 => "-".to_owned(),
        count => short(count),
    }
}

/// A number, short: `12.3k`.
pub fn short(number: u64) -> String {
    match number {
        n if n < 1_000 => n.to_string(),
        n if n < 1_000_000 => format!("{:.1}k", n as f64 / 1e3),
        n => format!("{:.1}M", n as f64 / 1e6),
    }
}

/// A number of things, short: `1 token`, `12.3k tokens`.
pub fn count_short(number: u64, what: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {what}{end}", short(number))
}

/// What was spent, and of how much where that is limited.
pub fn spent(spent: &SpendView, limit: &LimitView) -> String {
    let mut tokens = match limit.tokens {
        None => count_short(spent.tokens, "token"),
        Some(most) => format!("{} of {}", short(spent.tokens), count_short(most, "token")),
    };
    if spent.estimated_tokens > 0 {
        tokens.push_str(&format!(" ({} estimated)", short(spent.estimated_tokens)));
    }
    let parts = cost_text(Some(spent.cost_usd), spent.estimated_usd);
    match limit.usd {
        None => format!("{tokens}, {parts}"),
        Some(most) => {
            let (all, most) = (cost(Some(spent.cost_usd)), cost(Some(most)));
            let parts = if parts == all {
                String::new()
            } else {
                format!(" ({parts})")
            };
            format!("{tokens}, {all} of {most}{parts}")
        }
    }
}

/// How long something has lasted, with what stands before it: ` for 5m`; nothing where it has only begun.
pub fn lasting(before: &str, since: jiff::Timestamp, now: jiff::Timestamp) -> String {
    match now.duration_since(since).as_secs() {
        ..=0 => String::new(),
        _ => format!("{before}{}", ago(since, now)),
    }
}

/// When something was: `5m ago`, `just now`.
pub fn when(then: jiff::Timestamp, now: jiff::Timestamp) -> String {
    match now.duration_since(then).as_secs() {
        ..=0 => "just now".to_owned(),
        _ => format!("{} ago", ago(then, now)),
    }
}

/// When something will be: `in 5m`, `now`.
pub fn until(then: jiff::Timestamp, now: jiff::Timestamp) -> String {
    match then.duration_since(now).as_secs() {
        ..=0 => "now".to_owned(),
        _ => format!("in {}", ago(now, then)),
    }
}

/// How long ago, for a status line.
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
        assert_eq!(attempt_cost(Some(0.5), Estimate), "~$0.50 estimated");
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
            (lasting(" for ", then, soon), lasting(" for ", then, later)),
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

    #[test]
    fn control_characters_are_shown() {
        assert_eq!(clean("a\x1b[31mb\u{202e}\r\n"), "a⟦U+001B⟧[31mb⟦U+202E⟧\n");
        assert_eq!(one_line("a\n b\tc", 9), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
