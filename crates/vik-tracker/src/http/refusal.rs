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
