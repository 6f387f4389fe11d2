//! Reads from the end of a failed command whether it is to be tried again later.

use std::time::Duration;

/// The exit code by which a command asks to be tried again later: `EX_TEMPFAIL` of `sysexits.h`.
pub const EX_TEMPFAIL: i32 = 75;

/// A longer wait is shortened to this one, so that a wrong figure does not stop work for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns how long a failed command wants to wait at least before it is tried again, zero if it
/// names no time; `None` if it does not ask to be tried again.
///
/// A command asks by the exit code 75, or by another code that is not 0 and a line
/// `retry-after: SECONDS` in its output, of which the last one counts. Nothing else is read from
/// the output. A command without an exit code was ended by somebody else, and asks for nothing.
pub fn requested_wait(code: Option<i32>, output: &str) -> Option<Duration> {
    let code = code.filter(|code| *code != 0)?;
    let named = output.lines().rev().find_map(retry_after);
    named.or_else(|| (code == EX_TEMPFAIL).then_some(Duration::ZERO))
}

fn retry_after(line: &str) -> Option<Duration> {
    let (name, seconds) = line.split_once(':')?;
    let seconds = seconds.trim();
    let is_number = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || !name.trim().eq_ignore_ascii_case("retry-after") {
        return None;
    }
    // Only a number with too many digits cannot be read.
    let seconds = seconds.parse().unwrap_or(u64::MAX);
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exit_code_75_or_a_line_asks_for_a_wait() {
        let day = LONGEST_WAIT.as_secs();
        for (code, output, expected) in [
            (Some(75), "", Some(0)),
            (Some(75), "slow down\n", Some(0)),
            (Some(1), "slow down\n", None),
            (Some(1), "retry-after: 30", Some(30)),
            (Some(75), "retry-after: 30\n", Some(30)),
            (Some(75), "HTTP/2 429\r\nRetry-After: 30\r\n\r\n", Some(30)),
            (Some(22), "  RETRY-AFTER :\t7  \nbye\n", Some(7)),
            (Some(75), "retry-after: 9\nretry-after: 5\nmore", Some(5)),
            (Some(75), "retry-after: 9\nretry-after: soon", Some(9)),
            (Some(75), "retry-after: 0", Some(0)),
            (Some(75), "retry-after: 86401", Some(day)),
            (Some(75), "retry-after: 99999999999999999999999999", Some(day)),
            (Some(1), "retry-after: -30", None),
            (Some(1), "retry-after: +30", None),
            (Some(1), "retry-after: 1.5", None),
            (Some(1), "retry-after: 30s", None),
            (Some(1), "retry-after: ٣", None),
            (Some(1), "retry-after:", None),
            (Some(1), "retry-after 30", None),
            (Some(1), "retry-after: Wed, 21 Oct 2026 07:28:00 GMT", None),
            (Some(1), "x-retry-after: 30", None),
            (Some(1), "it sent `retry-after: 30`", None),
            (Some(0), "retry-after: 30", None),
            (None, "retry-after: 30", None),
        ] {
            let wait = requested_wait(code, output).map(|wait| wait.as_secs());
            assert_eq!(wait, expected, "{code:?} {output:?}");
        }
    }

    proptest! {
        #[test]
        fn any_output_leads_to_a_bounded_wait(code in any::<Option<i32>>(), output in any::<String>()) {
            let wait = requested_wait(code, &output);
            prop_assert!(wait.is_none_or(|wait| wait <= LONGEST_WAIT));
            prop_assert!(wait.is_none() || code.is_some_and(|code| code != 0));
        }

        #[test]
        fn last_line_counts(code in 1..=255, before in any::<String>(), seconds in any::<u64>()) {
            let output = format!("{before}\nretry-after: {seconds}");
            let expected = Duration::from_secs(seconds).min(LONGEST_WAIT);
            prop_assert_eq!(requested_wait(Some(code), &output), Some(expected));
        }
    }
}
