//! Parses points in time as people write them: `7d`, `yesterday`, `2026-03-01`,
//! `2026-03-01T12:00:00Z`.

use std::str::FromStr;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use vik_core::duration::Span;

/// A point in time, which may be relative to now.
///
/// # Examples
///
/// ```
/// use vik_control::PointInTime;
///
/// let now = "2026-03-08T12:00:00Z".parse()?;
/// let week_ago: PointInTime = "1w".parse()?;
/// assert_eq!(week_ago.before(now).to_string(), "2026-03-01T12:00:00Z");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointInTime {
    /// A duration before now.
    Ago(Span),
    /// The start of today in UTC.
    Today,
    /// The start of yesterday in UTC.
    Yesterday,
    At(Timestamp),
}

/// The error for a text that is not a point in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "use a duration such as `24h` or `1w`, `today`, `yesterday`, a date such as `2026-03-01`, or a time such as \
     `2026-03-01T12:00:00Z`"
)]
pub struct ParsePointInTimeError;

impl FromStr for PointInTime {
    type Err = ParsePointInTimeError;

    fn from_str(text: &str) -> Result<Self, ParsePointInTimeError> {
        let text = text.trim();
        match text {
            "today" => return Ok(Self::Today),
            "yesterday" => return Ok(Self::Yesterday),
            _ => {}
        }
        if let Ok(span) = text.parse() {
            return Ok(Self::Ago(span));
        }
        // Vik itself prints a space before the offset.
        let joined = text
            .rsplit_once(' ')
            .filter(|(_, offset)| offset.starts_with(['+', '-']))
            .map(|(time, offset)| format!("{time}{offset}"));
        if let Ok(at) = joined.as_deref().unwrap_or(text).parse() {
            return Ok(Self::At(at));
        }
        // A time of day without an offset is ambiguous. A date alone is a day of the ledger, in
        // UTC.
        let date: Date = text
            .parse()
            .ok()
            .filter(|_| text.len() <= "2026-03-01".len())
            .ok_or(ParsePointInTimeError)?;
        start_of(date).map(Self::At).ok_or(ParsePointInTimeError)
    }
}

impl PointInTime {
    /// Returns the timestamp, where `now` is the present. It is never before 1970.
    pub fn before(self, now: Timestamp) -> Timestamp {
        let today = || now.to_zoned(TimeZone::UTC).date();
        let at = match self {
            Self::At(at) => Some(at),
            Self::Today => start_of(today()),
            Self::Yesterday => today().checked_sub(1.day()).ok().and_then(start_of),
            Self::Ago(Span(ago)) => SignedDuration::try_from(ago)
                .ok()
                .and_then(|ago| now.checked_sub(ago).ok()),
        };
        at.unwrap_or(Timestamp::UNIX_EPOCH).max(Timestamp::UNIX_EPOCH)
    }
}

/// Returns the start of a day in UTC.
fn start_of(date: Date) -> Option<Timestamp> {
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_in_time_accepts_durations_days_and_timestamps() {
        let now = "2026-03-04T15:30:00Z".parse().unwrap();
        for (text, then) in [
            ("7d", "2026-02-25T15:30:00Z"),
            ("1w", "2026-02-25T15:30:00Z"),
            ("1d12h", "2026-03-03T03:30:00Z"),
            ("90", "2026-03-04T15:28:30Z"),
            ("today", "2026-03-04T00:00:00Z"),
            ("yesterday", "2026-03-03T00:00:00Z"),
            ("2026-03-01", "2026-03-01T00:00:00Z"),
            ("2026-03-01T10:00:00+02:00", "2026-03-01T08:00:00Z"),
            ("2026-03-01 10:00:00 +02:00", "2026-03-01T08:00:00Z"),
            (" 2026-03-01T10:00:00Z ", "2026-03-01T10:00:00Z"),
            ("999999999d", "1970-01-01T00:00:00Z"),
        ] {
            let time: PointInTime = text.parse().unwrap();
            assert_eq!(time.before(now).to_string(), then, "{text}");
        }
        for text in [
            "",
            "tomorrow",
            "7 parsecs",
            "2026-13-01",
            "2026-03-01T10:00:00",
            "-1d",
        ] {
            assert_eq!(text.parse::<PointInTime>(), Err(ParsePointInTimeError), "{text}");
        }
    }
}
