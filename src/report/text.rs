//! Small pieces of text for people.

use std::borrow::Cow;
use std::time::Duration;

use vik_api::{LimitView, SpendView};
use vik_core::duration::Span;
use vik_core::outcome::Usage;
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
    match usd {
        None => "-".to_owned(),
        Some(usd) if usd > 0.0 && usd < 0.01 => format!("${usd:.4}"),
        Some(usd) => format!("${usd:.2}"),
    }
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

/// A number of things: `1 issue`, `2 issues`.
pub fn count(number: u64, what: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {what}{end}")
}

/// What was spent, and of how much where that is limited.
pub fn spent(spent: &SpendView, limit: &LimitView) -> String {
    let tokens = match limit.tokens {
        None => format!("{} tokens", short(spent.tokens)),
        Some(most) => format!("{} of {} tokens", short(spent.tokens), short(most)),
    };
    let usd = cost(Some(spent.cost_usd));
    match limit.usd {
        None => format!("{tokens}, {usd}"),
        Some(most) => format!("{tokens}, {usd} of {}", cost(Some(most))),
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
    fn control_characters_are_shown() {
        assert_eq!(clean("a\x1b[31mb\u{202e}\r\n"), "a⟦U+001B⟧[31mb⟦U+202E⟧\n");
        assert_eq!(one_line("a\n b\tc", 9), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
