//! The meaning of statuses that are no success.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use crate::protocol::CallError;

/// The wait if a server limits requests without naming a time.
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(60);

/// Returns the error of a response with this status. `wait` is the time that the server names, if
/// it limits requests.
pub(crate) fn refusal(status: u16, reason: String, wait: Option<Duration>) -> CallError {
    let later = |default| CallError::Later {
        reason: reason.clone(),
        wait: wait.unwrap_or(default),
    };
    match status {
        404 | 410 => CallError::NotFound(reason),
        429 => later(DEFAULT_WAIT),
        403 if wait.is_some() => later(DEFAULT_WAIT),
        // Somebody else changed the same at the same time.
        409 | 500.. => later(Duration::ZERO),
        _ => CallError::Failed(reason),
    }
}

/// Returns how long a server asks to wait: `retry-after` in seconds or as a date, or the time when
/// more requests are permitted.
pub(crate) fn requested_wait<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    now: Timestamp,
) -> Option<Duration> {
    let until = |second: i64| {
        let seconds = u64::try_from(second.saturating_sub(now.as_second())).unwrap_or(0);
        Duration::from_secs(seconds.max(1))
    };
    if let Some(value) = header("retry-after").map(str::trim) {
        if let Ok(seconds) = value.parse() {
            return Some(Duration::from_secs(seconds));
        }
        if let Ok(date) = rfc2822::DateTimeParser::new().parse_timestamp(value) {
            return Some(until(date.as_second()));
        }
    }
    ["x-ratelimit", "ratelimit"].iter().find_map(|limit| {
        let is_used_up = header(&format!("{limit}-remaining"))?.trim() == "0";
        let reset = header(&format!("{limit}-reset"))?.trim().parse().ok()?;
        is_used_up.then(|| until(reset))
    })
}

/// Returns a warning if less than a tenth of the requests that a server permits are left.
pub(crate) fn low_limit<'a>(tracker: &str, header: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    ["x-ratelimit", "ratelimit"].iter().find_map(|limit| {
        let number = |name: &str| header(&format!("{limit}-{name}"))?.trim().parse::<i64>().ok();
        let (left, most) = (number("remaining")?, number("limit")?);
        let until = number("reset").and_then(|second| Timestamp::from_second(second).ok());
        let until = until.map_or_else(String::new, |until| format!(" until {until}"));
        (left < most / 10).then(|| format!("{tracker} permits {left} of {most} requests{until}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_read_in_all_its_forms() {
        let now = Timestamp::from_second(1000).unwrap();
        let wait = |headers: &[(&str, &'static str)]| {
            let header = |name: &str| {
                headers
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| *value)
            };
            requested_wait(header, now).map(|wait| wait.as_secs())
        };
        assert_eq!(wait(&[("retry-after", " 7 ")]), Some(7));
        assert_eq!(
            wait(&[("retry-after", "Thu, 01 Jan 1970 00:16:50 GMT")]),
            Some(10)
        );
        assert_eq!(wait(&[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")]), Some(1));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        for limit in ["x-ratelimit", "ratelimit"] {
            let (remaining, reset) = (format!("{limit}-remaining"), format!("{limit}-reset"));
            assert_eq!(wait(&[(&remaining, "0"), (&reset, "1090")]), Some(90));
            assert_eq!(wait(&[(&remaining, "5"), (&reset, "1090")]), None);
            assert_eq!(wait(&[(&remaining, "0")]), None);
        }
    }

    #[test]
    fn warning_names_what_is_left_of_a_limit() {
        let warning = |headers: &[(&str, &'static str)]| {
            let header = |name: &str| {
                let found = headers.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| *value)
            };
            low_limit("GitHub", header)
        };
        let limit = ("x-ratelimit-limit", "5000");
        assert_eq!(warning(&[limit, ("x-ratelimit-remaining", "500")]), None);
        assert_eq!(warning(&[("x-ratelimit-remaining", "1")]), None);
        assert_eq!(
            warning(&[limit, ("x-ratelimit-remaining", "499")]).as_deref(),
            Some("GitHub permits 499 of 5000 requests")
        );
        assert_eq!(
            warning(&[
                ("ratelimit-limit", "60"),
                ("ratelimit-remaining", "5"),
                ("ratelimit-reset", "0")
            ])
            .as_deref(),
            Some("GitHub permits 5 of 60 requests until 1970-01-01T00:00:00Z")
        );
    }

    #[test]
    fn status_decides_about_the_exit_code() {
        let code = |status, wait| refusal(status, String::new(), wait).exit_code();
        let wait = Some(Duration::from_secs(1));
        for (status, wait, expected) in [
            (400, None, 1),
            (401, wait, 1),
            (403, None, 1),
            (403, wait, 75),
            (404, None, 66),
            (409, None, 75),
            (410, None, 66),
            (422, wait, 1),
            (429, None, 75),
            (500, None, 75),
            (503, wait, 75),
        ] {
            assert_eq!(code(status, wait), expected, "{status} {wait:?}");
        }
    }
}
