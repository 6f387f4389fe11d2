//! Decides whether and when a failed try is repeated. Pure: it depends only on its arguments.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{Failure, Fault};

/// When and how often a failed request is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySettings {
    /// The maximum number of tries for one answer of one model, including the first.
    pub max_tries: u32,
    /// The maximum number of them for answers that were cut off, empty or malformed.
    pub max_broken: u32,
    /// The first wait in milliseconds; each later one is twice as long, with random jitter.
    pub first_wait_ms: u64,
    /// The longest wait in milliseconds; if the provider asks for a longer one, the request is not retried.
    pub max_wait_ms: u64,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            max_tries: 8,
            max_broken: 2,
            first_wait_ms: 500,
            max_wait_ms: 60_000,
        }
    }
}

/// The longest wait without a request of the provider.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(20);
/// The maximum tries if nothing listens: enough for a server that is starting, not for a wrong
/// address.
const TRIES_WHERE_NOTHING_LISTENS: u32 = 3;

/// The tries so far for one answer of one model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    pub made: u32,
    /// Tries that broke off, were empty or malformed.
    pub broken: u32,
    /// The remaining time for the answer.
    pub left: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Wait(Duration),
    Fallback,
    Stop,
}

/// Decides the step after a failed try, which is already counted in `tries`. `random` is any
/// number; it shortens a wait by up to a half, so that many clients do not return at once.
pub fn decide(
    failure: &Failure,
    tries: Tries,
    settings: RetrySettings,
    has_fallback: bool,
    random: u64,
) -> Decision {
    let give_up = match failure.fault {
        // Another model may exist, or have capacity.
        Fault::Model | Fault::Overloaded | Fault::Server | Fault::RateLimit if has_fallback => {
            Decision::Fallback
        }
        _ => Decision::Stop,
    };
    let most = match failure.fault {
        Fault::RateLimit | Fault::Overloaded | Fault::Server | Fault::Network | Fault::Stalled => {
            settings.max_tries
        }
        Fault::NothingListens => settings.max_tries.min(TRIES_WHERE_NOTHING_LISTENS),
        Fault::Cut | Fault::Empty | Fault::Malformed if tries.broken > settings.max_broken => 0,
        Fault::Cut | Fault::Empty | Fault::Malformed => settings.max_tries,
        Fault::Quota | Fault::Auth | Fault::Model | Fault::Overflow | Fault::Request | Fault::Address => 0,
    };
    if tries.made >= most {
        return give_up;
    }
    let wait = match failure.retry_after {
        // A little more than requested: a try at the exact millisecond is too early.
        Some(asked) => asked.saturating_add(Duration::from_millis(random % 250)),
        None => {
            let doubled = settings.first_wait_ms.saturating_mul(
                1_u64
                    .checked_shl(tries.made.saturating_sub(1))
                    .unwrap_or(u64::MAX),
            );
            let full = Duration::from_millis(doubled).min(LONGEST_BACK_OFF);
            let half = full / 2;
            let span = u64::try_from(half.as_millis())
                .unwrap_or(u64::MAX)
                .saturating_add(1);
            full.saturating_sub(Duration::from_millis(random % span))
        }
    };
    let asked = failure.retry_after.unwrap_or_default();
    if asked > Duration::from_millis(settings.max_wait_ms) || wait >= tries.left {
        return give_up;
    }
    Decision::Wait(wait)
}

/// Returns how long the provider asks to wait, by its headers and its message.
///
/// The most exact source is used first: milliseconds, then Retry-After, then the message, then the
/// reset of its limits (when all of them are restored, mostly later than needed).
pub fn requested_wait(
    header: &dyn Fn(&str) -> Option<String>,
    text: &str,
    now: Timestamp,
) -> Option<Duration> {
    let millis = header("retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok());
    if let Some(wait) = millis.and_then(|millis| seconds(millis / 1000.0)) {
        return Some(wait);
    }
    header("retry-after")
        .and_then(|text| retry_after(text.trim(), now))
        .or_else(|| wait_in_text(text))
        .or_else(|| reset(header, now))
}

fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    match text.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => jiff::fmt::rfc2822::parse(text)
            .ok()
            .map(|when| until(when.timestamp(), now)),
    }
}

