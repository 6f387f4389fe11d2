//! When a quota resets, from the text of agents that report it in no other form.

use std::time::Duration;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

/// The phrases that precede a time or a duration.
const PHRASES: [&str; 6] = [
    "try again at ",
    "try again in ",
    "resets at ",
    "resets in ",
    "resets ",
    "retry after ",
];

/// No quota window is longer: a later time was misread.
const MAX_WINDOW: Duration = Duration::from_secs(32 * 24 * 3600);

/// Returns when the quota resets, according to `text`: `try again at Nov 22nd, 2026 3:14 PM.`, `try
/// again in 3 days 4 hours`, `resets Nov 23, 2:13am (UTC)`, `resets 5pm`. A time without a zone has
/// the zone of `now`.
pub fn reset_time(text: &str, now: &Zoned) -> Option<Timestamp> {
    let lower = text.to_lowercase();
    PHRASES.iter().find_map(|phrase| {
        let at = lower.find(phrase)? + phrase.len();
        let time_text = lower[at..].lines().next()?;
        let then = wait(time_text)
            .and_then(|wait| now.timestamp().checked_add(wait).ok())
            .or_else(|| moment(time_text, now))?;
        let ahead = then.duration_since(now.timestamp());
        (!ahead.is_negative() && ahead.unsigned_abs() <= MAX_WINDOW).then_some(then)
    })
}

/// Parses `3 days 4 hours 13 minutes`, `1.5s`, `20 seconds`.
fn wait(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut remaining = text.trim_start();
    let mut found = false;
    loop {
        let digits = remaining
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(remaining.len());
        let Ok(number) = remaining[..digits].trim_end_matches('.').parse::<f64>() else {
            break;
        };
        let unit_at = remaining[digits..].trim_start();
        let unit_end = unit_at
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(unit_at.len());
        let seconds = match &unit_at[..unit_end] {
            "ms" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            "w" | "week" | "weeks" => 604_800.0,
            _ => return None,
        };
        total += number * seconds;
        found = true;
        remaining = unit_at[unit_end..]
            .trim_start_matches([',', ' '])
            .trim_start_matches("and ");
    }
    found.then(|| Duration::try_from_secs_f64(total).ok())?
}

/// Parses `nov 22nd, 2026 3:14 pm`, `nov 23, 2:13am (utc)`, `3:14 pm`, `5pm`.
fn moment(text: &str, now: &Zoned) -> Option<Timestamp> {
    let zone = if text.contains("(utc)") {
        TimeZone::UTC
    } else {
        now.time_zone().clone()
    };
    let now = now.with_time_zone(zone.clone());
    let text = text.split('(').next()?;
    let mut date: Option<(i8, i8)> = None;
    let mut year = None;
    let mut time = None;
    let mut month = None;
    let mut tokens = text
        .split([' ', ','])
        .map(|token| token.trim_end_matches('.'))
        .filter(|token| !token.is_empty())
        .peekable();
    while let Some(token) = tokens.next() {
        if let Some(number) = month_of(token) {
            month = Some(number);
        } else if let (Some(number), None) = (month, date) {
            let day = token.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            date = Some((number, day.parse().ok()?));
        } else if token.len() == 4 && token.bytes().all(|byte| byte.is_ascii_digit()) {
            year = Some(token.parse::<i16>().ok()?);
        } else if let Some(found) = time_of(token, tokens.peek().copied()) {
            time = Some(found);
            break;
        }
    }
    let time = time?;
    let Some((month, day)) = date else {
        let today = now.date().to_datetime(time).to_zoned(zone).ok()?;
        let then = if today < now {
            today.checked_add(Span::new().days(1)).ok()?
        } else {
            today
        };
        return Some(then.timestamp());
    };
    let at = |year: i16| -> Option<Zoned> {
        let date = Date::new(year, month, day).ok()?;
        date.to_datetime(time).to_zoned(zone.clone()).ok()
    };
    match year {
        Some(year) => at(year),
        // The time may be in the next year.
        None => at(now.year())
            .filter(|then| *then >= now)
            .or_else(|| at(now.year() + 1)),
    }
    .map(|then| then.timestamp())
}

fn month_of(token: &str) -> Option<i8> {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let at = MONTHS.iter().position(|month| token.starts_with(month))?;
    i8::try_from(at + 1).ok()
}

/// Parses `3:14` and `pm`, `2:13am`, `5pm`, `15:04`.
fn time_of(token: &str, next: Option<&str>) -> Option<Time> {
    let digits = token.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let half = match &token[digits.len()..] {
        "" => next.unwrap_or(""),
        half => half,
    };
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, ""));
    let hour: i8 = hour.parse().ok()?;
    let minute: i8 = if minute.is_empty() {
        0
    } else {
        minute.get(..2)?.parse().ok()?
    };
    let hour = match (half, hour) {
        ("am", 12) => 0,
        ("am", hour) => hour,
        ("pm", 12) => 12,
        ("pm", hour) => hour.checked_add(12)?,
        // A bare number is not a time.
        (_, hour) if digits.contains(':') => hour,
        _ => return None,
    };
    Time::new(hour, minute, 0, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<String> {
        let now: Timestamp = "2026-11-22T01:40:00Z".parse().unwrap();
        let now = now.to_zoned(TimeZone::fixed(jiff::tz::offset(1)));
        reset_time(text, &now).map(|then| then.to_string())
    }

    #[test]
    fn reset_time_reads_the_phrases_of_agents() {
        let known = [
            (
                "You've hit your limit · resets Nov 23, 2:13am (UTC)",
                "2026-11-23T02:13:00Z",
            ),
            ("Claude usage limit reached, resets 5pm", "2026-11-22T16:00:00Z"),
            ("resets 1:30am", "2026-11-23T00:30:00Z"),
            (
                "You've hit your usage limit. Upgrade to Pro or try again at Nov 24th, 2026 3:14 PM.",
                "2026-11-24T14:14:00Z",
            ),
            (
                "You've hit your usage limit. Try again at 3:14 PM.",
                "2026-11-22T14:14:00Z",
            ),
            ("try again at 15:04", "2026-11-22T14:04:00Z"),
            (
                "Rate limit reached. Please try again in 3 days 4 hours 13 minutes.",
                "2026-11-25T05:53:00Z",
            ),
            ("Please try again in 1.5s. Visit …", "2026-11-22T01:40:01.5Z"),
            ("try again in 20 minutes", "2026-11-22T02:00:00Z"),
        ];
        for (text, expected) in known {
            assert_eq!(parse(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn reset_time_without_a_valid_time_is_none() {
        for text in [
            "",
            "Quota exceeded.",
            "try again at your own risk",
            "try again in a while",
            "resets",
            "try again at Nov 24th, 2031 3:14 PM",
            "try again at Nov 20th, 2026 3:14 PM",
            "try again in 99999999999999999999 days",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn reset_time_accepts_any_text(text in "(try again (at|in) |resets )?[ -~\u{e4}]{0,40}") {
            let _ = parse(&text);
        }
    }
}