fn until(when: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(when.duration_since(now)).unwrap_or_default()
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

/// Reads `x-ratelimit-reset-requests: 1m30s` (OpenAI), `x-ratelimit-reset: 1700000000` (seconds or
/// milliseconds since 1970, or seconds from now) or `anthropic-ratelimit-tokens-reset:
/// 2026-01-01T00:00:00Z`.
fn reset(header: &dyn Fn(&str) -> Option<String>, now: Timestamp) -> Option<Duration> {
    const RESETS: &[(&str, &str)] = &[
        ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
        ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
        ("x-ratelimit-reset", "x-ratelimit-remaining"),
        (
            "anthropic-ratelimit-requests-reset",
            "anthropic-ratelimit-requests-remaining",
        ),
        (
            "anthropic-ratelimit-tokens-reset",
            "anthropic-ratelimit-tokens-remaining",
        ),
        (
            "anthropic-ratelimit-input-tokens-reset",
            "anthropic-ratelimit-input-tokens-remaining",
        ),
        (
            "anthropic-ratelimit-output-tokens-reset",
            "anthropic-ratelimit-output-tokens-remaining",
        ),
    ];
    let mut used_up = None;
    let mut any = None;
    for (reset, remaining) in RESETS {
        let Some(wait) = header(reset).and_then(|text| moment(text.trim(), now)) else {
            continue;
        };
        let none_left = header(remaining).is_some_and(|left| left.trim() == "0");
        if none_left {
            used_up = used_up.max(Some(wait));
        }
        any = Some(any.map_or(wait, |other: Duration| other.min(wait)));
    }
    used_up.or(any)
}

fn moment(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(number) = text.parse::<f64>() {
        // No limit lasts for years: a large number is a time since 1970.
        let since_1970 = if number > 1e11 { number / 1000.0 } else { number };
        if number < 1e8 {
            return seconds(number);
        }
        let now = Duration::try_from(now.as_duration()).unwrap_or_default();
        return Some(seconds(since_1970)?.saturating_sub(now));
    }
    if let Ok(when) = text.parse::<Timestamp>() {
        return Some(until(when, now));
    }
    duration_prefix(text)
        .filter(|(_, tail)| tail.is_empty())
        .map(|(wait, _)| wait)
}

/// Finds a wait in a message: `Please try again in 7.5s`, `retry after 20 seconds`, `"retryDelay":
/// "34s"`, `"retry_after_ms": 250`.
fn wait_in_text(text: &str) -> Option<Duration> {
    const MARKS: &[(&str, &str)] = &[
        ("try again in ", ""),
        ("retry in ", ""),
        ("retry after ", ""),
        ("\"retrydelay\":", ""),
        ("\"retry_after_ms\":", "ms"),
        ("\"retry_after_seconds\":", "s"),
        ("\"retry_after\":", "s"),
    ];
    let lower = text.to_ascii_lowercase();
    MARKS.iter().find_map(|(mark, unit)| {
        let at = lower.find(mark)? + mark.len();
        let tail = lower[at..].trim_start_matches([' ', '"']);
        if unit.is_empty() {
            return duration_prefix(tail).map(|(wait, _)| wait);
        }
        let end = tail
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(tail.len());
        duration_prefix(&format!("{}{unit}", &tail[..end])).map(|(wait, _)| wait)
    })
}

/// Parses a duration at the start of a text (`1m30s`, `250ms`, `7.5 seconds`). Returns it with the
/// text that follows.
fn duration_prefix(text: &str) -> Option<(Duration, &str)> {
    let mut tail = text;
    let mut total = None;
    loop {
        let digits = tail
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(tail.len());
        let Ok(number) = tail[..digits].parse::<f64>() else {
            break;
        };
        let after = tail[digits..].trim_start_matches(' ');
        let letters = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let factor = match &after[..letters] {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        total = Some(total.unwrap_or_default() + number * factor);
        tail = &after[letters..];
    }
    Some((seconds(total?)?, tail))
}

#[cfg(test)]
mod tests;
